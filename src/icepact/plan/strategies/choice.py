"""What a strategy says of a place."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from icepact.model.census import Flags, Ints
from icepact.model.tier import Tier


class Which(StrEnum):
    """Which files of a place are meant."""

    NONE = "none"
    SMALL = "small"
    """Those below the small-file threshold."""
    TOUCHED = "touched"
    """Those that deletes apply to."""
    SMALL_OR_TOUCHED = "small or touched"
    LIGHTEST = "the lightest"
    """The smallest one of all: with its commit the deletes of the place go that apply to nothing."""
    ALL = "all"

    def mask(self, sizes: Ints, *, threshold: int, touched: Flags) -> Flags:
        """Of each file, by its size and by whether deletes apply to it: whether it is meant."""
        small: Flags = sizes < threshold
        match self:
            case Which.NONE:
                return np.zeros_like(small)
            case Which.LIGHTEST:
                lightest = np.zeros_like(small)
                lightest[sizes.argmin() if len(sizes) else slice(0)] = True
                return lightest
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
            case Which.NONE | Which.SMALL | Which.LIGHTEST:
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
    others: tuple["Choice", ...] = ()
    """Other depths: the one that leaves most of its saving is taken."""
