"""The census read from manifests is that of the files a scan finds."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.census import read_census
from icepact.iceberg.table import IcebergTable
from icepact.model.census import Census, Sheet, census_of
from icepact.model.health import Overlap
from icepact.model.table import DeleteKind
from icepact.model.tally import Tally
from icepact.plan.columns import counted_columns, listed_columns
from tests.support.messy import equality_delete


def compared(census: Census) -> dict[Any, list[int]]:
    """All that can be said of partitions."""
    tally = Tally(census)
    columns = [
        tally.sums(),
        tally.sums(census.size),
        tally.sums(census.rows),
        tally.sums(census.row_groups),
        tally.sums(census.tail),
        tally.sums(census.format),
        tally.oldest,
        tally.newest,
        *(tally.deletes(kind) for kind in DeleteKind),
        *(tally.deletes(kind, records=True) for kind in DeleteKind),
    ]
    return {place: [int(column[at]) for column in columns] for at, place in enumerate(census.places)}


def read(table: IcebergTable, kept: dict[str, Sheet]) -> Census:
    """With what was kept of earlier times."""
    table.refresh()
    return read_census(
        table,
        table.pinned("main"),
        known=lambda paths: {path: kept[path] for path in paths if path in kept},
        keep=lambda sheets, live: kept.update(sheets),
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
    kept: dict[str, Sheet] = {}
    table = compactor._lake.table(name)
    assert compared(read(table, kept)) == compared(census_of(table.pin(branch="main")))
    if version > 1:
        spark.sql(f"DELETE FROM {name} WHERE id % 40 = 3")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD kind")
    rows.writeTo(name).option("fanout-enabled", "true").append()
    if version > 1:
        spark.sql(f"DELETE FROM {name} WHERE id % 60 = 5")
    before = set(kept)
    census = read(table, kept)
    state = table.pin(branch="main")
    assert compared(census) == compared(census_of(state))
    for place, files in state.by_partition.items():
        here = counted_columns(census, np.flatnonzero(census.place == census.places.index(place)))
        assert [here.size.tolist(), here.hits.tolist(), here.touched.tolist()] == [
            getattr(listed_columns(files, state.deletes), name).tolist() for name in ("size", "hits", "touched")
        ]
    assert len(census.places) > 20
    assert before <= set(kept)
    assert int(census.deletes.applied.sum()) == len({i for f in state.files for i in f.deletes})
    again = read(table, kept)
    assert np.array_equal(again.size, census.size)


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
    table = compactor._lake.table(name)
    census = read(table, {})
    assert compared(census) == compared(census_of(table.pin(branch="main")))
    assert int(census.deletes.applied.sum()) == 2


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
        "day=1": Overlap(average=pytest.approx(4 / 3), maximum=2, files=3),
        "day=2": Overlap(average=1.0, maximum=1, files=2),
    }
    assert health.facts.overlap == Overlap(average=pytest.approx(6 / 5), maximum=2, files=5)
    assert health.score.parts["overlap"] > 0
    spark.sql(f"ALTER TABLE {name} WRITE UNORDERED")
    assert compactor.health(name).facts.overlap is None
