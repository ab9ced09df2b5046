"""The steps of housekeeping in a run: each is carried out as its kind asks, with the run's record as its journal."""

import base64
import json
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeAlias, assert_never

from icepact.economics.steps import step_cost
from icepact.execute.uploads import unfinished_uploads
from icepact.housekeeping.expire import carry_out_expire
from icepact.housekeeping.manifests import carry_out_manifests
from icepact.housekeeping.orphans import carry_out_orphans
from icepact.housekeeping.statistics import carry_out_statistics, has_statistics, plan_statistics
from icepact.housekeeping.tags import carry_out_tags
from icepact.housekeeping.ttl import carry_out_ttl
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.spark.catalog import SparkCatalog
from icepact.iceberg.table.reachability import FileToDelete, in_portions
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.convert import carry_out_convert
from icepact.maintain.rounds import Run, Work
from icepact.model.delete_files import ConvertDeletes
from icepact.model.expiry import ExpireSnapshots
from icepact.model.manifests import RewriteManifests
from icepact.model.orphans import RemoveOrphans
from icepact.model.outcome import ChoreResult
from icepact.model.plan import Chore
from icepact.model.progress import Progress, UnitDone
from icepact.model.run import Checkpoint
from icepact.model.statistics import ComputeStatistics
from icepact.model.tags import CreateTags
from icepact.model.ttl import ExpireData
from icepact.record.store import RecordStore, RunStore
from icepact.record.watch import Watch
from icepact.telemetry import trace

_log = logging.getLogger("icepact")
_Alone: TypeAlias = ExpireSnapshots | RemoveOrphans | RewriteManifests | ExpireData | CreateTags | ComputeStatistics
"""Steps that need no more of their run than its id."""


def carry_out_chores(
    spark_catalog: SparkCatalog, table: IcebergTable, run: Run, store: RecordStore, watch: Watch, progress: Progress
) -> None:
    """Carry out the steps of housekeeping of a run's plan, one after the other."""
    for step in run.plan.chores:
        watch.check()
        journal = RunJournal(run, step, store, watch, progress)
        result: ChoreResult | None = None
        clock = time.monotonic()
        try:
            with trace.span("execution", step=step.kind):
                if isinstance(step, ConvertDeletes):
                    work = Work(table, run, store, watch, progress)
                    result = carry_out_convert(
                        table, step, run, work, check=watch.check, wait=work.wait, progress=progress
                    )
                else:
                    result = _carry_out(spark_catalog, table, step, store, journal, run.run_id)
            run.chores_done.append(result)
        finally:
            took = time.monotonic() - clock
            run.chore_costs.append(step_cost(run.plan.prices, step, result, seconds=took, local=table.is_local))


def _carry_out(
    spark_catalog: SparkCatalog,
    table: IcebergTable,
    step: _Alone,
    store: RunStore,
    journal: "RunJournal",
    run_id: str,
) -> ChoreResult:
    commit_id, catalog = f"{run_id}/{step.kind}", spark_catalog.recorded_as
    match step:
        case ExpireSnapshots():
            needed = needed_snapshots(store, table, catalog=catalog, but=run_id)
            return carry_out_expire(table, step, needed=needed, journal=journal)
        case RemoveOrphans():
            return carry_out_orphans(
                table,
                step,
                journal=journal,
                runs=open_runs(store, table, catalog=catalog, but=run_id),
                neighbours=lambda: spark_catalog.neighbours(but=table.name),
                abort_uploads=lambda folder: unfinished_uploads(table, folder, abort=True, before=step.older_than),
            )
        case RewriteManifests():
            return carry_out_manifests(table, step, commit_id=commit_id, check=journal.check)
        case ExpireData():
            return carry_out_ttl(table, step, commit_id=commit_id, check=journal.check)
        case CreateTags():
            return carry_out_tags(table, step, commit_id=commit_id, check=journal.check)
        case ComputeStatistics():
            return carry_out_statistics(table, step, commit_id=commit_id, check=journal.check)
        case _:
            assert_never(step)


