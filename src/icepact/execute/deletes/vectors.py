"""Deletion vectors: the `deletion-vector-v1` blob of a Puffin file.

    4 bytes  length of magic and vector, big-endian
    4 bytes  magic D1 D3 39 64
             vector: a 64-bit roaring bitmap in the portable format, little-endian
    4 bytes  CRC-32 of magic and vector, big-endian

The portable 64-bit format is a count, then for each upper half of positions its 32-bit key and a 32-bit
roaring bitmap. Nothing says how long a bitmap is, so its size is worked out from its own header.
"""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from icepact.execute.deletes.errors import BrokenDelete
from icepact.model.files import DeleteFile

MAGIC = b"\xd1\xd3\x39\x64"
_FRAME = 12
"""Bytes around the vector: length, magic, checksum."""
_COOKIE_PLAIN = 12346
_COOKIE_WITH_RUNS = 12347
_OFFSETS_FROM = 4
"""Bitmaps with run containers list container offsets only from this many containers on."""
_ARRAY_MOST = 4096
"""Containers with more values than this are bit sets."""
_BITS_SIZE = 8192


def decode_vector(blob: bytes | bytearray | memoryview, delete: DeleteFile) -> NDArray[np.int64]:
    """Deleted positions, ascending. Every check that the format allows is made."""
    view = memoryview(blob).cast("B")
    try:
        bitmaps = _bitmaps(_checked_vector(view, delete))
        count = sum(len(bitmap) for _, bitmap in bitmaps)
        if count != delete.records:
            raise ValueError(f"it holds {count} positions, its manifest says {delete.records}")
        return _positions(bitmaps)
    except (ValueError, struct.error) as error:
        raise BrokenDelete(f"deletion vector {delete} is damaged: {error}") from None


def _checked_vector(view: memoryview, delete: DeleteFile) -> memoryview:
    """The vector without what is around it."""
    if len(view) != delete.size:
        raise ValueError(f"{len(view)} bytes were read, its manifest says {delete.size}")
    if len(view) < _FRAME:
        raise ValueError(f"{len(view)} bytes are too few")
    (declared,) = struct.unpack_from(">I", view, 0)
    if declared != len(view) - 8:
        raise ValueError(f"its length field says {declared}, there are {len(view) - 8} bytes")
    if bytes(view[4:8]) != MAGIC:
        raise ValueError(f"its magic number is {bytes(view[4:8]).hex()}")
    (crc,) = struct.unpack_from(">I", view, len(view) - 4)
    if zlib.crc32(view[4:-4]) != crc:
        raise ValueError("its checksum does not fit")
    return view[8:-4]


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


def _positions(bitmaps: list[tuple[int, BitMap]]) -> NDArray[np.int64]:
    parts = [np.array(bitmap.to_array(), dtype=np.int64) | key << 32 for key, bitmap in bitmaps]
    positions = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    # older versions of the bitmap library take containers as they are; a search would miss unsorted positions
    if not np.all(positions[1:] > positions[:-1]):
        raise ValueError("its positions do not ascend")
    positions.flags.writeable = False
    return positions
