"""Groups that the table moves on under: late ones keep the pin's number, others are planned again, none is lost.

`plan` pins, `apply` reads at the pin and judges at the head; what a test does between the two is what a concurrent
writer did during the rewrite.
"""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.replace import replace_files
from icepact.model.status import Status
from tests.support.meanwhile import Meanwhile
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    """Formats that know deletes."""
    return int(request.param)


@pytest.fixture
def days(spark: SparkSession, namespace: str, version: int) -> str:
    """Two partitions of three small files each, ids 0 to 29."""
    name = f"{namespace}.days"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day)"
        f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    for batch in range(3):
        append(spark, name, batch * 10, batch * 10 + 10)
    return name


def append(spark: SparkSession, table: str, start: int, end: int) -> None:
    """Rows for both days."""
    spark.range(start, end, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day").writeTo(table).append()


def ids(spark: SparkSession, table: str) -> list[int]:
    """All rows."""
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {table}").collect())


def rounds(spark: SparkSession, table: str) -> set[str]:
    """Epochs and rounds in which the files that runs wrote were written."""
    names = [path.rsplit("/", 1)[-1].split("-") for path in data_files(spark, table)]
    return {parts[4] for parts in names if parts[2].startswith("g")}


def sequence_numbers(spark: SparkSession, table: str) -> list[int]:
    """Of the live data files."""
    rows = spark.sql(f"SELECT sequence_number FROM {table}.entries WHERE status < 2 AND data_file.content = 0")
    return sorted(row[0] for row in rows.collect())


def test_late_groups_keep_the_pins_number(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """An equality delete and appends in between: the group is committed, and the delete applies to its output."""
    plan = compactor.plan(days, where="day = 1")
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1")
    append(spark, days, 100, 104)
    outcome = compactor.apply(plan)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 1)
    assert ids(spark, days) == [i for i in (*range(30), *range(100, 104)) if i != 5]
    assert plan.sequence_number in sequence_numbers(spark, days)
    assert len(delete_files(spark, days)) == 1
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == [i for i in (*range(30), *range(100, 104)) if i != 5]
    assert delete_files(spark, days) == []


def test_when_all_files_are_late_the_last_group_waits_for_the_others(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    """No file as old as the pin would remain: the batch is split, so that one always does."""
    plan = compactor.plan(days)
    assert len(plan.rewrites) == 2
    for day in (0, 1):
        equality_delete(spark, f"local.{days}", [{"id": 4 + day}], columns=["id"], partition=f"day={day}")
    outcome = compactor.apply(plan)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 2)
    assert ids(spark, days) == [i for i in range(30) if i not in (4, 5)]
    assert sequence_numbers(spark, days) == [plan.sequence_number, plan.sequence_number]
    assert len(delete_files(spark, days)) == 2
    assert compactor.plan(days).rewrites == ()  # complete, although it took two commits


def test_equality_deletes_of_a_single_late_group_are_resolved(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    """With its outputs at the pin's number Iceberg would drop the delete: rows that it hits are deleted by position."""
    spark.sql(f"DELETE FROM {days} WHERE day = 0")
    plan = compactor.plan(days)
    assert len(plan.rewrites) == 1
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1")
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.late_deletes, rounds(spark, days)) == (Status.COMMITTED, 1, {"00"})
    assert ids(spark, days) == [i for i in range(30) if i % 2 and i != 5]
    assert len(delete_files(spark, days)) == 1
    append(spark, days, 5, 6)
    assert ids(spark, days) == [i for i in range(30) if i % 2]  # the key is deleted no more
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == [i for i in range(30) if i % 2]
    assert delete_files(spark, days) == []


def test_a_group_that_others_overtook_each_time_is_kept(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the next round its files are still good: deletes of both kinds that came since are taken along."""
    monkeypatch.setattr(protocol, "ATTEMPTS", 2)
    gone: list[int] = []

    def delete() -> None:
        number = len(gone)
        gone.append(number)
        if number % 2:
            spark.sql(f"DELETE FROM {days} WHERE id = {number}")
        else:
            equality_delete(spark, f"local.{days}", [{"id": number}], columns=["id"], partition=f"day={number % 2}")

    outcome = compactor.compact(days, rewrite_all=True, progress=Meanwhile("attempting", delete, times=3))
    assert (outcome.status, len(gone)) == (Status.COMMITTED, 3)
    assert ids(spark, days) == [i for i in range(30) if i not in gone]
    assert rounds(spark, days) == {"00"}
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == [i for i in range(30) if i not in gone]


def test_a_resumed_run_keeps_what_deletes_overtook(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Rows are deleted, by position and by key, after the process has died that had written the files."""

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compactor.compact(days, progress=Meanwhile("attempting", die))
    spark.sql(f"DELETE FROM {days} WHERE id IN (1, 4)")
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1")
    resumed = compactor.resume_dead(days)
    assert resumed is not None
    assert (resumed.status, resumed.late_deletes, rounds(spark, days)) == (Status.COMMITTED, 3, {"00"})
    assert ids(spark, days) == [i for i in range(30) if i not in (1, 4, 5)]


def test_clean_and_late_groups_are_committed_one_after_the_other(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    plan = compactor.plan(days)
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1")
    append(spark, days, 100, 104)
    outcome = compactor.apply(plan)
    assert (outcome.status, len(outcome.snapshots), outcome.delete_files_removed) == (Status.COMMITTED, 2, 0)
    assert ids(spark, days) == [i for i in (*range(30), *range(100, 104)) if i != 5]


def test_a_stream_of_upserts_does_not_keep_a_run_from_finishing(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    """Every time the run has written and every time it is about to commit, the stream was there first."""
    gone: list[int] = []

    def upsert() -> None:
        number = len(gone)
        gone.append(number)
        equality_delete(spark, f"local.{days}", [{"id": number}], columns=["id"], partition=f"day={number % 2}")
        append(spark, days, 100 + number * 10, 102 + number * 10)

    for step in ("proven", "attempting"):
        before = len(gone)
        outcome = compactor.compact(days, rewrite_all=True, progress=Meanwhile(step, upsert, times=2))
        assert (step, outcome.status) == (step, Status.COMMITTED)
        assert len(gone) > before
        appended = [100 + n * 10 + k for n in range(len(gone)) for k in range(2)]
        assert ids(spark, days) == sorted([*(i for i in range(30) if i not in gone), *appended])


def test_new_position_deletes_cost_only_the_units_they_touch(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they cannot be taken along."""
    monkeypatch.setattr("icepact.execute.late_deletes.MOST_BYTES", 0)
    plan = compactor.plan(days, target_file_size="10MB")
    spark.sql(f"DELETE FROM {days} WHERE id = 4")
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.rows_deleted) == (Status.COMMITTED, 1)
    assert ids(spark, days) == [i for i in range(30) if i != 4]
    rounds = {path.split("day=")[1][0]: path.rsplit("/", 1)[-1].split("-")[4] for path in data_files(spark, days)}
    assert rounds == {"0": "01", "1": "00"}  # epoch and round: what was written for day 1 in the first was kept


def test_a_late_group_of_an_old_spec_is_planned_again(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Its outputs are in other partitions: a late delete of the old partition would not reach them."""
    spark.sql(f"ALTER TABLE {days} DROP PARTITION FIELD day")
    spark.sql(f"ALTER TABLE {days} ADD PARTITION FIELD bucket(2, id)")
    plan = compactor.plan(days)
    assert [step.regroup for step in plan.rewrites] == [True]
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1", spec_id=0)
    append(spark, days, 100, 104)
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.rows_deleted) == (Status.COMMITTED, 1)
    assert ids(spark, days) == [i for i in (*range(30), *range(100, 104)) if i != 5]


def test_an_expired_pin_does_not_matter_to_clean_groups(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody expires the pin while the run works; the judgement at the head stands."""
    expired: list[bool] = []

    def expiring(table: Any, *args: Any, **kwargs: Any) -> int:
        if not expired:
            append(spark, days, 100, 104)
            spark.sql(
                f"CALL local.system.expire_snapshots(table => '{days}', older_than => TIMESTAMP '2999-01-01',"
                " retain_last => 1)"
            )
            table.refresh()
            expired.append(True)
        return replace_files(table, *args, **kwargs)

    monkeypatch.setattr(protocol, "replace_files", expiring)
    outcome = compactor.compact(days)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, days) == [*range(30), *range(100, 104)]


def test_groups_are_committed_as_they_finish(compactor: Compactor, spark: SparkSession, days: str) -> None:
    before = ids(spark, days)
    outcome = compactor.compact(days, max_commits=2)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 2)
    assert ids(spark, days) == before
    assert compactor.plan(days).rewrites == ()  # both commits are the run's own


def test_partial_progress_survives_a_failure(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """What was committed before the trouble stays, and says so."""
    before = ids(spark, days)

    def trouble() -> None:
        raise RuntimeError("the machine is on fire")

    landed = []

    class Second(Meanwhile):
        def step(self, name: str) -> None:
            if name == "landed":
                landed.append(True)
            if name == "judged" and landed:
                trouble()

    with pytest.raises(RuntimeError, match="on fire"):
        compactor.compact(days, max_commits=2, progress=Second("", trouble))
    [record, *_] = compactor.runs(days)
    assert (record.status, len(record.landed)) == (Status.FAILED, 1)
    assert record.outcome is not None
    assert [g.committed for g in record.outcome.groups].count(True) == 1
    assert ids(spark, days) == before
    assert len(data_files(spark, days)) == 4
    assert compactor.compact(days).status is Status.COMMITTED
    assert ids(spark, days) == before
