"""The history of a table: its snapshots, what names them, and the files that its metadata itself refers to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

COMMIT_ID = "icepact.commit-id"
"""By this, in the summary of a snapshot, icepact knows its own."""
_FOR_EVER = 10**13
"""Milliseconds that are older than any table; dates that are so long ago still have a year."""


def age_of(milliseconds: int) -> timedelta:
    """An age as tables have it: the largest number is usual for ages that nothing comes to."""
    return timedelta(milliseconds=min(milliseconds, _FOR_EVER))


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotNode:
    """One snapshot among the others."""

    snapshot_id: int
    parent_id: int | None
    """`None` for a first one. It may have expired."""
    sequence_number: int
    at: datetime
    manifest_list: str | None
    """`None` in very old tables, whose metadata lists manifests itself."""
    removed_bytes: int = 0
    """Of files that it removed, as far as it tells."""
    staged: str | None = None
    """The id under which a writer staged it for somebody to publish (write, audit, publish); `None` if nobody did, or
    somebody has published it."""
    summary: Mapping[str, str] = field(default_factory=dict)
    """What it says of itself, if icepact made it; else empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotRef:
    """A branch or a tag."""

    name: str
    snapshot_id: int
    tag: bool
    min_snapshots: int | None = None
    """A branch keeps so many; `None` for what the table says."""
    max_snapshot_age: timedelta | None = None
    """A branch keeps younger ones; `None` for what the table says."""
    max_age: timedelta | None = None
    """After this age of its snapshot it goes itself; `None` for what the table says."""

    def __str__(self) -> str:
        return f"{'tag' if self.tag else 'branch'} {self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsFile:
    """A file of table statistics, or of partition statistics."""

    snapshot_id: int
    path: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHistory:
    """All that the metadata of a table says of the past."""

    snapshots: Sequence[SnapshotNode]
    refs: Sequence[SnapshotRef]
    statistics: Sequence[StatisticsFile] = ()
    """Of both kinds."""
    metadata_files: Sequence[str] = ()
    """The current one, and those in its log."""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_id(self) -> Mapping[int, SnapshotNode]:
        """Snapshots by id."""
        return {node.snapshot_id: node for node in self.snapshots}
