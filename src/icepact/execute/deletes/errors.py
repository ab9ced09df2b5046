"""Why a delete cannot be applied here.

PermanentError
├── BrokenDelete         the delete contradicts itself or its manifest: nobody should act on it
└── UnsupportedDelete    this kernel cannot read it for certain: another rewrite method may
"""

from icepact.model.errors import PermanentError


class BrokenDelete(PermanentError):
    """A delete file is damaged."""


class UnsupportedDelete(PermanentError):
    """The delete is of a kind that this rewrite method does not read; another method may."""
