"""Packing files into units: every file once, no unit above the maximum, sizes alike.

Best fit by falling size up to the target and a tenth, then the smallest units are joined while both are
small and still fit; then the files are dealt out anew into as many units, so that tasks take equally long.
Sizes are those that files will have in the outputs: where a table has taught that merging makes them smaller, more
of them go into a unit.
What this guarantees (all property-tested):

- every file is in exactly one unit, and the result depends on nothing but the files and the policy;
- no unit is above the largest output or the limits of a group, except a lone file that is so by itself;
- units are within half and twice their average, except lone files and the last unit;
- packing the units' outputs again, as they are, joins nothing: the fixed point.

The last two do not hold where `max_group_files` cuts a unit short.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import NamedTuple

from icepact.model.plan import Unit
from icepact.model.policy import Policy
from icepact.model.table import DataFile

OVERFILL = 1.1
"""How far above the target a unit may be filled, to spare a tiny remainder."""


class Scale(NamedTuple):
    """How large files are once they are merged."""

    ratio: float
    """No file gets smaller than this share of it."""
    size: Callable[[DataFile], int]
    """Bytes of a file's share of an output."""


AS_IT_IS = Scale(ratio=1.0, size=attrgetter("size"))


def pack(files: Sequence[DataFile], policy: Policy, scale: Scale = AS_IT_IS) -> tuple[Unit, ...]:
    """Units, largest first; the last one is what remained."""
    limits = _Limits(policy, scale)
    bins = _best_fit(_largest_first([(scale.size(f), f) for f in files]), limits)
    bins = _balanced(_join_smallest(bins, limits), limits)
    bins.sort(key=lambda b: (-b.size, b.files[0][1].path))
    return tuple(as_one(sorted((file for _, file in b.files), key=reading_order), scale) for b in bins)


def as_one(files: Sequence[DataFile], scale: Scale) -> Unit:
    """These files as one unit."""
    predicted = None if scale is AS_IT_IS else sum(map(scale.size, files))
    return Unit(files=tuple(files), predicted=predicted)


def outputs_of(unit: Unit, policy: Policy) -> int:
    """One output file; more only if a lone input is above the maximum."""
    if unit.predicted_bytes <= policy.max_file_size:
        return 1
    return math.ceil(unit.predicted_bytes / policy.max_file_size)


def reading_order(file: DataFile) -> tuple[int, str]:
    """Oldest first: rows stay in the order in which they were written."""
    return file.sequence_number, file.path


_Sized = tuple[int, DataFile]
"""A file with its bytes in an output."""


class _Limits:
    """What a unit may hold, in bytes of outputs."""

    def __init__(self, policy: Policy, scale: Scale) -> None:
        self.small = policy.min_file_size
        self.files = policy.max_group_files
        # a group's limit is about inputs; where outputs are smaller than that, so is what is left of it
        self.largest = min(policy.max_file_size, int(policy.max_group_size * min(1.0, scale.ratio)))
        self.capacity = min(self.largest, int(policy.target_file_size * OVERFILL))


class _Bin:
    """A unit that is being filled."""

    __slots__ = ("files", "size")

    def __init__(self, file: _Sized) -> None:
        self.files = [file]
        self.size = file[0]

    def add(self, files: Sequence[_Sized]) -> None:
        self.files.extend(files)
        self.size += sum(size for size, _ in files)


def _largest_first(files: Sequence[_Sized]) -> list[_Sized]:
    return sorted(files, key=lambda sized: (-sized[0], sized[1].path))


def _best_fit(files: Sequence[_Sized], limits: _Limits) -> list[_Bin]:
    """Best fit with a sorted list of free room: n log n, where a plain first fit is quadratic."""
    bins: list[_Bin] = []
    room: list[tuple[int, int]] = []  # (free bytes, bin number), ascending
    for file in files:
        at = bisect_left(room, (file[0], 0))
        if at == len(room):
            bins.append(_Bin(file))
            insort(room, (limits.capacity - file[0], len(bins) - 1))
            continue
        free, number = room.pop(at)
        bins[number].add([file])
        if len(bins[number].files) < limits.files:
            insort(room, (free - file[0], number))
    return bins


def _join_smallest(bins: Sequence[_Bin], limits: _Limits) -> list[_Bin]:
    """Join the two smallest units while both are small and fit together."""
    heap = [(b.size, b.files[0][1].path, number, b) for number, b in enumerate(bins)]
    heapify(heap)
    full: list[_Bin] = []  # joined with nothing any more, for they have so many files
    while len(heap) > 1:
        entry = heappop(heap)
        first, second = entry[3], heap[0][3]
        if second.size >= limits.small or first.size + second.size > limits.largest:
            heappush(heap, entry)
            break
        if len(first.files) + len(second.files) <= limits.files:
            heappop(heap)
            first.add(second.files)
            heappush(heap, (first.size, *entry[1:]))
        elif len(first.files) >= len(second.files):
            full.append(first)
        else:
            full.append(heappop(heap)[3])
            heappush(heap, entry)
    return [*full, *(entry[3] for entry in heap)]


def _balanced(bins: list[_Bin], limits: _Limits) -> list[_Bin]:
    """The same files in as many units of about equal size; the units as they are if that would leave a small one.

    Largest file first, each into the emptiest unit. A small unit could be joined in the next run: the fixed
    point would be lost.
    """
    if len(bins) < 2:
        return bins
    files = _largest_first([f for b in bins for f in b.files])
    dealt = [_Bin(file) for file in files[: len(bins)]]
    heap = [(b.size, number) for number, b in enumerate(dealt)]
    heapify(heap)
    for file in files[len(bins) :]:
        size, number = heappop(heap)
        dealt[number].add([file])
        heappush(heap, (size + file[0], number))
    spread = max(b.size for b in dealt) - min(b.size for b in dealt)
    before = max(b.size for b in bins) - min(b.size for b in bins)
    fits = all(len(b.files) <= limits.files and b.size <= limits.capacity for b in dealt)
    large = min(b.size for b in dealt) >= limits.small
    return dealt if fits and large and spread < before else bins
