"""Who reads what was assembled: every reader sees the same rows, and reads as little as it did before."""

import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession

from icepact import Compactor
from tests.support.manifests import manifests_agree
from tests.support.messy import load
from tests.support.oracle import data_files
from tests.support.tables import create, create_typed
from tests.support.ways import SEVERAL_ROW_GROUPS, footer, maybe, rewritten

# -- all readers ------------------------------------------------------------------------------------

TYPES: dict[str, tuple[Any, str]] = {
    "flag": ("boolean", "id % 2 = 0"),
    "small": ("int", "int(id) - 50"),
    "real": ("float", "CASE id % 4 WHEN 0 THEN float('NaN') WHEN 1 THEN float('-0.0') ELSE float(id / 3) END"),
    "wide": ("double", "CASE id % 4 WHEN 0 THEN double('-Infinity') WHEN 1 THEN 0d ELSE id / 3 END"),
    "d9": ("decimal(9, 2)", "CAST(-id / 4 AS decimal(9, 2))"),
    "d18": ("decimal(18, 3)", "CAST(id / 8 AS decimal(18, 3))"),
    "d38": ("decimal(38, 10)", "CAST(id AS decimal(38, 10)) * -1000000000000000"),
    "day": ("date", "date_add(date'1969-12-01', int(id))"),
    "moment": ("timestamp", "timestamp_ntz'1969-12-31 23:59:59.999999' + make_interval(0, 0, 0, int(id))"),
    "instant": ("timestamptz", "timestamp'1969-12-31 23:59:59.999999Z' + make_interval(0, 0, 0, int(id))"),
    "text": ("string", "concat('é日', id)"),
    "word": ("string", "concat('w', id % 3)"),
    "raw": ("binary", "encode(concat('b', id), 'utf-8')"),
    "code": ("fixed[4]", "encode(lpad(string(id), 4, '0'), 'utf-8')"),
    "nothing": ("string", "NULL"),
    "list": (
        {"type": "list", "element-id": 101, "element-required": False, "element": "string"},
        f"IF(id % 3 = 0, array(), array({maybe('string(id)')}, NULL))",
    ),
    "place": (
        {
            "type": "struct",
            "fields": [
                {"id": 110, "name": "x", "required": False, "type": "int"},
                {"id": 111, "name": "y", "required": False, "type": "string"},
            ],
        },
        "named_struct('x', IF(id % 2 = 0, NULL, int(id)), 'y', IF(id % 3 = 0, NULL, 'y'))",
    ),
    "prices": (
        {"type": "map", "key-id": 120, "key": "string", "value-id": 121, "value-required": False, "value": "double"},
        "map('a', IF(id % 2 = 0, NULL, double(id)))",
    ),
}


@pytest.fixture
def pyiceberg(compactor: Compactor) -> Iterator[SqlCatalog]:
    """PyIceberg on the embedded catalog of the tests."""
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    catalog = SqlCatalog("local", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=str(warehouse))
    yield catalog
    catalog.close()


def listed(rows: pa.Table) -> list[str]:
    """Rows as text, by id; every reader has types of its own for the same values."""
    names = ["id", *TYPES]
    return [repr([_plain(row[name]) for name in names]) for row in rows.select(names).sort_by("id").to_pylist()]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, tuple):
        return tuple(_plain(inner) for inner in value)
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.timestamp()
    return value


def test_readers_agree(
    compactor: Compactor, spark: SparkSession, namespace: str, pyiceberg: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition was copied, one encoded, one is of both kinds: Spark, PyIceberg, pyarrow and DuckDB are of one mind."""
    fields = [("id", "long"), ("part", "string"), *((name, kind) for name, (kind, _) in TYPES.items())]
    table = create_typed(spark, namespace, "t", fields, properties=SEVERAL_ROW_GROUPS)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD part")
    values = [f"IF((id + {n}) % 7 = 0, NULL, {value}) AS {name}" for n, (name, (_, value)) in enumerate(TYPES.items())]
    for part in ("copied", "encoded", "mixed"):
        rows = spark.range(0, 200, 1, 5).selectExpr(f"{maybe('id')} AS id", f"{maybe(repr(part))} AS part", *values)
        rows.writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE part = 'mixed' AND id IN (7, 8, 170)")
    spark.sql(f"DELETE FROM {table} WHERE part = 'encoded' AND id % 9 = 4")
    before = listed(spark.table(table).toArrow())

    rewritten(compactor, table, "copy", where="part = 'copied'", copied=10, encoded=0)
    rewritten(compactor, table, "encode", where="part = 'encoded'", copied=0, encoded=1)
    rewritten(compactor, table, "copy", where="part = 'mixed'", copied=8, encoded=2)

    assert listed(spark.table(table).toArrow()) == before
    not_vectorized = spark.read.option("vectorization-enabled", "false").table(table)
    assert listed(not_vectorized.toArrow()) == before
    assert listed(pyiceberg.load_table(table).scan().to_arrow()) == before
    paths = data_files(spark, table)
    assert listed(
        pa.concat_tables([pq.ParquetFile(path, page_checksum_verification=True).read() for path in paths])
    ) == (before)
    assert listed(duckdb.sql(f"SELECT * FROM read_parquet({paths})").to_arrow_table()) == before
    assert listed(spark.read.parquet(*paths).toArrow()) == before
    # beside NaN, parquet-java knows no bounds of a copied row group, and then nobody knows those of the file
    manifests_agree(spark, table)
