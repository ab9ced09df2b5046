"""Expiry of snapshots: what becomes unreachable is worked out and written down, then the metadata is committed, and
only then files are deleted. Whoever dies in between leaves a list, by which somebody else goes on."""

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, islice
from typing import Protocol

from icepact.housekeeping.retention import Retention, decide_retention
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.commit.expire import commit_expiry
from icepact.iceberg.commit.run_files import may_delete
from icepact.iceberg.java.bridge import JavaError, describe_error, is_missing
from icepact.iceberg.table.history import current_metadata, history_at, read_history
from icepact.iceberg.table.reachability import MOST_HERE, FileToDelete, UnreachableFiles, in_portions, totals_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput, CommitRefused, HeadMoved, IcepactError, Unfinished
from icepact.model.expiry import ExpireResult, ExpireSnapshots
from icepact.model.formatting import plural
from icepact.model.history import TableHistory
from icepact.model.housekeeping import NO_FILES, FileTotals

ATTEMPTS = 6
"""How often an expiry is worked out anew because somebody committed meanwhile."""
_FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there, and differs."""
_KEPT_IN_MIND = 200_000
"""Files of a plan at most that are not worked out again when it is carried out: they are held in Java."""
_WORKED_OUT: dict[tuple[str, str, tuple[int, ...]], UnreachableFiles] = {}
"""What the last plan found, by its table, the metadata that it was made at, and the snapshots that go."""
_PREVIOUS_VERSIONS, _DEFAULT_VERSIONS = "write.metadata.previous-versions-max", 100


class Journal(Protocol):
    """What an expiry writes down, and asks."""

    def write_down(self, files: Iterable[FileToDelete]) -> None:
        """Record files that are to be deleted, before the commit after which nobody could find them any more."""

    def written_down(self) -> Iterator[FileToDelete]:
        """What an earlier process of the same run has recorded."""

    def check(self) -> None:
        """Raise if the run must stop."""

    def deleted(self, files: int, size: int) -> None:
        """So many files, with so many bytes, are gone."""


def plan_expire(
    table: IcebergTable, *, older_than: datetime, retain_last: int, needed: Mapping[int, str], now: datetime
) -> ExpireSnapshots | str:
    """The expiry that is due, or why there is none. `needed` are snapshots that somebody works with, and who."""
    refuse_protected(table)
    for _ in range(ATTEMPTS):
        history = read_history(table)
        retention = decide_retention(history, older_than=older_than, retain_last=retain_last, needed=needed, now=now)
        if not retention.snapshot_ids and not retention.refs:
            return _why_nothing(history, retention, older_than)
        found = _unless_overtaken(table, history, retention)
        if found is not None:
            break
    else:
        raise _always_overtaken(table)
    by_id = history.by_id
    times = [by_id[snapshot_id].at for snapshot_id in retention.snapshot_ids] or [now]
    files = totals_of(found)
    _WORKED_OUT.clear()
    if files.files <= _KEPT_IN_MIND:
        _WORKED_OUT[_key(table, history, retention)] = found
    return ExpireSnapshots(
        snapshot_ids=retention.snapshot_ids,
        refs=retention.refs,
        older_than=older_than,
        retain_last=retain_last,
        as_of=now,
        oldest=min(times),
        newest=max(times),
        files=files,
        reason=f"older than {older_than:%Y-%m-%d %H:%M} UTC, and not among the newest {retain_last} of a branch",
        kept=retention.kept,
    )


def carry_out_expire(
    table: IcebergTable, step: ExpireSnapshots, *, needed: Mapping[int, str], journal: Journal
) -> ExpireResult:
    """Expire what the step's ages let go by now, and delete what only that needed; after a crash, first what the one
    before had written down."""
    started = time.monotonic()
    refuse_protected(table)
    finished, stayed = _finish(table, journal)
    expired, files = _commit(table, step, needed, journal)
    deleted, more = NO_FILES, 0
    if files is not None:
        deleted, more = _delete(table, files, journal)
    stayed += more
    if stayed:
        raise Unfinished(f"{plural(stayed, 'file')} of what expired could not be deleted")
    return ExpireResult(
        snapshots_expired=len(expired.snapshot_ids),
        snapshot_ids=expired.snapshot_ids,
        refs_removed=expired.refs,
        files=finished + deleted,
        bytes_freed=(finished + deleted).bytes,
        kept=expired.kept,
        reason="" if expired.snapshot_ids or expired.refs or finished.files else "nothing was due any more",
        seconds=round(time.monotonic() - started, 3),
    )


def refuse_protected(table: IcebergTable) -> None:
    """Raise BadInput if others may need files that the table's own snapshots do not refer to."""
    if not may_delete(table):
        raise BadInput(f"{table.name} has gc.enabled=false: others may need its files, so nothing of it is deleted")


def unreachable_files(table: IcebergTable, history: TableHistory, retention: Retention) -> UnreachableFiles:
    """What only the snapshots that go need, and table metadata that falls out of the log with the commit."""
    gone = frozenset(retention.snapshot_ids)
    files = UnreachableFiles.of_snapshots(table, retention.snapshot_ids)
    stay = {file.path for file in history.statistics if file.snapshot_id not in gone}
    lists = {node.manifest_list for node in history.snapshots if node.snapshot_id not in gone}
    files.keep(stay)
    files.add(FileToDelete("S", f.size, f.path) for f in history.statistics if f.path not in stay)
    files.add(
        FileToDelete("L", 0, node.manifest_list)
        for node in history.snapshots
        if node.manifest_list is not None and node.manifest_list not in lists
    )
    files.add(FileToDelete("J", 0, path) for path in _out_of_the_log(history))
    return files


