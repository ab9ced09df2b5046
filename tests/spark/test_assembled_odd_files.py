"""Files of other writers, added to a table as they are: assembled, and read as before."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files
from tests.support.tables import create
from tests.support.ways import WAYS, local, rewritten

COLUMNS = (
    "id bigint, items array<struct<a: int, b: string>>, one array<struct<x: int>>, tags array<int>, m map<string, int>"
)
VALUES = (
    "id",
    "array(named_struct('a', int(id), 'b', string(id)), named_struct('a', 7, 'b', '')) AS items",
    "array(named_struct('x', int(id))) AS one",
    "array(int(id), 5) AS tags",
    "map('k', int(id)) AS m",
)


def add(spark: SparkSession, table: str, folder: Path) -> None:
    spark.sql(f"CALL local.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')")


def names_in(path: str) -> str:
    """The schema of a file, as it is stored."""
    return str(pq.ParquetFile(local(path)).schema)


def by_arrow(spark: SparkSession, folder: Path) -> None:
    """Elements are called item."""
    pair, one = pa.struct([("a", pa.int32()), ("b", pa.string())]), pa.struct([("x", pa.int32())])
    kinds = [("id", pa.int64()), ("items", pa.list_(pair)), ("one", pa.list_(one)), ("tags", pa.list_(pa.int32()))]
    schema = pa.schema([*kinds, ("m", pa.map_(pa.string(), pa.int32()))])
    folder.mkdir()
    for n in range(4):
        row = {
            "id": n,
            "items": [{"a": n, "b": "x"}, None],
            "one": [{"x": n}, None],
            "tags": [n, None],
            "m": [("k", n)],
        }
        empty = {"id": 10 + n, "items": [], "one": None, "tags": [], "m": None}
        table = pa.Table.from_pylist([row, empty], schema)
        pq.write_table(table, folder / f"{n}.parquet", use_compliant_nested_type=False, store_schema=False)


def by_old_spark(spark: SparkSession, folder: Path, *, nulls: bool) -> None:
    """Three levels called bag and array if there may be nulls, else two."""
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    values = [v.replace("array(", "array(NULL, ", 1) for v in VALUES] if nulls else VALUES
    session.range(0, 8, 1, 4).selectExpr(*values).write.parquet(str(folder))


def by_old_spark_with_nulls(spark: SparkSession, folder: Path) -> None:
    by_old_spark(spark, folder, nulls=True)


def by_old_spark_without_nulls(spark: SparkSession, folder: Path) -> None:
    by_old_spark(spark, folder, nulls=False)


@pytest.mark.parametrize(
    ("writer", "element", "way"),
    [
        (by_arrow, "int32 field_id=-1 item;", "encode"),
        (by_arrow, "int32 field_id=-1 item;", "copy"),
        (by_old_spark_with_nulls, "optional int32 field_id=-1 array;", "encode"),
        (by_old_spark_without_nulls, "repeated int32 field_id=-1 array;", "encode"),
    ],
    ids=["arrow", "arrow, copied", "old spark, three levels", "old spark, two levels"],
)
def test_nested_columns_without_ids(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    tmp_path: Path,
    writer: Callable[[SparkSession, Path], None],
    element: str,
    way: str,
) -> None:
    """Whatever a writer called the elements, they are kept: Spark reads the files by themselves for comparison.

    Iceberg does not read lists of two levels; once they are assembled, it does.
    """
    table, folder = create(spark, f"{namespace}.t", COLUMNS), tmp_path / "files"
    writer(spark, folder)
    add(spark, table, folder)
    assert all(element in names_in(path) for path in data_files(spark, table))
    expected = spark.read.parquet(str(folder)).orderBy("id").collect()
    outcome = compactor.compact(table, **WAYS[way])
    assert outcome.methods == {"assemble": 1}, [(g.reason, g.method_reason) for g in outcome.groups]
    assert len(data_files(spark, table)) == 1
    assert spark.sql(f"SELECT * FROM {table} ORDER BY id").collect() == expected


def test_a_partition_column_with_another_value(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Readers go by the partition, and so do equality deletes."""
    table, folder = create(spark, f"{namespace}.t", "id bigint, p string", "p"), tmp_path / "files"
    (folder / "p=x").mkdir(parents=True)
    for n in range(3):
        rows = pa.table({"id": pa.array([n, n + 10], pa.int64()), "p": ["stale", "stale"]})
        pq.write_table(rows, folder / "p=x" / f"{n}.parquet", store_schema=False)
    add(spark, table, folder)
    keys = [{"id": 1, "p": "x"}, {"id": 12, "p": "x"}, {"id": 2, "p": "stale"}]
    equality_delete(spark, f"local.{table}", keys, columns=["id", "p"], partition="p=x")
    spark.catalog.refreshTable(table)
    outcome = rewritten(compactor, table, "copy")
    assert outcome.rows_deleted == 2
    assert delete_files(spark, table) == []
    rows = spark.sql(f"SELECT id, p FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(0, "x"), (2, "x"), (10, "x"), (11, "x")]
