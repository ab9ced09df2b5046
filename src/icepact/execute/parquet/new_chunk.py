"""Chunks that are made in memory page by page, of columns that are neither nested nor null anywhere.

pyarrow's writer takes such a column value by value: it marks each as not null, and compares each with the bounds. Here
a page is one array.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icepact.execute.parquet.footer import MAGIC, Chunk
from icepact.execute.parquet.input import Pieces, Range
from icepact.execute.parquet.layout import CODECS, COLUMN_INDEX, DATA_PAGE, DICTIONARY_PAGE, PAGE_HEADER, PLAIN, RLE
from icepact.execute.parquet.thrift import Fields, varint, write_struct

Numbers = NDArray[np.integer[Any]]
A = TypeVar("A", bound=NDArray[Any])

_LONGEST_BOUND = 4096
"""Bytes beyond which a bound is not written down."""
_UNORDERED, _ASCENDING, _DESCENDING = range(3)


@dataclass(frozen=True, kw_only=True, slots=True)
class PageForm:
    """How the pages of a new chunk are made."""

    physical: int
    """Number of the physical type."""
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


class NewChunk(ABC):
    """One column of a row group."""

    bloom = None
    """Filters are not made here."""

    def __init__(self, form: PageForm, encoding: int) -> None:
        """`encoding` is that of its data pages."""
        self._form = form
        self._encoding = encoding
        self._codec = None if form.codec == "uncompressed" else pa.Codec(form.codec, form.level)
        self._source = Pieces()
        self._source.write(MAGIC)  # nothing begins at 0: readers take that for none
        self._data_offset = self._source.size
        self._locations: list[Fields] = []
        self._bounds: list[tuple[int, int]] = []
        """The lowest and the highest value of each page, as numbers in the same order."""
        self._text_bytes: list[int] = []
        """Of each page: bytes of its texts; none for other types."""
        self._uncompressed = 0
        self.rows = 0

    @abstractmethod
    def _bound(self, number: int) -> bytes:
        """What a number in `_bounds` stands for, as statistics hold it."""

    def _add_dictionary(self, body: bytes, values: int) -> None:
        self._write([body], {1: DICTIONARY_PAGE, 7: {1: values, 2: PLAIN, 3: False}})
        self._data_offset = self._source.size

    def _add_page(self, body: Sequence[bytes | memoryview], rows: int, bounds: tuple[int, int]) -> None:
        levels = _never_null(rows) if self._form.optional else b""
        at = self._source.size
        self._write([levels, *body], {1: DATA_PAGE, 5: {1: rows, 2: self._encoding, 3: RLE, 4: RLE}})
        self._locations.append({1: at, 2: self._source.size - at, 3: self.rows})
        self._bounds.append(bounds)
        self.rows += rows

    def _write(self, parts: Sequence[bytes | memoryview], header: Fields) -> None:
        body = b"".join(parts)
        packed = body if self._codec is None else self._codec.compress(body, asbytes=True)
        head = write_struct({**header, 2: len(body), 3: len(packed)}, PAGE_HEADER)
        self._source.write(head)
        self._source.write(packed)
        self._uncompressed += len(head) + len(body)

    @cached_property
    def chunk(self) -> Chunk:
        """The chunk as a footer describes it."""
        in_dictionary = self._data_offset > len(MAGIC)
        meta: Fields = {
            1: self._form.physical,
            2: [PLAIN, RLE, self._encoding] if in_dictionary else [PLAIN, RLE],
            4: CODECS[self._form.codec],
            5: self.rows,
            6: self._uncompressed,
            7: self._source.size - len(MAGIC),
            9: self._data_offset,
            13: [{1: DATA_PAGE, 2: self._encoding, 3: len(self._locations)}],
        }
        if in_dictionary:
            meta |= {11: len(MAGIC), 13: [{1: DICTIONARY_PAGE, 2: PLAIN, 3: 1}, *meta[13]]}
        sizes: Fields = {1: sum(self._text_bytes)} if self._text_bytes else {}
        if self._form.optional:
            sizes |= {2: [], 3: [0, self.rows]}
        return Chunk({3: {**meta, 16: sizes} if sizes else meta})

    @property
    def statistics(self) -> Fields:
        """No nulls, and the lowest and the highest value, unless one is too long."""
        lowest = self._bound(min(low for low, _ in self._bounds))
        highest = self._bound(max(high for _, high in self._bounds))
        if max(len(lowest), len(highest)) > _LONGEST_BOUND:
            return {3: 0}
        return {3: 0, 5: highest, 6: lowest, 7: True, 8: True}

    @property
    def pages(self) -> Fields:
        """Page locations."""
        return {1: self._locations, 2: self._text_bytes} if self._text_bytes else {1: self._locations}

    @property
    def page_statistics(self) -> bytes | None:
        """Statistics per page; `None` if some bound is too long."""
        lowest = [self._bound(low) for low, _ in self._bounds]
        highest = [self._bound(high) for _, high in self._bounds]
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


class PlainChunk(NewChunk):
    """Whole numbers, each written as it is."""

    def __init__(self, numbers: Iterable[Numbers], form: PageForm, width: int) -> None:
        """Arrays of signed numbers of so many bytes follow each other."""
        super().__init__(form, PLAIN)
        self._width = width
        for page in in_pages(numbers, form.rows_of(8 * width)):
            self._add_page([page.data], len(page), (int(page.min()), int(page.max())))

    def _bound(self, number: int) -> bytes:
        return number.to_bytes(self._width, "little", signed=True)


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


def in_pages(arrays: Iterable[A], rows: int) -> Iterable[A]:
    """Arrays that follow each other, cut anew into pages of so many rows; the last may be shorter."""
    page: list[A] = []
    missing = rows
    for array in arrays:
        at = 0
        while at < len(array):
            page.append(cast(A, array[at : at + missing]))
            at += len(page[-1])
            missing -= len(page[-1])
            if not missing:
                yield page[0] if len(page) == 1 else cast(A, np.concatenate(page))
                page, missing = [], rows
    if page:
        yield cast(A, np.concatenate(page))
