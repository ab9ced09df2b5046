"""Pinned snapshots: what every later stage works on, and nothing newer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from icepact.model.documents import Document, Moment
from icepact.model.files import DataFile, DeleteFile, Partition, PartitionSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class LastRun:
    """A run of icepact on this branch that left nothing over, read from its snapshot's summary."""

    layout: str
    """Fingerprint of the policy it worked by; see `Policy.fingerprint`."""
    snapshot_id: int
    own_sequence_numbers: frozenset[int]
    """Of its commits."""
    pinned_sequence_number: int
    """What it had seen when it planned: files up to here were judged by it."""
    planned_at: datetime | None = None
    """When it judged what is due; `None` if its snapshot does not tell."""
    tier: str | None = None
    """The lightest of what it did; `None` if its snapshot does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotInfo(Document):
    """One snapshot in the life of a branch, as its summary tells it."""

    snapshot_id: int
    at: Moment
    operation: str
    """append, overwrite, replace or delete; empty if the summary does not say."""
    data_files: int | None
    """Live after it; `None` if the summary does not say, as in the following."""
    delete_files: int | None
    """Live after it, deletion vectors included."""
    bytes: int | None
    """Of all live files after it, delete files included."""


@dataclass(frozen=True, kw_only=True)
class PinnedSnapshot:
    """One snapshot of one table, pinned: all that is known without looking at its files."""

    table: str
    """Name without the catalog, quoted where Spark needs it."""
    uuid: str
    format_version: int
    branch: str
    snapshot_id: int | None
    """`None` for a table that has no snapshot yet."""
    sequence_number: int
    schema: str
    """Iceberg's JSON of the current schema."""
    specs: Mapping[int, PartitionSpec]
    spec_id: int
    """The current spec: outputs follow it."""
    sort_order: str
    """The table's sort order in words; `unsorted` if it has none."""
    sort_key: int = field(default=0, kw_only=True)
    """Field id of the first sort column, if files can be told apart by it; else 0."""
    moments: Sequence[tuple[int, int]] = field(default=(), kw_only=True)
    """Sequence numbers of the snapshots that are known, with their milliseconds since 1970; ascending."""
    properties: Mapping[str, str]
    manifests: int
    snapshots: int
    last_runs: Sequence[LastRun] = ()
    """Complete runs among the ancestors of the snapshot, newest first."""

    @property
    def own_sequence_numbers(self) -> frozenset[int]:
        """Of all that these runs wrote; none where the format has no sequence numbers."""
        return frozenset(number for run in self.last_runs for number in run.own_sequence_numbers if number)

    def show_partition(self, spec_id: int, partition: Partition) -> str:
        """A partition as people name it, with its spec if that is not the current one."""
        shown = self.specs[spec_id].show(partition)
        return shown if spec_id == self.spec_id else f"{shown} (old spec {spec_id})"


@dataclass(frozen=True, kw_only=True)
class PinnedFiles(PinnedSnapshot):
    """A pinned snapshot with its files."""

    files: Sequence[DataFile]
    """Live data files that the row filter selects; all of them without one."""
    deletes: Sequence[DeleteFile]
    """All live deletes of the snapshot, those that apply to nothing included."""
    where: str | None = None
    """The row filter by which `files` were selected."""
    live_twice: frozenset[str] = field(default=frozenset())
    """Paths that the snapshot lists more than once: a broken table, never rewritten."""

    @cached_property
    def by_partition(self) -> Mapping[tuple[int, Partition], Sequence[DataFile]]:
        """Live files by spec and partition, in a fixed order."""
        groups: dict[tuple[int, Partition], list[DataFile]] = {}
        for file in self.files:
            groups.setdefault((file.spec_id, file.partition), []).append(file)
        order = sorted(groups, key=lambda key: (key[0], [(v is not None, str(v)) for v in key[1]]))
        return {key: groups[key] for key in order}
