"""After a run: cancel it, clean up what died, check a commit again, take it back."""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from icepact.commit.settle import EXPIRED, Settled, over
from icepact.execute.checkpoint import outputs_by_group
from icepact.execute.uploads import abort_uploads, unfinished_uploads
from icepact.iceberg.java import JavaError, error_line, in_words, is_forbidden
from icepact.iceberg.lake import Lake
from icepact.iceberg.leftovers import (
    delete_files,
    listed_files,
    may_delete,
    missing_files,
    referenced,
    run_folder,
    strangers,
    unwanted,
)
from icepact.iceberg.replace import roll_back
from icepact.iceberg.rows import row_sum
from icepact.iceberg.table import IcebergTable
from icepact.iceberg.traces import traces
from icepact.maintain.applying import check_unseen, ends_of, hold, resume
from icepact.maintain.interrupts import under_way
from icepact.maintain.work import stop_the_table
from icepact.model.errors import (
    BadInput,
    CatalogUnusable,
    CommitBroken,
    CommitUnknown,
    IcepactError,
    PermanentError,
    RunLost,
    TableBusy,
    TableNotFound,
)
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.progress import Progress
from icepact.model.recovery import Checked, Swept
from icepact.model.room import is_full
from icepact.model.run import Attempt, Landed, RunRecord, Status, groups_of, this_process
from icepact.model.words import counted
from icepact.record.liveness import dead, resumable_run
from icepact.record.store import RecordStore

TASK_TIMEOUT = timedelta(hours=1)
"""A task that is not heard of for so long writes nothing any more."""
_log = logging.getLogger("icepact")
_MOST_RUNS = 10_000
_KEEPS_ALL = "the table has gc.enabled=false"
_Ends = Sequence[tuple[Attempt, Landed | Settled]]


def take_over_history(lake: Lake, store: RecordStore, table: str) -> None:
    """What was recorded before catalogs without a name were recorded by their place becomes this catalog's, if it is
    about the very table that has this name in it."""
    if lake.recorded_as == lake.catalog:
        return
    if store.runs(catalog=lake.catalog, table=table, limit=1, outcomes=False):
        store.rename_catalog(lake.catalog, lake.recorded_as, table=table, uuid=lake.table(table).uuid)


def resume_dead(
    lake: Lake, table: str, store: RecordStore, progress: Progress, policy: Policy | None = None
) -> Outcome | None:
    """Carry on with the newest run on a table that died, if there is one and it can be carried on with. The outcome
    tells which of its options are not those of the policy."""
    record = resumable_run(store, lake.recorded_as, table)
    if record is None:
        return None
    try:
        outcome = resume(lake, record, store, progress)
    except (BadInput, CommitUnknown) as error:
        # of another version, on a table that is paused, or perhaps still committing elsewhere: a new run is safe
        _log.warning("not resumed: %s", error)
        return None
    began_with = Plan.from_json(store.plan(record.run_id)).policy
    return outcome if policy is None else replace(outcome, kept_options=began_with.other_than(policy))


# -- cleaning up ----------------------------------------------------------------------------------


def clean_up(
    lake: Lake,
    store: RecordStore,
    *,
    table: str | None = None,
    delete: bool = False,
    task_timeout: timedelta = TASK_TIMEOUT,
    now: datetime | None = None,
) -> Sequence[Swept]:
    """Find what dead runs left behind, and delete it if asked to: exactly the files that no snapshot refers to."""
    found: list[Swept] = []
    with under_way() as work:
        if delete:
            work.said = lambda: f"the clean-up had come to {counted(len(found), 'run')}: run the same command again"
        for swept in _sweep_all(lake, store, table, delete, task_timeout, now or store.now()):
            found.append(swept)
            if work.pressed:
                break
    return found


