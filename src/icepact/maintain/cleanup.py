"""Clean-up: end runs that died, and delete exactly the files of theirs that no snapshot refers to."""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from icepact.commit.reconcile import Fate, cannot_land
from icepact.execute.checkpoint import outputs_by_group
from icepact.execute.uploads import unfinished_uploads
from icepact.housekeeping.expire import left_of_expiry
from icepact.iceberg.commit.orphan_metadata import orphan_metadata
from icepact.iceberg.commit.run_files import (
    deletable_files,
    delete_files,
    listed_files,
    may_delete,
    missing_files,
    referenced,
    run_folder,
    unknown_files,
)
from icepact.iceberg.java.bridge import JavaError, describe_error, error_line, is_forbidden
from icepact.iceberg.spark.catalog import SparkCatalog
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.aftercare import take_over_history
from icepact.maintain.failures import stop_the_table
from icepact.maintain.interrupts import under_way
from icepact.maintain.rolled_back import with_rolled_back
from icepact.maintain.runs import check_unseen, end_of_former_table, fates_of, hold
from icepact.maintain.steps import written_down
from icepact.model.errors import (
    BadInput,
    CatalogUnusable,
    CommitBroken,
    PermanentError,
    RunLost,
    TableBusy,
    TableNotFound,
    is_full,
)
from icepact.model.expiry import EXPIRE
from icepact.model.formatting import plural
from icepact.model.plan import Plan
from icepact.model.recovery import CleanupResult
from icepact.model.run import Attempt, CommittedBatch, RunRecord, groups_of
from icepact.model.status import Status
from icepact.record.liveness import dead
from icepact.record.process import this_process
from icepact.record.store import RecordStore, RunStore

TASK_TIMEOUT = timedelta(hours=1)
"""A task that is not heard of for so long writes nothing any more."""
_log = logging.getLogger("icepact")
_MOST_RUNS = 10_000
_NO_ROOM = "the disk is full, and not of what this run left: free some space there, then clean up again"
_KEEPS_ALL = "the table has gc.enabled=false"
_Fates = Sequence[tuple[Attempt, CommittedBatch | Fate]]


def clean_up(
    spark_catalog: SparkCatalog,
    store: RecordStore,
    *,
    table: str | None = None,
    delete: bool = False,
    task_timeout: timedelta = TASK_TIMEOUT,
    now: datetime | None = None,
) -> Sequence[CleanupResult]:
    """Find what dead runs left behind, and delete it if asked to: exactly the files that no snapshot refers to."""
    found: list[CleanupResult] = []
    with under_way() as work:
        if delete:
            work.so_far = lambda: f"the clean-up had come to {plural(len(found), 'run')}: run the same command again"
        for swept in _sweep_all(spark_catalog, store, table, delete, task_timeout, now or store.now()):
            found.append(swept)
            if work.pressed:
                break
    return found


def _sweep_all(
    spark_catalog: SparkCatalog,
    store: RecordStore,
    name: str | None,
    delete: bool,
    task_timeout: timedelta,
    now: datetime,
) -> Iterator[CleanupResult]:
    unloadable: dict[str, str] = {}
    former = store.runs(catalog=spark_catalog.catalog, table=name, limit=_MOST_RUNS, outcomes=False)
    for table_name in (
        sorted({record.table for record in former}) if spark_catalog.recorded_as != spark_catalog.catalog else ()
    ):
        with suppress(Exception):  # of another catalog
            take_over_history(spark_catalog, store, table_name)
    for record in store.runs(catalog=spark_catalog.recorded_as, table=name, limit=_MOST_RUNS, outcomes=False):
        if _swept_for_good(record, task_timeout):
            continue
        if record.table in unloadable:  # finding that out may take minutes
            yield _failed(record, unloadable[record.table])
            continue
        try:
            table = spark_catalog.table(record.table)
        except TableNotFound:
            yield from _without_table(record)
            continue
        except CatalogUnusable:
            raise  # as with every other table
        except Exception as error:
            unloadable[record.table] = describe_error(error)
            yield _failed(record, describe_error(error))
            continue
        if record.uuid and table.uuid != record.uuid:
            yield from _of_former_table(record, store, delete=delete)
            continue
        try:
            table.refresh()  # Spark may have remembered an older state
            fresh = store.run(record.run_id) or record  # judged as it is now, not as it was when the list was made
            swept = _sweep(table, fresh, store, delete=delete, now=now)
        except Exception as error:
            reason = describe_error(error)
            swept = _failed(record, _NO_ROOM if is_full(reason) else reason)
        if swept is not None:
            yield swept


