"""Chunks that a copied row group lacks: columns added since, and row lineage. Made up, not decoded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from icepact.execute.assemble.decode import lineage
from icepact.execute.assemble.encode import Encoder, column_name
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.target import LINEAGE_IDS, ROW_ID, arrow_type
from icepact.execute.parquet.assembler import ChunkToWrite
from icepact.execute.parquet.input import Input, Pick

_MOST_ROWS = 64 * 1024**2
_ROW_ID_ENCODING = {column_name(ROW_ID): "DELTA_BINARY_PACKED"}


def picks(view: InputView, group: int, encoder: Encoder, fresh: Mapping[int, ChunkToWrite]) -> list[ChunkToWrite]:
    """A chunk for every leaf of the target: the file's own, or one that is made up; `fresh` ones stand as they are."""
    # for the lineage columns of the target, the file's own column if it can be copied
    own = {i: view.lineage_column(i, group) for i in LINEAGE_IDS} if view.context.lineage else {}
    synthetic = {n: None for n, f in enumerate(view.target.fields) if n in view.absent or own.get(f["id"], 0) is None}
    extra = _synthesized(view, group, list(synthetic), encoder) if synthetic else None
    chunks: list[ChunkToWrite] = []
    used = 0
    for number, (leaf, index) in enumerate(zip(view.target.leaves, view.leaf_of, strict=True)):
        if number in fresh:
            chunks.append(fresh[number])
        elif view.target.top_of_leaf[number] in synthetic:
            assert extra is not None
            chunks.append(Pick(extra, 0, used))
            used += 1
        else:
            mine = own.get(leaf.field_id, index) if leaf.field_id is not None else index
            assert mine is not None  # `InputView.copyable` has seen to it
            chunks.append(Pick(view.input, group, mine))
    return chunks


def _synthesized(view: InputView, group: int, columns: list[int], encoder: Encoder) -> Input:
    row_group = view.input.footer.row_groups[group]
    if row_group.rows > _MOST_ROWS:
        raise NotAssembled(f"a row group of {row_group.rows} rows lacks a column, and no chunk is made that long")
    arrays: list[Any] = []
    for number in columns:
        field = view.target.fields[number]
        if field["id"] in LINEAGE_IDS:
            positions = np.arange(row_group.first_row, row_group.first_row + row_group.rows, dtype=np.int64)
            arrays.append(lineage(view, field["id"], positions, _stored_lineage(view, group, field["id"])))
        else:
            arrays.append(pa.repeat(view.constant(field), row_group.rows).cast(arrow_type(field["type"])))
    schema = pa.schema([encoder.schema.field(number) for number in columns])
    constant = frozenset(name for name in schema.names if name not in _ROW_ID_ENCODING)
    return encoder.write(pa.Table.from_arrays(arrays, schema=schema), constant, _ROW_ID_ENCODING)


def _stored_lineage(view: InputView, group: int, field_id: int) -> pa.ChunkedArray | None:
    """A lineage column that the file stores, decoded: its nulls mean something else in the output."""
    index = view.leaf_index.get(field_id)
    if index is None or field_id not in view.top_level or view.file.first_row_id is None:
        return None
    return view.read_columns(view.opened(), group, [index]).column(0)
