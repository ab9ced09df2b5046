"""How deep files lie over each other: what a reader that looks for one key has to open."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Overlap(NamedTuple):
    """How many files hold the same keys; 1 where no key lies between the bounds of two files."""

    average: float
    """Over the files: how many lie over each other at its two ends, itself included; 0 without files."""
    maximum: int
    """How many lie over each other where it is deepest; 0 without files."""


def overlap(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> Overlap:
    """From the lowest and the highest key of each file, of any type that has an order; n log n.

    Files that only touch do not overlap: sorting puts equal keys at the end of one file and at the beginning of the
    next, and a key that fills many files alone cannot be sorted any better. A file with a single key overlaps those
    that have keys on both sides of it.
    """
    if len(lower) != len(upper):
        raise ValueError(f"{len(lower)} lower and {len(upper)} upper bounds")
    if not len(lower):
        return Overlap(average=0.0, maximum=0)
    wide = np.asarray(lower < upper, np.bool_)
    if not np.all(wide | np.asarray(lower == upper, np.bool_)):
        raise ValueError("a lower bound is above its upper bound")
    begins, ends, single = np.sort(lower[wide]), np.sort(upper[wide]), np.sort(lower[~wide])
    # a range counts strictly inside its bounds: just after its lower one, just before its upper one
    first = np.searchsorted(begins, begins, "right") - np.searchsorted(ends, begins, "right")
    last = np.searchsorted(begins, ends, "left") - np.searchsorted(ends, ends, "left")
    alone = 1 + np.searchsorted(begins, single, "left") - np.searchsorted(ends, single, "right")
    total = (int(first.sum()) + int(last.sum())) / 2 + int(alone.sum())
    return Overlap(average=total / len(lower), maximum=int(np.concatenate([first, alone]).max()))
