"""Histograms from columns of sizes."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from icepact.model.histogram import Histogram, from_counts

_LARGEST = 62
"""Exponent of the last class: sizes are 64-bit numbers."""


def histogram_of(sizes: Iterable[int] | npt.NDArray[np.int64]) -> Histogram:
    """Histogram of these sizes in bytes."""
    column = sizes if isinstance(sizes, np.ndarray) else np.fromiter(sizes, np.int64)
    # the exponent of a floating-point number, read off its bits: much faster than frexp
    exponents = np.maximum((column.astype(np.float64).view(np.int64) >> 52) - 1023, 0)
    files = np.bincount(exponents, minlength=_LARGEST + 1)
    total = np.zeros(len(files), np.int64)
    np.add.at(total, exponents, column)  # exact, as floating-point weights are not
    return from_counts({2**at: pair for at, pair in enumerate(zip(files.tolist(), total.tolist(), strict=True))})
