"""Packing files into units: every file once, no unit above the maximum, sizes alike.

First fit by falling size up to the target and a tenth, then the smallest units are joined while they
are too small and still fit. What this guarantees (all property-tested):

- every file is in exactly one unit, and the result depends on nothing but the files and sizes;
- no unit is above the maximum, except a lone file that is above it by itself;
- units are within half and twice their average, except lone files and the last unit;
- packing the units' outputs again joins nothing: the fixed point.
"""

import math
from bisect import insort
from collections.abc import Sequence

from icepact.model.plan import Unit
from icepact.model.policy import Policy
from icepact.model.table import DataFile

OVERFILL = 1.1
"""How far above the target a unit may be filled, to spare a tiny remainder."""


def pack(files: Sequence[DataFile], policy: Policy) -> tuple[Unit, ...]:
    """Units, largest first; the last one is what remained."""
    capacity = min(policy.max_file_size, int(policy.target_file_size * OVERFILL))
    bins = _first_fit(sorted(files, key=lambda f: (-f.size, f.path)), capacity)
    bins = _join_smallest(bins, policy)
    bins.sort(key=lambda b: (-b.size, b.files[0].path))
    return tuple(Unit(files=tuple(sorted(b.files, key=_reading_order))) for b in bins)


def outputs_of(unit: Unit, policy: Policy) -> int:
    """One output file; more only if a lone input is above the maximum."""
    if unit.bytes <= policy.max_file_size:
        return 1
    return math.ceil(unit.bytes / policy.max_file_size)


class _Bin:
    """A unit that is being filled."""

    __slots__ = ("files", "size")

    def __init__(self, file: DataFile) -> None:
        self.files = [file]
        self.size = file.size

    def add(self, files: Sequence[DataFile]) -> None:
        self.files.extend(files)
        self.size += sum(f.size for f in files)


def _reading_order(file: DataFile) -> tuple[int, str]:
    """Oldest first: rows stay in the order in which they were written."""
    return file.sequence_number, file.path


def _first_fit(files: Sequence[DataFile], capacity: int) -> list[_Bin]:
    """Best fit with a sorted list of free room: n log n, where a plain first fit is quadratic."""
    bins: list[_Bin] = []
    room: list[tuple[int, int]] = []  # (free bytes, bin number), ascending
    for file in files:
        at = _smallest_room(room, file.size)
        if at is None:
            bins.append(_Bin(file))
            insort(room, (capacity - file.size, len(bins) - 1))
        else:
            free, number = room.pop(at)
            bins[number].add([file])
            insort(room, (free - file.size, number))
    return bins


def _smallest_room(room: list[tuple[int, int]], size: int) -> int | None:
    low, high = 0, len(room)
    while low < high:
        middle = (low + high) // 2
        if room[middle][0] < size:
            low = middle + 1
        else:
            high = middle
    return low if low < len(room) else None


def _join_smallest(bins: list[_Bin], policy: Policy) -> list[_Bin]:
    """Join the two smallest units while both are small, or far below the average, and fit together."""
    bins = sorted(bins, key=lambda b: (b.size, b.files[0].path))
    total = sum(b.size for b in bins)
    while len(bins) > 1:
        first, second = bins[0], bins[1]
        too_small = second.size < policy.min_file_size or second.size < total / len(bins) / 2
        if not too_small or first.size + second.size > policy.max_file_size:
            break
        first.add(second.files)
        del bins[:2]
        insort(bins, first, key=lambda b: (b.size, b.files[0].path))
    return bins
