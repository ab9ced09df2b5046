"""Every kind of delete: no row comes back, and a delete file goes exactly when nothing needs it any more."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files
from tests.support.tables import create
from tests.support.ways import rewritten

matrix = pytest.mark.matrix
EVERY_WAY = ["copy", pytest.param("encode", marks=matrix), pytest.param("spark", marks=matrix)]


def two_kinds(spark: SparkSession, table: str, **wishes: str) -> str:
    """Ids 0 to 119 in the partitions a and b, six files in each, every fifth row deleted."""
    version = int(wishes.pop("version", "2"))
    create(spark, table, "id bigint, kind string", "kind", version=version, properties=wishes)
    append(spark, table, 0, 120, files=6)
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    return table


def append(spark: SparkSession, table: str, first: int, last: int, *, files: int) -> None:
    rows = spark.range(first, last, 1, files).selectExpr("id", "substr('ab', int(id % 2) + 1, 1) AS kind")
    rows.writeTo(table).append()


def ids(spark: SparkSession, table: str) -> set[int | None]:
    return {row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()}


# -- position deletes and vectors -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("granularity", "before", "after_part", "way"),
    [
        ("partition", 2, 2, "copy"),  # what is left of partition a still needs the one delete file of a
        *(pytest.param("partition", 2, 2, way, marks=matrix) for way in ("encode", "spark")),
        ("file", 12, 8, "encode"),
        *(pytest.param("file", 12, 8, way, marks=matrix) for way in ("copy", "spark")),
    ],
)
def test_position_deletes(
    compactor: Compactor, spark: SparkSession, namespace: str, granularity: str, before: int, after_part: int, way: str
) -> None:
    """A delete file that speaks of inputs and of files that stay, stays; it goes with the last of them."""
    table = two_kinds(spark, f"{namespace}.t", **{"write.delete.granularity": granularity})
    deletes = delete_files(spark, table)
    assert len(deletes) == before

    rewritten(compactor, table, way, max_files=4, settles=False)
    assert len(set(delete_files(spark, table)) & set(deletes)) == len(delete_files(spark, table)) == after_part

    outcome = rewritten(compactor, table, way)
    assert delete_files(spark, table) == []
    assert outcome.delete_files_removed == after_part
    assert ids(spark, table) == {n for n in range(120) if n % 5}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_vectors(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """Vectors share a Puffin file: each goes with its own data file, the others keep working."""
    table = two_kinds(spark, f"{namespace}.t", version="3")
    spark.sql(f"DELETE FROM {table} WHERE id < 6")
    bound = f"SELECT referenced_data_file FROM {table}.delete_files"
    inputs = {f.path for f in compactor.plan(table, max_files=4).rewrites[0].files}
    survivors = {row[0] for row in spark.sql(bound).collect()} - inputs

    outcome = rewritten(compactor, table, way, lineage=True, max_files=4, settles=False)
    assert outcome.delete_files_removed == 4
    assert {row[0] for row in spark.sql(bound).collect()} == survivors
    assert survivors < set(data_files(spark, table))

    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")  # vectors on outputs, too
    rewritten(compactor, table, way, lineage=True)
    assert delete_files(spark, table) == []
    assert ids(spark, table) == {n for n in range(6, 120) if n % 5 and n % 7}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_upgraded_table(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """Format 1, then 2, then 3: files without deletes, position deletes and vectors side by side."""
    wishes = {"write.delete.granularity": "partition"}
    table = create(spark, f"{namespace}.t", "id bigint, kind string", "kind", version=1, properties=wishes)
    append(spark, table, 0, 60, files=3)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '2')")
    append(spark, table, 60, 120, files=3)
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    append(spark, table, 120, 180, files=3)
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0 AND (id < 40 OR id > 120)")
    formats = spark.sql(f"SELECT file_format, count(*) FROM {table}.delete_files GROUP BY ALL ORDER BY ALL").collect()
    assert [tuple(row) for row in formats] == [("PARQUET", 2), ("PUFFIN", 10)]

    rewritten(compactor, table, way, lineage=True, max_files=5, settles=False)
    rewritten(compactor, table, way, lineage=True)

    assert delete_files(spark, table) == []
    assert ids(spark, table) == {n for n in range(180) if (n >= 120 or n % 5) and (40 <= n <= 120 or n % 7)}


def test_deletes_that_apply_to_nothing_go_at_the_price_of_one_small_file(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """A rival has rewritten what they applied to, and left them behind."""
    table = two_kinds(spark, f"{namespace}.t", **{"write.delete.granularity": "file"})
    spark.sql(
        f"CALL local.system.rewrite_data_files(table => '{table}', where => \"kind = 'a'\", "
        "options => map('rewrite-all', 'true'))"
    )
    health = compactor.health(table)
    assert (health.dangling_delete_files, len(delete_files(spark, table))) == (6, 12)

    rows = ids(spark, table)
    wishes: dict[str, Any] = {"strategy": "deletes", "max_delete_ratio": 0.5, "max_fragment_ratio": 5}
    [step] = compactor.plan(table, **wishes).rewrites
    assert (step.partition, len(step.files), step.gain.delete_files) == ("kind=a", 1, 6)
    outcome = compactor.compact(table, **wishes)
    assert (outcome.status.value, outcome.delete_files_removed) == ("committed", 6)
    assert (ids(spark, table), len(delete_files(spark, table))) == (rows, 6)
    assert compactor.health(table).dangling_delete_files == 0
    assert compactor.plan(table, **wishes).rewrites == ()


# -- equality deletes -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("version", [2, pytest.param(3, marks=matrix)])
def test_equality_deletes(compactor: Compactor, spark: SparkSession, namespace: str, version: int, way: str) -> None:
    """Null keys, several key sets, a dropped key column, global and partitioned, older and newer than the rows."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string, name string, gone int", version=version)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD kind")
    loaded = f"local.{table}"

    def write(last: int, files: int) -> None:
        """Ids from 0 on, in a if even; the name is null if the id ends in 8, the id is null if it ends in 9."""
        spark.range(0, last, 1, files).selectExpr(
            "IF(id % 10 = 9, NULL, id) AS id",
            "substr('ab', int(id % 2) + 1, 1) AS kind",
            "IF(id % 10 = 8, NULL, concat('n', id)) AS name",
            "int(id % 20) AS gone",
        ).writeTo(table).append()

    older = equality_delete(spark, loaded, [{"id": n} for n in range(60)], columns=["id"], partition="kind=a")
    write(60, files=5)
    everywhere = equality_delete(
        spark, loaded, [{"id": 2}, {"id": 3}, {"id": None}], columns=["id"], unpartitioned=True
    )
    write(10, files=1)
    two_keys: list[dict[str, Any]] = [
        {"id": 4, "name": "n4"},
        {"id": 6, "name": "other"},
        {"id": 8, "name": None},
        {"id": 5, "name": "n5"},
    ]
    in_a = equality_delete(spark, loaded, two_keys, columns=["id", "name"], partition="kind=a")
    in_b = equality_delete(spark, loaded, [{"name": "n7"}], columns=["name"], partition="kind=b")
    dropped = equality_delete(spark, loaded, [{"gone": 12}], columns=["gone"], partition="kind=a")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN gone")
    first = {n for n in range(60) if n % 10 != 9} - {2, 3, 4, 8, 7} - {12, 32, 52}
    second = {0, 1, 2, 3, 5, 6, None}

    def rows() -> list[int | None]:
        return sorted((row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()), key=str)

    expected = sorted([*first, *second], key=str)
    assert rows() == expected
    assert set(delete_files(spark, table)) == {older, everywhere, in_a, in_b, dropped}

    rewritten(compactor, table, way, where="kind = 'a'")
    assert rows() == expected
    assert set(delete_files(spark, table)) == {everywhere, in_b}

    rewritten(compactor, table, way)
    assert rows() == expected
    assert delete_files(spark, table) == []


