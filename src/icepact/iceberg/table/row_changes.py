"""Commits of others that changed rows of a branch: what a compaction may be in the way of."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from icepact.iceberg.commit.replace import COMMIT_ID
from icepact.iceberg.table.table import IcebergTable

_OPERATIONS = ("overwrite", "delete")
"""Kinds of snapshots whose makers read files first: appends and replacements take no row away."""
_LONGEST = 200
"""Snapshots that are looked at."""


class RowChange(NamedTuple):
    """One commit of somebody else."""

    snapshot_id: int
    at: datetime


class RowChanges:
    """The newest changes of rows on a branch. Looking again costs no more than what has come since."""

    def __init__(self, table: IcebergTable, branch: str, most: int) -> None:
        self._table = table
        self._branch = branch
        self._most = most
        self._head: int | None = None
        """What was known when this was the head."""
        self._known: list[RowChange] = []

    def look(self) -> Sequence[RowChange]:
        """Those that there are now, oldest first."""
        self._table.refresh()
        snapshot = self._table.head(self._branch)
        head = None if snapshot is None else int(snapshot.snapshotId())
        found: list[RowChange] = []  # newest first
        for _ in range(_LONGEST):
            if snapshot is None or len(found) == self._most:
                break
            number = int(snapshot.snapshotId())
            if number == self._head:
                found += reversed(self._known)
                break
            if str(snapshot.operation()) in _OPERATIONS and (snapshot.summary() or {}).get(COMMIT_ID) is None:
                found.append(RowChange(number, datetime.fromtimestamp(snapshot.timestampMillis() / 1000, UTC)))
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.table.snapshot(parent)
        self._head, self._known = head, found[: self._most][::-1]
        return self._known
