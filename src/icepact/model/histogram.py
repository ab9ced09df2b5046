"""Data files by size, in classes that double."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


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
    def sum(parts: "Iterable[Histogram]") -> "Histogram":
        """Of the files of all of them."""
        return _combined((1, part) for part in parts)

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
        return _combined(((1, self), (-1, gone), (1, new)))

    def to_list(self) -> list[dict[str, int]]:
        """The histogram as it is printed with `--json`."""
        return [c.to_dict() for c in self.classes]


def _combined(parts: Iterable[tuple[int, Histogram]]) -> Histogram:
    """Histograms added up, each with its sign."""
    counts: dict[int, tuple[int, int]] = {}
    for sign, part in parts:
        for at_least, files, size in part.classes:
            before = counts.get(at_least, (0, 0))
            counts[at_least] = before[0] + sign * files, before[1] + sign * size
    return from_counts(counts)


def from_counts(counts: Mapping[int, tuple[int, int]]) -> Histogram:
    """The classes from the first to the last that has any files; `counts` are files and bytes by `at_least`."""
    some = sorted(at_least for at_least, (files, _) in counts.items() if files)
    if not some:
        return Histogram()
    powers = (2**n for n in range(some[0].bit_length() - 1, some[-1].bit_length()))
    return Histogram(classes=tuple(SizeClass(at_least, *counts.get(at_least, (0, 0))) for at_least in powers))
