"""A new chunk of indices in a dictionary, of a column that is neither nested nor null anywhere.

pyarrow's writer takes such a column value by value: it marks each as not null, and looks its text up to compare it with
the bounds. Here a page is one array of indices. The dictionary is in order, so that bounds are the bounds of indices.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from icepact.execute.parquet.footer import MAGIC, Chunk
from icepact.execute.parquet.input import Pieces, Range
from icepact.execute.parquet.layout import (
    BYTE_ARRAY,
    CODECS,
    COLUMN_INDEX,
    DATA_PAGE,
    DICTIONARY_PAGE,
    PAGE_HEADER,
    PLAIN,
    RLE,
    RLE_DICTIONARY,
)
from icepact.execute.parquet.run_lengths import Indices, bits_for, encoded_indices
from icepact.execute.parquet.thrift import Fields, varint, write_struct

_LONGEST_BOUND = 4096
"""Bytes beyond which a bound is not written down."""
_UNORDERED, _ASCENDING, _DESCENDING = range(3)


@dataclass(frozen=True, kw_only=True, slots=True)
class PageForm:
    """How the pages of a new chunk are made."""

    optional: bool
    """True if the column could hold nulls: its pages say then that there are none."""
    codec: str
    """Name as in `layout.CODECS`."""
    level: int | None
    """Compression level; `None` for the codec's own default."""
    most_rows: int
    """Rows of a page."""
    most_bytes: int
    """Encoded bytes of a page."""

    def rows_of(self, bits: int) -> int:
        """Rows of a page whose values take so many bits each."""
        return max(1, min(self.most_rows, 8 * self.most_bytes // bits))


class DictionaryChunk:
    """One column of texts in a row group, page by page in memory."""

    bloom = None
    """Filters are not made here."""

    def __init__(self, texts: Sequence[bytes], indices: Iterable[Indices], form: PageForm) -> None:
        """`texts` are the values, each once and in ascending order; arrays of indices in them follow each other."""
        self._form = form
        self._codec = None if form.codec == "uncompressed" else pa.Codec(form.codec, form.level)
        self._texts = texts
        self._sizes = np.array([len(text) for text in texts], dtype=np.int64)
        self._source = Pieces()
        self._source.write(MAGIC)  # nothing begins at 0: readers take that for none
        self._locations: list[Fields] = []
        self._bounds: list[tuple[int, int]] = []
        self._text_bytes: list[int] = []
        self._uncompressed = 0
        self.rows = 0
        body = b"".join(part for text in texts for part in (len(text).to_bytes(4, "little"), text))
        self._write(body, {1: DICTIONARY_PAGE, 7: {1: len(texts), 2: PLAIN, 3: False}})
        self._data_offset = self._source.size
        for page in in_pages(indices, form.rows_of(bits_for(len(texts)))):
            self._add(page)

    def _add(self, page: Indices) -> None:
        lowest, highest = int(page.min()), int(page.max())
        bits = bits_for(highest + 1)
        levels = _never_null(len(page)) if self._form.optional else b""
        at = self._source.size
        self._write(
            b"".join((levels, bytes([bits]), encoded_indices(page, bits))),
            {1: DATA_PAGE, 5: {1: len(page), 2: RLE_DICTIONARY, 3: RLE, 4: RLE}},
        )
        self._locations.append({1: at, 2: self._source.size - at, 3: self.rows})
        self._bounds.append((lowest, highest))
        counts = np.bincount(page)
        self._text_bytes.append(int(counts @ self._sizes[: len(counts)]))
        self.rows += len(page)

    def _write(self, body: bytes, header: Fields) -> None:
        packed = body if self._codec is None else self._codec.compress(body, asbytes=True)
        head = write_struct({**header, 2: len(body), 3: len(packed)}, PAGE_HEADER)
        self._source.write(head)
        self._source.write(packed)
        self._uncompressed += len(head) + len(body)

    @cached_property
    def chunk(self) -> Chunk:
        """The chunk as a footer describes it."""
        sizes: Fields = {1: sum(self._text_bytes)}
        if self._form.optional:
            sizes |= {2: [], 3: [0, self.rows]}
        return Chunk(
            {
                3: {
                    1: BYTE_ARRAY,
                    2: [PLAIN, RLE, RLE_DICTIONARY],
                    4: CODECS[self._form.codec],
                    5: self.rows,
                    6: self._uncompressed,
                    7: self._source.size - len(MAGIC),
                    9: self._data_offset,
                    11: len(MAGIC),
                    13: [
                        {1: DICTIONARY_PAGE, 2: PLAIN, 3: 1},
                        {1: DATA_PAGE, 2: RLE_DICTIONARY, 3: len(self._locations)},
                    ],
                    16: sizes,
                }
            }
        )

    @property
    def statistics(self) -> Fields:
        """No nulls, and the first and the last text, unless one is too long."""
        lowest, highest = self._texts[0], self._texts[-1]
        if max(len(lowest), len(highest)) > _LONGEST_BOUND:
            return {3: 0}
        return {3: 0, 5: highest, 6: lowest, 7: True, 8: True}

    @property
    def pages(self) -> Fields:
        """Page locations."""
        return {1: self._locations, 2: self._text_bytes}

    @property
    def page_statistics(self) -> bytes | None:
        """Statistics per page; `None` if some bound is too long."""
        lowest = [self._texts[low] for low, _ in self._bounds]
        highest = [self._texts[high] for _, high in self._bounds]
        if max(map(len, lowest + highest)) > _LONGEST_BOUND:
            return None
        pages = len(self._bounds)
        fields: Fields = {1: [False] * pages, 2: lowest, 3: highest, 4: _order(self._bounds), 5: [0] * pages}
        if self._form.optional:
            firsts = [location[3] for location in self._locations]
            fields[7] = [n for rows in np.diff(firsts, append=self.rows).tolist() for n in (0, rows)]
        return write_struct(fields, COLUMN_INDEX)

    @property
    def ranges(self) -> list[Range]:
        """All of its bytes."""
        return [Range(self._source, len(MAGIC), self._source.size - len(MAGIC))]


def _never_null(rows: int) -> bytes:
    """Levels of so many values, none of them null: one run."""
    run = varint(rows << 1) + b"\x01"
    return len(run).to_bytes(4, "little") + run


def _order(bounds: Sequence[tuple[int, int]]) -> int:
    """How the bounds of pages follow each other."""
    if all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(bounds)):
        return _ASCENDING
    if all(a[0] >= b[0] and a[1] >= b[1] for a, b in pairwise(bounds)):
        return _DESCENDING
    return _UNORDERED


def in_pages(arrays: Iterable[Indices], rows: int) -> Iterable[Indices]:
    """Arrays that follow each other, cut anew into pages of so many rows; the last may be shorter."""
    page: list[Indices] = []
    missing = rows
    for array in arrays:
        at = 0
        while at < len(array):
            page.append(array[at : at + missing])
            at += len(page[-1])
            missing -= len(page[-1])
            if not missing:
                yield page[0] if len(page) == 1 else np.concatenate(page)
                page, missing = [], rows
    if page:
        yield np.concatenate(page)