def _without_table(record: RunRecord) -> Iterator[CleanupResult]:
    """Files of a table that is gone went with it, or are nobody's business any more. But it may have been renamed, and
    an open run may have left some."""
    if record.status.open or record.attempts:
        where = f"; if it was renamed, what the run left is below {record.folder}" if record.folder else ""
        yield _left_alone(record, f"the table that it worked on has another name now, or is gone{where}")


def _of_former_table(record: RunRecord, store: RecordStore, *, delete: bool) -> Iterator[CleanupResult]:
    """Another table has its name. A run of housekeeping is ended: it has no files of its own."""
    plan = _plan_of(record, store)
    why = dead(record, store) if record.status.open and record.status is not Status.FENCED else None
    if why is None or plan is None or plan.rewrites:
        yield from _without_table(record)
        return
    ended = replace(_left_alone(record, f"{why}; another table has the name of its own by now"), left_alone=False)
    if delete:
        outcome = end_of_former_table(record, plan, store)
        ended = replace(ended, status=outcome.status.value, reason=f"{why}; {outcome.reason}", deleted=True)
    yield ended


def _plan_of(record: RunRecord, store: RunStore) -> Plan | None:
    """The plan of a run; `None` if it is not kept, or of another version."""
    try:
        return Plan.from_json(store.plan(record.run_id))
    except ValueError:
        return None


def _swept_for_good(record: RunRecord, task_timeout: timedelta) -> bool:
    """Whether its folder was cleaned up when no task of it could write any more."""
    if record.status.open or record.swept_at is None:
        return record.status is Status.NOTHING_TO_DO
    return record.finished_at is None or record.swept_at >= record.finished_at + task_timeout


def _sweep(
    table: IcebergTable, record: RunRecord, store: RecordStore, *, delete: bool, now: datetime
) -> CleanupResult | None:
    """End a dead run, or see that one has ended; then look at what it left."""
    [record] = with_rolled_back(table, store, [record], record.branch)
    why, ended = f"it ended ({record.status})", not record.status.open
    keep: frozenset[str] | None = None
    orphans: dict[str, int] = {}
    if record.status.open:
        reason = dead(record, store, now) if record.status is not Status.FENCED else "a clean-up died over it"
        if reason is None:
            return None  # somebody works on it
        why = reason
    if record.status.open or record.attempts:  # of a process that died before, or rolled back
        fates = _final_fates(table, record, store, now)
        if isinstance(fates, str):
            return _left_alone(record, f"{why}; {fates}")
        orphans = _orphan_metadata(table, record, fates) | _left_of_expiry(table, record, store)
        if delete:
            end = partial(_fence if record.status.open else _close_attempts, table, record, store, fates, list(orphans))
            try:
                record, keep, freed = _with_room(end, table, record, store)
            except (RunLost, TableBusy) as error:
                return _left_alone(record, str(error))
            orphans |= freed
        else:
            keep = referenced(table, record.run_id)
    swept = _sweep_folders(table, record, store, why, keep, orphans, delete=delete, now=now)
    return None if ended and swept is not None and swept.in_vain else swept


def _with_room(
    end: Callable[[], tuple[RunRecord, frozenset[str]]], table: IcebergTable, record: RunRecord, store: RunStore
) -> tuple[RunRecord, frozenset[str], dict[str, int]]:
    """End a dead run. If there is no room to write that down, what it wrote goes first: nobody else can take it then,
    without writing that down. Returns these files, too."""
    try:
        return *end(), {}
    except BadInput as error:
        if not is_full(str(error)):
            raise
    files = _deletable(table, record, store, None)
    if isinstance(files, str):
        raise PermanentError(files)
    delete_files(table, list(files))
    return *end(), files


