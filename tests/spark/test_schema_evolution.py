"""Tables whose columns or partitions changed between writes, and every type that Spark can load."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.errors import Unsupported
from tests.support.checks import keeps_rows
from tests.support.java import jvm
from tests.support.messy import equality_delete, load
from tests.support.oracle import delete_files, seen
from tests.support.tables import create, create_typed
from tests.support.ways import rewritten

matrix = pytest.mark.matrix
WRITTEN = [
    # formats, and ways to rewrite them
    ("parquet", "copy"),
    ("parquet", "encode"),
    *(pytest.param(file_format, "spark", marks=matrix) for file_format in ("parquet", "orc", "avro")),
]

# -- partitions -----------------------------------------------------------------------------------

EVOLUTIONS = {
    "unpartitioned to days": ("", "ADD PARTITION FIELD days(at)"),
    "identity to bucket": ("kind", "REPLACE PARTITION FIELD kind WITH bucket(3, id)"),
    "a field dropped": ("kind, bucket(2, id)", "DROP PARTITION FIELD kind"),
}


@pytest.mark.parametrize(
    ("evolution", "version"),
    [
        ("unpartitioned to days", 1),
        ("unpartitioned to days", 2),
        pytest.param("unpartitioned to days", 3, marks=matrix),
        pytest.param("identity to bucket", 1, marks=matrix),
        ("identity to bucket", 2),
        ("identity to bucket", 3),
        ("a field dropped", 1),
        pytest.param("a field dropped", 2, marks=matrix),
        ("a field dropped", 3),
    ],
)
def test_partition_evolution(
    compactor: Compactor, spark: SparkSession, namespace: str, evolution: str, version: int
) -> None:
    """Without deletes on format 1, with deletes of both generations on 2 and 3."""
    first, change = EVOLUTIONS[evolution]
    table = create(spark, f"{namespace}.t", "id bigint, kind string, at timestamp", first, version=version)
    rows = (
        "id",
        "substr('ab', int(id % 2) + 1, 1) AS kind",
        "timestamp'2026-01-01' + make_interval(0, 0, 0, 0, int(id))",
    )
    spark.range(0, 72, 1, 9).selectExpr(*rows).toDF("id", "kind", "at").writeTo(table).append()
    if version > 1:
        spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    spark.sql(f"ALTER TABLE {table} {change}")
    spark.range(72, 144, 1, 3).selectExpr(*rows).toDF("id", "kind", "at").writeTo(table).append()
    if version > 1:
        spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")

    outcome = keeps_rows(compactor, table, lineage=version == 3)

    specs = [row[0] for row in spark.sql(f"SELECT DISTINCT spec_id FROM {table}.data_files").collect()]
    assert specs == [load(spark, f"local.{table}").spec().specId()]
    assert delete_files(spark, table) == []
    gone = sum(1 for n in range(144) if (n < 72 and n % 5 == 0) or n % 7 == 0) if version > 1 else 0
    assert outcome.rows_deleted == gone


@pytest.mark.parametrize("version", [1, 2])
def test_partition_column_dropped(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """Iceberg forgets the partition of such files when it rewrites their manifest: refused in one line."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string", "kind, bucket(2, id)", version=version)
    spark.range(0, 60, 1, 6).selectExpr("id", "string(id % 2) AS kind").writeTo(table).append()
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD kind")
    assert compactor.plan(table).rewrites != ()
    spark.sql(f"ALTER TABLE {table} DROP COLUMN kind")
    for work in (compactor.plan, compactor.compact, compactor.health):
        with pytest.raises(Unsupported) as refusal:
            work(table)
        assert str(refusal.value) == (
            f"{table} has files of partition spec 0, whose column was dropped:"
            " Iceberg would lose their partitions, and with them deletes"
        )


