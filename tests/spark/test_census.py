"""The census read from manifests is that of the files a scan finds."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.table.stats_reader import read_file_stats
from icepact.iceberg.table.table import IcebergTable
from icepact.model.files import DeleteKind
from icepact.model.health import Overlap
from icepact.plan.file_columns import columns_of_files, columns_of_stats
from icepact.stats.manifest import ManifestStats
from icepact.stats.table import FileStats, file_stats_of
from icepact.stats.totals import PartitionTotals
from tests.support.messy import equality_delete


def about(value: float) -> Any:
    """A number that stands for those close to it, also as a field of something else."""
    return pytest.approx(value)


def compared(stats: FileStats) -> dict[Any, list[int]]:
    """All that can be said of partitions."""
    totals = PartitionTotals(stats)
    columns = [
        totals.sums(),
        totals.sums(stats.size),
        totals.sums(stats.rows),
        totals.sums(stats.row_groups),
        totals.sums(stats.tail),
        totals.sums(stats.format),
        totals.oldest,
        totals.newest,
        *(totals.deletes(kind) for kind in DeleteKind),
        *(totals.deletes(kind, records=True) for kind in DeleteKind),
    ]
    return {partition: [int(column[at]) for column in columns] for at, partition in enumerate(stats.partitions)}


def read(table: IcebergTable, kept: dict[str, ManifestStats]) -> FileStats:
    """With what was kept of earlier times."""
    table.refresh()
    return read_file_stats(
        table,
        table.pinned("main"),
        known=lambda paths: {path: kept[path] for path in paths if path in kept},
        keep=lambda stats_by_manifest, live: kept.update(stats_by_manifest),
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_tell_the_same_as_a_scan(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day date, kind string, raw binary) USING iceberg"
        f" PARTITIONED BY (day, truncate(2, raw)) TBLPROPERTIES ('format-version' = '{version}',"
        " 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none')"
    )
    rows = spark.range(0, 400, 1, 4).selectExpr(
        "id",
        "if(id % 9 = 0, null, date_add(date'2026-01-01', cast(id % 3 as int))) AS day",
        "concat('k', id % 5) AS kind",
        "if(id % 7 = 0, null, cast(concat('x', id % 2) as binary)) AS raw",
    )
    rows.writeTo(name).option("fanout-enabled", "true").append()
    kept: dict[str, ManifestStats] = {}
    table = compactor.application.spark_catalog.table(name)
    assert compared(read(table, kept)) == compared(file_stats_of(table.pin(branch="main")))
    if version > 1:
        spark.sql(f"DELETE FROM {name} WHERE id % 40 = 3")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD kind")
    rows.writeTo(name).option("fanout-enabled", "true").append()
    if version > 1:
        spark.sql(f"DELETE FROM {name} WHERE id % 60 = 5")
    before = set(kept)
    stats = read(table, kept)
    state = table.pin(branch="main")
    assert compared(stats) == compared(file_stats_of(state))
    for partition, files in state.by_partition.items():
        here = columns_of_stats(stats, np.flatnonzero(stats.partition == stats.partitions.index(partition)))
        assert [here.size.tolist(), here.hits.tolist(), here.touched.tolist()] == [
            getattr(columns_of_files(files, state.deletes), name).tolist() for name in ("size", "hits", "touched")
        ]
    assert len(stats.partitions) > 20
    assert before <= set(kept)
    assert int(stats.deletes.applied.sum()) == len({i for f in state.files for i in f.deletes})
    again = read(table, kept)
    assert np.array_equal(again.size, stats.size)


def test_equality_deletes_apply_by_partition_and_everywhere(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id bigint, day int) USING iceberg")
    spark.range(0, 100, 1, 2).selectExpr("id", "cast(id % 3 as int) AS day").writeTo(name).append()
    equality_delete(spark, f"local.{name}", [{"id": 5}], columns=["id"])
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD day")
    spark.range(0, 100, 1, 2).selectExpr("id", "cast(id % 3 as int) AS day").writeTo(name).append()
    equality_delete(spark, f"local.{name}", [{"id": 6}], columns=["id"], partition="day=1")
    table = compactor.application.spark_catalog.table(name)
    stats = read(table, {})
    assert compared(stats) == compared(file_stats_of(table.pin(branch="main")))
    assert int(stats.deletes.applied.sum()) == 2


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("int", "cast(id - 12 as int)"),
        ("string", "format_string('k%05d and more', id)"),
        ("date", "date_add(date'1969-12-25', cast(id as int))"),
        ("timestamp", "timestamp'1969-12-25 10:00:00' + make_dt_interval(int(id))"),
        ("double", "(id - 12) / 4"),
        ("decimal(12, 2)", "cast((id - 12) / 4 as decimal(12, 2))"),
    ],
    ids=lambda told: told.split("(")[0],
)
def test_overlap_of_a_sorted_table(
    compactor: Compactor, spark: SparkSession, namespace: str, kind: str, key: str
) -> None:
    """Two files of a day overlap, and the third only touches them."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (day int, key {kind}) USING iceberg PARTITIONED BY (day)")
    spark.sql(f"ALTER TABLE {name} WRITE ORDERED BY key")
    for day, first, last in ((1, 0, 10), (1, 5, 15), (1, 15, 20), (2, 0, 3), (2, 4, 8)):
        frame = spark.range(first, last + 1, 1, 1).selectExpr(f"{day} AS day", f"{key} AS key")
        frame.writeTo(name).option("distribution-mode", "none").append()
    health = compactor.health(name)
    told = {p.name: p.facts.overlap for p in health.partitions}
    assert told == {
        "day=1": Overlap(average=about(4 / 3), maximum=2, files=3),
        "day=2": Overlap(average=1.0, maximum=1, files=2),
    }
    assert health.facts.overlap == Overlap(average=about(6 / 5), maximum=2, files=5)
    assert health.score.parts["overlap"] > 0
    spark.sql(f"ALTER TABLE {name} WRITE UNORDERED")
    assert compactor.health(name).facts.overlap is None
