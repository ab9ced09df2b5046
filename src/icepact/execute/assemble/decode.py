"""Reading rows that are to be encoded anew: the target's columns, without the deleted rows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.assemble.encode import column_name
from icepact.execute.assemble.errors import NotAssembled, errors_named, too_few_rows
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.memory import most_decoded
from icepact.execute.assemble.project import project
from icepact.execute.assemble.reading import read_plan
from icepact.execute.assemble.target import LINEAGE_IDS, ROW_ID, arrow_type
from icepact.execute.deletes.columns import in_dictionaries
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.indices import IndexFile, in_steps, may_read_indices, numbers_as_stored
from icepact.execute.parquet.layout import (
    BYTE_ARRAY,
    BYTE_STREAM_SPLIT,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARIES,
    INT32,
    INT64,
)

_SPECIAL_ENCODINGS = {
    DELTA_BINARY_PACKED: "DELTA_BINARY_PACKED",
    DELTA_LENGTH_BYTE_ARRAY: "DELTA_LENGTH_BYTE_ARRAY",
    DELTA_BYTE_ARRAY: "DELTA_BYTE_ARRAY",
    BYTE_STREAM_SPLIT: "BYTE_STREAM_SPLIT",
}
_SHARE_OF_INDICES = 4
"""Of what may be decoded at once, indices that are kept in memory beside it take so small a part at most, encoded."""


def in_dictionary(chunk: Chunk) -> bool:
    """True if every value of a chunk is in its dictionary."""
    encodings = chunk.data_encodings
    if encodings is None:
        return chunk.dictionary_offset is not None and 0 not in chunk.encodings
    return bool(encodings) and encodings <= DICTIONARIES


class _Bare(NamedTuple):
    """Columns that are read as the numbers that are stored."""

    metadata: pq.FileMetaData | None
    """A footer that says so; `None` if the file's own is read."""
    leaves: frozenset[int]