@pytest.mark.parametrize("way", EVERY_WAY)
def test_equality_keys_of_floats(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """NaN matches NaN; whatever 0.0 matches before, it matches in the rewrite."""
    table = create(spark, f"{namespace}.t", "id bigint, value double")
    value = (
        "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-0.0') WHEN 2 THEN 0d WHEN 3 THEN NULL ELSE 1d END"
    )
    spark.range(0, 50, 1, 5).selectExpr("id", f"{value} AS value").writeTo(table).append()
    keys = [{"value": float("nan")}, {"value": 0.0}]
    equality_delete(spark, f"local.{table}", keys, columns=["value"])
    shown = f"SELECT string(value), count(*) FROM {table} GROUP BY ALL ORDER BY ALL"
    before = [tuple(row) for row in spark.sql(shown).collect()]
    assert before == [(None, 10), ("-0.0", 10), ("1.0", 10)]

    rewritten(compactor, table, way)

    assert [tuple(row) for row in spark.sql(shown).collect()] == before
    assert delete_files(spark, table) == []


def test_a_filter_hides_no_deletes(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """The filter selects files by rows that a delete has nothing to do with; it is applied all the same."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string")
    rows = spark.range(0, 60, 1, 1).selectExpr("id", "'x' AS kind")
    rows.repartition(5).writeTo(table).append()  # ids from everywhere in each file
    keys = [{"id": n} for n in range(50, 60)]
    equality_delete(spark, f"local.{table}", keys, columns=["id"], metrics=True)

    keeps_rows(compactor, table, where="id < 20")

    assert ids(spark, table) == set(range(50))
    assert delete_files(spark, table) == []


def test_delete_that_empties_a_partition(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """All rows of all inputs are deleted: nothing is written, and nothing comes back."""
    table = two_kinds(spark, f"{namespace}.t")
    keys = [{"id": n} for n in range(120)]
    equality_delete(spark, f"local.{table}", keys, columns=["id"], partition="kind=a")

    outcome = keeps_rows(compactor, table)

    assert outcome.files_after == 1
    assert ids(spark, table) == {n for n in range(120) if n % 2 and n % 5}
    assert delete_files(spark, table) == []


# -- partition values that are hard to compare ------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value"),
    [("binary", "cast('key' AS binary)"), ("double", "double('NaN')"), ("date", "cast(null AS date)")],
)
def test_a_delete_shared_with_a_file_that_stays(
    compactor: Compactor, spark: SparkSession, namespace: str, kind: str, value: str
) -> None:
    """The large file is not rewritten, so the position deletes of their common partition must stay."""
    table = create(
        *(spark, f"{namespace}.t", f"id bigint, k {kind}", "k"),
        properties={"write.delete.granularity": "partition"},
    )
    for first, last in ((0, 100_000), (200_000, 200_010), (200_010, 200_020), (200_020, 200_030)):
        spark.range(first, last, 1, 1).selectExpr("id", f"{value} AS k").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (5, 200005)")
    outcome = keeps_rows(compactor, table, target_file_size="40KB", min_file_size="20KB", min_input_files=2)
    assert [(g.input_files, g.output_files) for g in outcome.groups] == [(3, 1)]
    assert len(delete_files(spark, table)) == 1
    assert not {5, 200_005} & ids(spark, table)
