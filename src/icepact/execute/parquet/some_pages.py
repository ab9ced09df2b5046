"""Some pages of a column that is not nested, decoded without the others.

A data page says nothing of its neighbours: the pages that are wanted, behind the dictionary of their chunk, are a whole
chunk. A file in memory gets them as they are, and pyarrow reads that.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.footer import MAGIC, Chunk, footer_bytes
from icepact.execute.parquet.input import Input
from icepact.execute.parquet.pages import check_page
from icepact.execute.parquet.thrift import Fields

_NAME = b"c"
_Part = tuple[int, bytes | memoryview]
"""Bytes with their offset in the file."""


@dataclass(frozen=True)
class PagedChunk:
    """A chunk of a column that is not nested, with page locations that hold."""

    file: Input
    group: int
    leaf: int
    locations: Sequence[Fields]

    @property
    def chunk(self) -> Chunk:
        """The chunk as its footer describes it."""
        return self.file.footer.row_groups[self.group].chunks[self.leaf]

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """Where pages begin, in rows of the row group, and behind them the end of the last one."""
        rows = self.file.footer.row_groups[self.group].rows
        return np.array([*(location[3] for location in self.locations), rows], dtype=np.int64)

    def ranges(self, pages: Sequence[int]) -> list[tuple[int, int]]:
        """Offset and length of what these pages are decoded from; their numbers ascend. The dictionary comes first, and
        pages that follow each other are one range."""
        chunk = self.chunk
        ranges = [(chunk.start, chunk.data_offset - chunk.start)]
        for page in pages:
            at, size = self.locations[page][1], self.locations[page][2]
            if sum(ranges[-1]) == at:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + size
            else:
                ranges.append((at, size))
        return [(at, size) for at, size in ranges if size]

    def decode(self, pages: Sequence[int]) -> pa.ChunkedArray:
        """The values of these pages, in ascending order, at least one; `Damaged` if a page is not what its location
        says."""
        rows = np.diff(self.edges)[list(pages)]
        parts = [(at, self.file.source.read(at, size)) for at, size in self.ranges(pages)]
        self._check(parts, pages, rows)
        footer = self._footer(int(rows.sum()), sum(len(part) for _, part in parts))
        data = b"".join((MAGIC, *(part for _, part in parts), footer))
        found = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        column = found.reader.read_row_groups([0], [0], use_threads=False).column(0)
        if len(column) != rows.sum():
            raise Damaged("pages have not as many rows as their locations say")
        return column

    def _check(self, parts: Sequence[_Part], pages: Sequence[int], rows: NDArray[np.int64]) -> None:
        """Refuse pages with another number of rows, or other bytes, than their locations say."""
        starts = [at for at, _ in parts]
        for number, count in zip(pages, rows.tolist(), strict=True):
            location = self.locations[number]
            start, data = parts[bisect_right(starts, location[1]) - 1]
            check_page(memoryview(data)[location[1] - start :][: location[2]], count)

    def _footer(self, rows: int, size: int) -> bytes:
        """A footer of a file whose only column has these rows in this many bytes."""
        footer, chunk = self.file.footer, self.chunk
        leaf = [element for element in footer.fields[2] if 1 in element][self.leaf]
        at, dictionary = len(MAGIC), chunk.data_offset - chunk.start
        meta: Fields = {
            **{number: chunk.meta[number] for number in (1, 2, 4, 6)},
            3: [_NAME],
            5: rows,
            7: size,
            9: at + dictionary,
        }
        if dictionary:
            meta[11] = at
        return footer_bytes(
            {
                1: 2,
                2: [{4: b"table", 5: 1}, {**leaf, 4: _NAME}],
                3: rows,
                4: [{1: [{2: 0, 3: meta}], 2: size, 3: rows}],
                **({6: footer.fields[6]} if 6 in footer.fields else {}),
            }
        )


def paged_chunk(file: Input, group: int, leaf: int) -> PagedChunk | None:
    """A chunk of which pages may be read alone; `None` if they may not: it is nested, or something of it is not known,
    or nothing that holds says where its pages are."""
    if len(file.footer.leaves[leaf].levels) > 1 or file.footer.leaves[leaf].repeated:
        return None
    if file.why_nothing_copied is not None or file.why_not_copied(group, leaf, walk=False) is not None:
        return None
    pages = file.pages(group, leaf)
    return None if pages is None else PagedChunk(file, group, leaf, pages[1])