class Decoder:
    """Decodes row groups of one file."""

    def __init__(self, view: InputView, without: frozenset[int] = frozenset()) -> None:
        """`without` has the numbers of the target's columns that are not decoded."""
        self.view = view
        self.without = without
        self._fields = [field for n, field in enumerate(view.target.fields) if n not in without]
        self._columns, self._nodes = read_plan(view.schema, self._fields)
        self._numbers = self._whole_numbers()

    def _whole_numbers(self) -> dict[int, pa.DataType]:
        """By leaf: columns of whole numbers, dates and times that are stored as the target holds them, and how."""
        view = self.view
        if view.input.why_nothing_copied is not None:
            return {}
        fields = [field for n, field in enumerate(view.target.fields) if n in view.in_form and n not in self.without]
        leaves = {view.leaf_index.get(field["id"]): field for field in fields if isinstance(field["type"], str)}
        return {
            leaf: arrow_type(leaves[leaf]["type"])
            for leaf in self._columns
            if leaf in leaves and view.leaves[leaf].physical in (INT32, INT64)
        }

    @cached_property
    def _file(self) -> pq.ParquetFile:
        footer = self.view.input.footer
        flat = [n for n in self._columns if len(footer.leaves[n].path) == 1 and footer.leaves[n].physical == BYTE_ARRAY]
        kept = [n for n in flat if all(in_dictionary(group.chunks[n]) for group in footer.row_groups)]
        dictionaries = [footer.leaves[n].path[0].decode() for n in kept]
        return self.view.opened(as_dictionaries=dictionaries, metadata=self._bare.metadata)

    @cached_property
    def _bare(self) -> _Bare:
        """Short decimals are read as the numbers that they are held as."""
        footer = self.view.input.footer
        decimals = [n for n in self._numbers if footer.leaves[n].logical[:1] == ("decimal",)]
        metadata = numbers_as_stored(footer, decimals) if decimals else None
        return _Bare(metadata, frozenset() if metadata is None else frozenset(decimals))

    def rows(self, group: int, keep: np.ndarray | None, most: int) -> Iterator[pa.Table]:
        """Rows of a row group as the target's columns, at most so many at once; `keep` says which survive."""
        with errors_named(self.view.file.path):
            yield from self._rows(group, keep, most)

    def _rows(self, group: int, keep: np.ndarray | None, most: int) -> Iterator[pa.Table]:
        row_group = self.view.input.footer.row_groups[group]
        at = 0
        for rows, columns in self._pieces(group, row_group.rows, most):
            found = min(map(len, columns), default=rows)
            if found != rows:  # a page has fewer than its chunk says
                raise too_few_rows(self.view.file.path, at + found, row_group.rows)
            if not all(map(in_dictionaries, columns)):
                raise NotAssembled(f"{self.view.file.path}: an index is beyond its dictionary")
            kept = None if keep is None else keep[at : at + rows]
            yield self._projected(columns, np.arange(row_group.first_row + at, row_group.first_row + at + rows), kept)
            at += rows
        if at != row_group.rows:
            raise too_few_rows(self.view.file.path, at, row_group.rows)

    def _pieces(self, group: int, rows: int, most: int) -> Iterator[tuple[int, list[pa.ChunkedArray]]]:
        """The columns that the file has, at most so many rows at once; numbers in small dictionaries as indices."""
        if not self._columns:
            for at in range(0, rows, most):
                yield min(most, rows - at), []
            return
        view = self.view
        view.preload(group, self._columns)
        kinds = self._in_indices(group, whole=rows <= most)
        indices = None
        with suppress(Damaged):  # the whole column says what is wrong, if it cannot do without that
            indices = IndexFile(view.source, view.input.footer, group, kinds) if kinds else None
        kinds = kinds if indices else {}
        rest = [leaf for leaf in self._columns if leaf not in kinds]
        if rows <= most:
            threads = pa.cpu_count() > 1
            others = self._file.reader.read_row_groups([group], rest, use_threads=threads).columns if rest else []
            yield rows, self._merged(others, indices.columns() if indices else [], kinds)
            return
        of_rest = in_steps(self._file, group, rest, most) if rest else repeat([])
        of_indices = indices.steps(most) if indices else repeat([])
        for others, found in zip(of_rest, of_indices, strict=False):
            columns = self._merged(others, found, kinds)
            yield len(columns[0]), columns

    def _in_indices(self, group: int, *, whole: bool) -> dict[int, pa.DataType]:
        """By leaf: columns of a row group of which indices are read, and their types. A row group that is too large to
        be decoded as a whole may be too large to have them in memory, too."""
        chunks = self.view.input.footer.row_groups[group].chunks
        kinds = {leaf: kind for leaf, kind in self._numbers.items() if may_read_indices(chunks[leaf])}
        size = sum(chunks[leaf].size for leaf in kinds)
        return kinds if whole or size <= most_decoded(self.view.context.writing) // _SHARE_OF_INDICES else {}

    def _merged(
        self, others: Sequence[pa.ChunkedArray], found: Sequence[pa.ChunkedArray], kinds: Iterable[int]
    ) -> list[pa.ChunkedArray]:
        """Columns in the order of the file's own."""
        by_id = {self.view.leaves[leaf].field_id: column for leaf, column in zip(kinds, found, strict=True)}
        each = iter(others)
        return [by_id[node.field_id] if node.field_id in by_id else next(each) for node in self._nodes]

    def _projected(self, decoded: list[pa.ChunkedArray], positions: np.ndarray, keep: np.ndarray | None) -> pa.Table:
        view = self.view
        if keep is not None:
            mask = pa.array(keep)
            decoded, positions = [column.filter(mask) for column in decoded], positions[keep]
        index_of = {child.field_id: n for n, child in enumerate(self._nodes)}
        columns: list[pa.ChunkedArray] = []
        for field in self._fields:
            index = index_of.get(field["id"])
            if field["id"] in LINEAGE_IDS:
                stored = None if index is None else decoded[index]
                columns.append(lineage(view, field["id"], positions, stored))
            elif index is None:
                constant = pa.repeat(view.constant(field), len(positions))
                columns.append(pa.chunked_array([constant], type=arrow_type(field["type"])))
            elif self.view.leaf_index.get(field["id"]) in self._bare.leaves:
                columns.append(decoded[index])
            else:
                columns.append(project(decoded[index], self._nodes[index], field, view.constant))
        return pa.table(columns, names=[column_name(f["id"]) for f in self._fields])


def lineage(view: InputView, field_id: int, positions: np.ndarray, stored: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """Row ids or update numbers: those that the file stores, nulls resolved; without a first row id there are none."""
    if view.file.first_row_id is None:
        return pa.chunked_array([pa.nulls(len(positions), pa.int64())])
    if field_id == ROW_ID:
        inherited = pa.array(positions + view.file.first_row_id)
    else:
        inherited = pa.repeat(pa.scalar(view.file.sequence_number, pa.int64()), len(positions))
    if stored is None:
        return pa.chunked_array([inherited])
    if stored.null_count == 0:
        return stored
    return pa.chunked_array([pa.array(stored.combine_chunks()).fill_null(inherited)])


def named_encoding(chunk: Chunk) -> str | None:
    """The encoding of a chunk without a dictionary, if it is a special one."""
    encodings = (chunk.data_encodings or frozenset()) - DICTIONARIES
    return _SPECIAL_ENCODINGS.get(next(iter(encodings))) if len(encodings) == 1 else None