def _sweep_all(
    lake: Lake, store: RecordStore, name: str | None, delete: bool, task_timeout: timedelta, now: datetime
) -> Iterator[Swept]:
    unloadable: dict[str, str] = {}
    former = store.runs(catalog=lake.catalog, table=name, limit=_MOST_RUNS, outcomes=False)
    for table_name in sorted({record.table for record in former}) if lake.recorded_as != lake.catalog else ():
        with suppress(Exception):  # of another catalog
            take_over_history(lake, store, table_name)
    for record in store.runs(catalog=lake.recorded_as, table=name, limit=_MOST_RUNS, outcomes=False):
        if _swept_for_good(record, task_timeout):
            continue
        if record.table in unloadable:  # finding that out may take minutes
            yield _failed(record, unloadable[record.table])
            continue
        try:
            table = lake.table(record.table)
        except TableNotFound:
            yield from _without_table(record)
            continue
        except CatalogUnusable:
            raise  # as with every other table
        except Exception as error:
            unloadable[record.table] = in_words(error)
            yield _failed(record, in_words(error))
            continue
        if record.uuid and table.uuid != record.uuid:
            yield from _without_table(record)
            continue
        try:
            table.refresh()  # Spark may have remembered an older state
            fresh = store.run(record.run_id) or record  # judged as it is now, not as it was when the list was made
            swept = _sweep(table, fresh, store, delete=delete, now=now)
        except Exception as error:
            swept = _failed(record, in_words(error))
        if swept is not None:
            yield swept


def _without_table(record: RunRecord) -> Iterator[Swept]:
    """Files of a table that is gone went with it, or are nobody's business any more. But it may have been renamed, and
    an open run may have left some."""
    if record.status.open or record.attempts:
        where = f"; if it was renamed, what the run left is below {record.folder}" if record.folder else ""
        yield _left_alone(record, f"the table that it worked on has another name now, or is gone{where}")


def _swept_for_good(record: RunRecord, task_timeout: timedelta) -> bool:
    """Whether its folder was cleaned up when no task of it could write any more."""
    if record.status.open or record.swept_at is None:
        return record.status is Status.NOTHING_TO_DO
    return record.finished_at is None or record.swept_at >= record.finished_at + task_timeout


def _sweep(table: IcebergTable, record: RunRecord, store: RecordStore, *, delete: bool, now: datetime) -> Swept | None:
    """End a dead run, or see that one has ended; then look at what it left."""
    why, ended = f"it ended ({record.status})", not record.status.open
    keep: frozenset[str] | None = None
    beside: dict[str, int] = {}
    if record.status.open:
        reason = dead(record, store, now) if record.status is not Status.FENCED else "a clean-up died over it"
        if reason is None:
            return None  # somebody works on it
        why = reason
    if record.status.open or record.attempts:  # of a process that died before, or rolled back
        ends = _ends_of(table, record, store, now)
        if isinstance(ends, str):
            return _left_alone(record, f"{why}; {ends}")
        beside = _beside(table, record, ends)
        if delete:
            end = partial(_fence if record.status.open else _settle, table, record, store, ends, list(beside))
            try:
                record, keep, freed = _with_room(end, table, record, store)
            except (RunLost, TableBusy) as error:
                return _left_alone(record, str(error))
            beside |= freed
        else:
            keep = referenced(table, record.run_id)
    swept = _sweep_folders(table, record, store, why, keep, beside, delete=delete, now=now)
    return None if ended and swept is not None and swept.in_vain else swept


def _with_room(
    end: Callable[[], tuple[RunRecord, frozenset[str]]], table: IcebergTable, record: RunRecord, store: RecordStore
) -> tuple[RunRecord, frozenset[str], dict[str, int]]:
    """End a dead run. If there is no room to write that down, what it wrote goes first: nobody else can take it then,
    without writing that down. Returns these files, too."""
    try:
        return *end(), {}
    except BadInput as error:
        if not is_full(str(error)):
            raise
    files = _unwanted(table, record, store, None)
    if isinstance(files, str):
        raise PermanentError(files)
    delete_files(table, list(files))
    return *end(), files


