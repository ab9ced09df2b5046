"""Metrics of files: bounds that hold for every value, counts that add up, and nothing said that is not known."""

import decimal
import io
import math
import pickle
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icepact.execute.assemble.metrics import (
    FileMetrics,
    MetricsColumn,
    MetricsMode,
    cut_lower,
    cut_upper,
    file_metrics,
    metrics_columns,
    serialized,
)
from icepact.execute.parquet.footer import Footer, read_footer
from icepact.execute.parquet.layout import BYTE_ARRAY, DOUBLE, FIXED, FLOAT, INT32, INT64
from tests.support.parquet_bent import bent, meta_of

FULL = MetricsMode.of("full")

# -- modes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "counted", "bound_length"),
    [
        ("none", False, 0),
        ("counts", True, 0),
        ("truncate(16)", True, 16),
        ("Truncate(3)", True, 3),
        ("FULL", True, 2**31 - 1),
    ],
)
def test_modes_in_icebergs_words(text: str, counted: bool, bound_length: int) -> None:
    assert MetricsMode.of(text) == MetricsMode(counted=counted, bound_length=bound_length)


@pytest.mark.parametrize("text", ["", "all", "truncate", "truncate(0)", "truncate(-1)", "truncate(3) "])
def test_what_is_no_mode(text: str) -> None:
    with pytest.raises(ValueError, match="no metrics mode"):
        MetricsMode.of(text)


def test_columns_travel_to_executors() -> None:
    column = MetricsColumn(type="decimal(12, 2)", mode=MetricsMode.of("truncate(16)"))
    assert pickle.loads(pickle.dumps(column)) == column


# -- cutting --------------------------------------------------------------------------------------

SCALARS = 0x110000 - 0x800
"""Characters there are, surrogates not counted."""
EDGES = "\0a\ud7fe\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff"
TEXTS = st.text(EDGES, max_size=8) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BINARIES = st.lists(st.sampled_from([0, 1, 127, 128, 254, 255]), max_size=8).map(bytes) | st.binary(max_size=8)
LENGTHS = st.integers(1, 9)


def increased(digits: list[int], base: int) -> list[int] | None:
    """The next number with as many digits, without the zeros that a carry leaves behind."""
    number = 0
    for digit in digits:
        number = number * base + digit
    number += 1
    if number == base ** len(digits):
        return None
    while number % base == 0:
        number //= base
        digits = digits[1:]
    found = [0] * len(digits)
    for place in reversed(range(len(digits))):
        number, found[place] = divmod(number, base)
    return found


@given(TEXTS, LENGTHS)
@example("\ud7ff\ud7ff", 1)
@example("a\U0010ffff\U0010ffff", 2)
@example("\U0010ffff" * 3, 2)
def test_cut_texts(text: str, length: int) -> None:
    lower = cut_lower("string", text.encode(), length).decode()
    assert lower == text[:length]
    upper = cut_upper("string", text.encode(), length)
    if len(text) <= length:
        assert upper == text.encode()
        return
    digits = [ord(c) if ord(c) < 0xD800 else ord(c) - 0x800 for c in text[:length]]
    after = increased(digits, SCALARS)
    expected = None if after is None else "".join(chr(d if d < 0xD800 else d + 0x800) for d in after).encode()
    assert upper == expected
    assert upper is None or upper > text.encode()


@given(BINARIES, LENGTHS)
@example(b"\x7f\xff\xff", 2)
@example(b"\xff" * 3, 2)
def test_cut_binaries(data: bytes, length: int) -> None:
    assert cut_lower("binary", data, length) == data[:length]
    upper = cut_upper("binary", data, length)
    if len(data) <= length:
        assert upper == data
        return
    after = increased(list(data[:length]), 256)
    assert upper == (None if after is None else bytes(after))
    assert upper is None or upper > data


@pytest.mark.parametrize("kind", ["fixed[20]", "uuid", "decimal(38, 2)", "long"])
def test_nothing_else_is_cut(kind: str) -> None:
    data = b"\xff" * 20
    assert (cut_lower(kind, data, 3), cut_upper(kind, data, 3)) == (data, data)


