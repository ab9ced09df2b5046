"""Equality deletes against the row-by-row oracle: every type, null, NaN, zeros, duplicates, promotions."""

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepact.execute.deletes import lookup
from icepact.execute.deletes.columns import constant_column, key_column
from icepact.execute.deletes.equality import KeySet
from icepact.execute.deletes.errors import UnsupportedDelete
from icepact.execute.deletes.kinds import comparable, parse_kind
from tests.unit.execute.deletes.test_oracle import (
    CASES,
    DATES,
    INT,
    SHAPES,
    Bits,
    Case,
    _decimals,
    _floats,
    arrow_array,
    deleted_rows,
    pool,
)


def key_set(kinds: Sequence[str], arrays: Sequence[Any], parts: int = 1) -> KeySet:
    """A set over columns 1, 2, ..., its rows spread over some delete files."""
    types = dict(enumerate(kinds, start=1))
    size = len(arrays[0]) // parts + 1
    pieces = [[a[at : at + size] for a in arrays] for at in range(0, parts * size, size)]
    converted = [[key_column(parse_kind(k), c) for k, c in zip(kinds, piece, strict=True)] for piece in pieces]
    return KeySet(types, converted)


@st.composite
def batches(draw: st.DrawFn, cases: list[Case]) -> tuple[list[Case], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Some columns, delete rows and data rows that have much in common."""
    chosen = draw(st.lists(st.sampled_from(cases), min_size=1, max_size=3))
    rows = st.tuples(*(st.sampled_from(draw(pool(case.values))) for case in chosen))
    return chosen, draw(st.lists(rows, max_size=12)), draw(st.lists(rows, max_size=12))


def columns_of(cases: list[Case], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [arrow_array(case.arrow, [row[n] for row in rows]) for n, case in enumerate(cases)]


@settings(max_examples=200)
@given(batches(CASES), st.data())
def test_rows_are_deleted_as_the_oracle_says(batch: Any, data: st.DataObject) -> None:
    cases, keys, rows = batch
    found = key_set([case.kind for case in cases], columns_of(cases, keys), parts=data.draw(st.integers(1, 3)))
    shapes = [data.draw(st.sampled_from(SHAPES)) for _ in cases]
    columns = {n: shape(c) for n, (shape, c) in enumerate(zip(shapes, columns_of(cases, rows), strict=True), start=1)}
    answer = found.matches(columns)
    assert answer.dtype == np.bool_
    assert answer.tolist() == deleted_rows(keys, rows)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.arrow}")
@settings(max_examples=40)
@given(st.data())
def test_each_type_alone(case: Case, data: st.DataObject) -> None:
    values = data.draw(pool(case.values))
    keys, rows = (data.draw(st.lists(st.sampled_from(values), max_size=8)) for _ in range(2))
    found = key_set([case.kind], [arrow_array(case.arrow, keys)])
    shape = data.draw(st.sampled_from(SHAPES))
    expected = deleted_rows([(k,) for k in keys], [(r,) for r in rows])
    assert found.matches({1: shape(arrow_array(case.arrow, rows))}).tolist() == expected


def float_to_double(value: Bits) -> Bits:
    return Bits(int(np.float64(value.value).view(np.uint64)), 64)


def with_scale(value: Decimal) -> Decimal:
    return value


def midnight(value: dt.date) -> dt.datetime:
    return dt.datetime.combine(value, dt.time())


PROMOTIONS: dict[str, tuple[Case, pa.DataType, Callable[[Any], Any]]] = {
    "int to long": (Case("long", pa.int32(), INT), pa.int64(), lambda v: v),
    "float to double": (Case("double", pa.float32(), _floats(32)), pa.float64(), float_to_double),
    "decimal": (Case("decimal(12,2)", pa.decimal128(9, 2), _decimals(9, 2)), pa.decimal128(12, 2), with_scale),
    "wide": (Case("decimal(30,2)", pa.decimal128(9, 2), _decimals(9, 2)), pa.decimal128(30, 2), with_scale),
    "small words": (Case("decimal(9,2)", pa.decimal32(9, 2), _decimals(9, 2)), pa.decimal128(9, 2), with_scale),
    "date to timestamp": (Case("timestamp", pa.date32(), DATES), pa.timestamp("us"), midnight),
    "date to nanoseconds": (
        Case("timestamp_ns", pa.date32(), st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1))),
        pa.timestamp("ns"),
        midnight,
    ),
    "short ints": (Case("int", pa.int8(), st.integers(-128, 127)), pa.int32(), lambda v: v),
}


@pytest.mark.parametrize("name", PROMOTIONS)
@settings(max_examples=40)
@given(st.data())
def test_an_older_type_meets_the_newer(name: str, data: st.DataObject) -> None:
    case, newer, promote = PROMOTIONS[name]
    values = data.draw(pool(case.values))
    keys, rows = (data.draw(st.lists(st.sampled_from(values), max_size=8)) for _ in range(2))
    new_keys = [None if k is None else promote(k) for k in keys]
    new_rows = [None if r is None else promote(r) for r in rows]
    expected = deleted_rows([(k,) for k in new_keys], [(r,) for r in new_rows])
    old_file, new_file = arrow_array(case.arrow, keys), arrow_array(newer, new_keys)
    old_data, new_data = arrow_array(case.arrow, rows), arrow_array(newer, new_rows)
    for deletes, columns in ((old_file, new_data), (new_file, old_data), (old_file, old_data)):
        assert key_set([case.kind], [deletes]).matches({1: columns}).tolist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units_of_time_are_brought_together(unit: str) -> None:
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 2, 29)]  # noqa: DTZ001
    found = key_set(["timestamp"], [pa.array(moments, pa.timestamp("us"))])
    assert found.matches({1: pa.array(moments, pa.timestamp(unit))}).tolist() == [True, True]
    times = pa.array([1, 2], pa.int32()).cast(pa.time32("s"))
    stored = times if unit == "s" else times.cast(pa.time32("ms") if unit == "ms" else pa.time64(unit))
    assert key_set(["time"], [stored]).matches({1: pa.array([2_000_000, 1], pa.int64())}).tolist() == [True, False]


def test_nanoseconds_are_rounded_down_as_iceberg_does() -> None:
    found = key_set(["timestamp"], [pa.array([-1], pa.int64()).cast(pa.timestamp("us"))])
    nanos = pa.array([-1, -1000, -1001, 0], pa.int64()).cast(pa.timestamp("ns"))
    assert found.matches({1: nanos}).tolist() == [True, True, False, False]


@given(batches([case for case in CASES if case.kind not in ("unknown",)]), st.data())
def test_constants_stand_for_absent_columns(batch: Any, data: st.DataObject) -> None:
    cases, keys, rows = batch
    found = key_set([case.kind for case in cases], columns_of(cases, keys))
    absent = data.draw(st.sets(st.sampled_from(range(len(cases))), min_size=1))
    fixed = data.draw(st.sampled_from([*keys, tuple(None for _ in cases)]))
    rows = [tuple(fixed[n] if n in absent else value for n, value in enumerate(row)) for row in rows]
    given_columns = {
        n + 1: (value.value if isinstance(value := fixed[n], Bits) else value) if n in absent else column
        for n, column in enumerate(columns_of(cases, rows))
    }
    assert found.matches(given_columns, rows=len(rows)).tolist() == deleted_rows(keys, rows)


@settings(max_examples=200)
@given(batches(CASES), st.data())
def test_rows_whose_hashes_collide_are_told_apart(batch: Any, data: st.DataObject) -> None:
    """With a hash of two values everything collides, and only full comparison is left."""
    cases, keys, rows = batch
    real = lookup.row_hashes
    patch = pytest.MonkeyPatch()
    patch.setattr("icepact.execute.deletes.equality.row_hashes", lambda columns: real(columns) & np.uint64(1 << 63))
    try:
        found = key_set([case.kind for case in cases], columns_of(cases, keys))
        answer = found.matches(dict(enumerate(columns_of(cases, rows), start=1)))
    finally:
        patch.undo()
    assert answer.tolist() == deleted_rows(keys, rows)


def test_many_keys_and_rows() -> None:
    random = np.random.default_rng(5)
    numbers, words = random.integers(-5000, 5000, 40_000), random.integers(0, 40, 40_000)
    nulls = random.random(40_000) < 0.01
    column = pa.array(numbers, mask=nulls)
    text = pa.array([f"word {n}" for n in words])
    keys, rows = slice(0, 3000), slice(3000, 40_000)
    pairs = {(None if nulls[n] else numbers[n], words[n]) for n in range(3000)}
    singles = {number for number, _ in pairs}
    plain = [None if nulls[n] else numbers[n] for n in range(3000, 40_000)]
    one = key_set(["long"], [column[keys]])
    assert len(one) == len(singles)
    assert one.matches({1: column[rows]}).tolist() == [n in singles for n in plain]
    two = key_set(["long", "string"], [column[keys], text[keys]], parts=4)
    assert len(two) == len(pairs)
    expected = [pair in pairs for pair in zip(plain, words[rows], strict=True)]
    assert two.matches({1: column[rows], 2: text[rows].dictionary_encode()}).tolist() == expected


def test_the_same_key_again_and_again_is_one_key() -> None:
    found = key_set(["long", "string"], [pa.array([7] * 100_000), pa.array(["x"] * 100_000)])
    assert len(found) == 1
    assert found.matches({1: pa.array([7, 7]), 2: pa.array(["x", "y"])}).tolist() == [True, False]


def test_sets_of_nothing_and_of_null() -> None:
    empty = KeySet({1: "long", 2: "string"}, [])
    assert len(empty) == 0
    assert empty.matches({1: pa.array([1, None]), 2: pa.array(["a", None])}).tolist() == [False, False]
    for kind, arrow in (("long", pa.int64()), ("string", pa.string())):
        only_null = key_set([kind], [pa.nulls(3, arrow)])
        assert len(only_null) == 1
        zero = pa.array([0, None], pa.int64()) if kind == "long" else pa.array(["", None])
        assert only_null.matches({1: zero}).tolist() == [False, True]
        assert only_null.matches({1: pa.nulls(2)}).tolist() == [True, True]
        assert only_null.matches({1: pa.chunked_array([], arrow)}).tolist() == []


def test_columns_must_make_a_batch() -> None:
    found = key_set(["long", "long"], [pa.array([1]), pa.array([2])])
    with pytest.raises(ValueError, match=r"\[1, 2\] rows do not make a batch"):
        found.matches({1: pa.array([1]), 2: pa.array([1, 2])})
    with pytest.raises(ValueError, match="do not make a batch"):
        found.matches({1: 1, 2: 2})
    with pytest.raises(KeyError):
        found.matches({1: pa.array([1])})


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("long", pa.array(["1"])),
        ("int", pa.array([1.0])),
        ("float", pa.array([1.0], pa.float64())),
        ("decimal(9,2)", pa.array([Decimal("1.234")])),
        ("decimal(9,2)", pa.array([Decimal(10**30)], pa.decimal128(38, 2))),
        ("decimal(9,2)", pa.array([1])),
        ("date", pa.array([1])),
        ("timestamp", pa.array([1])),
        ("timestamp", pa.array([2**31 - 1], pa.int32()).cast(pa.date32())),
        ("timestamp_ns", pa.array([dt.date(9999, 1, 1)])),
        ("uuid", pa.array(["f79c3e09-677c-4bbd-a479-3f349cb785e7"])),
        ("string", pa.array([1])),
        ("string", pa.array([{"a": 1}])),
        ("boolean", pa.array([1])),
        ("unknown", pa.array([1])),
    ],
)
def test_what_cannot_be_compared_for_certain_is_left_to_others(kind: str, array: pa.Array) -> None:
    with pytest.raises(UnsupportedDelete):
        key_column(parse_kind(kind), array)


@pytest.mark.parametrize("kind", ["variant", "list<int>", "decimal(9)", "fixed", "geometry"])
def test_types_that_are_no_keys(kind: str) -> None:
    with pytest.raises(UnsupportedDelete, match="cannot be compared by a column of type"):
        parse_kind(kind)


@settings(max_examples=300)
@given(st.sampled_from(CASES[:-1]), st.data())
def test_single_values_and_columns_have_one_form_and_keep_order(case: Case, data: st.DataObject) -> None:
    values = data.draw(st.lists(case.values, min_size=1, max_size=5))
    forms: list[Any] = [comparable(case.kind, v.value if isinstance(v, Bits) else v) for v in values]
    column = key_column(parse_kind(case.kind), arrow_array(case.arrow, values))
    assert column.values.tolist() == forms
    constant = constant_column(parse_kind(case.kind), forms[0], 2)
    assert constant.values.tolist() == [forms[0]] * 2
    if isinstance(values[0], Bits):
        ordered = sorted(v.value for v in values if v.value == v.value and v.value != 0)
        in_order: list[Any] = [comparable(case.kind, v) for v in ordered]
        assert sorted(in_order) == in_order
    elif not isinstance(values[0], str):
        in_order = [comparable(case.kind, v) for v in sorted(values)]
        assert in_order == sorted(forms)
