"""Expiry of snapshots: the step of a plan, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_seconds, plural
from icepact.model.housekeeping import NO_FILES, FileTotals, Kept, kept_lines

EXPIRE = "expire-snapshots"
"""The kind of step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpireResult(Document):
    """What an expiry did."""

    kind: Literal["expire-snapshots"] = "expire-snapshots"
    snapshots_expired: int = 0
    snapshot_ids: Sequence[int] = ()
    refs_removed: Sequence[str] = ()
    files: FileTotals = NO_FILES
    """That were deleted, or are to be by a dry run."""
    bytes_freed: int = 0
    kept: Sequence[Kept] = ()
    reason: str = ""
    """Why nothing was done, or not all; empty otherwise."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return bool(self.snapshots_expired or self.refs_removed or self.files.files)

    def lines(self) -> list[str]:
        """The result in words."""
        if not self.done:
            return [f"nothing expired: {self.reason}"]
        said = f"{plural(self.snapshots_expired, 'snapshot')} expired, {self.files} deleted"
        return [f"{said} in {format_seconds(self.seconds)}", *([self.reason] if self.reason else [])]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpireSnapshots(Document):
    """Expire snapshots, and delete the files that only they need."""

    kind: Literal["expire-snapshots"] = "expire-snapshots"
    snapshot_ids: tuple[int, ...]
    """Oldest first."""
    refs: tuple[str, ...] = ()
    """Branches and tags that have outlived their own age."""
    older_than: Moment
    """Snapshots before it go, where no branch or tag says otherwise."""
    retain_last: int
    """Every branch keeps so many."""
    as_of: Moment
    """When it was decided; the ages of branches and tags count from here."""
    oldest: Moment
    newest: Moment
    """Of what goes."""
    files: FileTotals
    """That only these snapshots need."""
    reason: str
    kept: tuple[Kept, ...] = ()
    cost: Cost = NO_COST

    def explain(self, most: int | None) -> list[str]:
        """What goes, what that frees, and what is old and stays."""
        refs = f" and {plural(len(self.refs), 'ref')} ({', '.join(self.refs)})" if self.refs else ""
        return [
            f"expire {plural(len(self.snapshot_ids), 'snapshot')}{refs}, of {self.oldest:%Y-%m-%d %H:%M} to "
            f"{self.newest:%Y-%m-%d %H:%M} UTC; {self.reason}",
            f"       deletes {self.files}",
            *kept_lines(self.kept, most),
        ]

    @property
    def planned(self) -> ExpireResult:
        """What it would do."""
        return ExpireResult(
            snapshots_expired=len(self.snapshot_ids),
            snapshot_ids=self.snapshot_ids,
            refs_removed=self.refs,
            files=self.files,
            bytes_freed=self.files.bytes,
            kept=self.kept,
        )