# -- serialization --------------------------------------------------------------------------------


@given(st.integers(-(2**127), 2**127 - 1))
@example(0)
@example(-1)
@example(127)
@example(128)
@example(-128)
@example(-129)
def test_decimals_take_as_few_bytes_as_they_can(number: int) -> None:
    data = serialized("decimal(38, 2)", FIXED, number, zero=0.0)
    assert int.from_bytes(data, "big", signed=True) == number
    shorter = 8 * (len(data) - 1)
    assert shorter == 0 or not -(2 ** (shorter - 1)) <= number < 2 ** (shorter - 1)


@given(st.integers(-(2**31), 2**31 - 1))
def test_numbers_keep_their_width(number: int) -> None:
    for kind, physical, width in (("int", INT32, 4), ("long", INT32, 4), ("long", INT64, 8), ("date", INT32, 4)):
        data = serialized(kind, physical, number, zero=0.0)
        assert (len(data), int.from_bytes(data, "little", signed=True)) == (width, number)


@given(st.floats(allow_nan=False), st.sampled_from([0.0, -0.0]))
@example(0.0, -0.0)
@example(-0.0, 0.0)
def test_zeros_get_the_sign_of_their_side(number: float, zero: float) -> None:
    expected = struct.pack("<d", number if number else zero)
    assert serialized("double", DOUBLE, number, zero=zero) == expected
    assert serialized("float", FLOAT, -0.0, zero=zero) == struct.pack("<f", zero)


def test_bytes_are_bytes() -> None:
    for kind, physical in (("string", BYTE_ARRAY), ("binary", BYTE_ARRAY), ("uuid", FIXED), ("fixed[2]", FIXED)):
        assert serialized(kind, physical, b"\x80a", zero=0.0) == b"\x80a"


# -- whole files ----------------------------------------------------------------------------------


def footer_of(columns: dict[str, pa.Array], **options: Any) -> Footer:
    """The footer of a file with these columns; ids count from 1."""
    fields = [
        pa.field(name, values.type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, values) in enumerate(columns.items(), start=1)
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields)), buffer, **options)
    data = buffer.getvalue()
    return read_footer(lambda offset, length: data[offset : offset + length], len(data))


def described(values: pa.Array, kind: str, mode: MetricsMode = FULL, **options: Any) -> FileMetrics:
    """Metrics of a file with one column, whose id is 1."""
    return file_metrics(footer_of({"a": values}, **options), {1: MetricsColumn(type=kind, mode=mode)})


def bounds(metrics: FileMetrics) -> tuple[bytes | None, bytes | None]:
    """The bounds of column 1."""
    lower, upper = metrics.lower_bounds.get(1), metrics.upper_bounds.get(1)
    return None if lower is None else bytes.fromhex(lower), None if upper is None else bytes.fromhex(upper)


GROUPS = st.integers(1, 12)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30), GROUPS)
def test_metrics_of_numbers(values: list[int | None], rows: int) -> None:
    metrics = described(pa.array(values, pa.int64()), "long", row_group_size=rows)
    known = [value for value in values if value is not None]
    assert bounds(metrics) == (
        (struct.pack("<q", min(known)), struct.pack("<q", max(known))) if known else (None, None)
    )
    assert metrics.value_counts == {1: len(values)}
    assert metrics.null_value_counts == {1: len(values) - len(known)}
    assert len(metrics.split_offsets) == math.ceil(len(values) / rows)


@given(st.integers(1, 40), st.integers(0, 2000))
def test_splits_are_not_too_small(groups: int, least: int) -> None:
    """Readers may begin at row groups only, the first included; no part is below the limit but a whole file."""
    footer = footer_of({"a": pa.array(range(groups * 5), pa.int64())}, row_group_size=5)
    starts = [group.chunks[0].start for group in footer.row_groups]
    offered = file_metrics(footer, {}, split_bytes=least).split_offsets
    ends = [*offered[1:], footer.file_size]
    assert offered[0] == starts[0]
    assert set(offered) <= set(starts)
    assert len(offered) == 1 or min(end - start for start, end in zip(offered, ends, strict=True)) >= least
    if least == 0:
        assert list(offered) == starts


