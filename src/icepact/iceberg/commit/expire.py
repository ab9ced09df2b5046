"""The commit of an expiry: exactly these snapshots and refs leave the table's metadata, and nothing else changes."""

import json
from collections.abc import Sequence
from typing import Any

from icepact.iceberg.commit.replace import REFUSALS
from icepact.iceberg.disk import not_carried_out
from icepact.iceberg.java.bridge import Java, JavaError, error_class, error_line, with_cause
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitBroken, CommitRefused, CommitUnknown, HeadMoved

_CONFLICTS = {"CommitFailedException", "ValidationException"}


def commit_expiry(table: IcebergTable, base: Any, snapshot_ids: Sequence[int], refs: Sequence[str]) -> None:
    """Take snapshots and refs out of a table's metadata; `base` is what was judged, Java's own.

    Raises HeadMoved if that is not the newest any more, CommitRefused if the catalog does not want it, CommitUnknown
    if nobody can say whether it landed. Iceberg's own expiry decides anew at every attempt, by ages that go on growing:
    more might expire than was found to be unreachable.
    """
    java, operations = table.java, table.table.operations()
    builder = java.iceberg.TableMetadata.buildFrom(base)
    for name in refs:
        builder = builder.removeRef(name)
    had_main = base.currentSnapshot() is not None
    changed = builder.removeSnapshots(_longs(java, snapshot_ids)).build()
    try:
        operations.commit(base, changed)
    except JavaError as error:
        if not _landed(table, snapshot_ids, refs):
            raise _classified(error) from error
    try:
        table.refresh()
    except JavaError as error:
        raise CommitUnknown(f"committed, but the table cannot be read: {error_line(error)}") from error
    if had_main and table.head_id("main") is None:
        # a catalog that judges changes one by one lets go what somebody has just made the head
        raise CommitBroken(f"branch main of {table.name} was set to an expired snapshot meanwhile, and is gone")
    if any(table.has_snapshot(snapshot_id) for snapshot_id in snapshot_ids):
        raise CommitUnknown("the catalog accepted the expiry, but the table does not show it")


def _longs(java: Java, numbers: Sequence[int]) -> Any:
    """A Java set of long numbers: JSON alone would make small ones of another class."""
    array = java.mapper.readValue(json.dumps(list(numbers)), java.class_of("[J"))
    return java.jvm.java.util.stream.LongStream.of(array).boxed().collect(java.jvm.java.util.stream.Collectors.toSet())


def _landed(table: IcebergTable, snapshot_ids: Sequence[int], refs: Sequence[str]) -> bool:
    """Whether none of these snapshots and refs is there any more: the answer may be all that failed."""
    try:
        table.refresh()
        there = table.java.mapping(table.table.refs())
        return not any(map(table.has_snapshot, snapshot_ids)) and not any(name in there for name in refs)
    except JavaError:
        return False


def _classified(error: Exception) -> Exception:
    kind = error_class(error)
    if kind in _CONFLICTS:
        return HeadMoved(error_line(error))
    if kind in REFUSALS or not_carried_out(error):
        return CommitRefused(with_cause(error))
    return CommitUnknown(f"{kind}: {error_line(error)}")
