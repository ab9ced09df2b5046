"""Data files by size, in classes that double."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_LARGEST = 62
"""Exponent of the last class: sizes are 64-bit numbers."""


class SizeClass(NamedTuple):
    """Files of similar size."""

    at_least: int
    """Bytes, a power of two; the class of 1 has empty files too."""
    files: int
    bytes: int
    """Of all of them."""

    @property
    def below(self) -> int:
        """Bytes that all of them are below."""
        return 2 * self.at_least

    def to_dict(self) -> dict[str, int]:
        """The class as it is printed with `--json`."""
        return {"at_least": self.at_least, "below": self.below, "files": self.files, "bytes": self.bytes}


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How many files there are of each size."""

    classes: tuple[SizeClass, ...] = ()
    """From the smallest file's to the largest file's, those in between that are empty included."""

    @staticmethod
    def of(sizes: Iterable[int] | npt.NDArray[np.int64]) -> "Histogram":
        """Of these sizes in bytes."""
        found = sizes if isinstance(sizes, np.ndarray) else np.fromiter(sizes, np.int64)
        # the exponent of a floating-point number, read off its bits: much faster than frexp
        exponents = np.maximum((found.astype(np.float64).view(np.int64) >> 52) - 1023, 0)
        files = np.bincount(exponents, minlength=_LARGEST + 1)
        total = np.zeros(len(files), np.int64)
        np.add.at(total, exponents, found)  # exact, as floating-point weights are not
        return _cut({2**at: pair for at, pair in enumerate(zip(files.tolist(), total.tolist(), strict=True))})

    @staticmethod
    def sum(parts: "Iterable[Histogram]") -> "Histogram":
        """Of the files of all of them."""
        counts: dict[int, tuple[int, int]] = {}
        for part in parts:
            for at_least, files, size in part.classes:
                before = counts.get(at_least, (0, 0))
                counts[at_least] = before[0] + files, before[1] + size
        return _cut(counts)

    @property
    def files(self) -> int:
        """All of them."""
        return sum(c.files for c in self.classes)

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(c.bytes for c in self.classes)

    def changed(self, *, gone: "Histogram", new: "Histogram") -> "Histogram":
        """Without some of the files, and with others instead."""
        counts: dict[int, tuple[int, int]] = {}
        for sign, histogram in ((1, self), (-1, gone), (1, new)):
            for at_least, files, size in histogram.classes:
                before = counts.get(at_least, (0, 0))
                counts[at_least] = before[0] + sign * files, before[1] + sign * size
        return _cut(counts)

    def to_list(self) -> list[dict[str, Any]]:
        """The histogram as it is printed with `--json`."""
        return [c.to_dict() for c in self.classes]


def _cut(counts: dict[int, tuple[int, int]]) -> Histogram:
    """The classes from the first to the last that has any files."""
    some = sorted(at_least for at_least, (files, _) in counts.items() if files)
    if not some:
        return Histogram()
    classes = []
    at_least = some[0]
    while at_least <= some[-1]:
        files, size = counts.get(at_least, (0, 0))
        classes.append(SizeClass(at_least=at_least, files=files, bytes=size))
        at_least *= 2
    return Histogram(classes=tuple(classes))
