"""One file whose chunks may be copied: its footer, its indexes, and whether its sizes can be believed."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.footer import Chunk, Footer, RowGroup, read_footer
from icepact.execute.parquet.layout import COLUMN_INDEX, SORTING_COLUMN
from icepact.execute.parquet.pages import bloom_range, check_pages, offset_index
from icepact.execute.parquet.thrift import Fields, is_known, read_struct
from icepact.execute.parquet.trust import trusted_statistics, why_file_not_copied, why_not_copied

TAIL = 64 * 1024
"""Bytes read from the end of a file at first: its footer, and mostly its page indexes too."""

_USUAL_PAGE = 64 * 1024
_BOUNDARY_ORDERS = range(3)


class ByteSource(Protocol):
    """Bytes that can be read from anywhere."""

    @property
    def path(self) -> str:
        """Where they are stored; empty if nowhere."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Exactly these bytes."""

    def tail(self, length: int) -> bytes | memoryview:
        """The last bytes; all there are if they are fewer."""


class MemorySource:
    """Bytes in memory, as a source."""

    path = ""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data).cast("B")

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self._data)

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes."""
        return self._data[offset : offset + length]

    def parts(self, offset: int, length: int) -> Iterator[bytes | memoryview]:
        """Exactly these bytes, in as many parts as they are kept in."""
        yield self.read(offset, length)

    def tail(self, length: int) -> memoryview:
        """The last bytes."""
        return self._data[-length:]


class Pieces(MemorySource):
    """A file that is being written into memory piece by piece: it never moves as it grows."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self._size = 0

    def write(self, data: Any) -> int:
        """Add bytes; called by the writer."""
        piece = bytes(data)
        self._starts.append(self._size)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Do nothing: every write is complete at once."""

    def close(self) -> None:
        """Do nothing: what was written is read now."""

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self._size

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes."""
        parts = list(self.parts(offset, length))
        return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))

    def parts(self, offset: int, length: int) -> Iterator[bytes | memoryview]:
        """Exactly these bytes, in as many parts as they are kept in."""
        at = bisect_right(self._starts, offset) - 1
        while length > 0 and at < len(self._pieces):
            skip = offset - self._starts[at]
            part = self._pieces[at][skip : skip + length]
            yield part
            offset, length, at = offset + len(part), length - len(part), at + 1

    def tail(self, length: int) -> memoryview:
        """The last bytes."""
        return self.read(self._size - length, length)