@given(st.lists(st.none() | TEXTS, max_size=30), GROUPS, LENGTHS)
def test_metrics_of_texts(values: list[str | None], rows: int, length: int) -> None:
    mode = MetricsMode.of(f"truncate({length})")
    lower, upper = bounds(described(pa.array(values, pa.string()), "string", mode, row_group_size=rows))
    known = [value for value in values if value is not None]
    if known:
        assert lower == min(known)[:length].encode()
        assert upper == cut_upper("string", max(known).encode(), length)
    else:
        assert (lower, upper) == (None, None)


@given(st.lists(st.none() | st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan]), max_size=30), GROUPS)
def test_metrics_of_fractions(values: list[float | None], rows: int) -> None:
    """A NaN anywhere in the file, and it has no bounds; as long as somebody counted."""
    footer = footer_of({"a": pa.array(values, pa.float32())}, row_group_size=rows)
    asked = {1: MetricsColumn(type="float", mode=FULL)}
    assert bounds(file_metrics(footer, asked)) == (None, None)
    for number, group in enumerate(footer.row_groups):
        nans = [v for v in values[number * rows : (number + 1) * rows] if v is not None and math.isnan(v)]
        group.chunks[0].meta.setdefault(12, {})[9] = len(nans)
    known = [value for value in values if value is not None]
    if not known or any(map(math.isnan, known)):
        assert bounds(file_metrics(footer, asked)) == (None, None)
    else:
        expected = struct.pack("<f", min(known) or -0.0), struct.pack("<f", max(known) or 0.0)
        assert bounds(file_metrics(footer, asked)) == expected


@pytest.mark.parametrize("nullable", [True, False])
def test_no_bounds_if_nobody_counted_the_nulls(nullable: bool) -> None:
    """Iceberg takes a missing count for none when it deletes whole files by their bounds."""
    described = pa.field("a", pa.int64(), nullable=nullable, metadata={"PARQUET:field_id": "1"})
    buffer = io.BytesIO()
    values = [[1, None if nullable else 3], [5, 6]]
    for_all = pa.Table.from_arrays([pa.chunked_array(values, pa.int64())], schema=pa.schema([described]))
    pq.write_table(for_all, buffer, row_group_size=2)
    data = bent(buffer.getvalue(), lambda fields: meta_of(fields, 1)[12].pop(3))
    footer = read_footer(lambda offset, length: data[offset : offset + length], len(data))
    metrics = file_metrics(footer, {1: MetricsColumn(type="long", mode=FULL)})
    assert (metrics.value_counts, metrics.null_value_counts) == ({1: 4}, {})
    assert (bounds(metrics) == (None, None)) is nullable


@given(st.lists(st.none() | st.integers(-(10**9) + 1, 10**9 - 1), min_size=1, max_size=20), GROUPS, st.booleans())
def test_decimals_are_the_same_in_numbers_and_in_bytes(values: list[int | None], rows: int, integers: bool) -> None:
    scaled = pa.array([None if v is None else decimal.Decimal(v).scaleb(-2) for v in values], pa.decimal128(9, 2))
    metrics = described(scaled, "decimal(9, 2)", row_group_size=rows, store_decimal_as_integer=integers)
    known = [value for value in values if value is not None]
    for data, number in zip(bounds(metrics), (min(known), max(known)) if known else (None, None), strict=True):
        assert (data is None) == (number is None)
        assert data is None or int.from_bytes(data, "big", signed=True) == number


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, 2], pa.uint32()), "long"),
        (pa.array([1, 2], pa.uint64()), "long"),
        (pa.array([1, 2], pa.timestamp("ms")), "timestamp"),
        (pa.array([1, 2], pa.timestamp("ns")), "timestamp"),
        (pa.array([1, 2], pa.timestamp("us")), "timestamp_ns"),
        (pa.array([1, 2], pa.time32("ms")), "time"),
        (pa.array([decimal.Decimal("1.23")], pa.decimal128(9, 2)), "decimal(9, 3)"),
        (pa.array([decimal.Decimal("1.23")], pa.decimal128(9, 2)), "fixed[4]"),
        (pa.array([1], pa.int32()), "decimal(9, 0)"),
        (pa.array([1.5], pa.float16()), "fixed[2]"),
        (pa.array([1], pa.int64()), "int"),
        (pa.array([b"point"]), "geometry(srid:4326)"),
        (pa.array([b"point"]), "geography"),
    ],
    ids=str,
)
def test_numbers_that_mean_something_else_have_no_bounds(values: pa.Array, kind: str) -> None:
    metrics = described(values, kind)
    assert bounds(metrics) == (None, None)
    assert (metrics.value_counts, metrics.null_value_counts) == ({1: len(values)}, {1: 0})


