"""Who reads what was assembled: every reader sees the same rows, and reads as little as it did before."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession

from icepact import Compactor
from tests.support.java import jvm
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


def test_readers_agree(compactor: Compactor, spark: SparkSession, namespace: str, pyiceberg: SqlCatalog) -> None:
    """One partition was copied, one encoded, one is of both kinds: all readers agree, and manifests too."""
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
    in_duckdb = duckdb.sql(f"SELECT * FROM read_parquet({paths})")
    assert in_duckdb is not None
    assert listed(in_duckdb.to_arrow_table()) == before
    assert listed(spark.read.parquet(*paths).toArrow()) == before
    manifests_agree(spark, table)


# -- as little as before ----------------------------------------------------------------------------


def rows_read(frame: DataFrame) -> int:
    """Rows that the scan handed on, before any filter; the frame is carried out."""
    frame.collect()
    scans = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(scans.apply(n).metrics().apply("numOutputRows").value() for n in range(scans.size()))


@pytest.mark.parametrize("way", ["copy", "encode", "mixed"])
def test_page_indexes(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """Spark's plain Parquet reader skips pages by the column index: of a row group it reads one page."""
    properties = {
        "write.parquet.page-row-limit": "100",
        "write.parquet.row-group-size-bytes": "32768",
        "write.parquet.row-group-check-min-record-count": "100",
        "write.parquet.row-group-check-max-record-count": "100",
    }
    table = create(spark, f"{namespace}.t", "id bigint, word string", properties=properties)
    words = f"{maybe('id')} AS id", f"{maybe('sha2(string(id), 256)')} AS word"
    spark.range(0, 5000, 1, 5).selectExpr(*words).writeTo(table).append()
    assert [[group.rows for group in footer(path).row_groups] for path in data_files(spark, table)] == [[900, 100]] * 5
    if way == "mixed":
        spark.sql(f"DELETE FROM {table} WHERE id = 5")
    copied, encoded = {"copy": (10, 0), "encode": (0, 1), "mixed": (9, 1)}[way]
    rewritten(compactor, table, "encode" if way == "encode" else "copy", copied=copied, encoded=encoded)

    [path] = data_files(spark, table)
    plain = spark.read.parquet(path)
    blind = spark.read.option("parquet.filter.columnindex.enabled", "false").parquet(path)
    for wanted in (6, 1111, 4899):
        whole = 5000 if way == "encode" else 899 if way == "mixed" and wanted == 6 else 900
        assert rows_read(blind.where(f"id = {wanted}")) == whole
        assert rows_read(plain.where(f"id = {wanted}")) == 100
    assert plain.where("id BETWEEN 1195 AND 1205").count() == 11


@pytest.mark.parametrize("way", ["copy", "encode"])
def test_bloom_filters(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """A value that is nowhere, though between the bounds: Iceberg skips every row group for its bloom filter alone."""
    columns = {"code": "id * 2", "word": "concat('w', id * 2)"}
    wanted = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in columns}
    properties = {**wanted, "write.parquet.dict-size-bytes": "100", **SEVERAL_ROW_GROUPS}
    table = create(spark, f"{namespace}.t", "id bigint, code bigint, word string", properties=properties)
    values = [f"{maybe(value)} AS {name}" for name, value in {"id": "id", **columns}.items()]
    spark.range(0, 200, 1, 5).selectExpr(*values).writeTo(table).append()

    rewritten(compactor, table, way, copied=10 if way == "copy" else 0, encoded=0 if way == "copy" else 1)

    [path] = data_files(spark, table)
    iceberg = jvm(spark).org.apache.iceberg
    expressions, parquet = iceberg.expressions.Expressions, iceberg.parquet
    schema = load(spark, f"local.{table}").schema()
    hadoop, stored = jvm(spark).org.apache.hadoop, iceberg.shaded.org.apache.parquet.hadoop
    place = stored.util.HadoopInputFile.fromPath(hadoop.fs.Path(path), hadoop.conf.Configuration())
    reader = stored.ParquetFileReader.open(place)
    try:
        fields = reader.getFileMetaData().getSchema()
        for name, absent, present in (("code", 201, 200), ("word", "w201", "w200")):
            for value, found in ((absent, False), (present, True)):
                test = expressions.equal(name, value)
                judges: list[tuple[Any, Callable[[Any], list[Any]]]] = [
                    (
                        parquet.ParquetBloomRowGroupFilter(schema, test),
                        lambda g: [reader.getBloomFilterDataReader(g)],
                    ),
                    (parquet.ParquetMetricsRowGroupFilter(schema, test), lambda g: []),
                    (
                        parquet.ParquetDictionaryRowGroupFilter(schema, test),
                        lambda g: [reader.getDictionaryReader(g)],
                    ),
                ]
                blooms, bounds, words = (
                    [judge.shouldRead(fields, group, *more(group)) for group in reader.getRowGroups()]
                    for judge, more in judges
                )
                assert (sum(blooms), any(bounds), any(words)) == (int(found), True, True), (name, value)
    finally:
        reader.close()
    for test, rows in (("code = 201", 0), ("word = 'w201'", 0), ("code = 200", 20 if way == "copy" else 200)):
        assert rows_read(spark.table(table).where(test)) == rows
