"""The schema that outputs have: Iceberg's, as Parquet elements and as Arrow types."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.parquet.layout import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    OPTIONAL,
    REPEATED,
    REQUIRED,
)
from icepact.execute.parquet.schema import Leaf, Logical, group, leaves, logical, tree
from icepact.execute.parquet.thrift import Fields
from icepact.model.schema import parts_of

ROW_ID = 2147483540
LAST_UPDATED = 2147483539
LINEAGE_IDS = (ROW_ID, LAST_UPDATED)
LINEAGE = (
    {"id": ROW_ID, "name": "_row_id", "required": False, "type": "long"},
    {"id": LAST_UPDATED, "name": "_last_updated_sequence_number", "required": False, "type": "long"},
)
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")
_NOTHING = '{"type": "struct", "schema-id": 0, "fields": []}'
_PLAIN: dict[str, tuple[int, Fields, pa.DataType]] = {
    "boolean": (BOOLEAN, {}, pa.bool_()),
    "int": (INT32, {}, pa.int32()),
    "long": (INT64, {}, pa.int64()),
    "float": (FLOAT, {}, pa.float32()),
    "double": (DOUBLE, {}, pa.float64()),
    "date": (INT32, {6: 6, 10: {6: {}}}, pa.date32()),
    "timestamp": (INT64, {10: {8: {1: False, 2: {2: {}}}}}, pa.timestamp("us")),
    "timestamptz": (INT64, {6: 10, 10: {8: {1: True, 2: {2: {}}}}}, pa.timestamp("us", tz="UTC")),
    "string": (BYTE_ARRAY, {6: 0, 10: {1: {}}}, pa.string()),
    "binary": (BYTE_ARRAY, {}, pa.binary()),
    "uuid": (FIXED, {2: 16, 10: {14: {}}}, pa.binary(16)),
}
"""Types without parameters: physical type and annotation in Parquet, and the type in Arrow."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Schema of the outputs of a unit, as Iceberg, Parquet and Arrow describe it."""

    fields: list[dict[str, Any]]
    """The top-level columns as Iceberg's JSON has them, row lineage included where the format has it."""
    elements: list[Fields]
    """The Parquet schema."""
    leaves: list[Leaf]
    arrow: pa.Schema
    """Arrow's fields carry the ids as `PARQUET:field_id`."""
    top_of_leaf: list[int]
    """For each leaf, the number of the top-level column it belongs to."""


def no_columns() -> Target:
    """The target of an input of which nothing is written."""
    return make_target(_NOTHING, lineage=False)


def make_target(schema: str, *, lineage: bool, never_null: frozenset[int] = frozenset()) -> Target:
    """The target for a table's schema; NotAssembled if it has a type that this method cannot write.

    Columns that are never null in any input may be written as such: files that Spark wrote often hold
    them that way, and only so can their chunks be copied.
    """
    own = json.loads(schema)["fields"]
    fields = [{**field, "required": field["required"] or field["id"] in never_null} for field in own]
    if lineage:
        fields += LINEAGE
    elements: list[Fields] = [group("table", len(fields), repetition=None, field_id=None)]
    top_of_leaf: list[int] = []
    for number, field in enumerate(fields):
        added = list(_elements(field))
        top_of_leaf += [number] * sum(1 in element for element in added)
        elements += added
    return Target(
        fields=fields,
        elements=elements,
        leaves=leaves(tree(elements)),
        arrow=pa.schema([arrow_field(field) for field in fields]),
        top_of_leaf=top_of_leaf,
    )


def _elements(field: Mapping[str, Any]) -> Iterator[Fields]:
    """The elements of one field, its children behind it."""
    kind, how = field["type"], REQUIRED if field["required"] else OPTIONAL
    if isinstance(kind, str):
        physical, more = _primitive(kind)
        yield {1: physical, 3: how, 4: compatible_name(field["name"]).encode(), 9: field["id"], **more}
        return
    name, parts = compatible_name(field["name"]), parts_of(kind)
    if kind["type"] == "struct":
        yield group(name, len(parts), repetition=how, field_id=field["id"])
    else:
        yield group(name, 1, repetition=how, field_id=field["id"], kind=kind["type"])
        repeated = "list" if kind["type"] == "list" else "key_value"
        yield group(repeated, len(parts), repetition=REPEATED, field_id=None)
    for part in parts:
        yield from _elements(part)


def _primitive(kind: str) -> tuple[int, Fields]:
    if kind in _PLAIN:
        return _PLAIN[kind][:2]
    if decimal := decimal_of(kind):
        precision, scale = decimal
        annotation: Fields = {6: 5, 7: scale, 8: precision, 10: {5: {1: scale, 2: precision}}}
        if precision <= 9:
            return INT32, annotation
        if precision <= 18:
            return INT64, annotation
        return FIXED, {2: decimal_bytes(precision), **annotation}
    if match := _FIXED.fullmatch(kind):
        return FIXED, {2: int(match[1])}
    raise NotAssembled(f"columns of type {kind} cannot be written by it")


def primitive_leaf(kind: str) -> tuple[int, Logical]:
    """Physical and logical type of a primitive column."""
    physical, more = _primitive(kind)
    return physical, logical({1: physical, **more})


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; `None` for any other."""
    match = _DECIMAL.fullmatch(kind)
    return None if match is None else (int(match[1]), int(match[2]))


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every unscaled value of a precision."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type in which values of an Iceberg type are held.

    Decimals that files hold as whole numbers are held so here, too: nothing is ever computed with them.
    """
    if isinstance(kind, str):
        if kind in _PLAIN:
            return _PLAIN[kind][2]
        if decimal := decimal_of(kind):
            return {INT32: pa.int32(), INT64: pa.int64()}.get(_primitive(kind)[0], pa.decimal128(*decimal))
        if match := _FIXED.fullmatch(kind):
            return pa.binary(int(match[1]))
        raise NotAssembled(f"columns of type {kind} cannot be written by it")
    inside = [arrow_field(part) for part in parts_of(kind)]
    if kind["type"] == "struct":
        return pa.struct(inside)
    return pa.list_(*inside) if kind["type"] == "list" else pa.map_(*inside)


def arrow_field(field: Mapping[str, Any]) -> pa.Field:
    """An Arrow field with Iceberg's id."""
    metadata = {"PARQUET:field_id": str(field["id"])}
    return pa.field(field["name"], arrow_type(field["type"]), nullable=not field["required"], metadata=metadata)


def compatible_name(name: str) -> str:
    """The name as Iceberg writes it into files: letters, digits and underscores; readers go by ids.

    Java's characters are UTF-16 units, so that rare ones are two.
    """
    raw = name.encode("utf-16-be", "surrogatepass")
    units = [raw[at : at + 2].decode("utf-16-be", "surrogatepass") for at in range(0, len(raw), 2)]
    return "".join(_compatible(char, first=position == 0) for position, char in enumerate(units))


def _compatible(char: str, *, first: bool) -> str:
    if char == "_" or char.isalpha() or (char.isdigit() and not first):
        return char
    return f"_{char}" if char.isdigit() else f"_x{ord(char):X}"
