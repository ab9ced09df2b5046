"""The timeline is the life of a branch as Iceberg's own metadata tables tell it."""

from datetime import UTC
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.entrypoints.cli.report import page
from icepact.iceberg.table import table as tables
from icepact.model.snapshot import SnapshotInfo


@pytest.fixture
def name(compactor: Compactor, spark: SparkSession, namespace: str) -> str:
    """A table with appends, deletes and a compaction, and a branch that left the way early."""
    name = f"{namespace}.`odd name`"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day string) USING iceberg PARTITIONED BY (day)"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    for start in range(3):
        rows = spark.range(start * 10, start * 10 + 10, 1, 2).selectExpr("id", "'<b>\"&' AS day")
        rows.writeTo(name).append()
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH early")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    compactor.compact(name, rewrite_all=True)
    spark.sql(f"INSERT INTO {name}.branch_early VALUES (99, 'x')")
    return name


def told(spark: SparkSession, name: str) -> list[tuple[int, str, str | None, str | None, str | None]]:
    """What Iceberg says of the snapshots of main, oldest first."""
    rows = spark.sql(
        f"SELECT s.snapshot_id, s.operation, s.summary['total-data-files'], s.summary['total-delete-files'],"
        f" s.summary['total-files-size'] FROM {name}.history h JOIN {name}.snapshots s USING (snapshot_id)"
        " WHERE h.is_current_ancestor ORDER BY h.made_current_at"
    ).collect()
    return [tuple(row) for row in rows]


def plain(moment: SnapshotInfo) -> tuple[int, str, str, str, str]:
    """A moment as the metadata tables would write it."""
    return (
        moment.snapshot_id,
        moment.operation,
        str(moment.data_files),
        str(moment.delete_files),
        str(moment.bytes),
    )


def test_the_timeline_of_a_branch(compactor: Compactor, spark: SparkSession, name: str) -> None:
    found = compactor.health(name).timeline
    assert [plain(moment) for moment in found] == told(spark, name)
    assert [moment.operation for moment in found] == ["append"] * 3 + [found[3].operation, "replace"]
    assert [moment.at for moment in found] == sorted(moment.at for moment in found)
    assert {moment.at.tzinfo for moment in found} == {UTC}
    early = compactor.health(name, branch="early").timeline
    assert [m.snapshot_id for m in early[:3]] == [m.snapshot_id for m in found[:3]]
    assert len(early) == 4


def test_only_the_newest_are_remembered(compactor: Compactor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = compactor.health(name).timeline
    monkeypatch.setattr(tables, "_TIMELINE_LENGTH", 2)
    assert compactor.health(name).timeline == everything[-2:]


def test_a_table_without_snapshots_has_no_timeline(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id bigint) USING iceberg")
    assert compactor.health(f"{namespace}.t").timeline == []


def test_a_report_of_a_real_table(compactor: Compactor, name: str, tmp_path: Path) -> None:
    health = compactor.health(name)
    written = page(health, compactor.plan(name), written_at=health.timeline[-1].at)
    (tmp_path / "report.html").write_text(written, encoding="utf-8")
    words = " ".join(" ".join(ET.parse(tmp_path / "report.html").getroot().itertext()).split())
    assert "The newest 5 snapshots of the branch" in words
    assert "Nothing would be done, with strategy small-files: " in words
    assert 'day=<b>"&' in words
