"""Predicates over columns of every type, with values at the edges; and which rows they find.

Spark pushes a filter down to Iceberg, which skips files by their bounds and row groups by their statistics and
dictionaries. The same predicate as a column of the result is pushed nowhere: that is the truth.
"""

import datetime
import random
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
_AT_ONCE = 10
"""Predicates in one query."""
_QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type, and values of it in ascending order; but a NaN is among the lowest: beside the highest it would hide."""

    iceberg: str
    arrow: pa.DataType
    values: Sequence[Any]
    ranges: bool = True
    """False if Iceberg orders its values otherwise than Spark does."""

    @property
    def fractional(self) -> bool:
        """True if it has NaN."""
        return self.iceberg in ("float", "double")

    def sql(self, value: Any) -> str:
        """A value as Spark reads it, constant from the beginning."""
        return _SQL.get(self.iceberg.split("(")[0].split("[")[0], _typed)(self.iceberg, value)


def _typed(kind: str, value: Any) -> str:
    names = {"long": "BIGINT", "timestamp": "TIMESTAMP_NTZ"}
    return f"CAST('{value}' AS {names.get(kind, kind)})"


def _hex(data: bytes) -> str:
    return f"X'{data.hex()}'"


_SQL: Mapping[str, Callable[[str, Any], str]] = {
    "string": lambda _, value: f"decode({_hex(value.encode())}, 'UTF-8')",
    "binary": lambda _, value: _hex(value),
    "fixed": lambda _, value: _hex(value),
    "uuid": lambda _, value: f"'{value}'",
    "date": lambda _, value: f"date_from_unix_date({(value - _EPOCH.date()).days})",
    "timestamptz": lambda _, value: f"timestamp_micros({_micros(value.replace(tzinfo=None))})",
}


def _micros(value: datetime.datetime) -> int:
    return (value - _EPOCH) // datetime.timedelta(microseconds=1)


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _whole(bits: int) -> list[int]:
    return [-(2 ** (bits - 1)), -(2 ** (bits - 1)) + 1, -1, 0, 1, 127, 128, 2 ** (bits - 1) - 2, 2 ** (bits - 1) - 1]


def _fractions(least: float, most: float) -> list[float]:
    infinite, nan = float("inf"), float("nan")
    return [-infinite, nan, -most, -1.5, -least, -0.0, 0.0, least, 1.5, 5.0, most, infinite]


def _decimals(precision: int, scale: int) -> list[Decimal]:
    most = 10**precision - 1
    return [Decimal(f"{n}e-{scale}") for n in (-most, -(10 ** (precision // 2)), -1, 0, 1, 127, 128, most - 1, most)]


def _moment(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micros: int = 0
) -> datetime.datetime:
    return datetime.datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001


_MOMENTS = [
    _moment(*parts)
    for parts in [
        (1, 1, 1),
        (1582, 10, 4, 23, 59, 59, 999999),
        (1582, 10, 15),
        (1969, 12, 31, 23, 59, 59, 999999),
        (1970, 1, 1),
        (1970, 1, 1, 0, 0, 0, 1),
        (2038, 1, 19, 3, 14, 8),
        (9999, 12, 31, 23, 59, 59, 999999),
    ]
]
_TEXTS = [
    "",
    "\0",
    "\0" * 17,
    "a",
    "a" * 16,
    "a" * 16 + "\0",
    "a" * 17,
    "a" * 40,
    "a" * 15 + "\U0010ffff",
    "a" * 15 + "\U0010ffff" * 2,
    "ab%c_d",
    "é" * 20,
    "z" * 5000,
    "\ud7ff" * 20,
    "\ue000" * 3,
    "\uffff" * 17,
    "\U00010000",
    "𝄞" * 20,
    "\U0010fffe" * 17,
    "\U0010ffff" * 16,
    "\U0010ffff" * 17,
    "\U0010ffff" * 40,
]
_BLOBS = [
    b"",
    b"\0",
    b"\0" * 17,
    b"a" * 16,
    b"a" * 16 + b"\0",
    b"a" * 15 + b"\xff\xff",
    b"\x7f" * 20,
    b"\x80" * 20,
    b"\xf0" * 5000,
    b"\xff" * 16,
    b"\xff" * 17,
    b"\xff" * 40,
]
_KEYS = [uuid.UUID(int=n) for n in (0, 1, 2**63, 2**64 - 1, 2**127 - 1, 2**127, 2**127 + 2**63, 2**128 - 2, 2**128 - 1)]
KINDS: Mapping[str, Kind] = {
    "flag": Kind(iceberg="boolean", arrow=pa.bool_(), values=[False, True]),
    "small": Kind(iceberg="int", arrow=pa.int32(), values=_whole(32)),
    "big": Kind(iceberg="long", arrow=pa.int64(), values=_whole(64)),
    "real": Kind(
        iceberg="float", arrow=pa.float32(), values=_fractions(_single(1e-45), _single(3.4028234663852886e38))
    ),
    "wide": Kind(iceberg="double", arrow=pa.float64(), values=_fractions(5e-324, 1.7976931348623157e308)),
    "d9": Kind(iceberg="decimal(9, 2)", arrow=pa.decimal128(9, 2), values=_decimals(9, 2)),
    "d18": Kind(iceberg="decimal(18, 3)", arrow=pa.decimal128(18, 3), values=_decimals(18, 3)),
    "d38": Kind(iceberg="decimal(38, 10)", arrow=pa.decimal128(38, 10), values=_decimals(38, 10)),
    "day": Kind(iceberg="date", arrow=pa.date32(), values=sorted({moment.date() for moment in _MOMENTS})),
    "moment": Kind(iceberg="timestamp", arrow=pa.timestamp("us"), values=_MOMENTS),
    "instant": Kind(
        iceberg="timestamptz",
        arrow=pa.timestamp("us", "UTC"),
        values=[moment.replace(tzinfo=datetime.UTC) for moment in _MOMENTS],
    ),
    "text": Kind(iceberg="string", arrow=pa.string(), values=sorted(_TEXTS, key=str.encode)),
    "blob": Kind(iceberg="binary", arrow=pa.binary(), values=sorted(_BLOBS)),
    # Iceberg compares halves of uuids as numbers with a sign, and does not find ranges of them in any file
    "key": Kind(iceberg="uuid", arrow=pa.string(), values=[str(key) for key in _KEYS], ranges=False),
    "code": Kind(
        iceberg="fixed[4]",
        arrow=pa.binary(),
        values=[b"\0\0\0\0", b"\0\0\0\1", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 4],
    ),
}
"""By column. Spark has uuids as texts, and fixed lengths as binaries."""


# -- predicates -------------------------------------------------------------------------------------


def predicates(column: str, kind: Kind) -> Iterator[str]:
    """All that is asked of a column."""
    yield f"{column} IS NULL"
    yield f"{column} IS NOT NULL"
    for number, value in enumerate(kind.values):
        literal, other = kind.sql(value), kind.sql(kind.values[(number * 7 + 3) % len(kind.values)])
        yield from (f"{column} {operator} {literal}" for operator in ("=", "<>", "<=>"))
        yield f"{column} IN ({literal}, {other})"
        yield f"{column} NOT IN ({literal}, {other})"
        if kind.ranges:
            yield from (f"{column} {operator} {literal}" for operator in ("<", "<=", ">", ">="))
            yield f"{column} > {literal} AND {column} < {other}"
            yield f"{column} < {literal} OR {column} > {other} OR {column} IS NULL"
    if kind.fractional:
        yield f"isnan({column})"
        yield f"NOT isnan({column})"
    if kind.iceberg == "string":
        yield from _prefixes(column, kind)


def _prefixes(column: str, kind: Kind) -> Iterator[str]:
    for prefix in sorted({value[:length] for value in kind.values for length in (1, 15, 16, 17) if value}):
        yield f"startswith({column}, {kind.sql(prefix)})"
        yield f"NOT startswith({column}, {kind.sql(prefix)})"
    yield f"{column} LIKE 'a%'"
    yield f"{column} NOT LIKE 'a%'"


def chosen(columns: Mapping[str, Kind], most: int | None, seed: int = 1) -> list[str]:
    """Predicates over these columns; at most so many of each, taken at random, but always the same."""
    rng = random.Random(seed)
    found: list[str] = []
    for column, kind in columns.items():
        asked = list(predicates(column, kind))
        found += asked if most is None or len(asked) <= most else rng.sample(asked, most)
    return found


# -- who finds what -----------------------------------------------------------------------------------


def truth(spark: SparkSession, source: str, asked: Sequence[str]) -> dict[str, frozenset[int]]:
    """The ids of the rows for which predicates hold: nothing is pushed down."""
    found: dict[str, frozenset[int]] = {}
    with _quick(spark):
        for batch in _batches(asked, 10 * _AT_ONCE):
            flags = ", ".join(f"coalesce({predicate}, false) AS q{n}" for n, predicate in enumerate(batch))
            rows = spark.sql(f"SELECT id, {flags} FROM {source}").collect()
            for number, predicate in enumerate(batch):
                found[predicate] = frozenset(row[0] for row in rows if row[1 + number])
    return found


def pushed(spark: SparkSession, source: str, asked: Sequence[str]) -> dict[str, frozenset[int]]:
    """The ids of the rows that filters find: files and row groups that cannot match are skipped."""
    found: dict[str, set[int]] = {predicate: set() for predicate in asked}
    with _quick(spark):
        for batch in _batches(asked, _AT_ONCE):
            parts = [f"SELECT {n} AS q, id FROM {source} WHERE {predicate}" for n, predicate in enumerate(batch)]
            for number, row_id in spark.sql(" UNION ALL ".join(parts)).collect():
                found[batch[number]].add(row_id)
    return {predicate: frozenset(ids) for predicate, ids in found.items()}


@contextmanager
def _quick(spark: SparkSession) -> Iterator[None]:
    """Many small queries: what large ones gain from is switched off."""
    before = {key: spark.conf.get(key) for key in _QUICK}
    for key, value in _QUICK.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            spark.conf.set(key, str(was))


def _batches(asked: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(asked), size):
        yield asked[start : start + size]
