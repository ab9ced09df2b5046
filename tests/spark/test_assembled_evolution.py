"""Columns that changed since files were written: what can stay as it is is not decoded, and what cannot is."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.parquet.layout import INT64, OPTIONAL, REQUIRED
from tests.support.java import jvm
from tests.support.messy import load
from tests.support.oracle import LINEAGE, data_files
from tests.support.tables import create
from tests.support.ways import SEVERAL_ROW_GROUPS, footer, maybe, rewritten


def column_bytes(spark: SparkSession, table: str, names: set[str]) -> int:
    """Bytes that these columns take in the live files."""
    footers = [footer(path) for path in data_files(spark, table)]
    assert all(names <= {leaf.path[0].decode() for leaf in told.leaves} for told in footers)
    return sum(
        chunk.size
        for told in footers
        for group in told.row_groups
        for leaf, chunk in zip(told.leaves, group.chunks, strict=True)
        if leaf.path[0].decode() in names
    )


# -- not decoded ------------------------------------------------------------------------------------

OLD = {
    "id": "id",
    "gone": "concat('gone', id)",
    "name": "concat('n', id % 5)",
    "num": "int(id)",
    "inner": f"named_struct('a', {maybe('int(id)')}, 'b', {maybe('string(id)')}, 'c', {maybe('id')})",
    "tags": f"array({maybe('string(id)')}, NULL)",
}


@pytest.mark.parametrize("version", [2, 3])
def test_changes_that_need_no_decoding(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """Added with and without default, also as the first column; dropped, renamed, reordered; inside a struct, too."""
    columns = (
        "id bigint, gone string, name string, num int, inner struct<a: int, b: string, c: bigint>, tags array<string>"
    )
    table = create(spark, f"{namespace}.t", columns, version=version, properties=SEVERAL_ROW_GROUPS)
    rows = [f"{maybe(value)} AS {name}" for name, value in OLD.items()]
    spark.range(0, 200, 1, 5).selectExpr(*rows).writeTo(table).append()
    for change in (
        "ADD COLUMNS head string FIRST, extra struct<x: int, y: array<string>>",
        "DROP COLUMNS gone, inner.b",
        "RENAME COLUMN name TO title",
        "RENAME COLUMN inner.c TO cc",
        "ALTER COLUMN tags AFTER id",
    ):
        spark.sql(f"ALTER TABLE {table} {change}")
    made_up = {"head", "extra"}
    if version == 3:
        iceberg = jvm(spark).org.apache.iceberg
        types, literal = iceberg.types.Types, iceberg.expressions.Literal
        java = load(spark, f"local.{table}").updateSchema()
        java.addColumn("level", types.IntegerType.get(), None, literal.of(5)).moveFirst("level")
        java.addColumn("word", types.StringType.get(), None, literal.of("old")).commit()
        load(spark, f"local.{table}").updateSchema().updateColumnDefault("level", literal.of(6)).commit()
        spark.catalog.refreshTable(table)
        made_up |= {"level", "word", *LINEAGE}

    outcome = rewritten(compactor, table, "copy", lineage=version == 3, copied=10, encoded=0)

    assert outcome.effort.encoded_bytes == column_bytes(spark, table, made_up)
    [path] = data_files(spark, table)
    assert [child.name.decode() for child in footer(path).schema.children] == [
        *(["level"] if version == 3 else []),
        *("head", "id", "tags", "title", "num", "inner", "extra"),
        *(["word", *LINEAGE] if version == 3 else []),
    ]
    [row] = spark.sql(f"SELECT * FROM {table} WHERE id = 7").collect()
    found = row.asDict(recursive=True)
    defaults = {"level": 5, "word": "old"} if version == 3 else {}
    assert found == {
        **{"head": None, "id": 7, "tags": ["7", None], "title": "n2", "num": 7, "inner": {"a": 7, "cc": 7}},
        **{"extra": None, **defaults},
    }


def test_columns_that_are_never_null(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Spark writes what it knows to be never null as required: copied if all inputs agree, else encoded alone."""
    table = create(spark, f"{namespace}.t", "id bigint, word string", properties=SEVERAL_ROW_GROUPS)
    spark.range(0, 200, 1, 5).selectExpr("id", "concat('w', id) AS word").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id = 50")
    assert {leaf.levels[0][0] for path in data_files(spark, table) for leaf in footer(path).leaves} == {REQUIRED}

    rewritten(compactor, table, "copy", copied=9, encoded=1)

    spark.range(200, 280, 1, 2).selectExpr("id", "IF(id % 3 = 0, NULL, concat('w', id)) AS word").writeTo(
        table
    ).append()
    rewritten(compactor, table, "copy", copied=4, mixed=10, encoded=0, min_input_files=2)
    [path] = data_files(spark, table)
    assert [leaf.levels[0][0] for leaf in footer(path).leaves] == [REQUIRED, OPTIONAL]


