"""Chunks that a copied row group lacks: columns added since, and row lineage. Made up, not decoded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from icepact.execute.assemble.decode import lineage
from icepact.execute.assemble.encode import Encoder, column_name
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.target import LINEAGE_IDS, ROW_ID, arrow_type
from icepact.execute.assemble.view import View
from icepact.execute.parquet.input import Input, Pick

_MOST_ROWS = 64 * 1024**2
_ROW_ID_ENCODING = {column_name(ROW_ID): "DELTA_BINARY_PACKED"}


def picks(view: View, group: int, encoder: Encoder, fresh: Mapping[int, Pick]) -> list[Pick]:
    """A chunk for every leaf of the target: the file's own, or one that is made up; `fresh` ones stand as they are."""
    own = _own_lineage(view, group)
    made = {n: None for n, f in enumerate(view.target.fields) if n in view.absent or own.get(f["id"], 0) is None}
    extra = _made_up(view, group, list(made), encoder) if made else None
    found: list[Pick] = []
    used = 0
    for number, (leaf, place) in enumerate(zip(view.target.leaves, view.leaf_of, strict=True)):
        if number in fresh:
            found.append(fresh[number])
        elif view.target.top_of_leaf[number] in made:
            assert extra is not None
            found.append(Pick(extra, 0, used))
            used += 1
        else:
            mine = own.get(leaf.field_id, place) if leaf.field_id is not None else place
            assert mine is not None  # `View.copyable` has seen to it
            found.append(Pick(view.input, group, mine))
    return found


def _own_lineage(view: View, group: int) -> dict[int, int | None]:
    """For the lineage columns of the target, the file's own column if it can be copied."""
    if not view.context.lineage:
        return {}
    return {field_id: view.lineage_column(field_id, group) for field_id in LINEAGE_IDS}


def _made_up(view: View, group: int, columns: list[int], encoder: Encoder) -> Input:
    where = view.input.footer.row_groups[group]
    if where.rows > _MOST_ROWS:
        raise NotAssembled(f"a row group of {where.rows} rows lacks a column, and no chunk is made that long")
    arrays: list[Any] = []
    for number in columns:
        field = view.target.fields[number]
        if field["id"] in LINEAGE_IDS:
            positions = np.arange(where.first_row, where.first_row + where.rows, dtype=np.int64)
            arrays.append(lineage(view, field["id"], positions, _held(view, group, field["id"])))
        else:
            arrays.append(pa.repeat(view.constant(field), where.rows).cast(arrow_type(field["type"])))
    schema = pa.schema([encoder.schema.field(number) for number in columns])
    constant = frozenset(name for name in schema.names if name not in _ROW_ID_ENCODING)
    return encoder.write(pa.Table.from_arrays(arrays, schema=schema), constant, _ROW_ID_ENCODING)


def _held(view: View, group: int, field_id: int) -> pa.ChunkedArray | None:
    """A lineage column that the file has, decoded: it has nulls that mean something else in the output."""
    place = view.place_of.get(field_id)
    if place is None or field_id not in view.top_level or view.file.first_row_id is None:
        return None
    return view.read_columns(view.opened(), group, [place]).column(0)
