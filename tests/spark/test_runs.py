"""Runs as people handle them: held, cancelled, checked again, taken back, set aside, cleaned up."""

import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.commit.reconcile import COMMIT_WINDOW
from icepact.iceberg.commit.run_files import run_folder
from icepact.maintain import cleanup, runs
from icepact.model.errors import BadInput, CommitRefused, CommitUnknown, PermanentError, TableBusy
from icepact.model.progress import UnitDone
from icepact.model.run import Owner, RunRecord
from icepact.model.status import Status
from icepact.record.process import this_process
from icepact.record.sql import SqlStore
from tests.support.oracle import data_files, seen

MADE_UP = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Three small files and a deleted row."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, text string) USING iceberg TBLPROPERTIES ('format-version' = '2',"
        " 'write.delete.mode' = 'merge-on-read')"
    )
    append(spark, name, 0, 30, files=3)
    spark.sql(f"DELETE FROM {name} WHERE id = 7")
    return name


def append(spark: SparkSession, table: str, start: int, end: int, files: int = 1) -> None:
    """More rows."""
    spark.range(start, end, 1, files).selectExpr("id", "concat('row ', id) AS text").writeTo(table).append()


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C is not ignored, as it is where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class At:
    """Calls something when the run comes to a step."""

    def __init__(self, step: str, action: Any) -> None:
        self._step = step
        self._action = action

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Act, if it is time."""
        if name == self._step:
            self._action()


def on_storage(compactor: Compactor, table: str, run_id: str) -> list[str]:
    """What is left below a run's own folder."""
    prefix = run_folder(compactor.application.spark_catalog.table(table), run_id)
    assert prefix is not None
    return sorted(path.name for path in Path(prefix).rglob("*.parquet"))


# -- one run at a time ----------------------------------------------------------------------------


def test_a_second_run_is_told_who_holds_the_table(compactor: Compactor, table: str) -> None:
    told = []

    def another() -> None:
        with pytest.raises(TableBusy) as busy:
            compactor.apply(compactor.plan(table))
        told.append(str(busy.value))

    outcome = compactor.compact(table, progress=At("staged", another))
    assert outcome.status is Status.COMMITTED
    assert told[0].startswith(f"{table}: run {outcome.run_id} works on this table since ")
    assert told[0].endswith(f"({this_process()})")


def test_steps_come_in_order(compactor: Compactor, table: str) -> None:
    steps: list[str] = []

    class Listening(At):
        def step(self, name: str) -> None:
            steps.append(name)

    compactor.compact(table, progress=Listening("", None))
    assert steps == [
        *("held", "recorded", "staged", "written", "checkpointed", "proven"),
        *("judged", "attempting", "landed", "committed", "executed", "finished", "cleaned"),
    ]


# -- cancelling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "status", "told"),
    [
        ("held", Status.CANCELLED, "run {} is cancelled, {} is as it was: `icepact compact {}` begins anew"),
        ("written", Status.CANCELLED, "run {} is cancelled, {} is as it was: `icepact compact {}` begins anew"),
        ("attempting", Status.COMMITTED, "run {} on {} is committed, nothing of it is left to do"),
        ("finished", Status.COMMITTED, "run {} on {} is committed, nothing of it is left to do"),
    ],
)
@pytest.mark.usefixtures("listening")
def test_ctrl_c_is_heard_and_raised_when_the_run_has_ended(
    compactor: Compactor, spark: SparkSession, table: str, step: str, status: Status, told: str
) -> None:
    before = seen(spark, table)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        compactor.compact(table, progress=At(step, lambda: os.kill(os.getpid(), signal.SIGINT)))
    [run] = compactor.runs(table)
    assert str(interrupt.value) == told.format(run.run_id, table, table)
    assert run.status is status
    assert len(on_storage(compactor, table, run.run_id)) == (status is Status.COMMITTED)
    assert compactor.application.store.lease(run.uuid) is None
    assert seen(spark, table) == before
    assert compactor.compact(table).files_after == 1  # nothing counts against the table


