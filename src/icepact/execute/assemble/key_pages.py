"""Rows of a row group that may have a key by what is known page by page, and the pages that have these rows.

A delete row matches only where every key column does, so a row is left only if its page may match in each of them.
Pages of different columns begin at different rows: what is left are ranges of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.ranges import page_ranges
from icepact.execute.deletes.equality import KeySet
from icepact.execute.parquet.some_pages import PagedChunk, paged_chunk
from icepact.execute.storage.base import MIB

_INDEX_SHARE = 8
"""Page indexes are looked at only if they are smaller than the chunks by this factor."""
_FEWEST_ROWS = 100
"""Rows of an average page below which values are decoded as fast as anything is said of their pages."""
_SAMPLE = 8
"""Pages that are looked at first: if most of them may match, the others are not looked at."""
_PAGES_SHARE = 2
"""Pages are read by themselves only if they are smaller than the chunks by this factor."""
_REQUEST = MIB
"""Bytes that arrive while a request waits for its answer, about."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class KeyPages:
    """Ranges of rows of a row group that may match, and the pages of key columns that have them."""

    starts: Numbers
    """Where ranges begin, ascending; they do not touch."""
    ends: Numbers
    """Where they end."""
    pages: Mapping[int, tuple[PagedChunk, Numbers]]
    """By field id, a column and the numbers of the pages that have these rows."""

    @property
    def rows(self) -> int:
        """Rows that may match."""
        return int((self.ends - self.starts).sum())

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Bytes that are needed, by offset and length."""
        if not self.rows:
            return []
        return [each for chunk, numbers in self.pages.values() for each in chunk.ranges(numbers.tolist())]

    def column(self, field_id: int) -> pa.ChunkedArray:
        """The values of these rows, at least one."""
        chunk, numbers = self.pages[field_id]
        values = chunk.decode(numbers.tolist())
        before = np.zeros(len(numbers), dtype=np.int64)  # rows that are decoded in front of each page
        np.cumsum(np.diff(chunk.edges)[numbers][:-1], out=before[1:])
        page = np.searchsorted(chunk.edges[numbers], self.starts, side="right") - 1
        at = before[page] + self.starts - chunk.edges[numbers][page]
        parts = [values.slice(*each) for each in zip(at.tolist(), (self.ends - self.starts).tolist(), strict=True)]
        return pa.chunked_array([piece for part in parts for piece in part.chunks], type=values.type)

    def spread(self, found: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
        """What was found of these rows, as rows of the row group."""
        every = np.zeros(rows, dtype=np.bool_)
        at = 0
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            every[start:end] = found[at : at + end - start]
            at += end - start
        return every


def key_pages(view: InputView, keys: KeySet, group: int) -> KeyPages | None:
    """The pages that may have a key; `None` if all key columns had better be read whole."""
    leaves = {i: view.leaf_index[i] for i in keys.field_ids if i in view.leaf_index and i not in view.constants}
    row_group = view.input.footer.row_groups[group]
    whole = sum(row_group.chunks[leaf].size for leaf in leaves.values())
    if _cost(view, [view.input.index_range]) * _INDEX_SHARE > whole:
        return None
    chunks: dict[int, PagedChunk] = {}
    for field_id, leaf in leaves.items():
        chunk = paged_chunk(view.input, group, leaf)
        if chunk is None or len(chunk.locations) * _FEWEST_ROWS > row_group.rows:
            return None
        chunks[field_id] = chunk
    possible = {i: _possible(view, keys, chunk, i) for i, chunk in chunks.items()}
    if not chunks or all(pages.all() for pages in possible.values()):
        return None
    found = _left(chunks, possible)
    return found if _cost(view, found.ranges) * _PAGES_SHARE <= whole else None


def _cost(view: InputView, ranges: Sequence[tuple[int, int]]) -> int:
    """What it takes to read ranges of a file, in bytes."""
    return sum(size for _, size in ranges) + (_REQUEST * len(ranges) if view.source.far else 0)


def _possible(view: InputView, keys: KeySet, chunk: PagedChunk, field_id: int) -> NDArray[np.bool_]:
    """For each page, whether it may have a key of this column; where most may, all are taken to."""
    every = np.ones(len(chunk.locations), dtype=np.bool_)
    ranges = page_ranges(view, chunk, field_id)
    if ranges is None:
        return every
    some = range(0, len(ranges), max(1, len(ranges) // _SAMPLE))
    if 2 * sum(keys.may_match_column(field_id, ranges.of(page)) for page in some) > len(some):
        return every
    return np.array([keys.may_match_column(field_id, ranges.of(page)) for page in range(len(ranges))], dtype=np.bool_)


def _left(chunks: Mapping[int, PagedChunk], possible: Mapping[int, NDArray[np.bool_]]) -> KeyPages:
    """The rows whose pages may match in every column."""
    edges = np.unique(np.concatenate([chunk.edges for chunk in chunks.values()]))
    left = np.ones(len(edges) - 1, dtype=np.bool_)
    for field_id, chunk in chunks.items():
        left &= possible[field_id][np.searchsorted(chunk.edges, edges[:-1], side="right") - 1]
    bounds = np.flatnonzero(np.diff(left, prepend=False, append=False))
    starts, ends = edges[bounds[0::2]], edges[bounds[1::2]]
    pages = {i: (chunk, _touched(chunk.edges, starts, ends)) for i, chunk in chunks.items()}
    return KeyPages(starts=starts, ends=ends, pages=pages)


def _touched(edges: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """Numbers of the pages that have rows of these ranges, ascending."""
    first = np.searchsorted(edges, starts, side="right") - 1
    last = np.searchsorted(edges, ends, side="left")
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last, -1)
    return np.flatnonzero(np.cumsum(change)[:-1] > 0)
