"""Reading rows that are to be encoded anew: the target's columns, without the deleted rows."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.assemble.encode import column_name
from icepact.execute.assemble.errors import NotAssembled, one_line
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.project import project
from icepact.execute.assemble.reading import read_plan
from icepact.execute.assemble.target import LINEAGE_IDS, ROW_ID, arrow_type
from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.layout import (
    BYTE_ARRAY,
    BYTE_STREAM_SPLIT,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARIES,
)

_SPECIAL_ENCODINGS = {
    DELTA_BINARY_PACKED: "DELTA_BINARY_PACKED",
    DELTA_LENGTH_BYTE_ARRAY: "DELTA_LENGTH_BYTE_ARRAY",
    DELTA_BYTE_ARRAY: "DELTA_BYTE_ARRAY",
    BYTE_STREAM_SPLIT: "BYTE_STREAM_SPLIT",
}


def in_dictionary(chunk: Chunk) -> bool:
    """True if every value of a chunk is in its dictionary."""
    encodings = chunk.data_encodings
    if encodings is None:
        return chunk.dictionary_offset is not None and 0 not in chunk.encodings
    return bool(encodings) and encodings <= DICTIONARIES


class Decoder:
    """Decodes row groups of one file."""

    def __init__(self, view: InputView, without: frozenset[int] = frozenset()) -> None:
        """`without` has the numbers of the target's columns that are not decoded."""
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
        row_group = self.view.input.footer.row_groups[group]
        at = 0
        for rows, columns in self._pieces(group, row_group.rows, most):
            kept = None if keep is None else keep[at : at + rows]
            yield self._projected(columns, np.arange(row_group.first_row + at, row_group.first_row + at + rows), kept)
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
