"""Key columns are found by field id, at any depth of structs, in files of every format."""

import io
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepact.execute.deletes.equality import KeySet, read_key_rows
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.execute.deletes.files import columns_by_id, read_columns
from icepact.model.files import DeleteFile, DeleteKind
from tests.support.states import delete_file
from tests.unit.execute.deletes.test_oracle import deleted_rows


def ref(format: str, records: int, ids: Sequence[int] = (1,)) -> DeleteFile:
    return delete_file(
        path=f"d.{format}",
        kind=DeleteKind.EQUALITY,
        format=format,
        size=1,
        records=records,
        equality_ids=tuple(ids),
    )


def field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id), "iceberg.id": str(field_id)})


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def orc_bytes(table: pa.Table) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out)
    return out.getvalue()


def _zigzag(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


_AVRO = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}


def _avro_type(column: pa.Field) -> Any:
    kind: Any = _AVRO.get(column.type)
    if pa.types.is_struct(column.type):
        kind = {"type": "record", "name": f"r{column.name}", "fields": [_avro_field(f) for f in column.type]}
    elif pa.types.is_list(column.type):
        element = column.type.field(0)
        kind = {"type": "array", "items": ["null", _AVRO[element.type]], "element-id": _id(element)}
    return ["null", kind]


def _id(column: pa.Field) -> int:
    return int(column.metadata[b"PARQUET:field_id"])


def _avro_field(column: pa.Field) -> dict[str, Any]:
    return {"name": column.name, "type": _avro_type(column), "default": None, "field-id": _id(column)}


def _avro_value(kind: pa.DataType, value: Any) -> bytes:
    if value is None:
        return _zigzag(0)
    if pa.types.is_struct(kind):
        return _zigzag(1) + b"".join(_avro_value(f.type, value[f.name]) for f in kind)
    if pa.types.is_list(kind):
        items = b"".join(_avro_value(kind.value_type, v) for v in value)
        return _zigzag(1) + (_zigzag(len(value)) + items if value else b"") + _zigzag(0)
    if kind == pa.float64():
        return _zigzag(1) + struct.pack("<d", value)
    if kind == pa.string():
        text: bytes = value.encode()
        return _zigzag(1) + _zigzag(len(text)) + text
    return _zigzag(1) + _zigzag(value)