def _sweep_folders(
    table: IcebergTable,
    record: RunRecord,
    store: RecordStore,
    why: str,
    keep: frozenset[str] | None,
    beside: Mapping[str, int],
    *,
    delete: bool,
    now: datetime,
) -> Swept | None:
    """Delete what nobody needs, or only tell; nothing, if there is nothing to tell. `beside` are other files of the run
    that go, or have gone by now."""
    folders = _folders(table, record)
    files = _unwanted(table, record, store, keep)
    if isinstance(files, str):
        return _left_alone(record, f"{why}; {files}: nothing is deleted")
    uploads = sum(unfinished_uploads(table, folder) for folder in folders)
    if uploads and not may_delete(table):
        return _left_alone(record, f"{why}; {_KEEPS_ALL}: nothing is deleted")
    if delete:
        delete_files(table, list(files))
        if uploads:
            for folder in folders:
                abort_uploads(table, folder)
        stayed = files.keys() & set(_listed(table, folders)) if files else set()
        if stayed:  # storage may refuse without a word
            return _failed(record, f"{why}; {len(stayed)} files could not be deleted, first {min(stayed)}")
        store.swept(record.run_id, now)
    elif not files and not beside and not uploads and not record.status.open:
        return None
    return Swept(
        run_id=record.run_id,
        table=record.table,
        status=record.status.value,
        files=[*beside, *files],
        bytes=sum(beside.values()) + sum(files.values()),
        uploads=uploads,
        reason=why,
        deleted=delete,
    )


def _unwanted(
    table: IcebergTable, record: RunRecord, store: RecordStore, keep: frozenset[str] | None
) -> dict[str, int] | str:
    """Files of a run that nobody needs, with their sizes, or why they cannot be told. `keep` are those that the table
    refers to; null if that is to be asked."""
    listed = _listed(table, _folders(table, record))
    committed = _outputs(record, store)
    others = strangers(list(listed), committed or frozenset())  # what landed stays, for whoever may still see it
    if others and (doubt := _doubt(table, record, told=committed is not None)):
        return doubt
    if keep is None:
        keep = referenced(table, record.run_id) if others else frozenset()
    ours = set(others)
    files = [path for path in unwanted(list(listed), keep) if path in ours]
    if not files and strangers(others, keep):
        return "a committed file is not recognised in the listing"
    if files and not may_delete(table):
        return _KEEPS_ALL
    return {path: listed[path] for path in files}


def _folders(table: IcebergTable, record: RunRecord) -> list[str]:
    """Where a run wrote: the table may have been told another place since, and a resumed run goes there."""
    return sorted({folder for folder in (record.folder, run_folder(table, record.run_id)) if folder})


def _listed(table: IcebergTable, folders: Sequence[str]) -> dict[str, int]:
    return {path: size for folder in folders for path, size in listed_files(table, folder).items()}


def _outputs(record: RunRecord, store: RecordStore) -> frozenset[str] | None:
    """What a run committed; null if its checkpoints do not tell any more."""
    files = outputs_by_group(store.checkpoints(record.run_id))
    groups = groups_of(record.landed)
    return frozenset(path for group in groups for path in files[group]) if groups <= files.keys() else None


def _doubt(table: IcebergTable, record: RunRecord, *, told: bool) -> str | None:
    """Why nobody can say which files of a run are live; null if the table can. `told`: its checkpoints know them."""
    numbers = [landed.sequence_number for landed in record.landed]
    if max(numbers, default=0) > table.last_sequence_number:
        return "the table is seen here as it was before its commits: this may not be the catalog that it knew"
    if not told and not any(table.has_snapshot(landed.snapshot_id) for landed in record.landed):
        return "neither its checkpoints nor the table tell any more what it committed"
    return None


def _failed(record: RunRecord, reason: str) -> Swept:
    """What should have gone, and could not."""
    return replace(_left_alone(record, reason), failed=True)


def _left_alone(record: RunRecord, reason: str) -> Swept:
    return Swept(
        run_id=record.run_id,
        table=record.table,
        status=record.status.value,
        files=(),
        bytes=0,
        uploads=0,
        reason=reason,
        left_alone=True,
    )


