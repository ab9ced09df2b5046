"""The slow truth about equality deletes, row by row in plain Python, and the values to try it with.

Other tests compare the kernel with `deleted_rows`; the tests here pin the oracle itself to Java's rules.
"""

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from icepact.execute.deletes.kinds import comparable


@dataclass(frozen=True)
class Bits:
    """A float by its bits, so that NaN payloads survive."""

    bits: int
    width: int

    @property
    def value(self) -> float:
        if self.width == 32:
            return float(struct.unpack("<f", self.bits.to_bytes(4, "little"))[0])
        return float(struct.unpack("<d", self.bits.to_bytes(8, "little"))[0])


def same(left: Any, right: Any) -> bool:
    """Java's equality: Float.compare and Double.compare are zero, null equals null."""
    if isinstance(left, Bits) and isinstance(right, Bits):
        a, b = left.value, right.value
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return type(left) is type(right) and bool(left == right)


def deleted_rows(keys: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]]) -> list[bool]:
    """For each row, whether some key equals it in every column."""
    return [any(all(same(a, b) for a, b in zip(key, row, strict=True)) for key in keys) for row in rows]


@dataclass(frozen=True)
class Case:
    """One Iceberg type with values worth trying."""

    kind: str
    arrow: pa.DataType
    values: st.SearchStrategy[Any]


def _floats(width: int) -> st.SearchStrategy[Bits]:
    sign, nan = 1 << width - 1, (0x7F800001 if width == 32 else 0x7FF0000000000001)
    odd = [0, sign, nan, nan + 5, nan | sign, 0x7FC00000 if width == 32 else 0x7FF8000000000000, 1, sign | 1, nan - 1]
    return st.builds(Bits, st.sampled_from(odd) | st.integers(0, (1 << width) - 1), st.just(width))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    unscaled = st.sampled_from([0, 1, -1, most, -most]) | st.integers(-most, most)
    return unscaled.map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


