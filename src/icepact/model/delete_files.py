"""Deletes that are converted while data stays: the step of a plan, and what it did."""

from dataclasses import dataclass
from typing import Literal

from pydantic import computed_field

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document
from icepact.model.formatting import format_seconds, format_size, plural
from icepact.model.housekeeping import Kept, kept_lines
from icepact.model.key_join import KeyJoin

NewDeletes = Literal["vectors", "positions"]
"""How rows are deleted afterwards: by deletion vectors, or by files of positions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteTotals(Document):
    """Deletes by what they are."""

    equality: int = 0
    """Files of equality deletes."""
    positions: int = 0
    """Files of position deletes."""
    vectors: int = 0
    """Deletion vectors."""
    records: int = 0
    """Of all of them."""

    @computed_field
    @property
    def files(self) -> int:
        """All of them; each vector counts."""
        return self.equality + self.positions + self.vectors

    def __str__(self) -> str:
        kinds = (
            (self.equality, "equality delete file"),
            (self.positions, "position delete file"),
            (self.vectors, "deletion vector"),
        )
        return ", ".join(plural(count, kind) for count, kind in kinds if count) or "no deletes"


NO_DELETES = DeleteTotals()


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertDeletesResult(Document):
    """What became of the step."""

    kind: Literal["convert-deletes"] = "convert-deletes"
    removed: DeleteTotals = NO_DELETES
    """Deletes that went: rewritten, or because they applied to nothing."""
    idle: int = 0
    """Those of them that applied to nothing."""
    added: int = 0
    """New deletes: one for each data file that has deleted rows."""
    bytes_written: int = 0
    """Of new delete files."""
    rows: int = 0
    """Rows that equality deletes delete, and that are named by their positions now."""
    data_files: int = 0
    """Data files whose deletes were looked at."""
    snapshot_id: int | None = None
    """The snapshot that has the new deletes; `None` if nothing was committed."""
    kept: tuple[Kept, ...] = ()
    attempts: int = 0
    """How often the head was judged: more than once if others committed meanwhile."""
    reason: str = ""
    """Why nothing was done, or not all; empty otherwise."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return self.snapshot_id is not None

    def lines(self) -> list[str]:
        """The result in words."""
        if self.snapshot_id is None:
            return [f"deletes: nothing was converted: {self.reason}"]
        new = f"{self.added:,} new ({format_size(self.bytes_written)})" if self.added else "no new one"
        went = f"deletes: {self.removed} went, {new}, in {format_seconds(self.seconds)} (snapshot {self.snapshot_id})"
        return [went, *([f"  {self.reason}"] if self.reason else []), *kept_lines(self.kept, _SHOWN)]


_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertDeletes(Document):
    """Step: equality deletes become positions, and all deletes of a data file become one; no data is written."""

    kind: Literal["convert-deletes"] = "convert-deletes"
    branch: str
    snapshot_id: int
    """Head of the branch that it was judged at."""
    into: NewDeletes
    converted: DeleteTotals
    """Deletes that go into new ones."""
    idle: DeleteTotals
    """Deletes that apply to nothing, and only go."""
    data_files: int
    """Data files that get new deletes, at most."""
    data_bytes: int
    """Of these files, of which only key columns are read, if anything."""
    rows: int
    """In these files, deleted ones included."""
    reason: str
    kept: tuple[Kept, ...] = ()
    joined: KeyJoin | None = None
    """The equality deletes that no task can look up; `None` if each can."""
    scan_seconds: float = 0.0
    """What a scan of these files takes less afterwards, on one core."""
    cost: Cost = NO_COST

    def explain(self, most: int | None) -> list[str]:
        """The lines of a plan on this step."""
        lines = []
        if self.converted.files:
            of = f"{plural(self.data_files, 'data file')} ({format_size(self.data_bytes)})"
            lines.append(f"convert {self.converted} of {of} into {self.into}: {self.reason}")
        if self.joined is not None:
            lines.append(f"       {self.joined}")
        if self.idle.files:
            lines.append(f"remove {self.idle} that apply to nothing")
        seconds = format_seconds(self.cost.seconds.likely)
        less = f"; each scan takes about {format_seconds(self.scan_seconds)} less" if self.scan_seconds else ""
        lines.append(f"       no data is written, {self._read()}: about {seconds} of work{less}")
        return [*lines, *kept_lines(self.kept, most)]

    def _read(self) -> str:
        return "only key columns are read" if self.converted.equality else "none is read"

    @property
    def planned(self) -> ConvertDeletesResult:
        """What it would do."""
        both = (self.converted, self.idle)
        return ConvertDeletesResult(
            removed=DeleteTotals(
                equality=sum(one.equality for one in both),
                positions=sum(one.positions for one in both),
                vectors=sum(one.vectors for one in both),
                records=sum(one.records for one in both),
            ),
            idle=self.idle.files,
            added=self.data_files,
            data_files=self.data_files,
            kept=self.kept,
        )