def _ends_of(table: IcebergTable, record: RunRecord, store: RecordStore, now: datetime) -> _Ends | str:
    """What became of the commits of a dead run, or why its files cannot be touched yet."""
    ends = ends_of(table, store, record.attempts, record.branch, record.landed)
    for attempt, end in ends:
        if isinstance(end, Settled) and not over(end, attempt, now):
            return f"its commit {attempt.commit_id} is not in the table, and {end}: nothing is deleted yet"
    return ends


def _beside(table: IcebergTable, record: RunRecord, ends: _Ends) -> dict[str, int]:
    """What the commits of a dead run left in the table's metadata."""
    lost = {attempt.commit_id for attempt, end in ends if end in (Settled.MOVED, Settled.GONE)}
    try:
        return traces(table, [attempt for attempt, _ in ends], lost=lost)
    except JavaError as error:
        if not is_forbidden(error):
            raise
        _log.warning("manifests of run %s are not looked for: %s", record.run_id, error_line(error))
        return {}


def _delete_beside(table: IcebergTable, record: RunRecord, ends: _Ends, beside: Sequence[str]) -> None:
    """As long as the attempts are on record: nobody else knows what belongs to them."""
    delete_files(table, beside)
    stayed = set(beside) & set(_beside(table, record, ends)) if beside else set[str]()
    if stayed:  # storage may refuse without a word
        raise PermanentError(f"{len(stayed)} files could not be deleted, first {min(stayed)}")


def _fence(
    table: IcebergTable,
    record: RunRecord,
    store: RecordStore,
    ends: _Ends,
    beside: Sequence[str],
) -> tuple[RunRecord, frozenset[str]]:
    """Take a dead run so that nobody can commit for it any more, look once more what the table refers to, end it."""
    lease = hold(store, table, f"cleanup-{secrets.token_hex(4)}")
    try:
        claim = store.take(record, this_process(), to=Status.FENCED)
        landed = _checked(table, record, store, ends)
        keep = referenced(table, record.run_id)
        _delete_beside(table, record, ends, beside)
        commits = [*record.landed, *landed]
        if not commits:
            end = Status.CANCELLED if record.cancel_asked else Status.ABANDONED
        else:
            end = Status.COMMITTED if _all_of_it(record, store, commits) else Status.PARTLY_COMMITTED
        store.move(claim, end, attempts=(), landed=sorted(commits, key=lambda commit: commit.sequence_number))
    finally:
        store.release(lease)
    return _now(record, store), keep


def _settle(
    table: IcebergTable,
    record: RunRecord,
    store: RecordStore,
    ends: _Ends,
    beside: Sequence[str],
) -> tuple[RunRecord, frozenset[str]]:
    """The same for a run that ended without knowing what became of a commit."""
    landed = _checked(table, record, store, ends)
    _delete_beside(table, record, ends, beside)
    store.settled(record, attempts=(), landed=landed)
    return _now(record, store), referenced(table, record.run_id)


def _now(record: RunRecord, store: RecordStore) -> RunRecord:
    found = store.run(record.run_id)
    assert found is not None
    return found


def _checked(table: IcebergTable, record: RunRecord, store: RecordStore, ends: _Ends) -> list[Landed]:
    """Commits that landed unseen are checked as any other; without those that were broken and could be rolled back."""
    kept = []
    for attempt, landed in ends:
        if isinstance(landed, Settled):
            continue
        try:
            check_unseen(table, store, record.branch, attempt, landed)
        except CommitBroken as error:
            stop_the_table(table, store, str(error))
            head = table.head(record.branch)
            if head is None or not table.is_ancestor(landed.snapshot_id, of=int(head.snapshotId())):
                continue
        kept.append(landed)
    return kept


def _all_of_it(record: RunRecord, store: RecordStore, commits: Sequence[Landed]) -> bool:
    """Whether these commits are everything that a run had planned."""
    try:
        planned = {step.group_id for step in Plan.from_json(store.plan(record.run_id)).steps}
    except ValueError:  # not kept, or of another version
        return False
    return planned <= groups_of(commits)


