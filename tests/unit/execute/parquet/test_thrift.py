"""The codec of footers: what is known survives, what is not is stepped over and leaves a mark."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.parquet import layout
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.thrift import (
    BINARY,
    BOOL,
    DOUBLE,
    FALSE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    TRUE,
    UUID,
    Fields,
    Kind,
    Table,
    is_known,
    list_of,
    read_struct,
    scalar,
    struct_of,
    write_struct,
)
from tests.support.parquet_bent import Raw, encode, varint

EVERY_TYPE: Table = {
    1: scalar(BOOL),
    2: scalar(I8),
    3: scalar(I16),
    4: scalar(I32),
    5: scalar(I64),
    6: scalar(DOUBLE),
    7: scalar(BINARY),
    20: list_of(scalar(BOOL)),
    40: list_of(scalar(I8)),
    41: list_of(scalar(DOUBLE)),
    300: list_of(list_of(scalar(I16))),
    301: struct_of({}),
}
"""All that a table can list, with gaps that need the long form of a field's head."""
TABLES = [
    EVERY_TYPE,
    *(value for name, value in vars(layout).items() if name.isupper() and isinstance(value, dict) and name != "CODECS"),
]
_BITS = {I8: 8, I16: 16, I32: 32, I64: 64}


def test_the_tables_of_the_format_are_all_tried() -> None:
    top = [layout.FILE_META, layout.PAGE_HEADER, layout.OFFSET_INDEX, layout.COLUMN_INDEX, layout.BLOOM_HEADER]
    assert all(table in TABLES for table in top)


def values(kind: Kind) -> st.SearchStrategy[Any]:
    """Anything of a kind."""
    wire, inside = kind
    if wire in _BITS:
        limit = 1 << _BITS[wire] - 1
        return st.one_of(st.integers(-limit, limit - 1), st.sampled_from([-limit, limit - 1, 0, -1, 63, 64]))
    if wire == STRUCT:
        return structures(inside)
    if wire == LIST:
        return st.one_of(st.lists(values(inside), max_size=2), st.lists(values(inside), min_size=14, max_size=17))
    return {BOOL: st.booleans(), DOUBLE: st.floats(allow_nan=False), BINARY: st.binary(max_size=200)}[wire]


def structures(table: Table) -> st.SearchStrategy[Fields]:
    """Any struct that a table allows."""
    return st.fixed_dictionaries({}, optional={number: _later(kind) for number, kind in table.items()})


def _later(kind: Kind) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: values(kind))