def test_a_column_that_is_required_where_it_exists(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Since it was added, Spark writes it as required, and older files lack it: nothing else is decoded, as planned."""
    table = create(spark, f"{namespace}.t", "id bigint, text string", version=3)
    values = [f"{maybe('id')} AS id", f"{maybe('sha2(string(id), 512)')} AS text"]
    spark.range(0, 4000, 1, 2).selectExpr(*values).writeTo(table).append()
    spark.sql(f"ALTER TABLE {table} ADD COLUMN level int")
    spark.range(4000, 12_000, 1, 3).selectExpr(*values, "7 AS level").writeTo(table).append()

    outcome = rewritten(compactor, table, "copy", lineage=True, copied=2, mixed=3, encoded=0)

    assert outcome.effort.encoded_bytes == column_bytes(spark, table, {"level", *LINEAGE})
    [group] = outcome.groups
    assert 0.95 < group.effort.copied_bytes / group.planned_copied_bytes < 1
    [path] = data_files(spark, table)
    assert {row["level"] for row in pq.read_table(path.removeprefix("file:")).to_pylist()} == {None, 7}


# -- decoded, and nothing else with them -------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "old", "change", "new"),
    [
        ("v int", "int(id)", "ALTER COLUMN v TYPE bigint", "id + 5000000000"),
        ("v float", "float(id / 3)", "ALTER COLUMN v TYPE double", "id / 3"),
        ("v decimal(9, 2)", "CAST(id AS decimal(9, 2))", "ALTER COLUMN v TYPE decimal(18, 2)", "id * 1000000000"),
        ("v decimal(10, 2)", "CAST(id AS decimal(10, 2))", "ALTER COLUMN v TYPE decimal(12, 2)", "id * 10000000"),
        ("v decimal(20, 2)", "CAST(-id AS decimal(20, 2))", "ALTER COLUMN v TYPE decimal(38, 2)", "id * 10000000"),
        (
            "v struct<a: int>",
            f"named_struct('a', {maybe('int(id)')})",
            "ADD COLUMN v.b int",
            f"named_struct('a', {maybe('int(id)')}, 'b', {maybe('2')})",
        ),
        ("v bigint NOT NULL", "id", "ALTER COLUMN v DROP NOT NULL", "IF(id % 2 = 0, NULL, id)"),
    ],
    ids=["int", "float", "decimal-int32", "decimal-int64", "decimal-fixed", "struct", "required"],
)
def test_changes_that_need_decoding(
    compactor: Compactor, spark: SparkSession, namespace: str, columns: str, old: str, change: str, new: str
) -> None:
    """The changed column of row groups that are older than the change is encoded anew, all else is copied."""
    table = create(spark, f"{namespace}.t", f"id bigint, {columns}", properties=SEVERAL_ROW_GROUPS)
    older = old if "NOT NULL" in columns else maybe(old)
    spark.range(0, 80, 1, 2).selectExpr(f"{maybe('id')} AS id", f"{older} AS v").writeTo(table).append()
    spark.sql(f"ALTER TABLE {table} {change}")
    spark.range(80, 200, 1, 3).selectExpr(f"{maybe('id')} AS id", f"{maybe(new)} AS v").writeTo(table).append()

    rewritten(compactor, table, "copy", copied=6, mixed=4, encoded=0)


# -- files of others --------------------------------------------------------------------------------

PLAIN = {
    "id": "id",
    "name": "concat('n', id)",
    "at": "timestamp'1969-12-31 23:59:59.999999Z' + make_interval(0, 0, 0, int(id))",
    "price": "CAST(id / 4 AS decimal(9, 2))",
    "items": f"IF(id % 3 = 0, NULL, array(named_struct('a', {maybe('int(id)')}, 'b', {maybe('string(id)')}), NULL))",
    "entries": f"map('k', named_struct('c', {maybe('id')}), 'null', NULL)",
}
PLAIN_COLUMNS = (
    "id bigint, name string, at timestamp, price decimal(9, 2), items array<struct<a: int, b: string>>,"
    " entries map<string, struct<c: bigint>>"
)


def take_over(spark: SparkSession, table: str, folder: Path) -> None:
    spark.sql(f"CALL local.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')")


@pytest.mark.parametrize(
    ("settings", "encoded"),
    [
        ({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}, {"extra"}),
        ({"spark.sql.parquet.outputTimestampType": "INT96"}, {"at", "extra"}),
        ({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}, {"at", "extra"}),
    ],
    ids=["plain", "int96", "millis"],
)
def test_files_without_ids(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    tmp_path: Path,
    settings: dict[str, str],
    encoded: set[str],
) -> None:
    """Parquet files that Spark wrote for itself, with old forms of times; then a rename."""
    no_bounds = {"write.metadata.metrics.column.at": "counts"}  # Iceberg takes milliseconds for microseconds
    table, folder = create(spark, f"{namespace}.t", PLAIN_COLUMNS, properties=no_bounds), tmp_path / "plain"
    session = spark.newSession()
    for key, setting in settings.items():
        session.conf.set(key, setting)
    values = [f"{maybe(value)} AS {name}" for name, value in PLAIN.items()]
    session.range(0, 100, 1, 5).selectExpr(*values).write.parquet(str(folder))
    take_over(spark, table, folder)
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO title")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN extra int")
    columns = "id, title, at, price, items[0].a, items[0].b, items[1], entries['k'].c, extra"
    shown = f"SELECT {columns} FROM {table} WHERE id = 10"
    before = [tuple(row) for row in spark.sql(shown).collect()]
    assert before[0][4:8] == (10, "10", None, 10)

    outcome = rewritten(compactor, table, "copy", copied=5, encoded=0)

    assert outcome.effort.encoded_bytes == column_bytes(spark, table, encoded)

    assert [tuple(row) for row in spark.sql(shown).collect()] == before
    [path] = data_files(spark, table)
    held = {leaf.path[0]: leaf for leaf in footer(path).leaves}[b"at"]
    assert (held.physical, held.logical) == (INT64, ("timestamp", True, "micros"))
    assert None not in [leaf.field_id for leaf in footer(path).leaves]


@pytest.mark.parametrize("writer", ["spark", "pyarrow"])
@pytest.mark.parametrize("way", ["copy", "encode"])
def test_old_names_inside_lists(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path, writer: str, way: str
) -> None:
    """Spark called the parts of lists `bag` and `array`, pyarrow `item`: the name mapping goes by what they are."""
    table = create(spark, f"{namespace}.t", "id bigint, items array<struct<a: int, b: string>>, tags array<string>")
    folder = tmp_path / "old"
    if writer == "spark":
        session = spark.newSession()
        session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
        items, tags = f"{maybe(PLAIN['items'])} AS items", f"{maybe('array(string(id), NULL)')} AS tags"
        session.range(0, 100, 1, 5).selectExpr(f"{maybe('id')} AS id", items, tags).write.parquet(str(folder))
    else:
        folder.mkdir()
        item = pa.struct([("a", pa.int32()), ("b", pa.string())])
        kinds = pa.schema([("id", pa.int64()), ("items", pa.list_(item)), ("tags", pa.list_(pa.string()))])
        for first in range(0, 100, 20):
            rows = [
                {"id": n, "items": [{"a": n, "b": str(n)}, None] if n % 3 else None, "tags": [str(n), None]}
                for n in range(first, first + 20)
            ]
            written = pa.Table.from_pylist(rows, schema=kinds)
            pq.write_table(written, folder / f"{first}.parquet", use_compliant_nested_type=False)
    take_over(spark, table, folder)
    names = {part for leaf in footer(data_files(spark, table)[0]).leaves for part in leaf.path}
    assert names & {b"element", b"bag", b"item"} == {b"bag" if writer == "spark" else b"item"}
    shown = f"SELECT sum(items[0].a), count(items[0].b), count(items[1]), count(tags[0]) FROM {table}"
    assert tuple(spark.sql(shown).collect()[0]) == (3267, 66, 0, 100)

    rewritten(compactor, table, way, copied=5 if way == "copy" else 0, encoded=0 if way == "copy" else 1)

    assert tuple(spark.sql(shown).collect()[0]) == (3267, 66, 0, 100)


def test_nested_columns_of_files_without_ids(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """They get their ids when they are encoded anew, whether or not anything else of them changes."""
    table, folder = create(spark, f"{namespace}.t", PLAIN_COLUMNS), tmp_path / "plain"
    values = [f"{maybe(PLAIN[name])} AS {name}" for name in PLAIN]
    spark.range(0, 100, 1, 5).selectExpr(*values).write.parquet(str(folder))
    take_over(spark, table, folder)
    rewritten(compactor, table, "encode", copied=0, encoded=1)
    [path] = data_files(spark, table)
    assert None not in [leaf.field_id for leaf in footer(path).leaves]


def test_partition_column_that_is_not_in_the_files(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Hive keeps it in the names of folders only; outputs have it, as every writer of Iceberg does."""
    table, folder = create(spark, f"{namespace}.t", "id bigint, kind string, day date", "kind, day"), tmp_path / "hive"
    kinds = "element_at(array('a/b', 'é', NULL), int(id % 3) + 1) AS kind", "date_add(date'2026-01-01', 0) AS day"
    rows = spark.range(0, 150, 1, 5).selectExpr(f"{maybe('id')} AS id", *kinds)
    rows.write.partitionBy("kind", "day").parquet(str(folder))
    take_over(spark, table, folder)
    before = spark.sql(f"SELECT kind, string(day), count(*) FROM {table} GROUP BY ALL ORDER BY ALL").collect()
    assert [tuple(row) for row in before] == [(kind, "2026-01-01", 50) for kind in (None, "a/b", "é")]

    outcome = rewritten(compactor, table, "copy", copied=15, encoded=0)

    assert outcome.files_after == 3
    assert outcome.effort.encoded_bytes == column_bytes(spark, table, {"kind", "day"})
    plain = pa.concat_tables([pq.ParquetFile(path).read() for path in data_files(spark, table)])
    assert {(row["kind"], str(row["day"])) for row in plain.to_pylist()} == {
        (kind, "2026-01-01") for kind in (None, "a/b", "é")
    }
