"""Packing files into units: every file once, no unit above the maximum, sizes alike.

Best fit by falling size up to the target and a tenth, then the smallest units are joined while both are
small and still fit. If as many units of equal size would not be far below the target (15%), the files are dealt
out anew into these, so that tasks take equally long; else units are filled up to about the target, and one holds
the rest.
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
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate
from operator import neg

from icepact.model.files import DataFile
from icepact.model.policy import Policy
from icepact.policy.resolve import LARGE_OF_TARGET

OVERFILL = 1.1
"""How far above the target a unit may be filled, to spare a tiny remainder."""
FILL = 1.05
"""The same where a remainder is left anyway: what is missing then is about as much as what is over."""
UNDERFILL = 0.85
"""How far below it all units may be, so that they are alike."""


def trusted_ratio(ratio: float, policy: Policy) -> float:
    """A learned ratio, as far as it may be trusted: where a maximum is asked for that is close to the target, no unit
    may become larger than that, even if it does not shrink at all."""
    if policy.max_file_size >= int(policy.target_file_size * LARGE_OF_TARGET):
        return ratio
    return max(ratio, min(1.0, OVERFILL * policy.target_file_size / policy.max_file_size))


def pack_sizes(sizes: Sequence[int], policy: Policy, ratio: float = 1.0) -> list[list[int]]:
    """Units of indexes into sizes, which are given in falling order: largest first, the last one is what remained.
    No file gets smaller than this ratio of it when it is merged."""
    limits = _Limits(policy, ratio)
    bins = _join_smallest(_best_fit(sizes, limits, limits.capacity), limits)
    dealt = _deal_evenly(bins, sizes, limits)
    if dealt is None and len(bins) > 1:
        lower = _join_smallest(_best_fit(sizes, limits, limits.full), limits)
        bins = lower if len(lower) == len(bins) else bins
    bins = dealt or bins
    bins.sort(key=lambda b: (-b.size, b.files[0]))
    return [b.files for b in bins]


def outputs_of(size: int, policy: Policy) -> int:
    """Files that so many bytes become: one; more only if a lone input is above the maximum."""
    return max(1, math.ceil(size / policy.max_file_size))


def reading_order(file: DataFile) -> tuple[int, str]:
    """Oldest first: rows stay in the order in which they were written."""
    return file.sequence_number, file.path


class _Limits:
    """What a unit may hold, in bytes of outputs."""

    def __init__(self, policy: Policy, ratio: float) -> None:
        self.small = policy.min_file_size
        self.close = max(policy.min_file_size, int(policy.target_file_size * UNDERFILL))
        self.files = policy.max_group_files
        # a group's limit is about inputs; where outputs are smaller than that, so is what is left of it
        self.largest = min(policy.max_file_size, int(policy.max_group_size * min(1.0, ratio)))
        self.capacity = min(self.largest, int(policy.target_file_size * OVERFILL))
        self.full = min(self.largest, int(policy.target_file_size * FILL))


class _Bin:
    """A unit that is being filled: indexes of files."""

    __slots__ = ("files", "size")

    def __init__(self, file: int, size: int) -> None:
        self.files = [file]
        self.size = size


def _best_fit(sizes: Sequence[int], limits: _Limits, capacity: int) -> list[_Bin]:
    """Best fit with a sorted list of free room: n log n, where a plain first fit is quadratic. Files that go into the
    same unit one after the other are found at once, since a partition has thousands of tiny ones."""
    bins: list[_Bin] = []
    room: list[tuple[int, int]] = []  # (free bytes, bin number), ascending
    until = [0, *accumulate(sizes)]
    file = 0
    while file < len(sizes):
        at = bisect_left(room, (sizes[file], 0))
        if at == len(room):
            bins.append(_Bin(file, sizes[file]))
            if limits.files > 1:
                insort(room, (capacity - sizes[file], len(bins) - 1))
            file += 1
            continue
        free, number = room.pop(at)
        chosen = bins[number]
        last = bisect_right(until, until[file] + free, file + 1, min(len(until), file + 1 + limits.files)) - 1
        last = min(last, file + limits.files - len(chosen.files))
        if at:  # until a file fits into the next fuller one
            last = min(last, bisect_left(sizes, -room[at - 1][0], file + 1, last, key=neg))
        chosen.files.extend(range(file, last))
        chosen.size += until[last] - until[file]
        if len(chosen.files) < limits.files:
            insort(room, (free - until[last] + until[file], number))
        file = last
    return bins


def _join_smallest(bins: Sequence[_Bin], limits: _Limits) -> list[_Bin]:
    """Join the two smallest units while both are small and fit together."""
    heap = [(b.size, b.files[0], b) for b in bins]
    heapify(heap)
    full: list[_Bin] = []  # joined with nothing any more, for they have so many files
    while len(heap) > 1:
        entry = heappop(heap)
        first, second = entry[2], heap[0][2]
        if second.size >= limits.small or first.size + second.size > limits.largest:
            heappush(heap, entry)
            break
        if len(first.files) + len(second.files) <= limits.files:
            heappop(heap)
            first.files += second.files
            first.size += second.size
            heappush(heap, (first.size, entry[1], first))
        elif len(first.files) >= len(second.files):
            full.append(first)
        else:
            full.append(heappop(heap)[2])
            heappush(heap, entry)
    return [*full, *(entry[2] for entry in heap)]


def _deal_evenly(bins: Sequence[_Bin], sizes: Sequence[int], limits: _Limits) -> list[_Bin] | None:
    """The same files in as many units of about equal size; `None` if that would leave one far from the target.

    Largest file first, each into the emptiest unit. A small unit could be joined in the next run: the fixed
    point would be lost.
    """
    if len(bins) < 2:
        return None
    dealt = [_Bin(file, sizes[file]) for file in range(len(bins))]
    heap = [(b.size, number) for number, b in enumerate(dealt)]
    heapify(heap)
    for file in range(len(bins), len(sizes)):
        size, number = heap[0]
        dealt[number].files.append(file)
        heapreplace(heap, (size + sizes[file], number))
    for size, number in heap:
        dealt[number].size = size
    spread = max(b.size for b in dealt) - min(b.size for b in dealt)
    before = max(b.size for b in bins) - min(b.size for b in bins)
    fits = all(len(b.files) <= limits.files and b.size <= limits.capacity for b in dealt)
    close = min(b.size for b in dealt) >= limits.close
    return dealt if fits and close and spread < before else None