tabled = st.sampled_from(TABLES).flatmap(lambda table: st.tuples(st.just(table), structures(table)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {number: _sorted(inner) for number, inner in sorted(value.items())}
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


@given(tabled)
def test_what_is_written_is_read(case: tuple[Table, Fields]) -> None:
    table, fields = case
    data = write_struct(fields, table)
    assert data == encode(_sorted(fields), table)
    assert read_struct(data, table) == (fields, len(data))
    assert is_known(fields)


@given(tabled, st.binary(max_size=5), st.binary(max_size=5))
def test_a_struct_is_read_from_its_place(case: tuple[Table, Fields], before: bytes, behind: bytes) -> None:
    table, fields = case
    data = before + write_struct(fields, table) + behind
    assert read_struct(memoryview(data), table, len(before)) == (fields, len(data) - len(behind))


@given(tabled, st.randoms(use_true_random=False))
def test_fields_come_in_any_order(case: tuple[Table, Fields], rng: Any) -> None:
    table, fields = case
    order = list(fields.items())
    rng.shuffle(order)
    assert read_struct(encode(dict(order), table), table)[0] == fields


# -- fields that no table lists ------------------------------------------------------------------------------


def _element(raw: Raw) -> bytes:
    """A field's value inside a list: booleans take a byte there."""
    return bytes([raw.wire]) if raw.wire in (TRUE, FALSE) else raw.payload


def _list(wire: int, raw: Raw, count: int) -> Raw:
    head = bytes([count << 4 | raw.wire]) if count < 15 else bytes([0xF0 | raw.wire]) + varint(count)
    return Raw(wire, head + _element(raw) * count)


def _map(key: Raw, value: Raw, count: int) -> Raw:
    kinds = bytes([key.wire << 4 | value.wire]) if count else b""
    return Raw(MAP, varint(count) + kinds + (_element(key) + _element(value)) * count)


def _holding(inner: st.SearchStrategy[Raw]) -> st.SearchStrategy[Raw]:
    counts = st.sampled_from([0, 1, 3, 14, 15, 20])
    inside = st.dictionaries(st.sampled_from([1, 2, 16, 17, 400]), inner, max_size=3)
    return st.one_of(
        st.builds(_list, st.sampled_from([LIST, SET]), inner, counts),
        st.builds(_map, inner, inner, counts),
        inside.map(lambda fields: Raw(STRUCT, encode(fields, {}))),
    )


_flat = st.one_of(
    st.sampled_from([Raw(TRUE), Raw(FALSE)]),
    st.binary(min_size=1, max_size=1).map(lambda data: Raw(I8, data)),
    st.builds(
        lambda wire, number: Raw(wire, varint(number)), st.sampled_from([I16, I32, I64]), st.integers(0, 2**64 - 1)
    ),
    st.floats().map(lambda number: Raw(DOUBLE, struct.pack("<d", number))),
    st.binary(max_size=200).map(lambda data: Raw(BINARY, varint(len(data)) + data)),
    st.binary(min_size=16, max_size=16).map(lambda data: Raw(UUID, data)),
)
unknown = st.recursive(_flat, _holding, max_leaves=5)


def _places(fields: Fields, table: Table) -> list[tuple[Fields, Table]]:
    """A struct and all structs inside it."""
    found = [(fields, table)]
    for number, value in fields.items():
        wire, inside = table[number]
        inner = [value] if wire == STRUCT else value if wire == LIST and inside[0] == STRUCT else []
        for struct_ in inner:
            found += _places(struct_, inside if wire == STRUCT else inside[1])
    return found


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {number: _without_marks(inner) for number, inner in value.items() if number != -1}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


@given(tabled, unknown, st.data())
def test_an_unknown_field_anywhere_is_stepped_over_and_marked(
    case: tuple[Table, Fields], field: Raw, data: st.DataObject
) -> None:
    table, fields = case
    untouched = read_struct(encode(fields, table), table)[0]
    struct_, of = data.draw(st.sampled_from(_places(fields, table)))
    number = data.draw(st.sampled_from([n for n in (0, -1, -300, 15, 19, 99, 500, 32767) if n not in of]))
    kept = list(struct_.items())
    kept.insert(data.draw(st.integers(0, len(kept))), (number, field))
    struct_.clear()
    struct_.update(kept)
    encoded = encode(fields, table)
    found, behind = read_struct(encoded, table)
    assert behind == len(encoded)
    assert not is_known(found)
    assert _without_marks(found) == untouched


@given(st.sampled_from(sorted(EVERY_TYPE)), unknown)
def test_a_known_field_of_another_type_is_unknown(number: int, field: Raw) -> None:
    wire, _ = EVERY_TYPE[number]
    if field.wire == wire or {field.wire, wire} <= {TRUE, FALSE}:
        return
    found, _ = read_struct(encode({number: field, 999: Raw(TRUE)}, EVERY_TYPE), EVERY_TYPE)
    assert _without_marks(found) == {}
    assert not is_known(found)


@pytest.mark.parametrize("listed", [scalar(I32), scalar(BINARY), scalar(BOOL), struct_of({1: scalar(I32)})])
def test_a_list_of_another_kind_marks_its_struct(listed: Kind) -> None:
    table = {1: list_of(listed), 2: scalar(I32)}
    other = Raw(LIST, bytes([2 << 4 | DOUBLE]) + bytes(16))
    found, _ = read_struct(encode({1: other, 2: 7}, table), table)
    assert not is_known(found)
    assert _without_marks(found) == {1: [], 2: 7}


def test_an_empty_list_of_another_kind_holds_nothing_unknown() -> None:
    table = {1: list_of(scalar(I32))}
    found, _ = read_struct(encode({1: Raw(LIST, bytes([DOUBLE]))}, table), table)
    assert found == {1: []}
    assert is_known(found)


def test_a_mark_deep_inside_is_seen_from_above() -> None:
    footer = {4: [{1: [{3: {12: {99: Raw(I32, b"\x02")}}}]}]}
    found, _ = read_struct(encode(footer, layout.FILE_META), layout.FILE_META)
    assert not is_known(found)
    assert is_known({number: value for number, value in found.items() if number != 4})


# -- bytes that make no sense --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "number"),
    [(I16, 2**15), (I32, 2**31), (I32, -(2**31) - 1), (I32, 2**40), (I64, 2**63), (I64, 2**69)],
)
def test_a_number_that_does_not_fit_its_type(kind: int, number: int) -> None:
    for table, value in (({1: scalar(kind)}, number), ({1: list_of(scalar(kind))}, [0, number])):
        with pytest.raises(Damaged, match="a number"):
            read_struct(encode({1: value}, table), table)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",  # a field without its value
        b"\x15\x02",  # no end
        b"\x15\x80\x80",  # a number without its end
        b"\x15" + b"\xff" * 11 + b"\x01\x00",  # a number without an end in sight
        b"\x1f\x00",  # there is no type 15
        b"\x10\x00",  # nor 0
        b"\x1e\x00\x00",
        b"\x18\x05abc",  # a text that is cut off
        b"\x18" + varint(2**62) + b"abc\x00",
        b"\x17\x00\x00",  # half a double
        b"\x1d" + bytes(15),  # a UUID that is cut off
        b"\x15\x02\x00\x02\x00",  # ends early: what is behind does not count
    ],
)
def test_nonsense(data: bytes) -> None:
    table = {1: scalar(I32), 2: scalar(BINARY)}
    if data == b"\x15\x02\x00\x02\x00":
        assert read_struct(data, table) == ({1: 1}, 3)
        return
    for known in (table, {}, {1: scalar(BINARY)}, {1: scalar(DOUBLE)}):
        with pytest.raises(Damaged):
            read_struct(data, known)