def _sweep_folders(
    table: IcebergTable,
    record: RunRecord,
    store: RunStore,
    why: str,
    keep: frozenset[str] | None,
    orphans: Mapping[str, int],
    *,
    delete: bool,
    now: datetime,
) -> CleanupResult | None:
    """Delete what nobody needs below the folders of a run, or only say what that is; `None` if there is nothing to say.
    `orphans` are files of its commits in the table's metadata that go, or have gone by now."""
    folders = _folders(table, record)
    files = _deletable(table, record, store, keep)
    if isinstance(files, str):
        return _left_alone(record, f"{why}; {files}: nothing is deleted")
    uploads = sum(unfinished_uploads(table, folder) for folder in folders)
    if uploads and not may_delete(table):
        return _left_alone(record, f"{why}; {_KEEPS_ALL}: nothing is deleted")
    if delete:
        delete_files(table, list(files))
        if uploads:
            for folder in folders:
                unfinished_uploads(table, folder, abort=True)
        stayed = files.keys() & set(_listed(table, folders)) if files else set()
        if stayed:  # storage may refuse without a word
            return _failed(record, f"{why}; {len(stayed)} files could not be deleted, first {min(stayed)}")
        store.swept(record.run_id, now)
    elif not files and not orphans and not uploads and not record.status.open:
        return None
    return CleanupResult(
        run_id=record.run_id,
        table=record.table,
        status=record.status.value,
        files=[*orphans, *files],
        bytes=sum(orphans.values()) + sum(files.values()),
        uploads=uploads,
        reason=why,
        deleted=delete,
    )


def _deletable(
    table: IcebergTable, record: RunRecord, store: RunStore, keep: frozenset[str] | None
) -> dict[str, int] | str:
    """Files of a run that nobody needs, with their sizes, or why nobody can say which these are. `keep` are those that
    the table refers to; `None` if the table is to be asked."""
    listed = _listed(table, _folders(table, record))
    committed = _outputs(record, store)
    others = unknown_files(list(listed), committed or frozenset())  # what landed stays, for whoever may still see it
    if others and (doubt := _doubt(table, record, outputs_known=committed is not None)):
        return doubt
    if keep is None:
        keep = referenced(table, record.run_id) if others else frozenset()
    ours = set(others)
    files = [path for path in deletable_files(list(listed), keep) if path in ours]
    if not files and unknown_files(others, keep):
        return "a committed file is not recognised in the listing"
    if files and not may_delete(table):
        return _KEEPS_ALL
    return {path: listed[path] for path in files}


def _folders(table: IcebergTable, record: RunRecord) -> list[str]:
    """Where a run wrote: its table may write to another location since, and a resumed run goes there."""
    return sorted({folder for folder in (record.folder, run_folder(table, record.run_id)) if folder})


def _listed(table: IcebergTable, folders: Sequence[str]) -> dict[str, int]:
    return {path: size for folder in folders for path, size in listed_files(table, folder).items()}


def _outputs(record: RunRecord, store: RunStore) -> frozenset[str] | None:
    """Files that a run committed; `None` if its checkpoints do not name them any more."""
    files = outputs_by_group(store.checkpoints(record.run_id))
    groups = groups_of(record.landed)
    return frozenset(path for group in groups for path in files[group]) if groups <= files.keys() else None


def _doubt(table: IcebergTable, record: RunRecord, *, outputs_known: bool) -> str | None:
    """Why nobody can say which files of a run are live; `None` if the table can. `outputs_known` if its checkpoints
    name what it committed."""
    numbers = [landed.sequence_number for landed in record.landed]
    if max(numbers, default=0) > table.last_sequence_number:
        return "the table is seen here as it was before its commits: this may not be the catalog that it knew"
    if not outputs_known and not any(table.has_snapshot(landed.snapshot_id) for landed in record.landed):
        return "neither its checkpoints nor the table tell any more what it committed"
    return None


def _failed(record: RunRecord, reason: str) -> CleanupResult:
    """The result for a run whose files should have been deleted, and could not be."""
    return replace(_left_alone(record, reason), failed=True)


def _left_alone(record: RunRecord, reason: str) -> CleanupResult:
    return CleanupResult(
        run_id=record.run_id,
        table=record.table,
        status=record.status.value,
        files=(),
        bytes=0,
        uploads=0,
        reason=reason,
        left_alone=True,
    )


def _final_fates(table: IcebergTable, record: RunRecord, store: RunStore, now: datetime) -> _Fates | str:
    """What became of the commits of a dead run, or why its files cannot be touched yet."""
    fates = fates_of(table, store, record.attempts, record.branch, record.landed)
    for attempt, end in fates:
        if isinstance(end, Fate) and not cannot_land(end, attempt, now):
            return f"its commit {attempt.commit_id} is not in the table, and {end}: nothing is deleted yet"
    return fates


