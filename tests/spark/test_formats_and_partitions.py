"""Every format version with every kind of partition, file format, delete and way to rewrite: the rows stay."""

from itertools import product

import pytest
from pyspark.sql import DataFrame, SparkSession

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.combos import pairwise
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files, seen
from tests.support.ways import WAYS, ids_of, rewritten

PARTITIONS = {
    # how the table is partitioned, and one partition of it
    "unpartitioned": ("", None),
    "identity": ("PARTITIONED BY (kind)", "kind=b"),
    "bucket": ("PARTITIONED BY (bucket(3, id))", "id_bucket=1"),
    "days": ("PARTITIONED BY (days(at))", "at_day=2026-01-02"),
    "truncate": ("PARTITIONED BY (truncate(2, name))", "name_trunc=n1"),
}
FORMATS = {
    # which way files of a format can be rewritten
    "parquet": tuple(WAYS),
    "orc": ("spark",),
    "avro": ("spark",),
}
DELETES = {1: ("none",), 2: ("none", "position", "equality"), 3: ("none", "vector", "equality")}
ALL = [
    (version, partitions, (file_format, way), deletes)
    for version, partitions, file_format in product(DELETES, PARTITIONS, FORMATS)
    for deletes in DELETES[version]
    for way in FORMATS[file_format]
]
FEW = pairwise(ALL)
CASES = [pytest.param(*case, marks=() if case in FEW else pytest.mark.matrix) for case in ALL]


def rows(spark: SparkSession, first: int, last: int, files: int) -> DataFrame:
    """Rows that spread over three partitions of every kind; each column but the id is null now and then."""
    return spark.range(first, last, 1, files).selectExpr(
        "id",
        "nullif(substr('abc', int(id % 3) + 1, 1), 'c') AS kind",
        "IF(id % 11 = 0, NULL, timestamp'2026-01-01 12:00:00' + make_interval(0, 0, 0, int(id % 3))) AS at",
        "IF(id % 13 = 0, NULL, concat('n', id % 3, '-', id)) AS name",
        "IF(id % 5 = 0, NULL, id / 7) AS amount",
    )


@pytest.mark.parametrize(("version", "partitions", "written", "deletes"), CASES, ids=str)
def test_rows_stay(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    version: int,
    partitions: str,
    written: tuple[str, str],
    deletes: str,
) -> None:
    """Deletes speak of the first three of five files, so that a unit can have row groups of both kinds."""
    file_format, way = written
    table = f"{namespace}.t"
    clause, partition = PARTITIONS[partitions]
    spark.sql(
        f"""CREATE TABLE {table} (id bigint, kind string, at timestamp, name string, amount double)
        USING iceberg {clause} TBLPROPERTIES ('format-version' = '{version}', 'write.distribution-mode' = 'none',
        'write.format.default' = '{file_format}', 'write.delete.mode' = 'merge-on-read')"""
    )
    rows(spark, 0, 120, 5).writeTo(table).append()
    if deletes in ("position", "vector"):
        spark.sql(f"DELETE FROM {table} WHERE id < 72 AND (id % 7 = 0 OR name IS NULL)")
    elif deletes == "equality":
        keys = [{"id": n, "kind": None if n % 3 == 2 else "ab"[n % 3]} for n in range(0, 72, 2)]
        equality_delete(spark, f"local.{table}", keys, columns=["id", "kind"], partition=partition)
    before = seen(spark, table)[0]
    assert (before < 120) == (deletes != "none")

    untouched = None
    if way == "copy":
        alive = {row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()}
        untouched = sum(ids <= alive for path in data_files(spark, table) for ids in ids_of(path))
        assert untouched >= 2
    outcome = rewritten(compactor, table, way, lineage=version == 3, copied=untouched)

    assert outcome.rows_deleted == 120 - before
    assert delete_files(spark, table) == []
    rows(spark, 120, 124, 2).writeTo(table).append()
    assert seen(spark, table)[0] == before + 4


def test_odd_partition_values(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """NaN, both zeros, null, nothing, slashes, other alphabets: one file for each in the end, in its own partition."""
    table = f"{namespace}.t"
    spark.sql(
        f"""CREATE TABLE {table} (id bigint, value double, name string, raw binary) USING iceberg
        PARTITIONED BY (value, name, raw) TBLPROPERTIES ('format-version' = '2', 'write.distribution-mode' = 'none',
        'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')"""
    )
    spark.range(0, 72, 1, 3).selectExpr(
        "id",
        "element_at(array(double('NaN'), -0d, 0d, double('-Infinity'), NULL, 1.5d), int(id % 6) + 1) AS value",
        r"element_at(array('a/b=c', '', 'é日 %2F', NULL, 'null', 'a\nb'), int(id % 6) + 1) AS name",
        "element_at(array(X'00FF', X'', NULL, X'27', X'22', X'5C'), int(id % 6) + 1) AS raw",
    ).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    values = f"SELECT string(partition.value), count(*) FROM {table}.data_files GROUP BY ALL ORDER BY ALL"
    names = [None, "-0.0", "-Infinity", "0.0", "1.5", "NaN"]
    assert [tuple(row) for row in spark.sql(values).collect()] == [(name, 3) for name in names]

    keeps_rows(compactor, table)

    assert [tuple(row) for row in spark.sql(values).collect()] == [(name, 1) for name in names]
    assert delete_files(spark, table) == []