def _unless_overtaken(table: IcebergTable, history: TableHistory, retention: Retention) -> UnreachableFiles | None:
    """The same; `None` if somebody else has expired and deleted some of these snapshots meanwhile. The table is read
    anew then."""
    try:
        return unreachable_files(table, history, retention)
    except JavaError as error:
        if not is_missing(error):
            raise
        table.refresh()
        if read_history(table).metadata_files[0] == history.metadata_files[0]:
            raise
        return None


def _always_overtaken(table: IcebergTable) -> CommitRefused:
    return CommitRefused(f"somebody committed to {table.name} each of {ATTEMPTS} times: nothing has expired")


def _key(table: IcebergTable, history: TableHistory, retention: Retention) -> tuple[str, str, tuple[int, ...]]:
    """Metadata of a table is never changed, and no other has its name."""
    return table.uuid, history.metadata_files[0], retention.snapshot_ids


def _out_of_the_log(history: TableHistory) -> list[str]:
    """Table metadata that the next commit lets go: the log has so many entries at most."""
    most = history.properties.get(_PREVIOUS_VERSIONS, "")
    kept = max(1, int(most)) if most.isdecimal() else _DEFAULT_VERSIONS
    current, *log = history.metadata_files
    return [*log, current][:-kept]


def _commit(
    table: IcebergTable, step: ExpireSnapshots, needed: Mapping[int, str], journal: Journal
) -> tuple[Retention, UnreachableFiles | None]:
    """What left the metadata, and the files that go with it; `None` if nothing was due any more."""
    for number in range(ATTEMPTS):
        table.refresh()
        refuse_protected(table)
        base = current_metadata(table)
        history = history_at(table, base)
        retention = decide_retention(
            history,
            older_than=step.older_than,
            retain_last=step.retain_last,
            needed=needed,
            now=step.as_of,
        )
        if not retention.snapshot_ids and not retention.refs:
            return retention, None
        known = _WORKED_OUT.pop(_key(table, history, retention), None)
        files = known if known and known.moved_to(table) else _unless_overtaken(table, history, retention)
        if files is None:
            continue
        journal.check()
        journal.write_down(files)
        journal.check()
        try:
            commit_expiry(table, base, retention.snapshot_ids, retention.refs)
        except HeadMoved:
            time.sleep(_FIRST_WAIT * 2**number * random.uniform(0.5, 1.5))
            continue
        try:
            files.look_again()
            _keep_what_is_named(table, files)
        except Exception as error:
            raise _unfinished(error, NO_FILES) from error
        return retention, files
    raise _always_overtaken(table)


def _finish(table: IcebergTable, journal: Journal) -> tuple[FileTotals, int]:
    """Delete what an earlier process of the run had written down, as far as nothing needs it: its commit may have
    landed, or not."""
    finished, stayed = NO_FILES, 0
    for files in left_of_expiry(table, journal.written_down()):
        gone, more = _delete(table, files, journal)
        finished, stayed = finished + gone, stayed + more
    return finished, stayed


def left_of_expiry(table: IcebergTable, recorded: Iterator[FileToDelete]) -> Iterator[UnreachableFiles]:
    """What nothing needs of what a run has written down, so much at a time as this process may hold."""
    while (first := next(recorded, None)) is not None:
        table.refresh()
        files = UnreachableFiles.still_unreachable(table, chain([first], islice(recorded, MOST_HERE - 1)))
        _keep_what_is_named(table, files)
        yield files


def _keep_what_is_named(table: IcebergTable, files: UnreachableFiles) -> None:
    """Take out what the table's metadata itself refers to, as it was last read."""
    history = read_history(table)
    files.keep([*(file.path for file in history.statistics), *history.metadata_files])


def _delete(table: IcebergTable, files: Iterable[FileToDelete], journal: Journal) -> tuple[FileTotals, int]:
    """Delete files; what is gone, and how many stayed."""
    deletion, gone, stayed = BulkDeletion(table), NO_FILES, 0
    for portion in in_portions(files):
        try:
            journal.check()
            still_there = frozenset(deletion.delete([file.path for file in portion]))
        except Exception as error:
            raise _unfinished(error, gone) from error
        deleted = [file for file in portion if file.path not in still_there]
        totals = totals_of(deleted)
        gone, stayed = gone + totals, stayed + len(still_there)
        journal.deleted(totals.files, totals.bytes)
    return gone, stayed


def _unfinished(error: Exception, gone: FileTotals) -> Unfinished:
    why = str(error) if isinstance(error, IcepactError) else describe_error(error)
    return Unfinished(f"{why}; what expired is out of the table, and {gone} deleted so far")


def _why_nothing(history: TableHistory, retention: Retention, older_than: datetime) -> str:
    count = plural(len(history.snapshots), "snapshot")
    if not history.snapshots:
        return "the table has no snapshots"
    if not retention.kept:
        return f"no snapshot is older than {older_than:%Y-%m-%d %H:%M} UTC ({count})"
    reasons = sorted({entry.why for entry in retention.kept})
    return f"every old snapshot is kept ({count}): {'; '.join(reasons[:3])}"
