"""How a table is doing: measured facts, and the score made of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from icepact.model.histogram import Histogram
from icepact.model.table import Key, Moment, Partition


class Overlap(NamedTuple):
    """How many files hold the same keys; 1 where no key lies between the bounds of two files."""

    average: float
    """Over the files: how many lie over each other at its two ends, itself included; 0 without files."""
    maximum: int
    """How many lie over each other where it is deepest; 0 without files."""
    files: int
    """Whose bounds are known."""

    @staticmethod
    def sum(parts: "Iterable[Overlap]") -> "Overlap":
        """Of partitions that do not overlap each other."""
        some = list(parts)
        files = sum(part.files for part in some)
        average = sum(part.average * part.files for part in some) / files if files else 0.0
        return Overlap(average=average, maximum=max((part.maximum for part in some), default=0), files=files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What is counted, for one partition or for the whole table."""

    data_files: int
    small_files: int
    """Data files below the small-file threshold."""
    mergeable_files: int
    """Small files that have another small file in their partition to be merged with."""
    bytes: int
    rows: int
    """Records in data files, deleted ones included."""
    row_groups: int
    """Row groups as far as the manifests tell, which is where readers may begin; a file that tells none counts as
    one."""
    delete_files: Mapping[str, int]
    """Delete files by kind: position, dv, equality."""
    delete_records: Mapping[str, int]
    """Deleted positions and equality keys by kind."""
    overlap: Overlap | None = None
    """By the first column of the table's sort order; null if it has none whose bounds tell."""

    @property
    def average_size(self) -> float:
        """Bytes per data file."""
        return self.bytes / self.data_files if self.data_files else 0.0

    @property
    def all_delete_files(self) -> int:
        """Delete files of every kind."""
        return sum(self.delete_files.values())

    @property
    def all_delete_records(self) -> int:
        """Delete records of every kind."""
        return sum(self.delete_records.values())

    @property
    def delete_ratio(self) -> float:
        """Delete records over rows."""
        return self.all_delete_records / self.rows if self.rows else 0.0

    @property
    def fragment_ratio(self) -> float:
        """Delete files over data files."""
        return self.all_delete_files / self.data_files if self.data_files else 0.0

    @property
    def row_groups_per_file(self) -> float:
        """Row groups over data files."""
        return self.row_groups / self.data_files if self.data_files else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The facts as they are printed with `--json`."""
        return {
            "data_files": self.data_files,
            "small_files": self.small_files,
            "mergeable_files": self.mergeable_files,
            "rows": self.rows,
            "bytes": self.bytes,
            "average_file_size": round(self.average_size),
            "row_groups": self.row_groups,
            "row_groups_per_file": round(self.row_groups_per_file, 2),
            "delete_files": self.all_delete_files,
            "delete_files_by_kind": dict(self.delete_files),
            "delete_records": self.all_delete_records,
            "delete_records_by_kind": dict(self.delete_records),
            "delete_ratio": round(self.delete_ratio, 4),
            "fragment_ratio": round(self.fragment_ratio, 4),
            "overlap_depth": None if self.overlap is None else round(self.overlap.average, 2),
            "max_overlap_depth": None if self.overlap is None else self.overlap.maximum,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """0 (needs work everywhere) to 100 (nothing to gain), and what it is made of."""

    value: float
    parts: Mapping[str, float]
    """Points lost to each signal; they and the value add up to 100."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Priority:
    """Which partitions come first; not to be confused with the score, which says how they are."""

    value: float = 0.0
    """0 (nothing is pressing) to the sum of the weights, which is 1 unless others are given."""
    rank: int = 0
    """1 for the partition that comes first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionHealth:
    """One partition of one spec."""

    spec_id: int
    partition: Partition
    name: str
    """As people name it: `day=2026-01-01`."""
    facts: Facts
    score: Score
    priority: Priority = Priority()

    def to_dict(self) -> dict[str, Any]:
        """The partition as it is printed with `--json`."""
        return {
            "partition": self.name,
            "spec_id": self.spec_id,
            "score": self.score.value,
            "score_parts": dict(self.score.parts),
            "priority": self.priority.value,
            "priority_rank": self.priority.rank,
            **self.facts.to_dict(),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Files that are judged together: one partition of the current spec, or everything of old specs."""

    name: str
    """As people name it."""
    keys: Sequence[Key]
    """Its partitions by spec."""
    facts: Facts
    spread: int = 0
    """For files of old specs: over how many current partitions their rows will go (a guess); else 0."""
    settled_by: int | None = None
    """The snapshot of the complete run by this same policy that has judged all there is; null if there are news."""
    settled_at: datetime | None = None
    """When that run was planned, if it left the place as it was; null if it rewrote it, or that is not known."""
    broken: bool = False
    """True if a path is listed more than once."""
    unasked: bool = False
    """True if the policy names other partitions."""
    written_at: datetime | None = None
    """When something was last committed to it that is still there; null if that is not known any more."""
    compacted_at: Mapping[str, datetime] = field(default_factory=dict)
    """When it was last compacted, by tier."""
    small_since: datetime | None = None
    """When the oldest of its small files was committed; null if there are none, or that is not known any more."""
    time: Any = None
    """The value of the partition field that is over a time; null if there is none, text if it is null there."""
    compacted_last: bool = False
    """True if nothing was committed to it since a complete run by this same policy rewrote it."""
    files_per_hour: float | None = None
    """How often data files were added to it lately; null if that is not known."""
    dangling: int = 0
    """Delete files that apply to nothing any more, and go with any commit on this place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The whole table."""

    table: str
    branch: str
    snapshot_id: int | None
    format_version: int
    threshold: int
    """Bytes below which a file is small."""
    target: int
    """Bytes a file should have."""
    facts: Facts
    score: Score
    dangling: Mapping[Key, int]
    """Delete files that apply to no live file any more, by their partition."""
    manifests: int
    snapshots: int
    partitions: Sequence[PartitionHealth]
    places: Sequence[Place]
    """The same files as they are judged."""
    histogram: Histogram = field(default_factory=Histogram)
    """Of the sizes of data files."""
    timeline: Sequence[Moment] = ()
    """The newest snapshots of the branch, oldest first."""

    @property
    def worst_first(self) -> list[PartitionHealth]:
        """Partitions by score; of those that have the same, the more pressing one first."""
        return sorted(self.partitions, key=lambda p: (p.score.value, p.priority.rank, p.name))

    @property
    def dangling_delete_files(self) -> int:
        """All delete files that apply to no live file any more."""
        return sum(self.dangling.values())

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact health --json` prints."""
        return {
            "table": self.table,
            "branch": self.branch,
            "snapshot_id": self.snapshot_id,
            "format_version": self.format_version,
            "score": self.score.value,
            "score_parts": dict(self.score.parts),
            "target_file_size": self.target,
            "small_file_threshold": self.threshold,
            **self.facts.to_dict(),
            "dangling_delete_files": self.dangling_delete_files,
            "manifests": self.manifests,
            "snapshots": self.snapshots,
            "histogram": self.histogram.to_list(),
            "timeline": [moment.to_dict() for moment in self.timeline],
            "partitions": [p.to_dict() for p in self.partitions],
        }
