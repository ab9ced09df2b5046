"""Numbers that ascend from row to row, as keys do in the order in which they were given out."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_FIRST_LOOK = 8192
"""Rows that are looked at before all others."""
_LONG = 8
"""Rows with the same number, on average, from which on runs in a dictionary are the shorter way to write them."""
_STRETCH = 8192
"""Rows that ascend until it begins anew, on average and at least: files need not follow each other as their keys do."""


def ascends(column: pa.ChunkedArray) -> bool:
    """True if a column is better off without a dictionary: its numbers ascend over long stretches, in short runs.

    Nearly every page would have numbers of its own in the dictionary. Written plainly, neighbours look alike, and
    are compressed to a fraction of that.
    """
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return False
    stored = {32: pa.int32(), 64: pa.int64()}.get(kind.bit_width)
    parts = [part.view(stored).to_numpy() for part in column.chunks if len(part)] if stored else []
    if not parts or not _not_descending(parts[0][:_FIRST_LOOK]):
        return False
    if _STRETCH * sum(before[-1] > after[0] for before, after in pairwise(parts)) > len(column):
        return False
    steps = sum(int(np.count_nonzero(part[1:] != part[:-1])) for part in parts)
    return steps * _LONG > len(column) and all(map(_not_descending, parts))


def _not_descending(numbers: NDArray[np.int32] | NDArray[np.int64]) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())
