"""What a strategy says of a place."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from icepact.model.census import Flags
from icepact.model.tier import Tier


class Which(StrEnum):
    """Which files of a place are meant."""

    NONE = "none"
    SMALL = "small"
    """Those below the small-file threshold."""
    TOUCHED = "touched"
    """Those that deletes apply to."""
    SMALL_OR_TOUCHED = "small or touched"
    ALL = "all"

    def takes(self, *, small: bool, touched: bool) -> bool:
        """Whether a file is meant."""
        match self:
            case Which.NONE:
                return False
            case Which.SMALL:
                return small
            case Which.TOUCHED:
                return touched
            case Which.SMALL_OR_TOUCHED:
                return small or touched
            case Which.ALL:
                return True

    def mask(self, *, small: Flags, touched: Flags) -> Flags:
        """The same for columns of files."""
        match self:
            case Which.NONE:
                return np.zeros_like(small)
            case Which.SMALL:
                return small
            case Which.TOUCHED:
                return touched
            case Which.SMALL_OR_TOUCHED:
                return small | touched
            case Which.ALL:
                return np.ones_like(small)

    @property
    def tier(self) -> Tier:
        """How deep it goes to rewrite these."""
        match self:
            case Which.NONE | Which.SMALL:
                return Tier.MINOR
            case Which.TOUCHED | Which.SMALL_OR_TOUCHED:
                return Tier.MAJOR
            case Which.ALL:
                return Tier.FULL


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What is to be done with a place."""

    which: Which
    reason: str
    """Why these files, or why none."""