@pytest.mark.parametrize("size", [2**16, 2**31 - 1, 2**32, 2**63, 2**69])
@pytest.mark.parametrize("wire", [LIST, SET, MAP])
def test_a_size_beyond_the_file(size: int, wire: int) -> None:
    head = b"" if wire == MAP else bytes([0xF0 | I32])
    data = encode({1: Raw(wire, head + varint(size) + b"\x55\x02\x02")}, {})
    for table in ({}, {1: list_of(scalar(I32))}):
        with pytest.raises(Damaged):
            read_struct(data, table)


def test_a_field_that_occurs_twice() -> None:
    with pytest.raises(Damaged, match="twice"):
        read_struct(b"\x15\x02\x05\x02\x02\x00", {1: scalar(I32)})


@pytest.mark.parametrize("depth", [10, 60, 100, 100_000])
@pytest.mark.parametrize("opening", [b"\x1c", b"\x19", b"\x1b"])
def test_unknown_structures_inside_each_other(depth: int, opening: bytes) -> None:
    more = {b"\x1c": b"\x1c", b"\x19": b"\x19", b"\x1b": b"\x01\x3b\x00"}[opening]
    last = {b"\x1c": b"\x00", b"\x19": b"\x05", b"\x1b": b"\x00"}[opening]
    ends = b"\x00" * depth if opening == b"\x1c" else b""
    data = opening + more * depth + last + ends + b"\x00"
    if depth <= 60:
        assert read_struct(data, {}) == ({-1: True}, len(data))
    else:
        with pytest.raises(Damaged):
            read_struct(data, {})


@given(st.sampled_from(TABLES), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(table: Table, data: bytes) -> None:
    try:
        _, behind = read_struct(data, table)
    except Damaged:
        return
    assert 0 < behind <= len(data)


@given(tabled)
def test_every_part_of_a_struct_is_too_short(case: tuple[Table, Fields]) -> None:
    table, fields = case
    data = write_struct(fields, table)
    for length in range(min(len(data), 400)):
        with pytest.raises(Damaged):
            read_struct(data[:length], table)
