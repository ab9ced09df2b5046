"""How deep files lie over each other: what a reader that looks for one key has to open."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from icepact.model.health import Overlap
from icepact.stats.manifest import Ints


def overlaps(group: Ints, lower: npt.NDArray[Any], upper: npt.NDArray[Any], *, groups: int) -> Sequence[Overlap]:
    """Of each group of files, from the lowest and the highest key of each file, of any type that has an order; n log n.
    `group` is that of each file.

    Files that only touch do not overlap: sorting puts equal keys at the end of one file and at the beginning of the
    next, and a key that fills many files alone cannot be sorted any better. A file with a single key overlaps those
    that have keys on both sides of it.
    """
    if len(lower) != len(upper):
        raise ValueError(f"{len(lower)} lower and {len(upper)} upper bounds")
    if not len(lower):
        return [Overlap(average=0.0, maximum=0, files=0)] * groups
    wide = np.asarray(lower < upper, np.bool_)
    if not np.all(wide | np.asarray(lower == upper, np.bool_)):
        raise ValueError("a lower bound is above its upper bound")
    low, high, room = _apart(group, lower, upper)
    begins, ends, single = np.sort(low[wide]), np.sort(high[wide]), np.sort(low[~wide])
    # a range counts strictly inside its bounds: just after its lower one, just before its upper one
    first = np.searchsorted(begins, begins, "right") - np.searchsorted(ends, begins, "right")
    last = np.searchsorted(begins, ends, "left") - np.searchsorted(ends, ends, "left")
    alone = 1 + np.searchsorted(begins, single, "left") - np.searchsorted(ends, single, "right")
    total, maximum = np.zeros(groups), np.zeros(groups, np.int64)
    for bounds, depths, weight in ((begins, first, 0.5), (ends, last, 0.5), (single, alone, 1.0)):
        total += np.bincount(bounds // room, depths, minlength=groups) * weight
        np.maximum.at(maximum, bounds // room, depths)
    files = np.bincount(group, minlength=groups)
    columns = zip((total / np.maximum(files, 1)).tolist(), maximum.tolist(), files.tolist(), strict=True)
    return [Overlap(average=average, maximum=most, files=count) for average, most, count in columns]


def _apart(group: Ints, lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> tuple[Ints, Ints, int]:
    """Bounds as numbers of the same order, with every group in a range of its own, and how long a range is."""
    _, rank = np.unique(np.concatenate([lower, upper]), return_inverse=True)
    room = len(rank)
    return group * room + rank[: len(lower)], group * room + rank[len(lower) :], room