class FileInMemory(MemorySource):
    """A small file that was fetched as a whole; it stands in for the source it came from."""

    far = False

    def __init__(self, path: str, data: Any) -> None:
        super().__init__(data)
        self.path = path
        self._length = len(self._data)
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes in all, also once it is closed."""
        return self._length

    def gather(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Exactly these (offset, length) ranges."""
        return [self.read(offset, length) for offset, length in ranges]

    def preload(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Do nothing: the file is in memory."""
        del ranges

    def arrow(self) -> Any:
        """The whole file, as pyarrow reads it."""
        return pa.BufferReader(self._data)

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes."""
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        return super().read(offset, length)

    def close(self) -> None:
        """Let go of the bytes."""
        self._closed = True
        self._data = memoryview(b"")


class Input:
    """A Parquet file, opened to copy chunks from it."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        tail = source.tail(min(TAIL, source.size))
        self.footer: Footer = read_footer(source.read, source.size, tail)
        self._pages: dict[tuple[int, int], Fields | None] = {}

    # -- indexes ------------------------------------------------------------------------------------

    def pages(self, group: int, index: int) -> Fields | None:
        """Page locations of a chunk; `None` if it has none, or none that hold."""
        key = group, index
        if key not in self._pages:
            row_group = self.footer.row_groups[group]
            chunk = row_group.chunks[index]
            data = None if chunk.offset_index is None else self._near_footer(*chunk.offset_index)
            self._pages[key] = None if data is None else offset_index(data, chunk, row_group.rows)
        return self._pages[key]

    def column_index(self, group: int, index: int) -> bytes | None:
        """Statistics per page as written; `None` unless they are known, whole, and of a column that is ordered."""
        known = self._column_index(group, index)
        return None if known is None else bytes(known[1])

    def page_bounds(self, group: int, index: int) -> Fields | None:
        """Statistics per page, read; `None` as for `column_index`."""
        known = self._column_index(group, index)
        return None if known is None else known[0]

    def _column_index(self, group: int, index: int) -> tuple[Fields, bytes | memoryview] | None:
        chunk = self.footer.row_groups[group].chunks[index]
        pages = self.pages(group, index)
        if chunk.column_index is None or pages is None:
            return None
        if not {5, 6} <= trusted_statistics(self.footer, index, chunk).keys():
            return None
        data = self._near_footer(*chunk.column_index)
        if data is None:
            return None
        try:
            fields, _ = read_struct(data, COLUMN_INDEX)
        except Damaged:
            return None
        whole = all(len(fields.get(number, ())) == len(pages[1]) for number in (1, 2, 3, *({5, 8} & fields.keys())))
        return (fields, data) if whole and fields.get(4) in _BOUNDARY_ORDERS and is_known(fields) else None

    def bloom(self, chunk: Chunk) -> bytes | memoryview | None:
        """A chunk's bloom filter with its header."""
        span = bloom_range(self.source.read, chunk, self.footer.start)
        return None if span is None else bytes(self.source.read(*span))

    def _near_footer(self, offset: int, length: int) -> bytes | memoryview | None:
        """Bytes of the region between the row groups and the footer, which is fetched as a whole."""
        if offset + length > self.footer.start:
            return None
        start, data = self._indexes
        return data[offset - start : offset - start + length] if offset >= start else None

    @cached_property
    def index_range(self) -> tuple[int, int]:
        """Offset and length of the region with all page indexes; one that claims to lie among the row groups does not
        count."""
        chunks = [chunk for group in self.footer.row_groups for chunk in group.chunks]
        data_end = max((chunk.end for chunk in chunks), default=0)
        ranges = [r for chunk in chunks for r in (chunk.offset_index, chunk.column_index) if r is not None]
        behind = [r for r in ranges if r[0] >= data_end and sum(r) <= self.footer.start]
        start = min((offset for offset, _ in behind), default=self.footer.start)
        return start, max(map(sum, behind), default=start) - start

    @cached_property
    def _indexes(self) -> tuple[int, bytes]:
        """Where the page indexes begin, and all bytes of their region."""
        start, length = self.index_range
        # a copy: a slice would keep all of a file in memory that is in memory as a whole
        return start, bytes(self.source.read(start, length))

    # -- may it be copied? -----------------------------------------------------------------------------

    def why_not_copied(self, group: int, index: int, *, walk: bool) -> str | None:
        """Why a chunk must be decoded; `None` if its bytes may be copied.

        That its size is right is seen from its page locations; else by walking its page headers; without
        `walk` (where reading means fetching) from what starts exactly where it ends.
        """
        row_group = self.footer.row_groups[group]
        if row_group.rows == 0:
            return None  # nothing of it is copied
        reason = why_not_copied(self.footer, row_group, index)
        if reason is not None or self.pages(group, index) is not None:
            return reason
        chunk = row_group.chunks[index]
        if not walk:
            return None if chunk.size and chunk.end in self._starts else "nothing shows where it ends"
        try:
            check_pages(self.source.read, chunk)
        except Damaged as error:
            return str(error)
        return None

    @cached_property
    def why_nothing_copied(self) -> str | None:
        """Why no chunk of the file may be copied; `None` if chunks may."""
        return why_file_not_copied(self.footer)

    @cached_property
    def _starts(self) -> frozenset[int]:
        """Every offset at which something starts, by the footer."""
        starts = {self.footer.start}
        for group in self.footer.row_groups:
            for chunk in group.chunks:
                starts.update((chunk.start, chunk.meta.get(11, 0)))  # an empty one has nothing but a dictionary
                starts.update(r[0] for r in (chunk.offset_index, chunk.column_index) if r is not None)
                if chunk.bloom_offset is not None:
                    starts.add(chunk.bloom_offset)
        return frozenset(starts)


class Range(NamedTuple):
    """Bytes of a source."""

    source: ByteSource
    start: int
    size: int
    first: int = 0
    """Bytes of their first page, with its header; about, if nothing tells where pages are."""
    last: int = 0
    """Bytes of their last page."""


class Pick(NamedTuple):
    """One column of a row group: a chunk of an input, as it is."""

    input: Input
    group: int
    column: int

    @property
    def chunk(self) -> Chunk:
        """The chunk as its input describes it."""
        return self.input.footer.row_groups[self.group].chunks[self.column]

    @property
    def rows(self) -> int:
        """Rows of the row group that the chunk is part of."""
        return self.input.footer.row_groups[self.group].rows

    @property
    def ranges(self) -> list[Range]:
        """The bytes of the chunk, as one range of the input."""
        chunk, pages = self.chunk, self.pages
        first = last = min(chunk.size, _USUAL_PAGE)
        if pages is not None:
            first = pages[1][0][2] if chunk.dictionary_offset is None else chunk.data_offset - chunk.start
            last = pages[1][-1][2]
        return [Range(self.input.source, chunk.start, chunk.size, first, last)]

    @property
    def statistics(self) -> Fields:
        """What of its statistics holds for any reader."""
        return trusted_statistics(self.input.footer, self.column, self.chunk)

    @property
    def pages(self) -> Fields | None:
        """Page locations."""
        return self.input.pages(self.group, self.column)

    @property
    def page_statistics(self) -> bytes | None:
        """Statistics per page."""
        return self.input.column_index(self.group, self.column)

    @property
    def bloom(self) -> bytes | memoryview | None:
        """Its bloom filter with its header."""
        return self.input.bloom(self.chunk)


def sorting_columns(group: RowGroup, column_of: dict[int, int]) -> list[Fields] | None:
    """How a row group is sorted, in terms of the output's columns; `None` as soon as one is missing there."""
    sorting = group.fields.get(4)
    if not sorting or not is_known(sorting):
        return None
    if any(entry.get(1) not in column_of or len(entry) != len(SORTING_COLUMN) for entry in sorting):
        return None
    return [{**entry, 1: column_of[entry[1]]} for entry in sorting]
