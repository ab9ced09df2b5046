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
    bins = _best_fit(sorted(files, key=lambda f: (-f.size, f.path)), policy)
    bins = _balanced(_join_smallest(bins, policy), policy)
    bins.sort(key=lambda b: (-b.size, b.files[0].path))
    return tuple(Unit(files=tuple(sorted(b.files, key=reading_order))) for b in bins)


def outputs_of(unit: Unit, policy: Policy) -> int:
    """One output file; more only if a lone input is above the maximum."""
    if unit.bytes <= policy.max_file_size:
        return 1
    return math.ceil(unit.bytes / policy.max_file_size)


def reading_order(file: DataFile) -> tuple[int, str]:
    """Oldest first: rows stay in the order in which they were written."""
    return file.sequence_number, file.path


class _Bin:
    """A unit that is being filled."""

    __slots__ = ("files", "size")

    def __init__(self, file: DataFile) -> None:
        self.files = [file]
        self.size = file.size

    def add(self, files: Sequence[DataFile]) -> None:
        self.files.extend(files)
        self.size += sum(f.size for f in files)


def _largest(policy: Policy) -> int:
    """Bytes that a unit of several files may have."""
    return min(policy.max_file_size, policy.max_group_size)


def _best_fit(files: Sequence[DataFile], policy: Policy) -> list[_Bin]:
    """Best fit with a sorted list of free room: n log n, where a plain first fit is quadratic."""
    capacity = _capacity(policy)
    bins: list[_Bin] = []
    room: list[tuple[int, int]] = []  # (free bytes, bin number), ascending
    for file in files:
        at = bisect_left(room, (file.size, 0))
        if at == len(room):
            bins.append(_Bin(file))
            insort(room, (capacity - file.size, len(bins) - 1))
            continue
        free, number = room.pop(at)
        bins[number].add([file])
        if len(bins[number].files) < policy.max_group_files:
            insort(room, (free - file.size, number))
    return bins


def _join_smallest(bins: Sequence[_Bin], policy: Policy) -> list[_Bin]:
    """Join the two smallest units while both are small and fit together."""
    heap = [(b.size, b.files[0].path, number, b) for number, b in enumerate(bins)]
    heapify(heap)
    full: list[_Bin] = []  # joined with nothing any more, for they have so many files
    while len(heap) > 1:
        entry = heappop(heap)
        first, second = entry[3], heap[0][3]
        if second.size >= policy.min_file_size or first.size + second.size > _largest(policy):
            heappush(heap, entry)
            break
        if len(first.files) + len(second.files) <= policy.max_group_files:
            heappop(heap)
            first.add(second.files)
            heappush(heap, (first.size, *entry[1:]))
        elif len(first.files) >= len(second.files):
            full.append(first)
        else:
            full.append(heappop(heap)[3])
            heappush(heap, entry)
    return [*full, *(entry[3] for entry in heap)]


def _balanced(bins: list[_Bin], policy: Policy) -> list[_Bin]:
    """The same files in as many units of about equal size; the units as they are if that would leave a small one.

    Largest file first, each into the emptiest unit. A small unit could be joined in the next run: the fixed
    point would be lost.
    """
    if len(bins) < 2:
        return bins
    files = sorted((f for b in bins for f in b.files), key=lambda f: (-f.size, f.path))
    dealt = [_Bin(file) for file in files[: len(bins)]]
    heap = [(b.size, number) for number, b in enumerate(dealt)]
    heapify(heap)
    for file in files[len(bins) :]:
        size, number = heappop(heap)
        dealt[number].add([file])
        heappush(heap, (size + file.size, number))
    spread = max(b.size for b in dealt) - min(b.size for b in dealt)
    before = max(b.size for b in bins) - min(b.size for b in bins)
    fits = all(len(b.files) <= policy.max_group_files and b.size <= _capacity(policy) for b in dealt)
    large = min(b.size for b in dealt) >= policy.min_file_size
    return dealt if fits and large and spread < before else bins


def _capacity(policy: Policy) -> int:
    """Bytes up to which units are filled."""
    return min(_largest(policy), int(policy.target_file_size * OVERFILL))
