"""A filter finds the same rows whether files and row groups are skipped for it or not, whatever the type and value."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.oracle import data_files
from tests.support.predicates import KINDS, Kind, chosen, pushed, truth
from tests.support.tables import create_typed
from tests.support.ways import WAYS

ASSEMBLED = ("encode", "copy", "join")
"""Each with partitions of its own."""
BINS = 6
"""Partitions of each: nulls only; one value only, at either end; and a few values each, with and without nulls."""
FILES, ROWS = 3, 4
"""Files of a partition, and rows of a file."""
NESTED = {f"inside.{name}": kind for name, kind in KINDS.items()}
SOME_NESTED = {name: NESTED[name] for name in ("inside.small", "inside.wide", "inside.text")}
INSIDE = pa.struct([(name, kind.arrow) for name, kind in KINDS.items()])
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("way", pa.string()),
        ("bin", pa.int32()),
        *((name, kind.arrow) for name, kind in KINDS.items()),
        ("inside", INSIDE),
    ]
)
ODD = [
    f"{column} {predicate}"
    for column in ("real", "wide", "inside.wide")
    for predicate in ("> 5", ">= double('NaN')", "< double('-Infinity')", "= 0d")
]
"""NaN is above everything, and the zeros are equal."""
ODD += [f"key = {KINDS['key'].sql(key)}" for key in KINDS["key"].values[3:6]]
"""Java takes the first bit of a uuid for a sign, nobody else does."""


def value(kind: Kind, number: int, place: int) -> Any:
    """The value in a place of a partition."""
    if number < 3:
        return (None, kind.values[-1], kind.values[0])[number]
    if number % 2 and place == 5:
        return None
    few = max(1, len(kind.values) // (BINS - 3))
    return kind.values[((number - 3) * few + place % (few + 1)) % len(kind.values)]


def rows(way: str, file: int) -> list[dict[str, Any]]:
    """What one file has in each partition."""
    found = []
    for number in range(BINS):
        for place in range(file * ROWS, (file + 1) * ROWS):
            values = {name: value(kind, number, place) for name, kind in KINDS.items()}
            around = None if number == 4 and place % ROWS == 0 else values
            key = ASSEMBLED.index(way) * 10_000 + number * 100 + place
            found.append({"id": key, "way": way, "bin": number, **values, "inside": around})
    return found


def filled(spark: SparkSession, namespace: str, *, version: int, properties: Mapping[str, str]) -> str:
    """A table with all types, at the top and in a struct; some rows of what is copied or encoded are deleted."""
    inner = [
        {"id": 100 + n, "name": name, "required": False, "type": kind.iceberg}
        for n, (name, kind) in enumerate(KINDS.items())
    ]
    top = [("id", "long"), ("way", "string"), ("bin", "int"), *((name, kind.iceberg) for name, kind in KINDS.items())]
    fields = [*top, ("inside", {"type": "struct", "fields": inner})]
    table = create_typed(spark, namespace, "t", fields, version=version, properties=properties)
    for column in ("way", "bin"):
        spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD {column}")
    for ways, dictionary in (({"encode", "copy"}, 2**20), ({"join"}, 64)):  # pages without a dictionary are joined
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.parquet.dict-size-bytes' = '{dictionary}')")
        for file in range(FILES):
            given = [row for way in sorted(ways) for row in rows(way, file)]
            frame = spark.createDataFrame(pa.Table.from_pylist(given, schema=ARROW)).coalesce(1)
            frame.writeTo(table).option("fanout-enabled", "true").append()
    spark.sql(f"DELETE FROM {table} WHERE way <> 'join' AND id % 100 = 5")
    return table


@pytest.mark.parametrize(
    ("mode", "version", "most"),
    [
        ("truncate(16)", 2, 2),
        *(
            pytest.param(mode, version, None, marks=[pytest.mark.matrix, pytest.mark.timeout(7200)])
            for mode, version in (("truncate(16)", 3), ("full", 2), ("counts", 2))
        ),
    ],
)
def test_filters_find_all_rows(
    compactor: Compactor, spark: SparkSession, namespace: str, mode: str, version: int, most: int | None
) -> None:
    properties = {"write.metadata.metrics.default": mode}
    table = filled(spark, namespace, version=version, properties=properties)
    columns = {**KINDS, **(NESTED if most is None else SOME_NESTED)}
    asked = sorted({*chosen(columns, most), *ODD})
    expected = truth(spark, table, asked)

    for way in ASSEMBLED:
        outcome = compactor.compact(table, where=f"way = '{way}'", **WAYS[way])
        assert outcome.methods == {"assemble": BINS}
        assert (outcome.effort.copied_bytes > 0, outcome.effort.encoded_bytes > 0) == (way != "encode", True)
    assert len(data_files(spark, table)) == len(ASSEMBLED) * BINS

    found = pushed(spark, table, asked)
    assert {predicate: found[predicate] for predicate in asked if found[predicate] != expected[predicate]} == {}
    # files of which all rows match are dropped unread: neither NaN nor null is below a number
    whole = {row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()}
    gone = truth(spark, table, ["wide < double('Infinity')"]).popitem()[1]
    spark.sql(f"DELETE FROM {table} WHERE wide < double('Infinity')")
    assert {row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()} == whole - gone
