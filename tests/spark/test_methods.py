"""Every way to rewrite, on tables of every version, with every kind of delete, changed columns, and partitions."""

from itertools import product

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from icepact import Compactor
from tests.support.combos import pairwise
from tests.support.manifests import manifests_agree
from tests.support.messy import equality_delete, load
from tests.support.oracle import LINEAGE, data_files, delete_files
from tests.support.tables import create
from tests.support.ways import SEVERAL_ROW_GROUPS, WAYS, ids_of, maybe, rewritten

PARTITIONS = {
    # how the table is partitioned, and a partition for equality deletes
    "unpartitioned": ("", None),
    "identity": ("kind", "kind=b"),
    "bucket": ("bucket(2, id)", "id_bucket=1"),
}
CHANGES = {
    "nothing": (),
    "columns": (
        "ADD COLUMNS extra string, first int FIRST",
        "DROP COLUMN gone",
        "RENAME COLUMN name TO title",
        "ALTER COLUMN inner AFTER id",
    ),
    "types": (
        "ALTER COLUMN num TYPE bigint",
        "ALTER COLUMN ratio TYPE double",
        "ALTER COLUMN price TYPE decimal(20, 2)",
    ),
    "nested": ("ADD COLUMNS inner.c bigint, items.element.b int, entries.value.b int",),
}
DELETES = ("none", "position", "equality", "both")
ALL = list(product(WAYS, (2, 3), DELETES, CHANGES, PARTITIONS))
FEW = pairwise(ALL)
CASES = [pytest.param(*case, marks=() if case in FEW else pytest.mark.matrix) for case in ALL]

OLD = 120
"""Ids below it were written before the columns changed."""


def write(spark: SparkSession, table: str, first: int, last: int, change: str) -> None:
    """Three files; ids are where they were, whatever became of the columns."""
    title = "title" if change == "columns" else "name"
    b, c = (f", 'b', {maybe('2')}", f", 'c', {maybe('id')}") if change == "nested" else ("", "")
    one = maybe("int(id)")
    values = {
        "id": "id",
        "kind": "substr('ab', int(id % 2) + 1, 1)",
        "num": "int(id % 10)",
        "ratio": "float(id / 3)",
        "price": "CAST(id / 4 AS decimal(9, 2))",
        "gone": "concat('gone', id)",
        title: "IF(id % 9 = 0, NULL, concat('n', id % 5))",
        "inner": f"IF(id % 4 = 0, NULL, named_struct('a', {one}, 'b', {maybe('string(id)')}{c}))",
        "items": f"IF(id % 5 = 0, NULL, array(named_struct('a', {one}{b}), NULL))",
        "entries": f"map('k', named_struct('a', {one}{b}), 'null', NULL)",
        "extra": "concat('e', id % 3)",
        "first": "int(id)",
    }
    columns = [field.name for field in spark.table(table).schema]
    rows = spark.range(first, last, 1, 3).selectExpr(*(f"{maybe(values[name])} AS {name}" for name in columns))
    rows.writeTo(table).append()


@pytest.mark.parametrize(("way", "version", "deletes", "change", "partitions"), CASES)
def test_rows_stay(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    way: str,
    version: int,
    deletes: str,
    change: str,
    partitions: str,
) -> None:
    clause, partition = PARTITIONS[partitions]
    table = create(
        spark,
        f"{namespace}.t",
        "id bigint, kind string, num int, ratio float, price decimal(9, 2), gone string, name string,"
        " inner struct<a: int, b: string>, items array<struct<a: int>>, entries map<string, struct<a: int>>",
        clause,
        version=version,
        properties=SEVERAL_ROW_GROUPS,
    )
    write(spark, table, 0, OLD, "nothing")
    for one in CHANGES[change]:
        spark.sql(f"ALTER TABLE {table} {one}")
    write(spark, table, OLD, 2 * OLD, change)
    if deletes in ("position", "both"):
        spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0 AND (id < 30 OR id BETWEEN 130 AND 150)")
    if deletes in ("equality", "both"):
        keys = [{"id": n, "num": n % 10} for n in [*range(60, 90, 3), *range(210, 240, 3)]]
        equality_delete(
            spark, f"local.{table}", [*keys, {"id": 40, "num": 1}], columns=["id", "num"], partition=partition
        )
    alive = {row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()}
    assert (len(alive) < 2 * OLD) == (deletes != "none")
    groups = [ids for path in data_files(spark, table) for ids in ids_of(path)]
    assert len(groups) >= 12
    whole = [ids for ids in groups if ids <= alive]
    kept = [ids for ids in whole if change in ("nothing", "columns") or min(ids) >= OLD]
    copied, mixed = (len(kept), len(whole) - len(kept)) if way == "copy" else (0, 0)

    outcome = rewritten(compactor, table, way, lineage=version == 3, copied=copied, mixed=mixed)

    assert outcome.rows_deleted == 2 * OLD - len(alive)
    assert delete_files(spark, table) == []
    if way != "spark":
        manifests_agree(spark, table)
    if way == "join" and deletes != "both":  # which touch most row groups: then nothing is worth joining
        assert 0 < outcome.effort.copied_bytes < outcome.effort.encoded_bytes + outcome.effort.copied_bytes


