"""Deletes of every writer: the same rows before and after compaction, and the writer goes on as before."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.status import Status
from tests.support.checks import keeps_rows
from tests.support.oracle import delete_files
from tests.support.tables import create
from tests.support.ways import SEVERAL_ROW_GROUPS
from tests.support.writers import FlinkSink, Row, kinds_of_deletes, partition_positions

matrix = pytest.mark.matrix
VERSIONS = pytest.mark.parametrize("version", [2, 3])


def rows(spark: SparkSession, table: str, columns: str = "*") -> list[tuple[object, ...]]:
    """All rows, in order."""
    spark.catalog.refreshTable(table)
    return sorted((tuple(row) for row in spark.sql(f"SELECT {columns} FROM {table}").collect()), key=repr)


def ids(spark: SparkSession, table: str) -> list[int]:
    spark.catalog.refreshTable(table)
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {table}").collect())


# -- Flink ----------------------------------------------------------------------------------------------


def upserts(first: int, last: int, version: int) -> list[tuple[str, Row]]:
    """Rows of three days, every third of them written twice, some of those deleted after all."""
    changes: list[tuple[str, Row]] = []
    for number in range(first, last):
        row = {"name": f"n{number}", "day": number % 3, "version": version}
        changes.append(("+", row))
        if number % 4 == 0:
            changes.append(("+", {**row, "version": version + 1}))
        if number % 8 == 0:
            changes.append(("-", row))
    return changes


@pytest.mark.parametrize(
    ("version", "partition", "delete_format"),
    [
        (2, "day", "parquet"),
        (3, "day", "parquet"),
        pytest.param(2, "", "avro", marks=matrix),
        pytest.param(2, "day", "orc", marks=matrix),
        pytest.param(3, "", "avro", marks=matrix),
        pytest.param(3, "bucket(4, name)", "orc", marks=matrix),
    ],
)
def test_flink(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, partition: str, delete_format: str
) -> None:
    """Upserts twice within a checkpoint, and across checkpoints; one lands while files are rewritten."""
    table = create(spark, f"{namespace}.t", "name string, day int, version int", partition, version=version)
    key = ("name", "day")
    sink = FlinkSink(spark, f"local.{table}", key, delete_format=delete_format)

    def check() -> None:
        assert rows(spark, table) == sorted((tuple(row.values()) for row in sink.now.values()), key=repr)

    sink.checkpoint(upserts(0, 30, 1))
    sink.checkpoint(upserts(15, 45, 3))
    sink.checkpoint([("-", {"name": f"n{n}", "day": n % 3, "version": 0}) for n in range(0, 45, 7)])
    check()
    found = kinds_of_deletes(spark, f"local.{table}")
    assert set(found) == {"equality", "position" if version == 2 else "vector"}

    keeps_rows(compactor, table, lineage=version == 3)
    check()
    assert delete_files(spark, table) == []

    sink.checkpoint(upserts(10, 50, 5))
    plan = compactor.plan(table, rewrite_all=True)
    sink.checkpoint(upserts(25, 35, 7))
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED, outcome.error
    check()
    sink.checkpoint(upserts(0, 25, 9))
    keeps_rows(compactor, table, settles=False)
    check()


# -- Spark ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "granularity"), [(2, "partition"), (3, "file"), pytest.param(2, "file", marks=matrix)]
)
def test_merge_of_spark(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, granularity: str
) -> None:
    """MERGE deletes, updates and inserts, again and again; once while files are rewritten."""
    wishes = {"write.merge.mode": "merge-on-read", "write.delete.granularity": granularity}
    table = create(
        spark, f"{namespace}.t", "id bigint, day int, note string", "day", version=version, properties=wishes
    )
    for first in (0, 60, 120):
        source = spark.range(first, first + 60, 1, 2).selectExpr("id", "int(id % 2) AS day", "'first' AS note")
        source.writeTo(table).append()
    expected = dict.fromkeys(range(180), "first")

    def merge(step: int, note: str) -> None:
        """Every `step`th row is changed, every second of them deleted, and some are new."""
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT id * {step} AS id, '{note}' AS note FROM range(0, {200 // step})) s "
            "ON t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = s.note "
            "WHEN NOT MATCHED THEN INSERT (id, day, note) VALUES (s.id, int(s.id % 2), s.note)"
        )
        for number in range(0, 200 // step * step, step):
            if number in expected and number % 2 == 0:
                del expected[number]
            else:
                expected[number] = note

    def check() -> None:
        assert rows(spark, table, "id, note") == sorted(expected.items(), key=repr)

    merge(3, "second")
    merge(5, "third")
    check()
    assert set(kinds_of_deletes(spark, f"local.{table}")) == {"position" if version == 2 else "vector"}
    keeps_rows(compactor, table, lineage=version == 3)
    assert delete_files(spark, table) == []
    merge(7, "fourth")
    plan = compactor.plan(table, rewrite_all=True)
    merge(4, "fifth")
    assert compactor.apply(plan).status is Status.COMMITTED
    check()
    merge(3, "sixth")
    keeps_rows(compactor, table, lineage=version == 3, settles=False, rewrite_all=True)
    check()


# -- PyIceberg ------------------------------------------------------------------------------------------


@pytest.fixture
def pyiceberg(compactor: Compactor) -> Iterator[SqlCatalog]:
    """PyIceberg on the embedded catalog of the tests."""
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    catalog = SqlCatalog("local", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=str(warehouse))
    yield catalog
    catalog.close()


@pytest.mark.parametrize(
    "mixed", [pytest.param(False, id="alone", marks=matrix), pytest.param(True, id="beside Spark")]
)
def test_pyiceberg(
    compactor: Compactor, spark: SparkSession, namespace: str, pyiceberg: SqlCatalog, mixed: bool
) -> None:
    """It deletes by writing files anew, position deletes of others included, and writes format 2 at most."""
    copying = {"write.delete.mode": "copy-on-write"}
    table = create(spark, f"{namespace}.t", "id bigint, note string", version=2, properties=copying)
    arrow = pa.schema([("id", pa.int64()), ("note", pa.string())])

    def batch(first: int, last: int, note: str) -> pa.Table:
        return pa.Table.from_pylist([{"id": n, "note": note} for n in range(first, last)], schema=arrow)

    for first in range(0, 100, 20):
        pyiceberg.load_table(table).append(batch(first, first + 20, "first"))
    expected = set(range(100))
    pyiceberg.load_table(table).delete("id >= 15 and id < 25")
    expected -= set(range(15, 25))
    if mixed:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
        expected -= set(range(3, 100, 10))
        assert kinds_of_deletes(spark, f"local.{table}")["position"] > 0
    pyiceberg.load_table(table).overwrite(batch(40, 45, "second"), overwrite_filter="id >= 38 and id < 45")
    expected = (expected - {38, 39}) | set(range(40, 45))
    assert ids(spark, table) == sorted(expected)

    keeps_rows(compactor, table)
    assert delete_files(spark, table) == []
    pyiceberg.load_table(table).delete("id = 50")
    expected -= {50}
    plan = compactor.plan(table, rewrite_all=True)
    pyiceberg.load_table(table).delete("id = 51")  # the file that was to be rewritten is not there any more
    expected -= {51}
    assert compactor.apply(plan).status is Status.SUPERSEDED
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, table) == sorted(expected)
    found = pyiceberg.load_table(table).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted(expected)
    assert found.filter(pa.compute.equal(found["note"], "second")).num_rows == 5


# -- Trino ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows_per_group", "with_rows"), [(7, True), pytest.param(1_000_000, False, marks=matrix)])
def test_positions_of_a_whole_partition(
    compactor: Compactor, spark: SparkSession, namespace: str, rows_per_group: int, with_rows: bool
) -> None:
    """One file names many data files, in several row groups, with the deleted rows beside them or not."""
    table = create(spark, f"{namespace}.t", "id bigint, day int", "day", version=2)
    for first in (0, 100, 200, 300):
        spark.range(first, first + 100, 1, 2).selectExpr("id", "int(id % 2) AS day").writeTo(table).append()

    def delete(where: str) -> str:
        shape = {"rows_per_group": rows_per_group, "with_rows": with_rows, "partition": "day=0"}
        return partition_positions(spark, f"local.{table}", f"day = 0 AND {where}", **shape)  # type: ignore[arg-type]

    delete("id % 10 = 4")
    delete("id % 10 = 6 OR id < 20")
    expected = {n for n in range(400) if n % 2 or (n % 10 not in (4, 6) and n >= 20)}
    assert ids(spark, table) == sorted(expected)
    assert kinds_of_deletes(spark, f"local.{table}") == {"position": 16}

    keeps_rows(compactor, table, max_files=4, settles=False)
    assert ids(spark, table) == sorted(expected)
    plan = compactor.plan(table, rewrite_all=True)
    delete("id % 10 = 8")
    expected -= set(range(8, 400, 10))
    assert compactor.apply(plan).status is Status.COMMITTED
    assert ids(spark, table) == sorted(expected)
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, table) == sorted(expected)
    assert delete_files(spark, table) == []
    delete("id = 100")
    assert ids(spark, table) == sorted(expected - {100})


@pytest.mark.parametrize("file_format", ["avro", pytest.param("orc", marks=matrix)])
def test_positions_in_other_formats(
    compactor: Compactor, spark: SparkSession, namespace: str, file_format: str
) -> None:
    """One delete file of a partition that names several data files, not in Parquet."""
    wishes = {**SEVERAL_ROW_GROUPS, "write.delete.format.default": file_format, "write.delete.granularity": "partition"}
    table = create(spark, f"{namespace}.t", "id bigint", version=2, properties=wishes)
    for first in (0, 100, 200):
        spark.range(first, first + 100, 1, 1).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id % 9 = 0")
    expected = {n for n in range(300) if n % 9}
    assert ids(spark, table) == sorted(expected)
    keeps_rows(compactor, table)
    spark.sql(f"DELETE FROM {table} WHERE id % 10 = 1")
    assert ids(spark, table) == [n for n in sorted(expected) if n % 10 != 1]