def test_how_much_is_said() -> None:
    values = pa.array(["ab", None])
    for mode, sized, counted, lower in (("none", 0, 0, 0), ("counts", 1, 1, 0), ("truncate(1)", 1, 1, 1)):
        metrics = described(values, "string", MetricsMode.of(mode))
        told = (metrics.column_sizes, metrics.value_counts, metrics.null_value_counts, metrics.lower_bounds)
        assert tuple(map(len, told)) == (sized, counted, counted, lower)


def test_values_inside_lists_have_sizes_only() -> None:
    element = pa.field("element", pa.int64(), metadata={"PARQUET:field_id": "2"})
    footer = footer_of({"a": pa.array([[1, 2], None], pa.list_(element))})
    metrics = file_metrics(footer, {2: MetricsColumn(type="long", mode=FULL)})
    assert metrics.column_sizes == {2: footer.row_groups[0].chunks[0].size}
    assert (metrics.value_counts, metrics.null_value_counts, metrics.lower_bounds) == ({}, {}, {})


def test_columns_nobody_asked_for_are_passed_over() -> None:
    footer = footer_of({"a": pa.array([1]), "b": pa.array([2])})
    metrics = file_metrics(footer, {2: MetricsColumn(type="long", mode=FULL)})
    assert metrics.to_json() == {
        "column-sizes": {"keys": [2], "values": [footer.row_groups[0].chunks[1].size]},
        "value-counts": {"keys": [2], "values": [1]},
        "null-value-counts": {"keys": [2], "values": [0]},
        "lower-bounds": {"keys": [2], "values": ["0200000000000000"]},
        "upper-bounds": {"keys": [2], "values": ["0200000000000000"]},
        "split-offsets": [4],
    }


# -- which columns --------------------------------------------------------------------------------


def test_columns_of_a_schema() -> None:
    """Names as Iceberg spells them, and row lineage besides."""
    inner = {
        "type": "struct",
        "fields": [{"id": 5, "name": "x", "type": "int"}, {"id": 6, "name": "y", "type": "uuid"}],
    }
    deeper = {"type": "struct", "fields": [{"id": 10, "name": "z", "type": "date"}]}
    listed = {"type": "list", "element-id": 7, "element-required": False, "element": deeper}
    value = {"value-id": 9, "value": "decimal(9, 2)", "value-required": False}
    mapped = {"type": "map", "key-id": 8, "key": "string", **value}
    fields = [("a", "long"), ("b", inner), ("c", listed), ("d", mapped)]
    schema = {
        "type": "struct",
        "fields": [{"id": n, "name": name, "type": kind} for n, (name, kind) in enumerate(fields)],
    }
    asked: list[str] = []

    def mode_of(name: str) -> MetricsMode:
        asked.append(name)
        return MetricsMode.of("counts" if name == "d.key" else "full")

    found = metrics_columns(schema, mode_of)

    lineage = {"_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
    assert asked == ["a", "b.x", "b.y", "c.element.z", "d.key", "d.value", *lineage]
    assert {field_id: column.type for field_id, column in found.items()} == {
        0: "long",
        5: "int",
        6: "uuid",
        10: "date",
        8: "string",
        9: "decimal(9, 2)",
        **dict.fromkeys(lineage.values(), "long"),
    }
    assert [field_id for field_id, column in found.items() if column.mode != FULL] == [8]