INT = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
LONG = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
BYTES = st.sampled_from([b"", b"\0", b"\0\0", b"\xff", b"\x7f", b"\x80", b"a" * 30]) | st.binary(max_size=20)
TEXT = st.sampled_from(["", "\0", "a", "b" * 13, "ä", "\U0001f600", "\uffff"]) | st.text(max_size=15)
DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
CASES = [
    Case("boolean", pa.bool_(), st.booleans()),
    Case("int", pa.int32(), INT),
    Case("long", pa.int64(), LONG),
    Case("float", pa.float32(), _floats(32)),
    Case("double", pa.float64(), _floats(64)),
    Case("decimal(9,2)", pa.decimal128(9, 2), _decimals(9, 2)),
    Case("decimal(18, 6)", pa.decimal128(18, 6), _decimals(18, 6)),
    Case("decimal(19, 0)", pa.decimal128(19, 0), _decimals(19, 0)),
    Case("decimal(38, 10)", pa.decimal128(38, 10), _decimals(38, 10)),
    Case("date", pa.date32(), DATES),
    Case("time", pa.time64("us"), st.times()),
    Case("timestamp", pa.timestamp("us"), st.datetimes()),
    Case("timestamptz", pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    Case("string", pa.string(), TEXT),
    Case("string", pa.large_string(), TEXT),
    Case("string", pa.string_view(), TEXT),
    Case("uuid", pa.uuid(), st.binary(min_size=16, max_size=16)),
    Case("fixed[16]", pa.binary(16), st.binary(min_size=16, max_size=16)),
    Case("fixed[3]", pa.binary(3), st.sampled_from([b"\0\0\0", b"\xff\0\0"]) | st.binary(min_size=3, max_size=3)),
    Case("binary", pa.binary(), BYTES),
    Case("binary", pa.binary_view(), BYTES),
    Case("unknown", pa.null(), st.none()),
]


def arrow_array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """An Arrow array; floats keep their bits, and null slots hold rubbish where that is possible."""
    if pa.types.is_floating(kind):
        unsigned = np.uint32 if kind == pa.float32() else np.uint64
        bits = np.array([7 if v is None else v.bits for v in values], dtype=unsigned)
        numbers = bits.view(np.float32 if kind == pa.float32() else np.float64)
        return pa.array(numbers, mask=np.array([v is None for v in values], dtype=bool), from_pandas=False)
    if pa.types.is_int64(kind) or pa.types.is_int32(kind):
        filled = np.array([7 if v is None else v for v in values], dtype=kind.to_pandas_dtype())
        return pa.array(filled, mask=np.array([v is None for v in values], dtype=bool))
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    return pa.array(values, kind)


Shape = Callable[[pa.Array], Any]


def _sliced(array: pa.Array) -> pa.Array:
    longer = pa.concat_arrays([array[:1], array, array[:1]])
    return longer.slice(min(1, len(array)), len(array))


def _halves(array: pa.Array) -> pa.ChunkedArray:
    half = len(array) // 2
    return pa.chunked_array([array[:half], array[:0], array[half:]], type=array.type)


def _coded(array: pa.Array) -> Any:
    try:
        return array.dictionary_encode()
    except (pa.ArrowNotImplementedError, AttributeError):
        return array


def _coded_halves(array: pa.Array) -> Any:
    coded = [_coded(array[: len(array) // 2]), _coded(array[len(array) // 2 :])]
    return pa.chunked_array(coded) if all(isinstance(c, pa.DictionaryArray) for c in coded) else array


SHAPES: list[Shape] = [lambda array: array, _sliced, _halves, _coded, _coded_halves]


def pool(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Few values, so that keys and rows meet; null is often one."""
    return st.lists(st.none() | values, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (Bits(0x7FC00000, 32), Bits(0xFFFFFFFF, 32), True),
        (Bits(0x80000000, 32), Bits(0, 32), False),
        (Bits(0x7FF8000000000000, 64), Bits(0x7FF0000000000001, 64), True),
        (Bits(1 << 63, 64), Bits(0, 64), False),
        (Bits(0x3FF0000000000000, 64), Bits(0x3FF0000000000000, 64), True),
        (None, None, True),
        (None, 0, False),
        ("", None, False),
        (b"a", b"a\0", False),
    ],
)
def test_equality_is_javas(left: Any, right: Any, equal: bool) -> None:
    assert same(left, right) is equal
    assert deleted_rows([(left,)], [(right,)]) == [equal]


def test_a_key_equals_in_all_columns() -> None:
    keys = [(1, "a"), (2, None)]
    assert deleted_rows(keys, [(1, "a"), (1, None), (2, None), (2, "a")]) == [True, False, True, False]
    assert deleted_rows([], [(1, "a")]) == [False]


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        ("boolean", True, 1),
        ("long", -7, -7),
        ("long", np.int32(5), 5),
        ("date", dt.date(1969, 12, 31), -1),
        ("date", 3, 3),
        ("time", dt.time(0, 0, 1, 2), 1_000_002),
        ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 0, 5), 5),  # noqa: DTZ001
        ("timestamp", dt.date(1970, 1, 2), 86_400_000_000),
        ("timestamptz", dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
        ("timestamp_ns", dt.date(1969, 12, 31), -86_400_000_000_000),
        ("timestamp_ns", 17, 17),
        ("float", -0.0, -1),
        ("float", 0.0, 0),
        ("double", math.nan, 0x7FF8000000000000),
        ("double", -math.inf, -0x7FF0000000000001),
        ("decimal(9,2)", Decimal("1.2"), 120),
        ("decimal(9,2)", -120, -120),
        ("decimal(9,2)", b"\xff\x88", -120),
        ("decimal(38,0)", Decimal(-1), b"\x7f" + b"\xff" * 15),
        ("decimal(38,0)", b"\0", b"\x80" + b"\0" * 15),
        ("string", "ä", b"\xc3\xa4"),
        ("string", b"\xc3", b"\xc3"),
        ("uuid", "00000000-0000-0000-0000-0000000000ff", b"\0" * 15 + b"\xff"),
        ("fixed[2]", bytearray(b"ab"), b"ab"),
        ("string", None, None),
    ],
)
def test_one_value_in_comparable_form(kind: str, value: Any, form: Any) -> None:
    assert comparable(kind, value) == form


def test_a_decimal_is_never_rounded() -> None:
    with pytest.raises(ValueError, match="more than 2 digits"):
        comparable("decimal(9,2)", Decimal("1.234"))
