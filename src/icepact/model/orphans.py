"""Removal of orphans: the step of a plan, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_seconds, plural
from icepact.model.housekeeping import NO_FILES, FileTotals, Kept, kept_lines

OTHER_TABLES = "other tables are in the way: "
"""How a message begins that names other tables, and where they are."""


class OrphanFile(NamedTuple):
    """A file on storage that nothing refers to."""

    path: str
    """As the store spells it."""
    size: int
    written: int
    """Milliseconds since 1970, by the clock of the store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrphansResult(Document):
    """What a removal of orphans did."""

    kind: Literal["remove-orphans"] = "remove-orphans"
    files: FileTotals = NO_FILES
    """That were deleted, or are to be by a dry run."""
    bytes_freed: int = 0
    uploads_aborted: int = 0
    """Multipart uploads that nobody had finished."""
    needed_again: int = 0
    """Files that were orphans when they were listed, and are not any more: they stay."""
    listed: int = 0
    """Files that storage has below the table's locations."""
    kept: Sequence[Kept] = ()
    reason: str = ""
    """Why nothing was done, or not all; empty otherwise."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return bool(self.files.files or self.uploads_aborted)

    def lines(self) -> list[str]:
        """The result in words."""
        if not self.done:
            return [f"no orphans deleted{f': {self.reason}' if self.reason else ''}"]
        uploads = f", {plural(self.uploads_aborted, 'upload')} aborted" if self.uploads_aborted else ""
        again = f"; {plural(self.needed_again, 'file')} stayed, somebody needs them by now" if self.needed_again else ""
        left = f"; {self.reason}" if self.reason else ""
        return [f"orphans deleted: {self.files}{uploads} in {format_seconds(self.seconds)}{again}{left}"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoveOrphans(Document):
    """Delete files on storage that nothing refers to."""

    kind: Literal["remove-orphans"] = "remove-orphans"
    older_than: Moment
    """Files written since stay."""
    locations: tuple[str, ...]
    """Folders that were listed, whole."""
    excluded: tuple[str, ...] = ()
    """Folders that are left alone, and whose other tables do not matter."""
    paths: tuple[OrphanFile, ...]
    """The orphans."""
    files: FileTotals
    uploads: int = 0
    """Multipart uploads that were begun before, and not finished."""
    listed: int = 0
    """Files that storage has there."""
    reason: str
    kept: tuple[Kept, ...] = ()
    cost: Cost = NO_COST

    def explain(self, most: int | None) -> list[str]:
        """What goes, and what stays and why."""
        uploads = f" and {plural(self.uploads, 'unfinished upload')}" if self.uploads else ""
        shown = self.paths if most is None else self.paths[:most]
        more = len(self.paths) - len(shown)
        return [
            f"delete {plural(len(self.paths), 'orphan')}{uploads} of {plural(self.listed, 'file')}; {self.reason}",
            f"       {self.files}",
            *(f"       {file.path}" for file in shown),
            *([f"       and {more:,} more; --all lists them"] if more else []),
            *kept_lines(self.kept, most),
        ]

    @property
    def planned(self) -> OrphansResult:
        """What it would do."""
        return OrphansResult(
            files=self.files,
            bytes_freed=self.files.bytes,
            uploads_aborted=self.uploads,
            listed=self.listed,
            kept=self.kept,
        )
