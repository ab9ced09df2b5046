"""Bloom filters: which values are certainly not in a column."""

from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

from icepact.execute.parquet.layout import BLOOM_HEADER
from icepact.execute.parquet.thrift import read_struct

_SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], dtype=np.uint32
)
"""From the format: one odd number for each of a block's eight words."""


def hashes(values: Iterable[bytes]) -> NDArray[np.uint64]:
    """Hashes of values, given as Parquet's plain encoding writes them, without lengths."""
    return np.array([xxhash.xxh64_intdigest(value) for value in values], dtype=np.uint64)


def may_contain(data: bytes | memoryview, wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For each hash, whether its value may be in the column; `data` is a filter with its header."""
    header, start = read_struct(data, BLOOM_HEADER)
    words = np.frombuffer(data, dtype="<u4", count=header[1] // 4, offset=start).reshape(-1, 8)
    blocks = ((wanted >> np.uint64(32)) * np.uint64(len(words))) >> np.uint64(32)
    low = (wanted & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    bits = (low[:, None] * _SALT[None, :]) >> np.uint32(27)
    masks = np.uint32(1) << bits
    possible: NDArray[np.bool_] = ((words[blocks.astype(np.int64)] & masks) != 0).all(axis=1)
    return possible
