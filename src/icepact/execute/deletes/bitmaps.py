"""Row numbers as 64-bit roaring bitmaps in the portable format.

The format is a count, then for each upper half of positions, ascending, its 32-bit key and a 32-bit roaring bitmap,
all little-endian. Nothing says how long a bitmap is, so its size is worked out from its own header. Whoever decodes
bytes of others makes every check that the format allows.
"""

import struct
from array import array
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

_COOKIE_PLAIN = 12346
_COOKIE_WITH_RUNS = 12347
_OFFSETS_FROM = 4
"""Bitmaps with run containers list container offsets only from this many containers on."""
_ARRAY_MOST = 4096
"""Containers with more values than this are bit sets."""
_BITS_SIZE = 8192
_LOW = 0xFFFFFFFF


class PositionSet:
    """Row numbers that are gathered: a few bits for each, and next to nothing where they follow each other."""

    def __init__(self, positions: NDArray[np.int64] | None = None) -> None:
        self._bitmaps: dict[int, BitMap] = {}
        if positions is not None:
            self.add(positions)

    def add(self, positions: NDArray[np.int64]) -> None:
        """Add row numbers, ascending."""
        if not len(positions):
            return
        if positions[0] < 0:
            raise ValueError(f"{positions[0]} is no position")
        keys = positions >> 32
        edges = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(positions)]
        for start, end in pairwise(edges):
            low = array("I", (positions[start:end] & _LOW).astype(np.uint32).tobytes())
            self._bitmaps.setdefault(int(keys[start]), BitMap()).update(BitMap(low))

    def __len__(self) -> int:
        return sum(map(len, self._bitmaps.values()))

    def encode(self) -> bytes:
        """The portable format, runs as runs."""
        parts = [struct.pack("<Q", len(self._bitmaps))]
        for key in sorted(self._bitmaps):
            self._bitmaps[key].run_optimize()
            parts += [struct.pack("<I", key), self._bitmaps[key].serialize()]
        return b"".join(parts)


def decode_positions(data: bytes | memoryview, count: int | None = None) -> NDArray[np.int64]:
    """The row numbers, ascending. Raises ValueError or struct.error if the bytes contradict themselves, or hold another
    number of positions than `count`: a few bytes may stand for more than fits into memory."""
    bitmaps = _bitmaps(memoryview(data).cast("B"))
    held = sum(len(bitmap) for _, bitmap in bitmaps)
    if count is not None and held != count:
        raise ValueError(f"it holds {held} positions, its manifest says {count}")
    return _positions(bitmaps)


def _bitmaps(vector: memoryview) -> list[tuple[int, BitMap]]:
    """The 32-bit bitmaps by the upper halves of their positions."""
    (count,) = struct.unpack_from("<Q", vector, 0)
    at, last, bitmaps = 8, -1, []
    for _ in range(count):
        (key,) = struct.unpack_from("<I", vector, at)
        if key <= last:
            raise ValueError(f"its keys do not ascend: {last}, {key}")
        if key > 0x7FFFFFFF:
            raise ValueError("it holds negative positions")
        size = _bitmap_size(vector[at + 4 :])
        piece = vector[at + 4 : at + 4 + size]
        if len(piece) != size:
            raise ValueError("it is cut short")
        bitmaps.append((key, BitMap.deserialize(bytes(piece))))
        at, last = at + 4 + size, key
    if at != len(vector):
        raise ValueError(f"{len(vector) - at} bytes follow its last bitmap")
    return bitmaps


def _bitmap_size(view: memoryview) -> int:
    """Bytes of the 32-bit roaring bitmap that starts here, walked container by container."""
    (cookie,) = struct.unpack_from("<I", view, 0)
    runs: memoryview | None = None
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        containers, at = (cookie >> 16) + 1, 4
        runs = view[at : at + (containers + 7) // 8]
        at += len(runs)
    elif cookie == _COOKIE_PLAIN:
        containers, at = int(struct.unpack_from("<I", view, 4)[0]), 8
    else:
        raise ValueError(f"{cookie} is not the start of a bitmap")
    if containers > 1 << 16:
        raise ValueError(f"a bitmap cannot have {containers} containers")
    described: tuple[int, ...] = struct.unpack_from(f"<{2 * containers}H", view, at)
    at += 4 * containers
    if runs is None or containers >= _OFFSETS_FROM:
        at += 4 * containers
    for number, cardinality in enumerate(described[1::2]):
        if runs is not None and runs[number // 8] >> number % 8 & 1:
            (pairs,) = struct.unpack_from("<H", view, at)
            at += 2 + 4 * int(pairs)
        elif cardinality + 1 > _ARRAY_MOST:
            _check_bits(view[at : at + _BITS_SIZE], cardinality + 1)
            at += _BITS_SIZE
        else:
            at += 2 * (cardinality + 1)
    return int(at)


def _check_bits(container: memoryview, cardinality: int) -> None:
    # the bitmap library writes one value per set bit into memory sized by the declared number
    if int(np.bitwise_count(np.frombuffer(container, dtype=np.uint8)).sum()) != cardinality:
        raise ValueError("a container does not have as many values as it says")


def _positions(bitmaps: Iterable[tuple[int, BitMap]]) -> NDArray[np.int64]:
    parts = [np.array(bitmap.to_array(), dtype=np.int64) | key << 32 for key, bitmap in bitmaps]
    positions = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    # older versions of the bitmap library take containers as they are; a search would miss unsorted positions
    if not np.all(positions[1:] > positions[:-1]):
        raise ValueError("its positions do not ascend")
    positions.flags.writeable = False
    return positions
