"""Finding many probes in a set of keys that was prepared once.

Keys are 64-bit hashes, sorted. The upper bits of a hash name its bucket; `starts` says where a bucket begins.
A finer table of flags, one byte per slot, turns most absent probes away with one memory access. Measured
against rebuilding a hash table per call (polars, Arrow) and against binary search, this is 3 to 8 times faster for
250,000 probes in 1,000,000 keys.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icepact.execute.deletes.columns import KeyColumn

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xD6E8FEB86659FD93)
_NULL = np.uint64(0x632BE59BD9B4E019)
_HALF = np.uint64(32)
_FLAGS_PER_KEY = 8


def mixed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Numbers well spread over 64 bits; different numbers stay different."""
    hashes = numbers.view(np.uint64) * _FIRST
    hashes ^= hashes >> _HALF
    hashes *= _SECOND
    return hashes


class Buckets:
    """Sorted hashes, ready to be searched."""

    def __init__(self, hashes: NDArray[np.uint64]) -> None:
        self.hashes = hashes
        bits = max(1, len(hashes) - 1).bit_length()
        self._shift = np.uint64(64 - bits)
        counts = np.bincount(_upper(hashes, self._shift), minlength=1 << bits)
        self._starts = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=self._starts[1:])
        flag_bits = max(1, _FLAGS_PER_KEY * len(hashes) - 1).bit_length()
        self._flag_shift = np.uint64(64 - flag_bits)
        self._flags = np.zeros(1 << flag_bits, dtype=np.bool_)
        self._flags[_upper(hashes, self._flag_shift)] = True

    @property
    def nbytes(self) -> int:
        """Memory it holds."""
        return self.hashes.nbytes + self._starts.nbytes + self._flags.nbytes

    def pairs(self, wanted: NDArray[np.uint64]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int32]]]:
        """Probes and keys with the same hash, as row numbers of both; a probe may come with several keys."""
        rows = np.flatnonzero(self._flags.take(_upper(wanted, self._flag_shift)))
        hashes = wanted.take(rows)
        bucket = _upper(hashes, self._shift)
        slot = self._starts.take(bucket)
        end = self._starts.take(bucket + 1)
        while len(rows):
            inside = np.flatnonzero(slot < end)
            rows, hashes, slot, end = rows.take(inside), hashes.take(inside), slot.take(inside), end.take(inside)
            keys = self.hashes.take(slot)
            hit = np.flatnonzero(keys == hashes)
            yield rows.take(hit), slot.take(hit)
            onward = np.flatnonzero(keys <= hashes)
            rows, hashes, slot, end = rows.take(onward), hashes.take(onward), slot.take(onward) + 1, end.take(onward)


def row_hashes(columns: Sequence[KeyColumn]) -> NDArray[np.uint64]:
    """One hash per row over all columns, nulls included."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        values = column.values
        hashes = mixed(values) if isinstance(values, np.ndarray) else _text_hashes(values)
        if column.nulls is not None:
            hashes[column.nulls] = _NULL
        total = mixed((total + hashes).view(np.int64))
    return total


def _text_hashes(values: pa.Array) -> NDArray[np.uint64]:
    import polars as pl  # it takes longer to import than all the rest: only where it is used

    return pl.Series(values).hash(seed=0).to_numpy().astype(np.uint64)


def _upper(hashes: NDArray[np.uint64], shift: np.uint64) -> NDArray[np.int64]:
    return (hashes >> shift).view(np.int64)
