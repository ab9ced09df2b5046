"""Data TTL: the step that takes old data out of a table, and what became of it."""

from dataclasses import dataclass
from typing import Literal

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_duration, format_seconds, format_size, plural
from icepact.model.housekeeping import Kept, kept_lines

TtlLevel = Literal["partition", "file"]
"""Whole partitions by what their spec says, or single files by their bounds."""
MeasuredFrom = Literal["now", "last-commit"]
"""From when age is measured: from now, or from the last commit that was not maintenance."""
MOST_PARTITIONS = 1000
"""Names of partitions in a step at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpireDataResult(Document):
    """What became of old data."""

    kind: Literal["expire-data"] = "expire-data"
    column: str
    branch: str
    cutoff: Moment
    """Rows whose event time was over before that were too old."""
    files: int = 0
    """Data files that went."""
    rows: int = 0
    """Records in them, deleted ones included."""
    bytes: int = 0
    """Of these data files; freed once no snapshot refers to them."""
    oldest: str | None = None
    """Oldest value of what went."""
    newest: str | None = None
    """Newest value of what went, at the latest."""
    mixed_files: int = 0
    """Data files with younger rows, out of which old ones were deleted."""
    mixed_rows: int = 0
    """Rows that were deleted out of these."""
    snapshot_id: int | None = None
    """The commit that took whole files out; `None` if there was none."""
    rows_snapshot_id: int | None = None
    """The commit that deleted rows out of others; `None` if there was none."""
    reason: str = ""
    """Why nothing was done; empty if it was."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return self.snapshot_id is not None or self.rows_snapshot_id is not None

    def lines(self) -> list[str]:
        """What was done, for people."""
        if not self.done:
            return [f"no data expired: {self.reason}"]
        lines = []
        if self.snapshot_id is not None:
            lines.append(
                f"expired {plural(self.files, 'file')} with {plural(self.rows, 'row')} ({format_size(self.bytes)})"
                f" of {self.column} from {self.oldest} to {self.newest}, in snapshot {self.snapshot_id} of branch"
                f" {self.branch}, in {format_seconds(self.seconds)}"
            )
        if self.rows_snapshot_id is not None:
            lines.append(
                f"deleted {plural(self.mixed_rows, 'row')} out of {plural(self.mixed_files, 'file')} with younger ones,"
                f" in snapshot {self.rows_snapshot_id} of branch {self.branch}"
            )
        lines += [self.reason] if self.reason else []
        return [*lines, "  their bytes are freed once no snapshot, branch or tag refers to them: expire snapshots"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpireData(Document):
    """Old data leaves a branch: whole files, by one commit of metadata; and if asked for, rows out of other files."""

    kind: Literal["expire-data"] = "expire-data"
    column: str
    """Whose values tell the event time of rows."""
    level: TtlLevel
    keep_seconds: float
    """How old rows become."""
    since: MeasuredFrom
    cutoff: Moment
    """Rows whose event time is over before that are too old."""
    pattern: str | None
    """Of strings or numbers; `None` for dates and timestamps."""
    zone: str
    """Of values that have none of their own."""
    branch: str
    snapshot_id: int
    """The head at which it was judged."""
    files: int
    """Data files that go."""
    rows: int
    """Records in them, deleted ones included."""
    bytes: int
    """Of these data files; freed once no snapshot refers to them."""
    delete_files: int
    """Deletion vectors that go with them."""
    dangling_deletes: int
    """Other delete files that apply to nothing any more afterwards; they stay."""
    oldest: str | None
    """Oldest value of what goes."""
    newest: str | None
    """Newest value of what goes, at the latest."""
    partitions: tuple[str, ...]
    """Names of the partitions that lose files, the oldest 1,000."""
    partition_count: int
    """All of them."""
    reason: str
    row_level: bool = False
    """Whether old rows are deleted out of files that stay."""
    mixed_files: int = 0
    """Files that stay and hold old rows."""
    mixed_rows: int = 0
    """Old rows in them, as readers see them."""
    kept: tuple[Kept, ...] = ()
    """Files that hold old rows, or may, and stay."""
    cost: Cost = NO_COST

    def explain(self, most: int | None) -> list[str]:
        """What a plan shows of it."""
        before = f"expire data of {self.column} before {self.cutoff.isoformat(timespec='seconds')}: "
        measured = f"measured from {'now' if self.since == 'now' else 'the last commit'}, by {self.level}"
        lines = [
            f"{before}{plural(self.files, 'file')} with {plural(self.rows, 'row')} ({format_size(self.bytes)})"
            f" in {plural(self.partition_count, 'partition')} of branch {self.branch}",
            f"  why: {self.reason}",
            f"  oldest value {self.oldest}, newest {self.newest}; kept for {format_duration(self.keep_seconds)},"
            f" {measured}",
        ]
        if not self.files:
            lines = [f"{before}no whole file of branch {self.branch}; {measured}"]
        if self.row_level:
            lines.append(
                f"  then {plural(self.mixed_rows, 'row')} out of {plural(self.mixed_files, 'file')} with younger"
                " ones: Spark deletes them as the table's write.delete.mode says"
            )
        if self.delete_files:
            lines.append(f"  with them go: {plural(self.delete_files, 'deletion vector')}")
        if self.dangling_deletes:
            lines.append(f"  {plural(self.dangling_deletes, 'delete file')} will apply to nothing any more, and stay")
        shown = self.partitions if most is None else self.partitions[:most]
        lines += [f"  partition {name}" for name in shown]
        if self.partition_count > len(shown):
            lines.append(f"  and {plural(self.partition_count - len(shown), 'more partition')}")
        return [*lines, *kept_lines(self.kept, most)]

    @property
    def planned(self) -> ExpireDataResult:
        """What it would do."""
        return ExpireDataResult(
            column=self.column,
            branch=self.branch,
            cutoff=self.cutoff,
            files=self.files,
            rows=self.rows,
            bytes=self.bytes,
            oldest=self.oldest,
            newest=self.newest,
            mixed_files=self.mixed_files,
            mixed_rows=self.mixed_rows,
        )