def _orphan_metadata(table: IcebergTable, record: RunRecord, fates: _Fates) -> dict[str, int]:
    """What the commits of a dead run left in the table's metadata."""
    lost = {attempt.commit_id for attempt, end in fates if end in (Fate.MOVED, Fate.GONE)}
    try:
        return orphan_metadata(table, [attempt for attempt, _ in fates], lost=lost)
    except JavaError as error:
        if not is_forbidden(error):
            raise
        _log.warning("manifests of run %s are not looked for: %s", record.run_id, error_line(error))
        return {}


def _left_of_expiry(table: IcebergTable, record: RunRecord, store: RunStore) -> dict[str, int]:
    """What an expiry that died had written down and nothing needs any more: nobody else knows of it."""
    if not may_delete(table):
        return {}
    left = left_of_expiry(table, written_down(store, record.run_id, EXPIRE))
    sizes = {file.path: file.size for files in left for file in files}
    missing = missing_files(table, list(sizes)) if sizes else frozenset[str]()
    return {path: size for path, size in sizes.items() if path not in missing}


def _delete_orphan_metadata(table: IcebergTable, record: RunRecord, fates: _Fates, orphans: Sequence[str]) -> None:
    """Delete what the commits left, before their attempts are taken off the record: nothing else knows what belongs to
    them."""
    delete_files(table, orphans)
    stayed = set(orphans) & set(_orphan_metadata(table, record, fates)) if orphans else set[str]()
    if stayed:  # storage may refuse without a word
        raise PermanentError(f"{len(stayed)} files could not be deleted, first {min(stayed)}")


def _fence(
    table: IcebergTable,
    record: RunRecord,
    store: RecordStore,
    fates: _Fates,
    orphans: Sequence[str],
) -> tuple[RunRecord, frozenset[str]]:
    """Take a dead run so that nobody can commit for it any more, look once more what the table refers to, end it."""
    lease = hold(store, table, f"cleanup-{secrets.token_hex(4)}")
    try:
        claim = store.take(record, this_process(), to=Status.FENCED)
        landed = _checked(table, record, store, fates)
        keep = referenced(table, record.run_id)
        _delete_orphan_metadata(table, record, fates, orphans)
        commits = [*record.landed, *landed]
        if not commits:
            end = Status.CANCELLED if record.cancel_asked else Status.ABANDONED
        else:
            end = Status.COMMITTED if _all_of_it(record, store, commits) else Status.PARTLY_COMMITTED
        store.move(claim, end, attempts=(), landed=sorted(commits, key=lambda commit: commit.sequence_number))
    finally:
        store.release(lease)
    return _now(record, store), keep


def _close_attempts(
    table: IcebergTable,
    record: RunRecord,
    store: RecordStore,
    fates: _Fates,
    orphans: Sequence[str],
) -> tuple[RunRecord, frozenset[str]]:
    """For a run that ended without knowing what became of a commit: check what landed, delete the orphans of what did
    not, and record that no attempt is open any more."""
    landed = _checked(table, record, store, fates)
    _delete_orphan_metadata(table, record, fates, orphans)
    store.reconciled(record, attempts=(), landed=landed)
    return _now(record, store), referenced(table, record.run_id)


def _now(record: RunRecord, store: RunStore) -> RunRecord:
    found = store.run(record.run_id)
    assert found is not None
    return found


def _checked(table: IcebergTable, record: RunRecord, store: RecordStore, fates: _Fates) -> list[CommittedBatch]:
    """Commits that landed unseen are checked as any other; without those that were broken and could be rolled back."""
    kept = []
    for attempt, landed in fates:
        if isinstance(landed, Fate):
            continue
        try:
            check_unseen(table, store, record.branch, attempt, landed)
        except CommitBroken as error:
            stop_the_table(table, store, str(error))
            head_id = table.head_id(record.branch)
            if head_id is None or not table.is_ancestor(landed.snapshot_id, of=head_id):
                continue
        kept.append(landed)
    return kept


def _all_of_it(record: RunRecord, store: RunStore, commits: Sequence[CommittedBatch]) -> bool:
    """Whether these commits are everything that a run had planned."""
    plan = _plan_of(record, store)
    return plan is not None and {step.group_id for step in plan.rewrites} <= groups_of(commits)