def keep_statistics(table: IcebergTable, branch: str, run_id: str, check: Callable[[], None]) -> None:
    """Give a compacted table the statistics that it had: sketches are carried over, since no row has changed, and those
    by partition are brought up to date from the manifests. A nuisance if it fails."""
    try:
        sketches, partitions = has_statistics(table)
        if not (sketches or partitions):
            return
        now = datetime.now(UTC)
        step = plan_statistics(
            table, table_statistics=sketches, partition_statistics=partitions, branch=branch, now=now
        )
        if isinstance(step, ComputeStatistics) and step.table == "compute":  # stale before: not a compaction's business
            step = plan_statistics(
                table, table_statistics=False, partition_statistics=partitions, branch=branch, now=now
            )
        if isinstance(step, ComputeStatistics):
            carry_out_statistics(table, step, commit_id=f"{run_id}/{step.kind}", check=check)
    except Exception as error:
        _log.warning("statistics of %s could not be carried over: %s", table.name, error_line(error))


def needed_snapshots(store: RunStore, table: IcebergTable, *, catalog: str, but: str = "") -> Mapping[int, str]:
    """Snapshots that open runs on a table work with, and which runs these are."""
    needed: dict[int, str] = {}
    for record in store.runs(catalog=catalog, table=table.name, open_only=True, outcomes=False):
        if record.run_id == but or record.uuid != table.uuid:
            continue
        plan = store.plan(record.run_id)
        pinned = json.loads(plan).get("snapshot_id") if plan else None
        heads = [attempt.head for attempt in record.attempts]
        for snapshot_id in [*([] if pinned is None else [int(pinned)]), *heads]:
            needed.setdefault(snapshot_id, f"run {record.run_id} is open and works with it")
    return needed


def open_runs(store: RunStore, table: IcebergTable, *, catalog: str, but: str = "") -> Mapping[str, str]:
    """Runs on a table whose files are not to be touched by anybody else, and why."""
    return {
        record.run_id: f"it is open ({record.status}): `icepact resume` or `icepact cleanup` ends it"
        for record in store.runs(catalog=catalog, table=table.name, open_only=True, outcomes=False)
        if record.run_id != but and record.uuid == table.uuid
    }


def last_run_of(store: RunStore, table: IcebergTable, operation: str, *, catalog: str) -> datetime | None:
    """When an operation on a table last ended, of the newest runs."""
    runs = store.runs(catalog=catalog, table=table.name)
    return next((run.finished_at for run in runs if run.outcome and run.outcome.operation == operation), None)


def written_down(store: RunStore, run_id: str, kind: str) -> Iterator[FileToDelete]:
    """The files that a step of a run has recorded, which are to be deleted."""
    for checkpoint in store.checkpoints(run_id):
        if checkpoint.unit_id.startswith(f"{kind}/"):
            text = zlib.decompress(base64.b85decode(checkpoint.document["files"])).decode()
            yield from map(FileToDelete.parse, text.split("\0"))


class RunJournal:
    """What a step writes down goes to the checkpoints of its run, in portions; the lease on the table is its end."""

    def __init__(self, run: Run, step: Chore, store: RunStore, watch: Watch, progress: Progress) -> None:
        self._run = run
        self._kind = step.kind
        self._store = store
        self._watch = watch
        self._progress = progress
        self._portions = 0

    def write_down(self, files: Iterable[FileToDelete]) -> None:
        """Record files that are to be deleted."""
        for portion in in_portions(files):
            self._portions += 1
            text = "\0".join(map(str, portion)).encode()
            document = {"files": base64.b85encode(zlib.compress(text, 6)).decode()}
            unit_id = f"{self._kind}/{self._run.claim.epoch}.{self._portions:05d}"
            self._store.checkpoint(self._run.claim, [Checkpoint(unit_id=unit_id, document=document)])
        self._progress.step("listed")

    def written_down(self) -> Iterator[FileToDelete]:
        """What an earlier process of the run has recorded."""
        return written_down(self._store, self._run.run_id, self._kind)

    def check(self) -> None:
        """Raise if the run must stop."""
        self._watch.check()

    def deleted(self, files: int, size: int) -> None:
        """So many files are gone."""
        self._progress.step("deleted")
        self._progress.advance(UnitDone(partition="", files=files, bytes=size))
