"""How a table is doing: measured facts, and the score made of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import PlainSerializer, computed_field

from icepact.model.documents import HIDDEN, Document, Flat, digits, key
from icepact.model.files import Partition, PartitionKey
from icepact.model.histogram import Histogram
from icepact.model.housekeeping import NOTHING_WAITS, Waiting
from icepact.model.snapshot import SnapshotInfo


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
class Facts(Document):
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
    delete_files: Annotated[Mapping[str, int], key("delete_files_by_kind")]
    """Delete files by kind: position, dv, equality."""
    delete_records: Annotated[Mapping[str, int], key("delete_records_by_kind")]
    """Deleted positions and equality keys by kind."""
    single_deletes: Annotated[int, HIDDEN] = 0
    """Delete files and vectors that belong to one data file each, which is not small and has no other."""
    overlap: Annotated[Overlap | None, HIDDEN] = None
    """By the first column of the table's sort order; `None` if it has none whose bounds tell."""

    @computed_field(alias="average_file_size")
    @property
    def average_size(self) -> Annotated[float, PlainSerializer(round, return_type=int)]:
        """Bytes per data file."""
        return self.bytes / self.data_files if self.data_files else 0.0

    @computed_field(alias="delete_files")
    @property
    def all_delete_files(self) -> int:
        """Delete files of every kind."""
        return sum(self.delete_files.values())

    @computed_field(alias="delete_records")
    @property
    def all_delete_records(self) -> int:
        """Delete records of every kind."""
        return sum(self.delete_records.values())

    @computed_field
    @property
    def delete_ratio(self) -> Annotated[float, digits(4)]:
        """Delete records over rows."""
        return self.all_delete_records / self.rows if self.rows else 0.0

    @computed_field
    @property
    def fragment_ratio(self) -> Annotated[float, digits(4)]:
        """Delete files over data files."""
        return self.all_delete_files / self.data_files if self.data_files else 0.0

    @computed_field
    @property
    def row_groups_per_file(self) -> Annotated[float, digits(2)]:
        """Row groups over data files."""
        return self.row_groups / self.data_files if self.data_files else 0.0

    @computed_field
    @property
    def overlap_depth(self) -> Annotated[float, digits(2)] | None:
        """How many files lie over each other, on average; `None` if that is not known."""
        return None if self.overlap is None else self.overlap.average

    @computed_field
    @property
    def max_overlap_depth(self) -> int | None:
        """How many files lie over each other where it is deepest; `None` if that is not known."""
        return None if self.overlap is None else self.overlap.maximum


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """0 (needs work everywhere) to 100 (nothing to gain), and what it is made of."""

    value: float
    parts: Mapping[str, float]
    """Points lost to each signal; they and the value add up to 100."""


FlatScore = Annotated[Score, Flat(value="score", parts="score_parts")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Priority:
    """Which partitions come first; not to be confused with the score, which says how they are."""

    value: float = 0.0
    """0 (nothing is pressing) to the sum of the weights, which is 1 unless others are given."""
    rank: int = 0
    """1 for the partition that comes first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionHealth(Document):
    """Health of one partition of one spec."""

    spec_id: int
    partition: Annotated[Partition, HIDDEN]
    name: Annotated[str, key("partition")]
    """As people name it: `day=2026-01-01`."""
    facts: Annotated[Facts, Flat()]
    score: FlatScore
    priority: Annotated[Priority, Flat(value="priority", rank="priority_rank")] = Priority()


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionGroup:
    """Files that are judged together: one partition of the current spec, or everything of old specs."""

    name: str
    """As people name it."""
    keys: Sequence[PartitionKey]
    """Its partitions by spec."""
    facts: Facts
    target_partitions: int = 0
    """For files of old specs: over how many current partitions their rows will go (a guess); else 0."""
    unchanged_since: int | None = None
    """The snapshot of the complete run by this same policy that has judged all there is; `None` if there are news."""
    judged_at: datetime | None = None
    """When that run was planned, if it left them as they were; `None` if it rewrote them, or that is not known."""
    has_duplicate_paths: bool = False
    """True if a path is listed more than once."""
    filtered_out: bool = False
    """True if the policy names other partitions."""
    written_at: datetime | None = None
    """When something was last committed to it that is still there; `None` if that is not known any more."""
    compacted_at: Mapping[str, datetime] = field(default_factory=dict)
    """When it was last compacted, by tier."""
    small_since: datetime | None = None
    """When the oldest of its small files was committed; `None` if there are none, or that is not known any more."""
    time: Any = None
    """The value of the partition field that is over a time; `None` if there is none, text if it is null there."""
    compacted_last: bool = False
    """True if nothing was committed to it since a complete run by this same policy rewrote it."""
    files_per_hour: float | None = None
    """How often data files were added to it lately; `None` if that is not known."""
    dangling: int = 0
    """Delete files that apply to nothing any more, and go with any commit on this partition group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health(Document):
    """Health of a whole table."""

    table: str
    branch: str
    snapshot_id: int | None
    format_version: int
    threshold: Annotated[int, key("small_file_threshold")]
    """Bytes below which a file is small."""
    target: Annotated[int, key("target_file_size")]
    """Bytes a file should have."""
    facts: Annotated[Facts, Flat()]
    score: FlatScore
    dangling: Annotated[Mapping[PartitionKey, int], HIDDEN]
    """Delete files that apply to no live file any more, by their partition."""
    manifests: int
    snapshots: int
    partitions: Sequence[PartitionHealth]
    partition_groups: Annotated[Sequence[PartitionGroup], HIDDEN]
    """The same files as they are judged together."""
    histogram: Annotated[Histogram, PlainSerializer(Histogram.to_list)] = field(default_factory=Histogram)
    """Of the sizes of data files."""
    timeline: Sequence[SnapshotInfo] = ()
    """The newest snapshots of the branch, oldest first."""
    waiting: Waiting = NOTHING_WAITS
    """What housekeeping would find."""
    notes: Sequence[str] = ()
    """What is to be known besides, such as other services that look after the table."""

    @property
    def worst_first(self) -> list[PartitionHealth]:
        """Partitions by score; of those that have the same, the more pressing one first."""
        return sorted(self.partitions, key=lambda p: (p.score.value, p.priority.rank, p.name))

    @computed_field
    @property
    def dangling_delete_files(self) -> int:
        """All delete files that apply to no live file any more."""
        return sum(self.dangling.values())
