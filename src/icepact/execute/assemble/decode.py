"""Reading rows that are to be encoded anew: the target's columns, without the deleted rows."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.assemble.encode import column_name
from icepact.execute.assemble.errors import NotAssembled, one_line
from icepact.execute.assemble.project import project
from icepact.execute.assemble.reading import read_plan
from icepact.execute.assemble.target import LINEAGE_IDS, ROW_ID, arrow_type
from icepact.execute.assemble.view import View
from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.layout import (
    BYTE_ARRAY,
    BYTE_STREAM_SPLIT,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARIES,
)

_NAMED = {
    DELTA_BINARY_PACKED: "DELTA_BINARY_PACKED",
    DELTA_LENGTH_BYTE_ARRAY: "DELTA_LENGTH_BYTE_ARRAY",
    DELTA_BYTE_ARRAY: "DELTA_BYTE_ARRAY",
    BYTE_STREAM_SPLIT: "BYTE_STREAM_SPLIT",
}


def in_dictionary(chunk: Chunk) -> bool:
    """True if every value of a chunk is held in its dictionary."""
    found = chunk.data_encodings
    if found is None:
        return chunk.dictionary_offset is not None and 0 not in chunk.encodings
    return bool(found) and found <= DICTIONARIES


class Decoder:
    """Decodes row groups of one file."""

    def __init__(self, view: View, without: frozenset[int] = frozenset()) -> None:
        """`without` has the numbers of the target's columns that are not wanted."""
        self.view = view
        self.without = without
        self._fields = [field for n, field in enumerate(view.target.fields) if n not in without]
        self._columns, self._nodes = read_plan(view.schema, self._fields)

    @cached_property
    def _file(self) -> pq.ParquetFile:
        footer = self.view.input.footer
        flat = [n for n in self._columns if len(footer.leaves[n].path) == 1 and footer.leaves[n].physical == BYTE_ARRAY]
        kept = [n for n in flat if all(in_dictionary(group.chunks[n]) for group in footer.row_groups)]
        return self.view.opened(as_dictionaries=[footer.leaves[n].path[0].decode() for n in kept])

    def rows(self, group: int, keep: np.ndarray | None, most: int) -> Iterator[pa.Table]:
        """Rows of a row group as the target's columns, at most so many at once; `keep` says which survive."""
        try:
            yield from self._rows(group, keep, most)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise NotAssembled(f"{self.view.file.path}: {one_line(error)}") from error

    def _rows(self, group: int, keep: np.ndarray | None, most: int) -> Iterator[pa.Table]:
        where = self.view.input.footer.row_groups[group]
        at = 0
        for rows, columns in self._pieces(group, where.rows, most):
            kept = None if keep is None else keep[at : at + rows]
            yield self._projected(columns, np.arange(where.first_row + at, where.first_row + at + rows), kept)
            at += rows

    def _pieces(self, group: int, rows: int, most: int) -> Iterator[tuple[int, list[pa.ChunkedArray]]]:
        """The columns that the file has, at most so many rows at once."""
        if not self._columns:
            for at in range(0, rows, most):
                yield min(most, rows - at), []
        elif rows <= most:
            yield rows, self.view.read_columns(self._file, group, self._columns).columns
        else:
            self.view.preload(group, self._columns)
            threads = pa.cpu_count() > 1
            for batch in self._file.reader.iter_batches(most, [group], self._columns, use_threads=threads):
                yield batch.num_rows, [pa.chunked_array([column]) for column in batch.columns]

    def _projected(self, found: list[pa.ChunkedArray], positions: np.ndarray, keep: np.ndarray | None) -> pa.Table:
        view = self.view
        if keep is not None:
            mask = pa.array(keep)
            found, positions = [column.filter(mask) for column in found], positions[keep]
        at = {child.field_id: n for n, child in enumerate(self._nodes)}
        columns: list[pa.ChunkedArray] = []
        for field in self._fields:
            place = at.get(field["id"])
            if field["id"] in LINEAGE_IDS:
                held = None if place is None else found[place]
                columns.append(lineage(view, field["id"], positions, held))
            elif place is None:
                constant = pa.repeat(view.constant(field), len(positions))
                columns.append(pa.chunked_array([constant], type=arrow_type(field["type"])))
            else:
                columns.append(project(found[place], self._nodes[place], field, view.constant))
        return pa.table(columns, names=[column_name(f["id"]) for f in self._fields])


def lineage(view: View, field_id: int, positions: np.ndarray, held: pa.ChunkedArray | None) -> pa.ChunkedArray:
    """Row ids or update numbers: what the file holds, nulls resolved; without a first row id there are none."""
    if view.file.first_row_id is None:
        return pa.chunked_array([pa.nulls(len(positions), pa.int64())])
    if field_id == ROW_ID:
        inherited = pa.array(positions + view.file.first_row_id)
    else:
        inherited = pa.repeat(pa.scalar(view.file.sequence_number, pa.int64()), len(positions))
    if held is None:
        return pa.chunked_array([inherited])
    if held.null_count == 0:
        return held
    return pa.chunked_array([pa.array(held.combine_chunks()).fill_null(inherited)])


def named_encoding(chunk: Chunk) -> str | None:
    """The encoding of a chunk without a dictionary, if it is a special one."""
    found = (chunk.data_encodings or frozenset()) - DICTIONARIES
    return _NAMED.get(next(iter(found))) if len(found) == 1 else None