# -- row lineage ------------------------------------------------------------------------------------


def words(spark: SparkSession, first: int, last: int, files: int, word: str) -> DataFrame:
    """Rows with the same word."""
    return spark.range(first, last, 1, files).selectExpr(f"{maybe('id')} AS id", f"{maybe(repr(word))} AS word")


@pytest.mark.parametrize("way", ["copy", "encode", pytest.param("spark", marks=pytest.mark.matrix)])
def test_lineage_that_is_already_in_the_files(
    compactor: Compactor, spark: SparkSession, namespace: str, way: str
) -> None:
    """Outputs, rows updated since and new files together: ids that stand in files, that are null there, and inherited.

    An update writes the old id and a null for its own sequence number.
    """
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=3, properties=SEVERAL_ROW_GROUPS)
    for first in (0, 60):
        words(spark, first, first + 60, 3, word="new").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 61)")
    rewritten(compactor, table, way, lineage=True, copied=4 if way == "copy" else 0)
    words(spark, 120, 180, 3, word="newer").writeTo(table).append()
    spark.sql(f"UPDATE {table} SET word = 'changed' WHERE id IN (1, 2, 100, 130)")
    shown = f"SELECT id, word, {', '.join(LINEAGE)} FROM {table} ORDER BY id"
    before = spark.sql(shown).collect()
    assert len({row[2] for row in before}) == 178
    assert len({row[3] for row in before}) == 4

    outcome = rewritten(compactor, table, way, lineage=True, min_input_files=2)

    assert outcome.files_after == 1
    assert spark.sql(shown).collect() == before
    if way != "spark":
        manifests_agree(spark, table)
    words(spark, 180, 240, 2, word="newest").writeTo(table).append()
    rewritten(compactor, table, way, lineage=True, min_input_files=2)


@pytest.mark.parametrize("way", ["copy", "encode", pytest.param("spark", marks=pytest.mark.matrix)])
def test_lineage_of_upgraded_tables(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """Without a commit since the upgrade nobody has an id, and none is invented; the commit itself gives them.

    Then all three generations together: rows that got ids from our commit, new ones, deleted ones.
    """
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=2, properties=SEVERAL_ROW_GROUPS)
    words(spark, 0, 120, 3, word="old").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 61)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"REFRESH TABLE {table}")
    assert load(spark, f"local.{table}").operations().current().formatVersion() == 3

    rewritten(compactor, table, way, copied=4 if way == "copy" else 0, min_input_files=2)

    [path] = data_files(spark, table)
    for name in LINEAGE:
        column = pq.read_table(path)[name]
        assert (len(column), column.null_count) == (118, 118)
    assert {row[0] for row in spark.sql(f"SELECT {LINEAGE[0]} FROM {table}").collect()} == set(range(118))
    words(spark, 120, 180, 3, word="new").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (4, 150)")
    rewritten(compactor, table, way, lineage=True, min_input_files=2)
    assert spark.sql(f"SELECT count(DISTINCT {LINEAGE[0]}) FROM {table}").collect()[0][0] == 176


def test_lineage_of_deletes_from_two_formats(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """An upgraded table: position deletes of format 2, and vectors that supersede them, in a unit of both kinds."""
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=2, properties=SEVERAL_ROW_GROUPS)
    words(spark, 0, 120, 3, word="old").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 63, 103)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"DELETE FROM {table} WHERE id IN (4, 25)")
    formats = spark.sql(f"SELECT file_format FROM {table}.delete_files ORDER BY 1").collect()
    assert [row[0] for row in formats] == ["PARQUET", "PARQUET", "PUFFIN"]
    # row groups of twenty rows; the first two of the first file lose rows, and one in each of the others
    rewritten(compactor, table, "copy", lineage=True, copied=2, encoded=3, min_input_files=2)
    assert delete_files(spark, table) == []
