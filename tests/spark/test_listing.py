"""Files of some partitions, listed from the manifests that have any, are those that a whole scan finds."""

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.table.stats_reader import list_files, read_file_stats
from icepact.maintain.stats_cache import StatsCache
from icepact.model.files import DataFile
from icepact.model.snapshot import PinnedFiles
from icepact.stats.table import FileStats
from tests.support.messy import equality_delete


def census_of_head(compactor: Compactor, name: str) -> FileStats:
    table = compactor.application.spark_catalog.table(name)
    table.refresh()
    pin = table.pinned("main")
    return read_file_stats(table, pin, known=lambda paths: {}, keep=lambda stats_by_manifest, live: None)


def told(state: PinnedFiles, files: list[DataFile]) -> list[tuple[object, ...]]:
    """Everything about files, with their deletes by name."""
    named = [(*f[:-1], sorted(state.deletes[i].key for i in f.deletes)) for f in files]
    return sorted(named, key=str)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_files_of_some_partitions_are_those_of_a_scan(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day date, kind string) USING iceberg PARTITIONED BY (day, kind)"
        f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',"
        " 'commit.manifest-merge.enabled' = 'false')"
    )
    for number in range(4):
        spark.range(100 * number, 100 * number + 100).selectExpr(
            "id",
            "if(id % 9 = 0, null, date_add(date'2026-01-01', cast(id % 3 as int))) AS day",
            "concat('k', id % 2) AS kind",
        ).writeTo(name).option("fanout-enabled", "true").append()
    if version > 1:
        spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3 AND day > '2026-01-01'")
    if version == 2:
        keys = [{"id": 21}, {"id": 111}]
        equality_delete(spark, f"local.{name}", keys, columns=["id"], partition="day=2026-01-01/kind=k1")
    stats = census_of_head(compactor, name)
    whole = compactor.application.spark_catalog.table(name).pin(branch="main")
    assert len(stats.partitions) == 8
    path_cache = StatsCache()
    for some in (stats.partitions[:1], stats.partitions[2:5], stats.partitions, stats.partitions):
        listed = list_files(compactor.application.spark_catalog.table(name), stats, frozenset(some), path_cache)
        expected = [f for key in some for f in whole.by_partition[key]]
        assert told(listed, list(listed.files)) == told(whole, expected)
    assert {bool(f.deletes) for f in whole.files} == ({False, True} if version > 1 else {False})
    assert {f.first_row_id is None for f in whole.files} == {version < 3}


def test_nothing_is_read_for_no_partition(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id bigint) USING iceberg")
    spark.range(10).writeTo(name).append()
    state = list_files(
        compactor.application.spark_catalog.table(name), census_of_head(compactor, name), frozenset(), StatsCache()
    )
    assert (list(state.files), list(state.deletes)) == ([], [])


@pytest.mark.parametrize(
    "of", ["cast(id % 2 as boolean)", "cast(id % 2 as decimal(9,2))", "cast(cast(id % 2 as string) as binary)"]
)
def test_partition_values_of_every_type_find_their_files(
    compactor: Compactor, spark: SparkSession, namespace: str, of: str
) -> None:
    name = f"{namespace}.t"
    kind = of.removesuffix(")").rsplit(" as ", 1)[1]
    spark.sql(f"CREATE TABLE {name} (id bigint, p {kind}) USING iceberg PARTITIONED BY (p)")
    spark.range(20).selectExpr("id", f"{of} AS p").writeTo(name).option("fanout-enabled", "true").append()
    stats = census_of_head(compactor, name)
    assert len(stats.partitions) == 2
    table, path_cache = compactor.application.spark_catalog.table(name), StatsCache()
    for partition in stats.partitions:
        for state in (
            table.listed(stats, frozenset([partition])),
            list_files(table, stats, frozenset([partition]), path_cache),
        ):
            assert {(f.spec_id, f.partition) for f in state.files} == {partition}
            assert state.files
