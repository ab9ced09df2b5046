"""A chunk made of the pages of several chunks: small row groups become a large one without being decoded.

A data page stands for itself, unless it refers to its chunk's dictionary: pages without one may follow pages of
another file in the same chunk, if the codec is the same. Statistics and page indexes are put together.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.input import Input, MemorySource, Pick, Range
from icepact.execute.parquet.layout import COLUMN_INDEX, DICTIONARIES, PAGE_ENCODING
from icepact.execute.parquet.schema import Leaf
from icepact.execute.parquet.thrift import Fields, read_struct, write_struct
from icepact.execute.parquet.trust import bound_value, sortable

_DATA_PAGES = (b"\x15\x00", b"\x15\x06")
"""How the headers of data pages begin: their first field is the kind of page."""
_UNORDERED = 0


def may_join(file: Input, group: int, column: int, *, codec: int, fewest_rows: int) -> bool:
    """True if the pages of a chunk may become part of a longer chunk, and are worth it."""
    row_group = file.footer.row_groups[group]
    chunk = row_group.chunks[column]
    if chunk.codec != codec or chunk.dictionary_offset is not None or not DICTIONARIES.isdisjoint(chunk.encodings):
        return False
    if file.why_not_copied(group, column, walk=False) is not None:
        return False
    pages = file.pages(group, column)
    if pages is None or row_group.rows < fewest_rows * len(pages[1]):
        return False
    if not isinstance(file.source, MemorySource):  # to check would be a request for each page
        return True
    return all(bytes(file.source.read(location[1], 2)) in _DATA_PAGES for location in pages[1])


class JoinedChunk:
    """One column of a row group: the pages of several chunks, one chunk behind the other."""

    def __init__(self, parts: Sequence[Pick]) -> None:
        self._parts = parts

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self._parts)

    @property
    def ranges(self) -> list[Range]:
        """The bytes of all parts."""
        return [piece for part in self._parts for piece in part.ranges]

    @cached_property
    def chunk(self) -> Chunk:
        """The chunk as if it were at the beginning of a file."""
        metas = [part.chunk.meta for part in self._parts]
        meta: Fields = {
            1: metas[0][1],
            2: sorted({encoding for one in metas for encoding in one[2]}),
            3: metas[0][3],
            4: metas[0][4],
            **{number: sum(one[number] for one in metas) for number in (5, 6, 7)},
            9: 0,
        }
        if counts := _page_counts([one.get(13, []) for one in metas]):
            meta[13] = counts
        return Chunk({3: meta})

    @property
    def statistics(self) -> Fields:
        """Statistics that hold for all parts together."""
        each = [part.statistics for part in self._parts]
        joined: Fields = {
            number: sum(one[number] for one in each) for number in (3, 9) if all(number in o for o in each)
        }
        filled = [one for one, part in zip(each, self._parts, strict=True) if one.get(3) != part.chunk.values]
        first = self._parts[0]
        leaf = first.input.footer.leaves[first.column]
        if not filled or not sortable(leaf) or leaf.logical == ("float16",):
            return joined
        for bound, exact, furthest in ((5, 7, max), (6, 8, min)):
            if all(bound in one for one in filled):
                best = _furthest(furthest, filled, bound, leaf)
                joined |= {number: best[number] for number in (bound, exact) if number in best}
        return joined

    @property
    def pages(self) -> Fields | None:
        """Page locations, from the beginning of the chunk."""
        locations: list[Fields] = []
        at = row = 0
        each = [part.pages for part in self._parts]
        for part, pages in zip(self._parts, each, strict=True):
            if pages is None:
                return None
            by = at - part.chunk.start
            locations += [{**one, 1: one[1] + by, 3: one[3] + row} for one in pages[1]]
            at, row = at + part.chunk.size, row + part.rows
        fields: Fields = {1: locations}
        if all(pages is not None and 2 in pages for pages in each):
            fields[2] = [size for pages in each if pages is not None for size in pages[2]]
        return fields

    @property
    def page_statistics(self) -> bytes | None:
        """Statistics per page, in no order."""
        indexes: list[Fields] = []
        for part in self._parts:
            data = part.page_statistics
            if data is None:
                return None
            indexes.append(read_struct(data, COLUMN_INDEX)[0])
        numbers = [1, 2, 3, *(number for number in (5, 8) if all(number in one for one in indexes))]
        joined: Fields = {number: [value for one in indexes for value in one[number]] for number in numbers}
        return write_struct({**joined, 4: _UNORDERED}, COLUMN_INDEX)

    @property
    def bloom(self) -> None:
        """`None`: filters of several chunks cannot be put together."""


def _furthest(furthest: Callable[..., Fields], filled: Sequence[Fields], bound: int, leaf: Leaf) -> Fields:
    return furthest(filled, key=lambda one: _ordered(bound_value(leaf, one[bound])))


def _ordered(value: Any) -> Any:
    """Zeros are ordered by their sign, as writers of statistics do."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def _page_counts(parts: Sequence[Sequence[Fields]]) -> list[Fields]:
    """Pages by kind and encoding; nothing if some file did not count them."""
    totals: dict[tuple[int, int], int] = {}
    for entries in parts:
        if not entries or any(len(entry) != len(PAGE_ENCODING) for entry in entries):
            return []
        for entry in entries:
            key = entry[1], entry[2]
            totals[key] = totals.get(key, 0) + entry[3]
    return [{1: kind, 2: encoding, 3: count} for (kind, encoding), count in totals.items()]
