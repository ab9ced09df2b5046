"""Objects of S3, read in few requests."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import pyarrow as pa

from icepact.execute.storage.base import Source, as_bytes, checked_range
from icepact.execute.storage.s3_client import Calls, ObjectAddress
from icepact.execute.storage.s3_limits import Limits


def coalesced(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """(offset, length) ranges in order, those with no more than `gap` bytes between them made one."""
    merged: list[tuple[int, int]] = []
    for offset, length in sorted(ranges):
        if not length:
            continue
        if merged and offset <= sum(merged[-1]) + gap:
            start = merged[-1][0]
            merged[-1] = (start, max(sum(merged[-1]), offset + length) - start)
        else:
            merged.append((offset, length))
    return merged


class S3Object:
    """An object as it was when first seen. It can be read as long as it is there: nothing needs closing."""

    def __init__(self, calls: Calls, address: ObjectAddress, size: int) -> None:
        self.calls = calls
        self.address = address
        self.size = size
        self.etag: str | None = None

    def fetch(self, offset: int, length: int, *, piece: int | None = None) -> memoryview:
        """These bytes; in pieces of a size and in parallel, if one is given."""
        data = as_bytes(pa.allocate_buffer(length)) if length else memoryview(bytearray())
        if piece is None or length <= piece:
            if length or not self.size:
                self._fill(offset, data)
            return data
        starts = range(0, length, piece)
        list(self.calls.client.pool.map(lambda at: self._fill(offset + at, data[at : at + piece]), starts))
        return data

    def gather(self, ranges: Sequence[tuple[int, int]], *, piece: int) -> list[memoryview]:
        """These ranges, all at once."""
        buffers = [as_bytes(pa.allocate_buffer(length)) for _, length in ranges]
        parts = [
            (offset + at, data[at : at + piece])
            for (offset, length), data in zip(ranges, buffers, strict=True)
            for at in range(0, length, piece)
        ]
        list(self.calls.client.pool.map(lambda part: self._fill(*part), parts))
        return buffers

    def _fill(self, offset: int, into: memoryview) -> None:
        etag = self.calls.fetch(self.address, offset, into, size=self.size, etag=self.etag)
        self.etag = self.etag or etag


class S3Source(Source):
    """One object, with the parts of it that are in memory."""

    def __init__(self, origin: S3Object, limits: Limits) -> None:
        self.origin = origin
        self.path = origin.address.path
        self.size = origin.size
        self._limits = limits
        self._end: memoryview | None = None
        self._starts: list[int] = []
        self._loaded: list[memoryview] = []
        self._closed = False

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes, from memory if they are there. A small file is fetched whole."""
        checked_range(self, offset, length)
        data = self._in_memory(offset, length)
        if data is not None:
            return data
        if self._is_small:
            return self._load_end(self.size)[offset : offset + length]
        return self.origin.fetch(offset, length)

    def gather(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Exactly these ranges, from the store and nowhere else; those that lie close together in one request."""
        for offset, length in ranges:
            checked_range(self, offset, length)
        wholes = coalesced(ranges, self._limits.gap)
        fetched = self.origin.gather(wholes, piece=self._limits.piece)
        starts = [offset for offset, _ in wholes]
        pieces = []
        for offset, length in ranges:
            at = bisect_right(starts, offset) - 1
            pieces.append(fetched[at][offset - starts[at] :][:length] if length else memoryview(bytearray()))
        return pieces

    def tail(self, length: int) -> memoryview:
        """The last bytes; what lies in front of them comes along and is kept, for it is asked for next."""
        checked_range(self, self.size - length, length)
        data = self._in_memory(self.size - length, length)
        if data is not None:
            return data
        whole = self.size if self._is_small else min(self.size, max(length, self._limits.tail))
        return self._load_end(whole)[whole - length :]

    def preload(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch ranges into memory, instead of those before."""
        for offset, length in ranges:
            checked_range(self, offset, length)
        self._starts, self._loaded = [], []
        missing = [(offset, length) for offset, length in ranges if self._in_memory(offset, length) is None]
        if missing and self._is_small:
            self._load_end(self.size)
            return
        for offset, length in coalesced(missing, self._limits.gap):
            self._loaded.append(self.origin.fetch(offset, length, piece=self._limits.piece))
            self._starts.append(offset)

    def close(self) -> None:
        """Let go of all memory. A sink that still has to copy from here may read on."""
        self._end = None
        self._starts, self._loaded = [], []
        self._closed = True

    @property
    def _is_small(self) -> bool:
        return self.size < self._limits.whole and not self._closed

    def _load_end(self, length: int) -> memoryview:
        self._end = self.origin.fetch(self.size - length, length)
        return self._end

    def _in_memory(self, offset: int, length: int) -> memoryview | None:
        if not length and self.size:
            return memoryview(bytearray())
        if self._end is not None and offset >= self.size - len(self._end):
            start = offset - (self.size - len(self._end))
            return self._end[start : start + length]
        at = bisect_right(self._starts, offset) - 1
        if at >= 0 and offset + length <= self._starts[at] + len(self._loaded[at]):
            start = offset - self._starts[at]
            return self._loaded[at][start : start + length]
        return None
