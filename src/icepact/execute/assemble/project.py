"""Decoded columns of a file as columns of the target: by field id, at every depth."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.reading import inside
from icepact.execute.assemble.target import arrow_type, decimal_of
from icepact.execute.deletes.columns import decimal_halves
from icepact.execute.parquet.schema import Node
from icepact.model.schema import parts_of

Constant = Callable[[Mapping[str, Any]], pa.Scalar]
"""The value of a field that a file lacks."""


def project(column: pa.ChunkedArray, node: Node, field: Mapping[str, Any], constant: Constant) -> pa.ChunkedArray:
    """A column of a file as the target wants it; a dictionary stays a dictionary."""
    if isinstance(field["type"], str):
        return _primitive(column, field["type"])
    wanted = arrow_type(field["type"])
    if _same(node, field["type"]) and column.type.equals(wanted):
        return column
    return pa.chunked_array([_array(chunk, node, field["type"], constant) for chunk in column.chunks], type=wanted)


def _primitive(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    wanted = arrow_type(kind)
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        if column.type.value_type.equals(wanted):
            return column
        column = column.cast(column.type.value_type)
    if decimal := decimal_of(kind):
        return _decimals(column, wanted, *decimal)
    if column.type.equals(wanted):
        return column
    return column.cast(_by_way_of(column.type, wanted)).cast(wanted)


def _decimals(column: pa.ChunkedArray, wanted: pa.DataType, precision: int, scale: int) -> pa.ChunkedArray:
    """Decimals as they are held: short ones as their unscaled numbers. What does not fit is refused."""
    if not pa.types.is_decimal(column.type):
        raise NotAssembled("a column that should hold decimals does not say so")
    if pa.types.is_decimal(wanted):
        return column.cast(wanted)
    if column.type.scale != scale or column.type.precision > precision:
        column = column.cast(pa.decimal128(precision, scale))
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(column.type.precision, scale))
    return pa.chunked_array([_unscaled(chunk) for chunk in column.chunks], type=pa.int64()).cast(wanted)


def _unscaled(array: pa.Decimal128Array) -> pa.Array:
    """The lower half of each number: the upper one has nothing but the sign."""
    low, _ = decimal_halves(array)
    return pa.array(
        np.ascontiguousarray(low), mask=array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    )


def _by_way_of(have: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """A time without zone means the same instant as one in UTC, whatever the file called it."""
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(wanted) and (have.tz is None) != (wanted.tz is None):
        return pa.timestamp(have.unit) if wanted.tz is None else pa.timestamp(have.unit, "UTC")
    return have


def _same(node: Node, kind: Any) -> bool:
    """True if a file's column has exactly the parts that are wanted, by id and in order."""
    if isinstance(kind, str):
        return not node.children
    parts = parts_of(kind)
    inner = node.children if kind["type"] == "struct" else inside(node)
    return len(inner) == len(parts) and all(
        child.field_id == part["id"] and _same(child, part["type"]) for child, part in zip(inner, parts, strict=True)
    )


def _array(array: pa.Array, node: Node, kind: Any, constant: Constant) -> pa.Array:
    if isinstance(kind, str):
        return _primitive(pa.chunked_array([array]), kind).combine_chunks()
    if kind["type"] == "struct":
        return _struct(array, node, kind, constant)
    offsets, start, end = _offsets(array)
    if kind["type"] == "list":
        (part,), (child,) = parts_of(kind), inside(node)
        values = _array(array.values[start:end], child, part["type"], constant)
        return pa.ListArray.from_arrays(offsets, values, type=arrow_type(kind))
    (key, value), (key_node, value_node) = parts_of(kind), inside(node)
    keys = _array(array.keys[start:end], key_node, key["type"], constant)
    items = _array(array.items[start:end], value_node, value["type"], constant)
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(kind))


def _struct(array: pa.StructArray, node: Node, kind: Mapping[str, Any], constant: Constant) -> pa.Array:
    index_of = {child.field_id: n for n, child in enumerate(node.children) if child.field_id is not None}
    children = []
    for part in kind["fields"]:
        number = index_of.get(part["id"])
        if number is None:
            children.append(pa.repeat(constant(part), len(array)))
        else:
            children.append(_array(array.field(number), node.children[number], part["type"], constant))
    fields = list(arrow_type(kind))
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)


def _offsets(array: Any) -> tuple[pa.Array, int, int]:
    """Offsets from 0 with null lists marked, and the part of the values they speak of."""
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    start, end = int(offsets[0]), int(offsets[-1])
    mask = None
    if array.null_count:
        mask = np.append(pc.is_null(array).to_numpy(zero_copy_only=False), False)
    return pa.array((offsets - start).astype(np.int32), mask=mask), start, end
