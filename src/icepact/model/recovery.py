"""What was found and done after runs: cleaned up, checked again, taken back."""

from collections.abc import Sequence
from dataclasses import dataclass

from icepact.model.documents import Document


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanupResult(Document):
    """What the clean-up found of one run."""

    run_id: str
    table: str
    status: str
    """Of the run, after the clean-up."""
    files: Sequence[str]
    """Files that no snapshot refers to."""
    bytes: int
    uploads: int
    """Unfinished uploads."""
    reason: str
    """Why the run is cleaned up, or why it is left alone."""
    left_alone: bool = False
    failed: bool = False
    """True if it was left alone because something went wrong."""
    deleted: bool = False

    @property
    def in_vain(self) -> bool:
        """True if there was nothing to delete, and nothing stood against it."""
        return not (self.files or self.uploads or self.left_alone)


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyResult(Document):
    """One commit of a run, verified again."""

    snapshot_id: int
    rows: int | None
    """As readers see them in the new files; `None` if the snapshot has expired."""
    same: bool | None
    """Whether readers saw the same in the old ones; `None` if that cannot be said any more."""
    reason: str
