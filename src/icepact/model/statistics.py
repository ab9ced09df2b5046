"""Statistics of a table: what it has of them, what would be computed, and what was."""

from dataclasses import dataclass
from typing import Literal

from pydantic import computed_field

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_seconds, format_size, plural
from icepact.model.housekeeping import Kept, kept_lines

StatisticsWork = Literal["compute", "carry over", "keep"]
"""`carry over`: the sketches there are become those of a newer snapshot, and no row is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsAge(Document):
    """The newest statistics in the history of a branch, and what has happened since."""

    snapshot_id: int
    """They are registered for it."""
    computed_from: int
    """The snapshot whose rows or manifests were read; an older one if they were carried over."""
    computed_at: Moment | None = None
    """When that snapshot was committed; `None` if it has expired."""
    snapshots: int
    """Snapshots of the branch after the one they are registered for."""
    rows_changed: int | None
    """Rows added, deleted and replaced since they were computed, at most; `None` if the history does not tell."""
    files_changed: int | None
    """The same, of data and delete files."""
    rows: int | None = None
    """What there was when they were computed; `None` if the history does not tell."""
    files: int | None = None
    """The same, of data and delete files."""
    same_rows: bool
    """True if not one row has changed since the snapshot that they are registered for."""

    @computed_field
    @property
    def rows_share(self) -> float | None:
        """Rows changed for each row that there was; `None` if the history does not tell."""
        return _share(self.rows_changed, self.rows)

    @computed_field
    @property
    def files_share(self) -> float | None:
        """Files changed for each file that there was; `None` if the history does not tell."""
        return _share(self.files_changed, self.files)

    def __str__(self) -> str:
        if self.rows_changed is None or self.files_changed is None:
            return f"of snapshot {self.computed_from}, and nobody can tell how much has changed since"
        since = f"{plural(self.rows_changed, 'row')} and {plural(self.files_changed, 'file')} changed since"
        return f"of snapshot {self.computed_from}, {since}"


def _share(changed: int | None, of: int | None) -> float | None:
    """An empty table that got its first row has changed as a whole."""
    if changed == 0:
        return 0.0
    return None if changed is None or of is None else changed / max(of, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsResult(Document):
    """What became of a step."""

    kind: Literal["compute-statistics"] = "compute-statistics"
    table: StatisticsWork = "keep"
    """What was done about sketches."""
    partitions: StatisticsWork = "keep"
    """What was done about partition statistics."""
    columns: int = 0
    """Columns whose sketches are registered now."""
    of_snapshot: int | None = None
    """The snapshot whose statistics they are; `None` if nothing was done."""
    snapshot_id: int | None = None
    """Always `None`: statistics make no snapshot."""
    files: tuple[str, ...] = ()
    """Statistics files that are registered now."""
    bytes_written: int = 0
    reason: str = ""
    """Why nothing or not all was done."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return self.of_snapshot is not None

    def lines(self) -> list[str]:
        """For people."""
        if self.of_snapshot is None:
            return [f"no statistics were computed: {self.reason}"]
        sketches = f"sketches of {plural(self.columns, 'column')}"
        done = {
            f"{sketches} computed": self.table == "compute",
            f"{sketches} carried over": self.table == "carry over",
            "partition statistics computed": self.partitions == "compute",
        }
        what = " and ".join(name for name, true in done.items() if true)
        lines = [f"statistics of snapshot {self.of_snapshot}: {what} in {format_seconds(self.seconds)}"]
        return [*lines, f"  {self.reason}"] if self.reason else lines


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeStatistics(Document):
    """A step: bring the statistics of one snapshot up to date."""

    kind: Literal["compute-statistics"] = "compute-statistics"
    branch: str
    snapshot_id: int
    """The head of the branch, for which they will be registered."""
    table: StatisticsWork
    """What is to be done about the sketches of distinct values by column."""
    partitions: StatisticsWork
    """What is to be done about the statistics by partition; they are never carried over."""
    columns: tuple[str, ...] = ()
    """Columns that will have sketches, by their names in the snapshot."""
    table_age: StatisticsAge | None = None
    """The sketches there are; `None` if there are none."""
    partition_age: StatisticsAge | None = None
    """The partition statistics there are; `None` if there are none."""
    bytes_to_read: int = 0
    """Of data and delete files for sketches, at most, and of manifests for partition statistics."""
    wanted_columns: tuple[str, ...] | None = None
    """Columns that were asked for; `None` for all that can have sketches."""
    wants_table: bool = True
    wants_partitions: bool = True
    stale_after: float
    """Statistics are computed anew once more than this share of the rows has changed."""
    planned_at: Moment
    reason: str
    kept: tuple[Kept, ...] = ()
    cost: Cost = NO_COST

    def explain(self, most: int | None) -> list[str]:
        """What would be done, and why, for people."""
        lines = [f"compute statistics of snapshot {self.snapshot_id}: {self.reason}"]
        if self.table == "compute":
            lines.append(f"  sketches of {plural(len(self.columns), 'column')}: {_some(self.columns, most)}")
        elif self.table == "carry over":
            lines.append("  sketches are registered for this snapshot as well: no row is read")
        if self.table_age is not None:
            lines.append(f"  sketches there are: {self.table_age}{self._time_since(self.table_age)}")
        if self.partitions == "compute":
            how = "from scratch" if self.partition_age is None else "from what has changed since"
            lines.append(f"  partition statistics: {how}")
        if self.partition_age is not None:
            lines.append(
                f"  partition statistics there are: {self.partition_age}{self._time_since(self.partition_age)}"
            )
        if self.bytes_to_read:
            lines.append(f"  reads {format_size(self.bytes_to_read)} at most")
        return [*lines, *kept_lines(self.kept, most)]

    def _time_since(self, age: StatisticsAge) -> str:
        if age.computed_at is None:
            return ""
        return f", {format_seconds(max(0.0, (self.planned_at - age.computed_at).total_seconds()))} ago"

    @property
    def planned(self) -> StatisticsResult:
        """What it would do."""
        return StatisticsResult(
            table=self.table,
            partitions=self.partitions,
            columns=len(self.columns),
            of_snapshot=self.snapshot_id,
            reason=self.reason,
        )


def _some(names: tuple[str, ...], most: int | None) -> str:
    shown = names if most is None else names[:most]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
