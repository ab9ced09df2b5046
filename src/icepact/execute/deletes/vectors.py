"""Deletion vectors: the `deletion-vector-v1` blob of a Puffin file.

4 bytes  length of magic and vector, big-endian
4 bytes  magic D1 D3 39 64
         vector: a 64-bit roaring bitmap in the portable format, little-endian
4 bytes  CRC-32 of magic and vector, big-endian
"""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from icepact.execute.deletes.bitmaps import PositionSet, decode_positions
from icepact.execute.deletes.errors import BrokenDelete
from icepact.model.files import DeleteFile

MAGIC = b"\xd1\xd3\x39\x64"
_FRAME = 12
"""Bytes around the vector: length, magic, checksum."""


def decode_vector(blob: bytes | bytearray | memoryview, delete: DeleteFile) -> NDArray[np.int64]:
    """Deleted positions, ascending. Every check that the format allows is made."""
    view = memoryview(blob).cast("B")
    try:
        return decode_positions(_checked_vector(view, delete), delete.records)
    except (ValueError, struct.error) as error:
        raise BrokenDelete(f"deletion vector {delete} is damaged: {error}") from None


def encode_vector(positions: PositionSet) -> bytes:
    """The blob of these deleted positions."""
    body = MAGIC + positions.encode()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


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