# -- looking back ---------------------------------------------------------------------------------


def cancel(record: RunRecord, store: RecordStore) -> str:
    """Ask a run to stop; says what will happen."""
    if not store.ask_to_cancel(record.run_id):
        raise BadInput(f"run {record.run_id} has ended ({record.status}): there is nothing to cancel")
    reason = dead(record, store)
    if reason is None:
        return f"asked {record.owner} to stop run {record.run_id}"
    return f"run {record.run_id} is dead already ({reason}): `icepact cleanup` removes what it left"


def verify(lake: Lake, record: RunRecord) -> Sequence[Checked]:
    """Compare, for every commit of a run, what readers see before and after it."""
    table = lake.table(record.table)
    table.refresh()
    return [_check(table, landed) for landed in record.landed]


def _check(table: IcebergTable, landed: Landed) -> Checked:
    if landed.snapshot_id == EXPIRED or not table.has_snapshot(landed.snapshot_id):
        return Checked(snapshot_id=landed.snapshot_id, rows=None, same=None, reason="the snapshot has expired")
    removed, added = table.changed_paths(landed.snapshot_id)
    missing = missing_files(table, added)
    if missing:
        return Checked(
            snapshot_id=landed.snapshot_id,
            rows=None,
            same=False,
            reason=f"{len(missing)} of its {len(added)} files are not on storage any more, first {min(missing)}",
        )
    after = row_sum(table, table.tasks_of(landed.snapshot_id, added))
    told = table.fact(landed.snapshot_id, "proof-row-sum")
    there = landed.parent_id is not None and table.has_snapshot(landed.parent_id)
    if there and not missing_files(table, removed):
        assert landed.parent_id is not None
        before = row_sum(table, table.tasks_of(landed.parent_id, removed))
        same, how = before == after, "every row is the same"
        if not same and before.unnumbered:  # any commit gives ids to rows from before an upgrade
            old, new = table.tasks_of(landed.parent_id, removed), table.tasks_of(landed.snapshot_id, added)
            same = row_sum(table, old, lineage=False) == row_sum(table, new, lineage=False)
            how = "every row is the same, but for the ids that rows from before an upgrade have got"
        what = f"{before.rows} rows before, {after.rows} after"
        how = how if same else f"sums {before.total} and {after.total}"
        return Checked(snapshot_id=landed.snapshot_id, rows=after.rows, same=same, reason=f"{what}; {how}")
    if told is not None:
        same = int(told) == after.total
        return Checked(
            snapshot_id=landed.snapshot_id,
            rows=after.rows,
            same=same,
            reason=f"the snapshot before it has expired; the sum in its summary is {'the same' if same else 'another'}",
        )
    return Checked(
        snapshot_id=landed.snapshot_id,
        rows=after.rows,
        same=None,
        reason="the snapshot before it has expired, and its summary carries no sum: only `--verify full` does",
    )


def take_back(lake: Lake, record: RunRecord, store: RecordStore) -> int:
    """Go back to the snapshot before a run, if nothing else was committed since; returns that snapshot."""
    if record.status not in (Status.COMMITTED, Status.PARTLY_COMMITTED):
        raise BadInput(f"run {record.run_id} is {record.status}: there is no commit to take back")
    table = lake.table(record.table)
    table.refresh()
    if not record.landed:
        raise BadInput(f"run {record.run_id} has no commit on record: there is nothing to take back")
    ids = [landed.snapshot_id for landed in record.landed]
    good = record.landed[0].parent_id
    manual = f"CALL {lake.catalog}.system.rollback_to_snapshot('{record.table}', {good})"
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
        work.said = lambda: f"whether run {record.run_id} was taken back is not known: run the same command again"
        if not roll_back(table, record.branch, bad=ids[-1], good=good):
            raise PermanentError(f"{record.table} was changed at this very moment: try again")
        work.said = lambda: f"{record.table} is back at snapshot {good}"
        with suppress(IcepactError):  # the table is what counts
            store.take(record, this_process(), to=Status.ROLLED_BACK)
    return good
