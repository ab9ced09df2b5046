"""Packing files into units: every file once, no unit above the maximum, sizes alike.

Best fit by falling size up to the target and a tenth, then the smallest units are joined while both are
small and still fit; then the files are dealt out anew into as many units, so that tasks take equally long.
What this guarantees (all property-tested):

- every file is in exactly one unit, and the result depends on nothing but the files and the policy;
- no unit is above the largest output or the limits of a group, except a lone file that is so by itself;
- units are within half and twice their average, except lone files and the last unit;
- packing the units' outputs again joins nothing: the fixed point.

The last two do not hold where `max_group_files` cuts a unit short.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from icepact.model.plan import Unit
from icepact.model.policy import Policy
from icepact.model.table import DataFile

OVERFILL = 1.1
"""How far above the target a unit may be filled, to spare a tiny remainder."""


def pack(files: Sequence[DataFile], policy: Policy) -> tuple[Unit, ...]:
    """Units, largest first; the last one is what remained."""
    falling = sorted(files, key=lambda f: (-f.size, f.path))
    packed = pack_sizes([f.size for f in falling], policy)
    return tuple(Unit(files=tuple(sorted((falling[at] for at in unit), key=reading_order))) for unit in packed)


def pack_sizes(sizes: Sequence[int], policy: Policy) -> list[list[int]]:
    """The same for sizes alone, given in falling order: units as indexes."""
    bins = _balanced(_join_smallest(_best_fit(sizes, policy), policy), sizes, policy)
    bins.sort(key=lambda b: (-b.size, b.files[0]))
    return [b.files for b in bins]


def outputs_of(size: int, policy: Policy) -> int:
    """Files that so many bytes become: one; more only if a lone input is above the maximum."""
    return max(1, math.ceil(size / policy.max_file_size))


def reading_order(file: DataFile) -> tuple[int, str]:
    """Oldest first: rows stay in the order in which they were written."""
    return file.sequence_number, file.path


class _Bin:
    """A unit that is being filled: indexes of files."""

    __slots__ = ("files", "size")

    def __init__(self, file: int, size: int) -> None:
        self.files = [file]
        self.size = size


def _largest(policy: Policy) -> int:
    """Bytes that a unit of several files may have."""
    return min(policy.max_file_size, policy.max_group_size)


def _best_fit(sizes: Sequence[int], policy: Policy) -> list[_Bin]:
    """Best fit with a sorted list of free room: n log n, where a plain first fit is quadratic."""
    capacity = _capacity(policy)
    bins: list[_Bin] = []
    room: list[tuple[int, int]] = []  # (free bytes, bin number), ascending
    for file, size in enumerate(sizes):
        at = bisect_left(room, (size, 0))
        if at == len(room):
            bins.append(_Bin(file, size))
            insort(room, (capacity - size, len(bins) - 1))
            continue
        free, number = room.pop(at)
        chosen = bins[number]
        chosen.files.append(file)
        chosen.size += size
        if len(chosen.files) < policy.max_group_files:
            insort(room, (free - size, number))
    return bins


def _join_smallest(bins: Sequence[_Bin], policy: Policy) -> list[_Bin]:
    """Join the two smallest units while both are small and fit together."""
    heap = [(b.size, b.files[0], b) for b in bins]
    heapify(heap)
    full: list[_Bin] = []  # joined with nothing any more, for they have so many files
    while len(heap) > 1:
        entry = heappop(heap)
        first, second = entry[2], heap[0][2]
        if second.size >= policy.min_file_size or first.size + second.size > _largest(policy):
            heappush(heap, entry)
            break
        if len(first.files) + len(second.files) <= policy.max_group_files:
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


def _balanced(bins: list[_Bin], sizes: Sequence[int], policy: Policy) -> list[_Bin]:
    """The same files in as many units of about equal size; the units as they are if that would leave a small one.

    Largest file first, each into the emptiest unit. A small unit could be joined in the next run: the fixed
    point would be lost.
    """
    if len(bins) < 2:
        return bins
    dealt = [_Bin(file, sizes[file]) for file in range(len(bins))]
    heap = [(b.size, number) for number, b in enumerate(dealt)]
    heapify(heap)
    for file in range(len(bins), len(sizes)):
        size, number = heappop(heap)
        dealt[number].files.append(file)
        dealt[number].size = size + sizes[file]
        heappush(heap, (size + sizes[file], number))
    spread = max(b.size for b in dealt) - min(b.size for b in dealt)
    before = max(b.size for b in bins) - min(b.size for b in bins)
    fits = all(len(b.files) <= policy.max_group_files and b.size <= _capacity(policy) for b in dealt)
    large = min(b.size for b in dealt) >= policy.min_file_size
    return dealt if fits and large and spread < before else bins


def _capacity(policy: Policy) -> int:
    """Bytes up to which units are filled."""
    return min(_largest(policy), int(policy.target_file_size * OVERFILL))
