"""Names that break careless SQL: keywords, dots, spaces, quotes, backquotes, other alphabets."""

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.oracle import data_files, delete_files, seen
from tests.support.tables import create


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize(
    ("space", "name"),
    [
        ("select", "table"),
        ("dots.and spaces", "a.b c"),
        ('it\'s "quoted"', "so 'is' \"this\" \\ 100%"),
        ("Größe 日本", "back`ticks``and über"),  # Spark refuses backquotes in namespaces
    ],
    ids=["keywords", "dots and spaces", "quotes", "backquotes and unicode"],
)
def test_odd_names(compactor: Compactor, spark: SparkSession, space: str, name: str) -> None:
    """Namespace, table, partition column and partition value; the budget makes a delete file be read by name."""
    table, column = f"{quoted(space)}.{quoted(name)}", quoted(name)
    spark.sql(f"CREATE NAMESPACE {quoted(space)}")
    create(
        spark,
        table,
        f"id bigint, {column} string, inner struct<{column}: int>",
        column,
        properties={"write.delete.granularity": "partition"},
    )
    literal = "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
    spark.range(0, 60, 1, 6).selectExpr(
        "id", f"IF(id % 2 = 0, {literal}, 'other') AS {column}", f"named_struct({literal}, int(id)) AS inner"
    ).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE inner.{column} % 5 = 0")
    kept = seen(spark, f"(SELECT * FROM {table} WHERE {column} = 'other')")
    assert len(delete_files(spark, table)) == 2

    outcome = keeps_rows(compactor, table, where=f"{column} = {literal}", max_files=4, settles=False)
    assert [(g.partition, g.input_files) for g in outcome.groups] == [(f"{name}={name}", 4)]
    assert len(delete_files(spark, table)) == 2
    keeps_rows(compactor, table)

    assert delete_files(spark, table) == []
    assert len(data_files(spark, table)) == 2
    assert seen(spark, f"(SELECT * FROM {table} WHERE {column} = 'other')") == kept
    assert [run.status for run in compactor.runs(table)] == ["committed", "committed"]


def test_tables_of_nested_namespaces_are_listed(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    inner = f"{namespace}.inner.`the last`"
    spark.sql(f"CREATE NAMESPACE {inner}")
    tables = [f"{namespace}.`a b`", f"{inner}.t"]
    for table in tables:
        create(spark, table, "id bigint")
    assert [name for name in compactor.tables() if name.startswith(f"{namespace}.")] == tables
    spark.sql(f"DROP TABLE {inner}.t")
    spark.sql(f"DROP NAMESPACE {inner}")
