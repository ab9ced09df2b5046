"""Deletes that reached inputs after they were read."""

from collections.abc import Sequence
from typing import NamedTuple

from icepact.model.files import DeleteFile


class HeadDeletes(NamedTuple):
    """The deletes that apply to an input at the head."""

    deletes: Sequence[DeleteFile]
    replaced: bool
    """True if some that applied when it was read do not any more: those that do must delete all the same rows."""
    by_key: Sequence[DeleteFile] = ()
    """Equality deletes among them whose rows are to be found: the outputs are out of their reach."""


class NotCarried(NamedTuple):
    """Why deletes cannot be taken along."""

    reason: str
    useless: frozenset[str] = frozenset()
    """Outputs that the reason is about; empty if it is about the group."""