def test_a_cancelled_run_stops_and_leaves_nothing(compactor: Compactor, spark: SparkSession, table: str) -> None:
    before = seen(spark, table)
    [said] = [""]

    def stop() -> None:
        nonlocal said
        [record] = compactor.runs(table, open_only=True)
        said = compactor.cancel(record.run_id)
        heard = threading.Event()
        heard.wait(3)  # the watch looks every two seconds

    outcome = compactor.compact(table, progress=At("proven", stop))
    assert (outcome.status, outcome.error) == (Status.CANCELLED, f"run {outcome.run_id} was cancelled")
    assert said == f"asked {this_process()} to stop run {outcome.run_id}"
    assert seen(spark, table) == before
    assert on_storage(compactor, table, outcome.run_id) == []
    with pytest.raises(BadInput, match=r"has ended \(cancelled\): there is nothing to cancel"):
        compactor.cancel(outcome.run_id)


# -- resuming -------------------------------------------------------------------------------------


def test_resumed_work_is_part_of_the_answer(compactor: Compactor, spark: SparkSession, table: str) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    for more in (False, True):
        with pytest.raises(KeyboardInterrupt):
            compactor.compact(table, method="spark", rewrite_all=True, progress=At("attempting", die))
        [dead] = compactor.runs(table, open_only=True)
        if more:
            append(spark, table, 100, 130, files=3)
        outcome = compactor.compact(table)
        resumed = outcome.resumed if more else outcome
        assert resumed is not None
        assert (resumed.run_id, resumed.status, resumed.files_after) == (dead.run_id, Status.COMMITTED, 1)
        assert resumed.kept_options == {"method": "spark", "rewrite_all": True}
        assert (outcome.files_before, outcome.files_after) == ((4, 1) if more else (3, 1))
        assert (outcome.to_dict()["resumed"] or {}).get("run_id") == (dead.run_id if more else None)
        assert compactor.runs(table, limit=1)[0].run_id == outcome.run_id  # no run that had nothing to do


# -- proofs ---------------------------------------------------------------------------------------