def avro(table: pa.Table) -> bytes:
    """An Avro container written by hand, two rows in a block, as Iceberg shapes its schemas."""
    schema = {"type": "record", "name": "table", "fields": [_avro_field(f) for f in table.schema]}
    text = json.dumps(schema).encode()
    sync = bytes(range(16))
    # the header's map in a block with a negative count, which says its size too
    entry = _zigzag(11) + b"avro.schema" + _zigzag(len(text)) + text
    out = b"Obj\x01" + _zigzag(-1) + _zigzag(len(entry)) + entry + _zigzag(0) + sync
    rows = table.to_pylist()
    for at in range(0, len(rows), 2):
        block = b"".join(_avro_value(f.type, row[f.name]) for row in rows[at : at + 2] for f in table.schema)
        out += _zigzag(len(rows[at : at + 2])) + _zigzag(len(block)) + block + sync
    return out


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {"parquet": parquet, "orc": orc_bytes, "avro": avro}
DEEP = pa.struct([field("n", pa.int64(), 12)])
PLACE = pa.struct([field("city", pa.string(), 11), field("deep", DEEP, 13)])
SCHEMA = pa.schema(
    [
        field("extra", pa.float64(), 5),
        field("place", PLACE, 10),
        field("id", pa.int32(), 1),
        field("tags", pa.list_(field("element", pa.string(), 21)), 20),
    ]
)
NUMBERS = st.none() | st.integers(0, 2)
PLACES = st.none() | st.fixed_dictionaries(
    {"city": st.sampled_from([None, "", "x"]), "deep": st.none() | st.fixed_dictionaries({"n": NUMBERS})}
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"extra": st.none() | st.just(1.0), "place": PLACES, "id": NUMBERS, "tags": st.none() | st.just(["t"])}
    ),
    max_size=6,
)
TYPES = {1: "long", 11: "string", 12: "long", 99: "int"}


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Columns 1, 11, 12 and an absent one."""
    place = row["place"] or {"city": None, "deep": None}
    return row["id"], place["city"], (place["deep"] or {"n": None})["n"], None


@pytest.mark.parametrize("format", WRITERS)
@settings(max_examples=80)
@given(ROWS, ROWS)
def test_keys_inside_structs(format: str, keys: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    data = WRITERS[format](pa.Table.from_pylist(keys, schema=SCHEMA))
    found = KeySet(TYPES, [read_key_rows(ref(format, len(keys), tuple(TYPES)), data, TYPES, {})])
    batch = pa.Table.from_pylist(rows, schema=SCHEMA)
    columns = {**columns_by_id(batch, TYPES), 99: None}
    assert found.matches(columns).tolist() == deleted_rows([key(k) for k in keys], [key(r) for r in rows])
    if rows:
        part = batch.to_batches()[0].slice(len(rows) // 2)
        tail = {**columns_by_id(part, TYPES), 99: None}
        assert (
            found.matches(tail).tolist() == deleted_rows([key(k) for k in keys], [key(r) for r in rows])[-len(part) :]
        )


@pytest.mark.parametrize("format", WRITERS)
def test_a_column_inside_a_list_is_left_to_others(format: str) -> None:
    table = pa.Table.from_pylist([{"extra": 1.0, "place": None, "id": 1, "tags": ["a"]}], schema=SCHEMA)
    with pytest.raises(UnsupportedDelete, match="column 21 is inside a list or map"):
        read_columns(ref(format, 1), WRITERS[format](table), [21])
    with pytest.raises(UnsupportedDelete, match="column 21 is inside a list or map"):
        columns_by_id(table, [21])


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_names_with_dots_are_names(format: str) -> None:
    inner = pa.struct([field("b", pa.int32(), 3)])
    schema = pa.schema([field("a", inner, 2), field("a.b", pa.int32(), 1)])
    data = WRITERS[format](pa.Table.from_pylist([{"a": {"b": 5}, "a.b": 7}], schema=schema))
    for ids, expected in (((1,), {1: [7]}), ((3,), {3: [5]}), ((1, 3), {1: [7], 3: [5]})):
        found = read_columns(ref(format, 1), data, ids)
        assert {i: column.to_pylist() for i, column in found.items()} == expected


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_file_without_ids_is_left_to_others(format: str) -> None:
    data = WRITERS[format](pa.table({"id": [1]}))
    with pytest.raises(UnsupportedDelete, match=f"d.{format}: its columns have no field ids"):
        read_key_rows(ref(format, 1), data, {1: "int"}, {})


def test_names_do_not_count_for_keys() -> None:
    schema = pa.schema([field("id", pa.int32(), 2), field("other", pa.int32(), 1)])
    data = parquet(pa.table([[5], [7]], schema=schema))
    assert read_key_rows(ref("parquet", 1), data, {1: "int"}, {})[0].values.tolist() == [7]


@pytest.mark.parametrize("format", WRITERS)
def test_rows_are_counted(format: str) -> None:
    schema = pa.schema([field("id", pa.int32(), 1)])
    data = WRITERS[format](pa.table([[5, 6, 7]], schema=schema))
    with pytest.raises(BrokenDelete, match=rf"d\.{format} has 3 rows, its manifest says 4"):
        read_key_rows(ref(format, 4), data, {1: "int"}, {})


def test_an_avro_file_cut_between_blocks_is_noticed() -> None:
    schema = pa.schema([field("id", pa.int32(), 1)])
    whole = avro(pa.table([[5, 6, 7]], schema=schema))
    cut = avro(pa.table([[5, 6]], schema=schema))
    assert whole.startswith(cut)
    with pytest.raises(BrokenDelete, match="has 2 rows"):
        read_key_rows(ref("avro", 3), cut, {1: "int"}, {})


@pytest.mark.parametrize("format", WRITERS)
def test_a_damaged_file_gives_no_keys(format: str) -> None:
    schema = pa.schema([field("id", pa.int32(), 1)])
    data = WRITERS[format](pa.table([list(range(50))], schema=schema))
    for damaged in (b"", data[:10], data[: len(data) // 2], data[:-3], b"Obj\x01" + b"\xff" * 40):
        with pytest.raises((UnsupportedDelete, BrokenDelete), match=f"d.{format}"):
            read_key_rows(ref(format, 50), damaged, {1: "int"}, {})


@pytest.mark.parametrize("format", WRITERS)
def test_no_damage_ends_the_worker(format: str) -> None:
    """Polars panics on some Avro files, which no handler for exceptions would catch."""
    rows = [{"extra": 1.0, "place": {"city": "abc", "deep": {"n": 5}}, "id": 1, "tags": ["a", "b"]}] * 3
    data = WRITERS[format](pa.Table.from_pylist(rows, schema=SCHEMA))
    refused = 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        try:
            read_key_rows(ref(format, 3, tuple(TYPES)), damaged, TYPES, {})
        except (UnsupportedDelete, BrokenDelete):
            refused += 1
    assert refused >= len(data) // 10


def test_a_type_that_does_not_fit_names_the_file() -> None:
    data = parquet(pa.table([["x"]], schema=pa.schema([field("id", pa.string(), 1)])))
    with pytest.raises(UnsupportedDelete, match=r"d\.parquet: a string column cannot be compared as int"):
        read_key_rows(ref("parquet", 1), data, {1: "int"}, {})


def test_an_equality_delete_has_key_columns() -> None:
    with pytest.raises(BrokenDelete, match="without key columns"):
        read_key_rows(ref("parquet", 1, ()), b"", {}, {})


def test_dates_of_int96_beyond_the_range_of_nanoseconds() -> None:
    far = pa.array([253_402_300_799_000_000, -62_135_596_800_000_000], pa.int64()).cast(pa.timestamp("us"))
    out = io.BytesIO()
    table = pa.table([far], schema=pa.schema([field("t", far.type, 1)]))
    pq.write_table(table, out, use_deprecated_int96_timestamps=True)
    columns = read_key_rows(ref("parquet", 2), out.getvalue(), {1: "timestamp"}, {})
    assert columns[0].values.tolist() == [253_402_300_799_000_000, -62_135_596_800_000_000]
