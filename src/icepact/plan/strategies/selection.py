"""Selection: what a strategy says of a partition group."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from icepact.model.policy import Tier
from icepact.stats.manifest import Flags, Ints


class FileSelector(StrEnum):
    """Which files of a partition group are meant."""

    NONE = "none"
    SMALL = "small"
    """Those below the small-file threshold."""
    TOUCHED = "touched"
    """Those that deletes apply to."""
    SMALL_OR_TOUCHED = "small or touched"
    SMALLEST_ONE = "the lightest"
    """The smallest one of all: with its commit the deletes of its partition go that apply to nothing."""
    ALL = "all"

    def mask(self, sizes: Ints, *, threshold: int, touched: Flags) -> Flags:
        """Of each file, by its size and by whether deletes apply to it: whether it is meant."""
        small: Flags = sizes < threshold
        match self:
            case FileSelector.NONE:
                return np.zeros_like(small)
            case FileSelector.SMALLEST_ONE:
                smallest_one = np.zeros_like(small)
                smallest_one[sizes.argmin() if len(sizes) else slice(0)] = True
                return smallest_one
            case FileSelector.SMALL:
                return small
            case FileSelector.TOUCHED:
                return touched
            case FileSelector.SMALL_OR_TOUCHED:
                return small | touched
            case FileSelector.ALL:
                return np.ones_like(small)

    @property
    def tier(self) -> Tier:
        """How deep it goes to rewrite these."""
        match self:
            case FileSelector.NONE | FileSelector.SMALL | FileSelector.SMALLEST_ONE:
                return Tier.MINOR
            case FileSelector.TOUCHED | FileSelector.SMALL_OR_TOUCHED:
                return Tier.MAJOR
            case FileSelector.ALL:
                return Tier.FULL


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Files of a partition group that a strategy wants to rewrite, and why."""

    which: FileSelector
    reason: str
    """Why these files, or why none."""
    others: tuple["Selection", ...] = ()
    """Other depths: the one that leaves most of its saving is taken."""

    @property
    def depths(self) -> tuple["Selection", ...]:
        """All depths to choose from; none if no files are meant."""
        return () if self.which is FileSelector.NONE else (self, *self.others)


def nothing(reason: str) -> Selection:
    """The selection of no files, and why."""
    return Selection(which=FileSelector.NONE, reason=reason)
