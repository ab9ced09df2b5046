"""Where outputs go, in which format and codec, and what the manifests say about them."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.messy import load
from tests.support.oracle import data_files
from tests.support.tables import create


def append(spark: SparkSession, table: str, first: int, last: int, *, files: int) -> None:
    rows = spark.range(first, last, 1, files).selectExpr("id", "IF(id % 5 = 0, NULL, sha2(string(id), 256)) AS text")
    rows.writeTo(table).append()


def set_properties(spark: SparkSession, table: str, properties: dict[str, str]) -> None:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({listed})")


def codecs(path: str) -> set[str]:
    metadata = pq.ParquetFile(path).metadata
    return {
        metadata.row_group(group).column(column).compression
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    }


@pytest.mark.parametrize("object_storage", [False, True], ids=["plain", "object-storage"])
def test_place_and_codec(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path, object_storage: bool
) -> None:
    """Outputs follow what the table says now, not what it said when the inputs were written."""
    table = create(spark, f"{namespace}.t", "id bigint, text string", "bucket(2, id)")
    append(spark, table, 0, 60, files=5)
    assert codecs(data_files(spark, table)[0]) == {"ZSTD"}
    set_properties(
        spark,
        table,
        {
            "write.data.path": str(tmp_path / "elsewhere"),
            "write.object-storage.enabled": str(object_storage).lower(),
            "write.parquet.compression-codec": "gzip",
        },
    )

    outcome = keeps_rows(compactor, table)

    folder = re.escape(f"{tmp_path}/elsewhere/icepact-{outcome.run_id}")
    target_partitions = f"[01]{{4}}/[01]{{4}}/[01]{{4}}/[01]{{8}}/{namespace}/t/" if object_storage else ""
    for path in data_files(spark, table):
        assert re.fullmatch(rf"{folder}/{target_partitions}id_bucket=[01]/[^/]+\.parquet", path)
        assert codecs(path) == {"GZIP"}
    assert len(data_files(spark, table)) == 2
    assert sorted(str(path) for path in (tmp_path / "elsewhere").rglob("*.parquet")) == data_files(spark, table)


def test_mixed_formats(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A table that was Avro, then ORC, then Parquet becomes what it is now, deletes of each format applied."""
    table = create(spark, f"{namespace}.t", "id bigint, text string")
    for number, file_format in enumerate(("avro", "orc", "parquet")):
        set_properties(spark, table, {"write.format.default": file_format})
        append(spark, table, number * 40, number * 40 + 40, files=2)
        spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0 AND id >= {number * 40}")
    formats = f"SELECT content, file_format, count(*) FROM {table}.files GROUP BY ALL ORDER BY ALL"
    assert [tuple(row) for row in spark.sql(formats).collect()] == [
        *((0, name, 2) for name in ("AVRO", "ORC", "PARQUET")),
        *((1, name, 2) for name in ("AVRO", "ORC", "PARQUET")),
    ]

    keeps_rows(compactor, table)

    assert [tuple(row) for row in spark.sql(formats).collect()] == [(0, "PARQUET", 1)]
    set_properties(spark, table, {"write.format.default": "orc"})
    append(spark, table, 120, 160, files=5)
    keeps_rows(compactor, table)
    assert [tuple(row) for row in spark.sql(formats).collect()] == [(0, "ORC", 1)]


def test_structs_and_timestamps_across_formats(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """ORC and Parquet count nulls inside structs differently and round timestamps differently: no reason to refuse."""
    table = create(spark, f"{namespace}.t", "id bigint, place struct<x:int,y:string>, at timestamp")
    rows = spark.range(0, 40, 1, 2).selectExpr(
        "id",
        "if(id % 3 = 0, null, named_struct('x', if(id % 2 = 0, null, int(id)), 'y', string(id))) AS place",
        "timestamp_micros(id * 1234567) AS at",
    )
    for file_format in ("orc", "parquet"):
        set_properties(spark, table, {"write.format.default": file_format})
        rows.writeTo(table).append()
    assert keeps_rows(compactor, table).files_after == 1
    set_properties(spark, table, {"write.format.default": "orc"})
    rows.writeTo(table).append()
    assert keeps_rows(compactor, table).files_after == 1


def test_metrics(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Sizes, counts and split offsets in the manifest are those of the file; bounds and null counts are right."""
    table = create(
        spark,
        f"{namespace}.t",
        "id bigint, text string",
        properties={
            "write.parquet.row-group-size-bytes": "16384",
            "write.parquet.row-group-check-min-record-count": "50",
            "write.parquet.row-group-check-max-record-count": "50",
        },
    )
    append(spark, table, 0, 2000, files=5)
    keeps_rows(compactor, table)

    found = spark.sql(
        "SELECT file_path, file_size_in_bytes, record_count, split_offsets, sort_order_id, readable_metrics.id AS id,"
        f" readable_metrics.text AS text FROM {table}.data_files"
    ).collect()
    assert len(found) == 1
    [file] = found
    metadata = pq.ParquetFile(file.file_path).metadata
    starts = [
        min(o for o in (column.dictionary_page_offset, column.data_page_offset) if o)
        for column in (metadata.row_group(n).column(0) for n in range(metadata.num_row_groups))
    ]
    assert file.file_size_in_bytes == Path(file.file_path).stat().st_size
    assert file.record_count == metadata.num_rows == 2000
    assert file.split_offsets == starts == sorted(set(starts))
    assert len(starts) >= 4
    assert file.sort_order_id == 0
    assert (file.id.lower_bound, file.id.upper_bound, file.id.null_value_count) == (0, 1999, 0)
    assert (file.text.value_count, file.text.null_value_count) == (2000, 400)
    hits = spark.sql(f"SELECT count(*) FROM {table} WHERE id = 1234").collect()[0][0]
    assert hits == 1


def test_no_metrics(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A table that wants no column metrics gets none; the rows are proven by their number."""
    wishes = {"write.metadata.metrics.default": "none"}
    table = create(spark, f"{namespace}.t", "id bigint, text string", properties=wishes)
    append(spark, table, 0, 60, files=5)
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    keeps_rows(compactor, table)
    [file] = spark.sql(f"SELECT record_count, value_counts, lower_bounds FROM {table}.data_files").collect()
    assert (file.record_count, file.value_counts or {}, file.lower_bounds or {}) == (51, {}, {})


def test_sort_order(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Inputs that overlap in a table with a sort order: the output says that it is sorted, and is."""
    table = create(spark, f"{namespace}.t", "id bigint, text string")
    spark.sql(f"ALTER TABLE {table} WRITE ORDERED BY id")
    for number in range(3):
        spark.range(number, 90, 3, 2).selectExpr("id", "string(id) AS text").writeTo(table).append()

    keeps_rows(compactor, table)

    [path] = data_files(spark, table)
    [claimed] = spark.sql(f"SELECT sort_order_id FROM {table}.data_files").collect()
    assert claimed[0] == load(spark, f"local.{table}").sortOrder().orderId() == 1
    assert pq.read_table(path)["id"].to_pylist() == list(range(90))
