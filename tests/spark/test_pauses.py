"""A holder falls asleep, is taken for dead, its files are cleaned up, and it wakes up: it must not publish them.

Whoever cleans up has a clock that is an hour ahead, so that a lease that is good seems to have expired.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.entrypoints.wiring import HISTORY_FILE
from icepact.execute.checkpoint import outputs_by_group
from icepact.maintain import cleanup
from icepact.model.errors import TableBusy
from icepact.model.status import Status
from icepact.record.sql import SqlStore
from tests.support.later import clean_up_later
from tests.support.oracle import data_files, seen
from tests.support.sleeper import asleep, killed

AHEAD = timedelta(hours=1)


def later() -> datetime:
    """What a clock says that is an hour ahead."""
    return datetime.now(UTC) + AHEAD


@pytest.fixture
def warehouse(compactor: Compactor) -> Path:
    """Of the embedded catalog."""
    assert compactor.catalog.embedded is not None
    return compactor.catalog.embedded


@pytest.fixture
def skewed(warehouse: Path) -> Iterator[SqlStore]:
    """The same record store, seen by a machine whose clock is wrong."""
    store = SqlStore.in_file(warehouse / HISTORY_FILE, clock=later)
    yield store
    store.close()


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Six small files in two partitions, and a deleted row."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day)"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    for batch in range(3):
        rows = spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day")
        rows.writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id = 4")
    return name


def test_asleep_before_the_commit(
    compactor: Compactor, spark: SparkSession, table: str, warehouse: Path, skewed: SqlStore
) -> None:
    before = seen(spark, table)
    with asleep(warehouse, table, "judged") as said:
        with pytest.raises(TableBusy):  # with a good clock, the holder is alive
            compactor.compact(table, rewrite_all=True)
        assert compactor.cleanup(table, delete=True) == []
        [swept] = cleanup.clean_up(compactor.application.spark_catalog, skewed, table=table, delete=True, now=later())
        assert (swept.status, swept.left_alone, len(swept.files)) == ("abandoned", False, 2)
    assert "failed run " in said["out"]
    # its watch may be the first to notice, or the record store when it wants to commit or to write vanished files again
    assert any(why in said["out"] for why in ("is abandoned by now", "lost the table", "was taken over"))
    assert seen(spark, table) == before
    finish(compactor, spark, table)


def test_asleep_with_a_commit_under_way(
    compactor: Compactor, spark: SparkSession, table: str, warehouse: Path, skewed: SqlStore
) -> None:
    """It may land any moment: its files stay until the table has moved on, so that it is refused for good."""
    with asleep(warehouse, table, "attempting") as said:
        [kept] = cleanup.clean_up(
            compactor.application.spark_catalog, skewed, table=table, delete=True, now=later() + AHEAD
        )
        assert kept.left_alone
        assert "it may still land: nothing is deleted yet" in kept.reason
        spark.sql(f"DELETE FROM {table} WHERE id = 5")
        before = seen(spark, table)
        [swept] = cleanup.clean_up(
            compactor.application.spark_catalog, skewed, table=table, delete=True, now=later() + AHEAD
        )
        assert (swept.status, swept.left_alone, len(swept.files)) == ("abandoned", False, 2)
    assert "committed" not in said["out"]
    spark.sql(f"REFRESH TABLE {table}")
    assert seen(spark, table) == before
    finish(compactor, spark, table)


def test_asleep_while_another_run_does_the_work(
    compactor: Compactor, spark: SparkSession, table: str, warehouse: Path, tmp_path: Path
) -> None:
    """Separate stores do not exclude each other, and stay correct."""
    before = seen(spark, table)
    config = tmp_path / "separate.yaml"
    config.write_text("store: memory\n")
    with asleep(warehouse, table, "attempting") as said:
        another = Compactor(warehouse=warehouse, config=config)
        assert another.compact(table, rewrite_all=True).status is Status.COMMITTED
    assert said["out"].strip().endswith("superseded None")
    spark.sql(f"REFRESH TABLE {table}")
    assert seen(spark, table) == before
    finish(compactor, spark, table)


def test_finished_units_are_not_done_again(
    compactor: Compactor, spark: SparkSession, table: str, warehouse: Path
) -> None:
    """Killed once its units were recorded: their files are in the table in the end, as they were."""
    before = seen(spark, table)
    killed(warehouse, table, "executed")
    [dead] = compactor.runs(table, open_only=True)
    groups = [f"g{n:04d}" for n in range(1, 9)]
    outputs = outputs_by_group(compactor.application.store.checkpoints(dead.run_id))
    finished = {path for group in groups for path in outputs.get(group, ())}
    assert len(finished) == 2
    outcome = compactor.resume(dead.run_id)
    assert outcome.status is Status.COMMITTED
    spark.sql(f"REFRESH TABLE {table}")
    assert set(data_files(spark, table)) == finished
    assert seen(spark, table) == before
    finish(compactor, spark, table)


def test_what_vanished_after_the_crash_is_done_again(
    compactor: Compactor, spark: SparkSession, table: str, warehouse: Path
) -> None:
    """The file of one finished unit is gone; another one gained a delete, which is taken along."""
    killed(warehouse, table, "judged")
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    before = seen(spark, table)
    [dead] = compactor.runs(table, open_only=True)
    units = {c.unit_id: c.document["files"] for c in compactor.application.store.checkpoints(dead.run_id)}
    [even] = [f["file-path"] for files in units.values() for f in files if f["partition"] == [0]]
    Path(even.removeprefix("file:")).unlink()
    outcome = compactor.resume(dead.run_id)
    assert outcome.status is Status.COMMITTED
    spark.sql(f"REFRESH TABLE {table}")
    assert seen(spark, table) == before
    [odd] = [f["file-path"] for files in units.values() for f in files if f["partition"] == [1]]
    live = {Path(path).name for path in data_files(spark, table)}
    assert {Path(even).name, Path(odd).name} & live == {Path(odd).name}
    finish(compactor, spark, table)


def finish(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """After a second clean-up nothing is left, and the table can be compacted again."""
    clean_up_later(compactor, table)
    location = Path(str(compactor.application.spark_catalog.table(table).table.location()).removeprefix("file:"))
    known = {row[0].rsplit("/", 1)[-1] for row in spark.sql(f"SELECT file_path FROM {table}.all_files").collect()}
    assert {path.name for path in (location / "data").rglob("*.parquet")} <= known
    assert compactor.runs(table, open_only=True) == []
    assert compactor.application.store.lease(compactor.application.spark_catalog.table(table).uuid) is None
    before = seen(spark, table)
    outcome = compactor.compact(table, rewrite_all=True)
    assert outcome.status is Status.COMMITTED, [group.reason for group in outcome.groups]
    assert seen(spark, table) == before
