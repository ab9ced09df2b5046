"""Indices of a dictionary as data pages hold them: runs of one value, and groups of eight packed into bits."""

from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icepact.execute.parquet.thrift import varint

Indices = NDArray[np.unsignedinteger[Any]]

MOST_BITS = 28
"""Bits of an index, at most."""
_BLOCK = 2048
"""Values for which it is decided at once whether they are runs; divisible by eight."""
_LONG = 8
"""Runs are worth it if they are so long on average: as long as what they replace is packed as a group."""

_HEAD_LIMITS = 1 << 7 * np.arange(1, 5)
"""From each of these numbers on, a number takes a byte more."""


def bits_for(count: int) -> int:
    """Bits that an index in a dictionary of so many values takes; readers expect at least one."""
    return max(1, (count - 1).bit_length())


def smallest(bits: int) -> np.dtype[Any]:
    """The narrowest type that holds indices of so many bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32)


def encoded_indices(indices: Indices, bits: int) -> bytes:
    """All indices, as runs or packed, whichever a block of them is made for; their type is the `smallest`."""
    changed = indices[1:] != indices[:-1]
    if _are_runs(changed):
        return _runs(indices, changed, bits)
    in_runs = [_are_runs(changed[start : start + _BLOCK]) for start in range(0, len(indices), _BLOCK)]
    if not any(in_runs):
        return _packed_run(indices, bits)
    written, first = [], 0
    for runs, blocks in groupby(in_runs):
        last = first + _BLOCK * len(list(blocks))
        part = indices[first:last]
        written.append(_runs(part, changed[first : first + len(part) - 1], bits) if runs else _packed_run(part, bits))
        first = last
    return b"".join(written)


def _are_runs(changed: NDArray[np.bool_]) -> bool:
    return int(np.count_nonzero(changed)) * _LONG <= len(changed)


def _runs(indices: Indices, changed: NDArray[np.bool_], bits: int) -> bytes:
    """Runs alone: the length of each as a number of as many bytes as it takes, and its value."""
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    heads = np.diff(starts, append=len(indices)) << 1
    head_bytes = 1 + (heads[:, np.newaxis] >= _HEAD_LIMITS).sum(axis=1)
    value_bytes = (bits + 7) // 8
    ends = np.cumsum(head_bytes + value_bytes)
    at = ends - head_bytes - value_bytes
    out = np.zeros(ends[-1], dtype=np.uint8)
    for n in range(int(head_bytes.max())):
        mine = head_bytes > n
        more = (head_bytes[mine] > n + 1) << 7
        out[at[mine] + n] = heads[mine] >> 7 * n & 0x7F | more
    values = indices[starts]
    for n in range(value_bytes):
        out[at + head_bytes + n] = values >> 8 * n & 0xFF
    return out.tobytes()


def _packed_run(indices: Indices, bits: int) -> bytes:
    groups = -(-len(indices) // 8)
    return varint(groups << 1 | 1) + packed(indices, bits)


def packed(indices: Indices, bits: int) -> bytes:
    """Values of so many bits each, the first in the lowest bits; what is missing in the last group of eight is zero."""
    if len(indices) % 8:
        indices = np.concatenate([indices, np.zeros(-len(indices) % 8, indices.dtype)])
    words: NDArray[Any] = indices
    in_word = 1
    while words.itemsize < 8:  # neighbours move together: two bytes, four, eight
        width = 8 * words.itemsize
        pairs = words.view(f"<u{2 * words.itemsize}")
        words = (pairs & ((1 << width) - 1)) | (pairs >> width << in_word * bits)
        in_word *= 2
    groups, words_of_group = len(indices) // 8, 8 // in_word
    out = np.zeros((groups, bits + 8), dtype=np.uint8)
    for n in range(words_of_group):
        byte, bit = divmod(n * in_word * bits, 8)
        window = np.ndarray((groups,), "<u8", out, byte, (bits + 8,))
        window |= words[n::words_of_group] << bit
    return out[:, :bits].tobytes()
