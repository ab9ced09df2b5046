"""Reading rows that are to be encoded anew: the target's columns, without the deleted rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.assemble.encode import column_name
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.project import project
from icepact.execute.assemble.target import LAST_UPDATED, ROW_ID, arrow_type
from icepact.execute.assemble.view import View
from icepact.execute.parquet.footer import Chunk, RowGroup
from icepact.execute.parquet.layout import (
    BYTE_ARRAY,
    BYTE_STREAM_SPLIT,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
)

_DICTIONARY = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})
_SMALL = 8 * 1024**2
"""Files below this size are fetched with one request."""
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
    return bool(found) and found <= _DICTIONARY


class Decoder:
    """Decodes row groups of one file."""

    def __init__(self, view: View) -> None:
        self.view = view
        footer = view.input.footer
        self._columns, self._nodes = view.read_plan
        if not self._columns:
            raise NotAssembled(f"{view.file.path} has none of the table's columns")
        used = self._columns
        chunks = {n: [group.chunks[n] for group in footer.row_groups] for n in used}
        kept = [n for n in used if footer.leaves[n].physical == BYTE_ARRAY and all(map(in_dictionary, chunks[n]))]
        flat = [n for n in kept if len(footer.leaves[n].path) == 1]
        self.file = pq.ParquetFile(
            self._readable(),
            read_dictionary=[footer.leaves[n].path[0].decode() for n in flat] or None,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        )

    def _readable(self) -> Any:
        """The file as pyarrow reads it; a small one is held in memory as a whole."""
        source = self.view.source
        return pa.BufferReader(source.read(0, source.size)) if source.size < _SMALL else source.arrow()

    def rows(self, group: int, keep: np.ndarray | None, most: int) -> Iterator[pa.Table]:
        """Rows of a row group as the target's columns, at most so many at once; `keep` says which survive."""
        where = self.view.input.footer.row_groups[group]
        self.preload([where])
        if where.rows <= most:
            pieces: Iterator[Any] = iter([self.file.reader.read_row_groups([group], self._columns, use_threads=False)])
        else:
            pieces = self.file.reader.iter_batches(most, [group], self._columns, use_threads=False)
        at = 0
        for piece in pieces:
            table = piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece])
            kept = None if keep is None else keep[at : at + table.num_rows]
            yield self._projected(table, where.first_row + at, kept)
            at += piece.num_rows

    def preload(self, groups: Sequence[RowGroup]) -> None:
        """Fetch the chunks that will be decoded in few requests."""
        ranges = [(g.chunks[n].start, g.chunks[n].size) for g in groups for n in self._columns]
        self.view.source.preload(ranges)

    def _projected(self, table: pa.Table, first: int, keep: np.ndarray | None) -> pa.Table:
        view = self.view
        positions = np.arange(first, first + table.num_rows, dtype=np.int64)
        rows = table.num_rows
        if keep is not None:
            table, positions = table.filter(pa.array(keep)), positions[keep]
            rows = len(positions)
        at = {child.field_id: n for n, child in enumerate(self._nodes)}
        columns: list[pa.ChunkedArray] = []
        for field in view.target.fields:
            place = at.get(field["id"])
            if field["id"] in (ROW_ID, LAST_UPDATED):
                held = None if place is None else table.column(place)
                columns.append(lineage(view, field["id"], positions, held))
            elif place is None:
                columns.append(
                    pa.chunked_array([pa.repeat(view.constant(field), rows)], type=arrow_type(field["type"]))
                )
            else:
                columns.append(project(table.column(place), self._nodes[place], field, view.constant))
        return pa.table(columns, names=[column_name(f["id"]) for f in view.target.fields])


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
    found = (chunk.data_encodings or frozenset()) - _DICTIONARY
    return _NAMED.get(next(iter(found))) if len(found) == 1 else None
