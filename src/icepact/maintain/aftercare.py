"""After a run: resume one that died, verify its commits, take them back."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from icepact.commit.reconcile import EXPIRED
from icepact.iceberg.commit.replace import roll_back
from icepact.iceberg.commit.run_files import missing_files
from icepact.iceberg.spark.catalog import SparkCatalog
from icepact.iceberg.table.row_checksum import row_checksum
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.interrupts import under_way
from icepact.maintain.rolled_back import mark_rolled_back
from icepact.maintain.runs import resume
from icepact.model.errors import BadInput, CommitUnknown, IcepactError, PermanentError
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.progress import Progress
from icepact.model.recovery import VerifyResult
from icepact.model.run import CommittedBatch, RunRecord
from icepact.model.status import Status
from icepact.record.liveness import resumable_run
from icepact.record.store import RecordStore, RunStore

_log = logging.getLogger("icepact")


def take_over_history(spark_catalog: SparkCatalog, store: RunStore, table: str) -> None:
    """Runs that were recorded before catalogs without a name were recorded by their location become this catalog's, if
    they were on the very table that has this name in it."""
    if spark_catalog.recorded_as == spark_catalog.catalog:
        return
    if store.runs(catalog=spark_catalog.catalog, table=table, limit=1, outcomes=False):
        store.rename_catalog(
            spark_catalog.catalog, spark_catalog.recorded_as, table=table, uuid=spark_catalog.table(table).uuid
        )


def resume_dead(
    spark_catalog: SparkCatalog, table: str, store: RecordStore, progress: Progress, policy: Policy | None = None
) -> Outcome | None:
    """Carry on with the newest run on a table that died, if there is one and it can be carried on with. The outcome
    tells which of its options are not those of the policy."""
    record = resumable_run(store, spark_catalog.recorded_as, table)
    if record is None:
        return None
    try:
        outcome = resume(spark_catalog, record, store, progress)
    except (BadInput, CommitUnknown) as error:
        # of another version, on a table that is paused, or perhaps still committing elsewhere: a new run is safe
        _log.warning("not resumed: %s", error)
        return None
    began_with = Plan.from_json(store.plan(record.run_id)).policy
    return outcome if policy is None else replace(outcome, kept_options=began_with.other_than(policy))


def verify(spark_catalog: SparkCatalog, record: RunRecord) -> Sequence[VerifyResult]:
    """Compare, for every commit of a run, what readers see before and after it."""
    table = spark_catalog.table(record.table)
    table.refresh()
    return [_check(table, landed) for landed in record.landed]


def _check(table: IcebergTable, landed: CommittedBatch) -> VerifyResult:
    result = partial(VerifyResult, snapshot_id=landed.snapshot_id)
    if landed.snapshot_id == EXPIRED or not table.has_snapshot(landed.snapshot_id):
        return result(rows=None, same=None, reason="the snapshot has expired")
    removed, added = table.changed_paths(landed.snapshot_id)
    if not removed and not added:  # data stayed, and its deletes became others
        ids = [one for one in (landed.parent_id, landed.snapshot_id) if one is not None and table.has_snapshot(one)]
        removed = added = sorted({path for one in ids for path in table.paths_with_deletes(one)})
    missing = missing_files(table, added)
    if missing:
        gone = f"{len(missing)} of its {len(added)} files are not on storage any more, first {min(missing)}"
        return result(rows=None, same=False, reason=gone)
    after = row_checksum(table, table.tasks_of(landed.snapshot_id, added))
    recorded_sum = table.fact(landed.snapshot_id, "proof-row-sum")
    there = landed.parent_id is not None and table.has_snapshot(landed.parent_id)
    if there and not missing_files(table, removed):
        assert landed.parent_id is not None
        before = row_checksum(table, table.tasks_of(landed.parent_id, removed))
        same, how = before == after, "every row is the same"
        if not same and before.unnumbered:  # any commit gives ids to rows from before an upgrade
            old, new = table.tasks_of(landed.parent_id, removed), table.tasks_of(landed.snapshot_id, added)
            same = row_checksum(table, old, lineage=False) == row_checksum(table, new, lineage=False)
            how = "every row is the same, but for the ids that rows from before an upgrade have got"
        what = f"{before.rows} rows before, {after.rows} after"
        how = how if same else f"sums {before.total} and {after.total}"
        return result(rows=after.rows, same=same, reason=f"{what}; {how}")
    expired = "the snapshot before it has expired"
    if recorded_sum is not None:
        same = int(recorded_sum) == after.total
        how = f"the sum in its summary is {'the same' if same else 'another'}"
        return result(rows=after.rows, same=same, reason=f"{expired}; {how}")
    how = "its summary carries no sum: only `--verify full` does"
    return result(rows=after.rows, same=None, reason=f"{expired}, and {how}")


def take_back(spark_catalog: SparkCatalog, record: RunRecord, store: RecordStore) -> int:
    """Go back to the snapshot before a run, if nothing else was committed since; returns that snapshot."""
    if record.status not in (Status.COMMITTED, Status.PARTLY_COMMITTED):
        raise BadInput(f"run {record.run_id} is {record.status}: there is no commit to take back")
    table = spark_catalog.table(record.table)
    table.refresh()
    if not record.landed:
        raise BadInput(f"run {record.run_id} has no commit on record: there is nothing to take back")
    ids = [landed.snapshot_id for landed in record.landed]
    good = record.landed[0].parent_id
    manual = f"CALL {spark_catalog.catalog}.system.rollback_to_snapshot('{record.table}', {good})"
    history = table.newest(record.branch, len(ids))
    if history != ids[::-1]:
        other = next((s for s in history if s not in ids), None)
        raise PermanentError(
            f"{record.table} is not as run {record.run_id} left it: "
            + (f"snapshot {other} came since" if other else "its snapshots have expired")
            + f"; to go back all the same, and lose what came since: {manual}"
        )
    if good is None or not table.has_snapshot(good):
        raise PermanentError(f"the snapshot before run {record.run_id} has expired: there is nothing to go back to")
    with under_way() as work:
        work.so_far = lambda: f"whether run {record.run_id} was taken back is not known: run the same command again"
        if not roll_back(table, record.branch, bad=ids[-1], good=good):
            raise PermanentError(f"{record.table} was changed at this very moment: try again")
        work.so_far = lambda: f"{record.table} is back at snapshot {good}"
        with suppress(IcepactError):  # the table is what counts
            mark_rolled_back(store, record)
    return good