def test_bucketed_column_dropped(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """The partition of a bucket is a number, whatever becomes of the column: deletes keep finding their files."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string", "bucket(3, kind)")
    spark.range(0, 60, 1, 6).selectExpr("id", "string(id % 10) AS kind").writeTo(table).append()
    for bucket in range(3):
        keys = [{"id": n} for n in range(bucket, 60, 5)]
        equality_delete(spark, f"local.{table}", keys, columns=["id"], partition=f"kind_bucket={bucket}")
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD bucket(3, kind)")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN kind")
    before = seen(spark, table)[0]
    assert 24 < before < 60

    # two of six files in each partition: manifests with files that stay are rewritten
    keeps_rows(compactor, table, where="id < 20", settles=False)
    keeps_rows(compactor, table)

    assert seen(spark, table)[0] == before
    assert delete_files(spark, table) == []


# -- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("file_format", "way"), WRITTEN)
def test_columns_changed(compactor: Compactor, spark: SparkSession, namespace: str, file_format: str, way: str) -> None:
    """Widened, dropped, dropped and added again, renamed, reordered, added at every depth."""
    table = create(
        spark,
        f"{namespace}.t",
        "id int, ratio float, price decimal(9, 2), gone string, again string, name string,"
        " inner struct<a: int, b: string>, items array<struct<a: int>>, entries map<string, struct<a: int>>",
        properties={"write.format.default": file_format},
    )
    old = [
        *("int(id) AS id", "float(id / 3) AS ratio", "decimal(id) AS price", "'x' AS gone", "'y' AS again"),
        "concat('n', id) AS name",
        "IF(id % 4 = 0, NULL, named_struct('a', int(id), 'b', 'b')) AS inner",
        "array(named_struct('a', int(id)), NULL) AS items",
        "map('k', named_struct('a', int(id)), 'null', NULL) AS entries",
    ]
    spark.range(0, 60, 1, 5).selectExpr(*old).writeTo(table).append()
    for change in (
        "ALTER COLUMN id TYPE bigint",
        "ALTER COLUMN ratio TYPE double",
        "ALTER COLUMN price TYPE decimal(18, 2)",
        "DROP COLUMNS gone, again",
        "ADD COLUMNS again int, extra string",
        "RENAME COLUMN name TO title",
        "ALTER COLUMN title FIRST",
        "ALTER COLUMN extra AFTER title",
        "ADD COLUMNS inner.c bigint, items.element.b int, entries.value.b int",
    ):
        spark.sql(f"ALTER TABLE {table} {change}")
    new = [
        *("concat('t', id) AS title", "'e' AS extra", "id + 5000000000 AS id", "id / 7 AS ratio"),
        "decimal(id) * 1000000000 AS price",
        "named_struct('a', int(id), 'b', 'b', 'c', id) AS inner",
        "array(named_struct('a', 1, 'b', int(id))) AS items",
        "map('k', named_struct('a', 1, 'b', int(id))) AS entries",
        "int(id) AS again",
    ]
    spark.range(0, 60, 1, 5).selectExpr(*new).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 0")

    rewritten(compactor, table, way)

    old_row = spark.sql(f"SELECT title, extra, again, inner.c, items[0].b, entries['k'].b FROM {table} WHERE id = 1")
    assert [tuple(row) for row in old_row.collect()] == [("n1", None, None, None, None, None)]


@pytest.mark.parametrize(("file_format", "way"), [one for one in WRITTEN if "orc" not in str(one)])
def test_columns_with_defaults(
    compactor: Compactor, spark: SparkSession, namespace: str, file_format: str, way: str
) -> None:
    """Old rows keep the initial default, also where a delete's key is a column that their file lacks."""
    properties = {"write.format.default": file_format}
    table = create(spark, f"{namespace}.t", "id bigint, inner struct<a: int>", version=3, properties=properties)
    spark.range(0, 60, 1, 5).selectExpr("id", "named_struct('a', int(id))").toDF("id", "inner").writeTo(table).append()
    iceberg = jvm(spark).org.apache.iceberg
    types, literal = iceberg.types.Types, iceberg.expressions.Literal
    change = load(spark, f"local.{table}").updateSchema()
    change.addColumn("level", types.IntegerType.get(), None, literal.of(5))
    change.addColumn("word", types.StringType.get(), None, literal.of("old"))
    change.addColumn("inner", "b", types.IntegerType.get(), None, literal.of(7))
    change.commit()
    load(spark, f"local.{table}").updateSchema().updateColumnDefault("level", literal.of(6)).commit()
    new = "id", "named_struct('a', 1, 'b', 2) AS inner", "int(id % 7) AS level", "'new' AS word"
    spark.range(60, 120, 1, 5).selectExpr(*new).writeTo(table).append()
    keys = [{"id": n, "level": 5} for n in range(0, 120, 10)]
    equality_delete(spark, f"local.{table}", keys, columns=["id", "level"])
    spark.sql(f"DELETE FROM {table} WHERE id % 11 = 0")
    spark.catalog.refreshTable(table)

    rewritten(compactor, table, way, lineage=True)

    old = spark.sql(f"SELECT DISTINCT inner.b, level, word FROM {table} WHERE id < 60").collect()
    assert [tuple(row) for row in old] == [(7, 5, "old")]
    ids = {row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()}
    assert ids == {n for n in range(120) if n % 11 and (n % 10 or (n >= 60 and n % 7 != 5))}


# -- types ----------------------------------------------------------------------------------------

LIST = {"type": "list", "element-id": 101, "element-required": False, "element": "int"}
STRUCT = {
    "type": "struct",
    "fields": [
        {"id": 110, "name": "amount", "required": False, "type": "decimal(20, 4)"},
        {"id": 111, "name": "tags", "required": False, "type": {**LIST, "element-id": 112, "element": "string"}},
    ],
}
MAP = {
    **{"type": "map", "key-id": 120, "key": "string"},
    **{"value-id": 121, "value-required": False, "value": {**LIST, "element-id": 122, "element": "double"}},
}
TYPES = {
    "boolean": "id % 2 = 0",
    "int": "int(id) - 50",
    "long": "id * 10000000000",
    "float": "CASE id % 6 WHEN 0 THEN float('NaN') WHEN 1 THEN float('-0.0') WHEN 2 THEN float('Infinity')"
    " WHEN 3 THEN float(0) ELSE float(id / 3) END",
    "double": "CASE id % 6 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-0.0') WHEN 2 THEN double('-Infinity')"
    " WHEN 3 THEN double(0) ELSE id / 3 END",
    "decimal(9, 2)": "CAST(id / 4 AS decimal(9, 2))",
    "decimal(18, 3)": "CAST(-id / 8 AS decimal(18, 3))",
    "decimal(38, 10)": "CAST(id AS decimal(38, 10)) * 1000000000000000",
    "date": "date_add(date'1969-12-01', int(id))",
    "timestamp": "timestamp_ntz'1969-12-31 23:59:59.999999' + make_interval(0, 0, 0, int(id))",
    "timestamptz": "timestamp'1969-12-31 23:59:59.999999Z' + make_interval(0, 0, 0, int(id))",
    "string": "concat('é日\\'', id)",
    "binary": "encode(concat('b', id), 'utf-8')",
    "uuid": "regexp_replace(md5(string(id)), '(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5')",
    "fixed[4]": "encode(lpad(string(id), 4, '0'), 'utf-8')",
}


@pytest.mark.parametrize(("file_format", "way"), WRITTEN)
def test_all_types(compactor: Compactor, spark: SparkSession, namespace: str, file_format: str, way: str) -> None:
    """Every seventh value is null, one column is always null, and nulls are inside lists, maps and structs."""
    columns: dict[str, tuple[Any, str]] = {f"c{n}": (kind, value) for n, (kind, value) in enumerate(TYPES.items())}
    columns["nothing"] = ("string", "NULL")
    columns["list"] = (LIST, "IF(id % 3 = 0, array(), array(int(id), NULL))")
    columns["struct"] = (STRUCT, "named_struct('amount', IF(id % 2 = 0, NULL, decimal(id)), 'tags', array('a', NULL))")
    columns["map"] = (MAP, "map('a', array(double(id), NULL), 'null', NULL, string(id), array())")
    table = create_typed(
        spark,
        namespace,
        "t",
        [("id", "long"), *((name, kind) for name, (kind, _) in columns.items())],
        properties={"write.format.default": file_format},
    )
    values = [
        f"IF((id + {n}) % 7 = 0, NULL, {value}) AS {name}" for n, (name, (_, value)) in enumerate(columns.items())
    ]
    spark.range(0, 100, 1, 5).selectExpr("id", *values).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id % 9 = 0")
    # the oracle's hash takes -0.0 for 0.0
    zeros = f"SELECT string(c3), string(c4), count(*) FROM {table} WHERE c3 = 0 OR c4 = 0 GROUP BY ALL ORDER BY ALL"
    before = spark.sql(zeros).collect()
    assert {row[0] for row in before} >= {"-0.0", "0.0"}

    rewritten(compactor, table, way)

    assert spark.sql(zeros).collect() == before


def test_variant(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, v variant", version=3)
    value = """parse_json(concat('{"n": ', id, ', "list": [null, ', id, ', "x"]}'))"""
    spark.range(0, 60, 1, 5).selectExpr("id", f"IF(id % 7 = 0, NULL, {value}) AS v").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id % 9 = 0")
    spark.sql(f"CREATE TEMPORARY VIEW {namespace}_shown AS SELECT id, _row_id, string(v) FROM {table}")
    before = seen(spark, f"{namespace}_shown")

    outcome = compactor.compact(table)

    assert (outcome.status, outcome.files_before, outcome.files_after) == ("committed", 5, 1)
    assert seen(spark, f"{namespace}_shown") == before


@pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns"])
def test_types_that_spark_cannot_load(compactor: Compactor, spark: SparkSession, namespace: str, kind: str) -> None:
    """Refused in one line, at any depth, before anything starts."""
    inside = {**LIST, "element": kind}
    for name, fields in (("flat", [("id", "long"), ("at", kind)]), ("deep", [("id", "long"), ("at", inside)])):
        table = create_typed(spark, namespace, name, fields, version=3)
        for work in (compactor.plan, compactor.compact, compactor.health):
            with pytest.raises(Unsupported) as refusal:
                work(table)
            assert str(refusal.value) == f"{table} has a column of type {kind}, which Spark's Iceberg cannot load"