def test_a_full_proof_adds_up_every_row(compactor: Compactor, spark: SparkSession, table: str) -> None:
    before = seen(spark, table)
    outcome = compactor.compact(table, verify="full")
    assert (outcome.status, outcome.proof) == (Status.COMMITTED, "full")
    assert seen(spark, table) == before
    summary = spark.sql(f"SELECT summary FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()[0][0]
    assert summary["icepact.proof"] == "full"
    assert int(summary["icepact.proof-row-sum"]) != 0
    [checked] = compactor.verify(table, outcome.run_id)
    assert (checked.same, checked.rows) == (True, 29)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_full_proof_of_every_type(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    name = f"{namespace}.types"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, f float, d double, n decimal(20, 3), t timestamp, u timestamp_ntz, b binary,"
        " s struct<x: int, `y.z`: array<struct<k: string>>>, m map<string, struct<v: double>>, `odd ``name` date)"
        f" USING iceberg TBLPROPERTIES ('format-version' = '{version}')"
    )
    for start in (0, 10, 20):
        spark.range(start, start + 10, 1, 1).selectExpr(
            "id",
            "cast(if(id % 3 = 0, 'NaN', if(id % 3 = 1, '-0.0', '0.0')) as float) AS f",
            "cast(if(id % 4 = 0, null, if(id % 4 = 1, '-0.0', 'Infinity')) as double) AS d",
            "cast(id / 7 as decimal(20, 3)) AS n",
            "timestamp_micros(id * 1000001) AS t",
            "cast(timestamp_micros(id * 1000003) as timestamp_ntz) AS u",
            "if(id % 5 = 0, null, cast(cast(id as string) as binary)) AS b",
            "if(id % 6 = 0, null, named_struct('x', cast(if(id % 2 = 0, null, id) as int), 'y.z',"
            " array(named_struct('k', if(id % 2 = 0, null, 'k')), null))) AS s",
            "if(id % 7 = 0, null, map('a', named_struct('v', cast(id as double)), 'b', null)) AS m",
            "date_add(date '2026-01-01', cast(id as int)) AS `odd ``name`",
        ).writeTo(name).append()
    before = seen(spark, name, lineage=version == 3)
    outcome = compactor.compact(name, verify="full")
    assert outcome.status is Status.COMMITTED, outcome.groups
    assert seen(spark, name, lineage=version == 3) == before
    [checked] = compactor.verify(name, outcome.run_id)
    assert (checked.same, checked.rows) == (True, 30)


def test_a_full_proof_after_an_upgrade(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Rows from before have no ids: none are made up in the outputs, and the commit gives them some."""
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    outcome = compactor.compact(table, verify="full", rewrite_all=True)
    assert outcome.status is Status.COMMITTED, outcome.groups
    append(spark, table, 50, 60)
    again = compactor.compact(table, verify="full", rewrite_all=True)
    assert again.status is Status.COMMITTED, again.groups
    for run in (outcome, again):
        [checked] = compactor.verify(table, run.run_id)
        assert checked.same is True


def test_a_proof_can_be_left_out(compactor: Compactor, spark: SparkSession, table: str) -> None:
    outcome = compactor.compact(table, verify="off")
    summary = spark.sql(f"SELECT summary FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()[0][0]
    assert (outcome.proof, summary["icepact.proof"], summary["icepact.proof-columns"]) == ("off", "off", "0")


def test_verify_tells_when_rows_differ(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """A value that no statistic of a column gives away: two texts have changed places."""
    outcome = compactor.compact(table, codec="uncompressed", rewrite_all=True)
    [path] = data_files(spark, table)
    file = Path(path.removeprefix("file:"))
    held = file.read_bytes()
    assert (held.count(b"row 13"), held.count(b"row 14")) == (1, 1)
    file.write_bytes(held.replace(b"row 13", b"row ??").replace(b"row 14", b"row 13").replace(b"row ??", b"row 14"))
    [checked] = compactor.verify(table, outcome.run_id)
    assert checked.same is False


def test_verify_when_the_snapshot_before_has_expired(compactor: Compactor, spark: SparkSession, table: str) -> None:
    with_sum = compactor.compact(table, verify="full")
    append(spark, table, 100, 130, files=3)
    without = compactor.compact(table, rewrite_all=True)
    expire(spark, table, keep=1)
    [gone] = compactor.verify(table, with_sum.run_id)
    assert (gone.same, gone.reason) == (None, "the snapshot has expired")
    [silent] = compactor.verify(table, without.run_id)
    assert silent.same is None
    assert "only `--verify full` does" in silent.reason


def expire(spark: SparkSession, table: str, *, keep: int) -> None:
    """Somebody's housekeeping."""
    spark.sql(
        f"CALL local.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2999-01-01',"
        f" retain_last => {keep})"
    )


# -- taking back ----------------------------------------------------------------------------------


def test_a_run_is_taken_back(compactor: Compactor, spark: SparkSession, table: str) -> None:
    before, files = seen(spark, table), data_files(spark, table)
    outcome = compactor.compact(table)
    good = compactor.rollback(table, outcome.run_id)
    assert (seen(spark, table), data_files(spark, table)) == (before, files)
    [record, *_] = compactor.runs(table)
    assert (record.status, good) == (Status.ROLLED_BACK, record.landed[0].parent_id)
    with pytest.raises(BadInput, match="there is no commit to take back"):
        compactor.rollback(table, outcome.run_id)


def test_a_run_is_not_taken_back_over_somebody_elses_work(
    compactor: Compactor, spark: SparkSession, table: str
) -> None:
    outcome = compactor.compact(table)
    append(spark, table, 100, 105)
    before = seen(spark, table)
    with pytest.raises(
        PermanentError, match=r"snapshot \d+ came since; to go back all the same, .*rollback_to_snapshot"
    ):
        compactor.rollback(table, outcome.run_id)
    assert seen(spark, table) == before


@pytest.mark.parametrize("command", ["resume", "cancel"])
def test_a_run_that_is_not_there(compactor: Compactor, command: str) -> None:
    with pytest.raises(BadInput, match="there is no run nobody on catalog local: `icepact runs` lists them"):
        getattr(compactor, command)("nobody")


def test_a_run_on_another_table(compactor: Compactor, spark: SparkSession, table: str, namespace: str) -> None:
    outcome = compactor.compact(table)
    spark.sql(f"CREATE TABLE {namespace}.other (id bigint) USING iceberg")
    with pytest.raises(BadInput, match=f"run {outcome.run_id} was on {table}, not on {namespace}.other"):
        compactor.verify(f"{namespace}.other", outcome.run_id)
    with pytest.raises(BadInput, match="there is nothing to resume"):
        compactor.resume(outcome.run_id)


# -- what keeps failing ---------------------------------------------------------------------------


def test_a_group_that_keeps_failing_is_set_aside_and_the_rest_goes_on(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = f"{namespace}.poison"
    spark.sql(f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day)")
    for batch in range(3):
        rows = spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day")
        rows.writeTo(name).append()
    bad = next(path for path in data_files(spark, name) if "day=1" in path)
    good = Path(bad.removeprefix("file:")).read_bytes()
    Path(bad.removeprefix("file:")).write_bytes(good[:-30] + bytes(30))
    first = compactor.compact(name)
    assert first.status is Status.PARTLY_COMMITTED
    assert compactor.compact(name).status is Status.FAILED
    [left] = [entry for entry in compactor.plan(name).left_out if entry.partition == "day=1"]
    assert left.reason.startswith("failed 2 times, last on ")
    compactor.application.store.failed(
        compactor.application.spark_catalog.table(name).uuid,
        compactor.application.store.failures(compactor.application.spark_catalog.table(name).uuid)[-1],
    )
    plan = compactor.plan(name)
    [left] = [entry for entry in plan.left_out if entry.partition == "day=1"]
    assert "`icepact unblock`" in left.reason
    assert (plan.rewrites, plan.complete) == ((), False)
    rows = spark.range(100, 102, 1, 1).selectExpr("id", "1 AS day")
    rows.writeTo(name).append()
    assert len(compactor.plan(name).rewrites) == 1  # its files have changed
    Path(bad.removeprefix("file:")).write_bytes(good)
    assert compactor.unblock(name) >= 1
    assert compactor.compact(name).status is Status.COMMITTED
    assert compactor.application.store.failures(compactor.application.spark_catalog.table(name).uuid) == []


def test_a_table_on_which_runs_keep_failing_is_paused(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **kwargs: Any) -> Any:
        raise CommitRefused("the catalog says no")

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", away)
        for _ in range(3):
            assert compactor.compact(table).status is Status.FAILED
        with pytest.raises(BadInput, match=r"3 runs on .* failed one after the other, the last: the catalog says no;"):
            compactor.compact(table)
    assert compactor.unblock(table) == 1
    assert compactor.compact(table).status is Status.COMMITTED


# -- cleaning up ----------------------------------------------------------------------------------

ELSEWHERE = Owner(host="another machine", pid=1, born=1, boot="b")


def leave(compactor: Compactor, table: str, run_id: str, **given: Any) -> Path:
    """A run of another machine that is not heard of any more, and a file that it wrote."""
    java_table = compactor.application.spark_catalog.table(table)
    facts = {"owner": ELSEWHERE, "status": Status.RUNNING, **given}
    compactor.application.store.begin(
        RunRecord(
            run_id=run_id,
            catalog="local",
            table=table,
            branch="main",
            started_at=MADE_UP,
            uuid=java_table.uuid,
            **facts,
        )
    )
    prefix = run_folder(java_table, run_id)
    assert prefix is not None
    file = Path(prefix) / f"{run_id}-g1-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half a file")
    return file


def test_cleaning_up_deletes_nothing_unless_asked(compactor: Compactor, spark: SparkSession, table: str) -> None:
    before = seen(spark, table)
    run_id = f"dead-{table}"
    file = leave(compactor, table, run_id)
    [found] = compactor.cleanup(table)
    assert (found.run_id, len(found.files), found.bytes, found.deleted) == (run_id, 1, 11, False)
    assert file.is_file()
    [found] = compactor.cleanup(table, delete=True)
    assert (found.deleted, found.status, file.exists()) == (True, "abandoned", False)
    assert seen(spark, table) == before


def test_a_clean_up_that_finds_no_room_does_not_send_people_to_itself(
    compactor: Compactor, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(compactor, table, f"full-{table}").unlink()

    def full(*_: object, **__: object) -> None:
        raise BadInput("the run history cannot be used (database or disk is full): `icepact cleanup --yes`")

    monkeypatch.setattr(cleanup, "_fence", full)
    [found] = compactor.cleanup(table, delete=True)
    told = "the disk is full, and not of what this run left: free some space there, then clean up again"
    assert (found.failed, found.reason) == (True, told)


def test_a_second_clean_up_finds_what_a_zombie_wrote(compactor: Compactor, table: str) -> None:
    file = leave(compactor, table, f"zombie-{table}")
    compactor.cleanup(table, delete=True)
    file.write_bytes(b"a task of the dead run woke up")
    now = datetime.now(UTC)
    spark_catalog, store = compactor.application.spark_catalog, compactor.application.store
    [found] = cleanup.clean_up(spark_catalog, store, table=table, delete=True, now=now + timedelta(hours=2))
    assert (len(found.files), file.exists()) == (1, False)
    assert cleanup.clean_up(spark_catalog, store, table=table, delete=True, now=now + timedelta(hours=3)) == []


def test_a_run_that_somebody_works_on_is_left_alone(compactor: Compactor, table: str) -> None:
    file = leave(compactor, table, f"alive-{table}")
    uuid = compactor.application.spark_catalog.table(table).uuid
    lease = compactor.application.store.acquire(uuid, f"alive-{table}", ELSEWHERE, seconds=60)
    assert compactor.cleanup(table, delete=True) == []
    assert file.is_file()
    with pytest.raises(TableBusy):
        compactor.compact(table)
    compactor.application.store.release(lease)
    assert len(compactor.cleanup(table, delete=True)) == 1


def test_files_of_a_commit_that_may_still_land_stay(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was committing is on another machine and may only be slow: nothing goes until the table has moved on."""

    def never_answers(*args: Any, **kwargs: Any) -> int:
        raise CommitUnknown("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", never_answers)
        outcome = compactor.compact(table)
    assert outcome.status is Status.UNKNOWN
    [kept] = compactor.cleanup(table, delete=True)
    assert kept.left_alone
    assert "nothing is deleted yet" in kept.reason
    assert len(on_storage(compactor, table, outcome.run_id)) == 1
    append(spark, table, 100, 105)
    [kept] = compactor.cleanup(table, delete=True)
    assert kept.left_alone  # an append does not keep the commit from landing
    spark.sql(f"DELETE FROM {table} WHERE id = 100")
    before = seen(spark, table)
    [kept] = compactor.cleanup(table, delete=True)
    assert kept.left_alone  # somebody might roll that back
    later = datetime.now(UTC) + COMMIT_WINDOW
    [swept] = cleanup.clean_up(
        compactor.application.spark_catalog, compactor.application.store, table=table, delete=True, now=later
    )
    assert (swept.left_alone, swept.status, len(swept.files)) == (False, "abandoned", 1)
    assert on_storage(compactor, table, outcome.run_id) == []
    assert seen(spark, table) == before


def test_the_end_of_a_run_is_told_until_the_store_has_heard_it(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(spark, table)
    finish = SqlStore.finish
    told: list[str] = []

    def fails_at_first(store: SqlStore, *args: Any, **kwargs: Any) -> None:
        told.append("")
        if len(told) > 2:
            finish(store, *args, **kwargs)
        if len(told) < 4:
            raise BadInput("the run history cannot be used")  # the third time its answer is lost

    monkeypatch.setattr(SqlStore, "finish", fails_at_first)
    monkeypatch.setattr(runs, "_FIRST_WAIT", 0)
    outcome = compactor.compact(table)
    [record] = compactor.runs(table)
    assert (outcome.status, record.status, len(told)) == (Status.COMMITTED, Status.COMMITTED, 4)
    assert record.outcome is not None
    assert seen(spark, table) == before


def test_an_unknown_commit_is_resumed_by_the_next_run(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(spark, table)

    def never_answers(*args: Any, **kwargs: Any) -> int:
        raise CommitUnknown("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", never_answers)
        unknown = compactor.compact(table)
    written = on_storage(compactor, table, unknown.run_id)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('icepact.enabled' = 'false')")
    assert compactor.compact(table).status is Status.NOTHING_TO_DO
    [still] = compactor.runs(table, open_only=True)  # a table that is off is left alone altogether
    assert (still.run_id, len(data_files(spark, table)) > 1) == (unknown.run_id, True)
    resumed = compactor.compact(table, enabled=True)
    assert (resumed.run_id, resumed.status) == (unknown.run_id, Status.COMMITTED)
    assert [run.status for run in compactor.runs(table)] == [Status.NOTHING_TO_DO, Status.COMMITTED]
    assert on_storage(compactor, table, unknown.run_id) == written  # nothing was written again
    assert seen(spark, table) == before
    assert len(data_files(spark, table)) == 1
