"""The commit protocol against real concurrent writers: no deleted row comes back, whoever commits in between.

`plan` pins, `apply` reads at the pin and judges at the head; what a test does between the two is what a
concurrent writer did during the rewrite.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.replace import replace_files, roll_back
from icepact.iceberg.commit.run_files import run_folder
from icepact.model.errors import BadInput, CommitUnknown
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.java import jvm
from tests.support.messy import convert_to_positions, equality_delete, load, scan_tasks
from tests.support.oracle import data_files, delete_files, seen


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Three small files, ids 0 to 29."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, text string) USING iceberg TBLPROPERTIES ('format-version' = '2',"
        " 'write.delete.mode' = 'merge-on-read')"
    )
    append(spark, name, 0, 30, files=3)
    return name


@pytest.fixture
def days(spark: SparkSession, namespace: str) -> str:
    """Two partitions of three small files each."""
    name = f"{namespace}.days"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day)"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    for batch in range(3):
        rows = spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day")
        rows.writeTo(name).append()
    return name


def append(spark: SparkSession, table: str, start: int, end: int, files: int = 1) -> None:
    frame = spark.range(start, end, 1, files).selectExpr("id", "concat('row ', id) AS text")
    frame.writeTo(table).append()


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {table}").collect())


def run_files(compactor: Compactor, table: str, outcome: Outcome) -> list[Path]:
    """What is left on storage below the run's own folder."""
    prefix = run_folder(compactor.application.spark_catalog.table(table), outcome.run_id)
    assert prefix is not None
    return list(Path(prefix).rglob("*.parquet"))


# -- the measured resurrections ----------------------------------------------------------------------


def test_r1_equality_delete_then_append_during_the_rewrite(
    compactor: Compactor, spark: SparkSession, table: str
) -> None:
    plan = compactor.plan(table)
    equality_delete(spark, f"local.{table}", [{"id": 3}, {"id": 14}], columns=["id"])
    append(spark, table, 100, 110)
    expected = [i for i in (*range(30), *range(100, 110)) if i not in (3, 14)]
    outcome = compactor.apply(plan)
    assert ids(spark, table) == expected
    assert outcome.status is Status.COMMITTED
    assert len(run_files(compactor, table, outcome)) == 2  # what was written at first, and positions of the two rows


def test_r1_two_delete_only_commits_during_the_rewrite(compactor: Compactor, spark: SparkSession, table: str) -> None:
    plan = compactor.plan(table)
    equality_delete(spark, f"local.{table}", [{"id": 3}], columns=["id"])
    equality_delete(spark, f"local.{table}", [{"id": 14}], columns=["id"])
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.late_deletes) == (Status.COMMITTED, 2)
    assert ids(spark, table) == [i for i in range(30) if i not in (3, 14)]
    assert len(delete_files(spark, table)) == 1


def test_r2_a_delete_is_not_dangling_for_a_file_with_an_older_sequence_number(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """Another compactor moves an old file into the partition with its old sequence number: the delete applies to it."""
    name = moved_table(spark, namespace)
    plan = compactor.plan(name)
    assert [(s.partition, len(s.files)) for s in plan.rewrites] == [("day=7", 2)]
    _move_into_partition(spark, f"local.{name}", "day=7")
    expected = ids(spark, name)
    assert 5 not in expected
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, name) == expected
    assert len(delete_files(spark, name)) == 1


def moved_table(spark: SparkSession, namespace: str) -> str:
    """A file of an old, unpartitioned spec; two newer ones in partition day=7; a delete that applies to those two."""
    name = f"{namespace}.moved"
    spark.sql(f"CREATE TABLE {name} (id bigint, day int) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    spark.range(0, 10, 1, 1).selectExpr("id", "7 AS day").writeTo(name).append()
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD day")
    for start in (100, 200):
        spark.range(start, start + 10, 1, 1).selectExpr("id", "7 AS day").writeTo(name).append()
    equality_delete(spark, f"local.{name}", [{"id": 5}, {"id": 105}], columns=["id"], partition="day=7")
    return name


def _move_into_partition(spark: SparkSession, table: str, partition: str) -> None:
    java = load(spark, table)
    iceberg = jvm(spark).org.apache.iceberg
    old = next(t.file() for t in scan_tasks(java) if t.file().specId() == 0)
    moved = (
        iceberg.DataFiles.builder(java.spec())
        .withPath(str(old.location()) + "#moved")
        .withFileSizeInBytes(old.fileSizeInBytes())
        .withRecordCount(old.recordCount())
        .withFormat("parquet")
        .withPartitionPath(partition)
        .build()
    )
    source = Path(str(old.location()).removeprefix("file:"))
    Path(f"{source}#moved").write_bytes(source.read_bytes())
    java.newRewrite().dataSequenceNumber(old.dataSequenceNumber()).deleteFile(old).addFile(moved).commit()


def test_r3_a_delete_converted_in_a_replace_snapshot(compactor: Compactor, spark: SparkSession, table: str) -> None:
    equality_delete(spark, f"local.{table}", [{"id": 3}], columns=["id"])
    plan = compactor.plan(table)
    convert_to_positions(spark, f"local.{table}", deleted=3)
    expected = [i for i in range(30) if i != 3]
    assert ids(spark, table) == expected
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.rows_deleted) == (Status.COMMITTED, 1)
    assert ids(spark, table) == expected
    assert delete_files(spark, table) == []


# -- conflicts cost one group, not the run -----------------------------------------------------------


def test_an_append_during_the_rewrite_does_not_matter(compactor: Compactor, spark: SparkSession, table: str) -> None:
    plan = compactor.plan(table)
    append(spark, table, 100, 105)
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, table) == [*range(30), *range(100, 105)]
    assert len(data_files(spark, table)) == 2


def test_a_position_delete_during_the_rewrite_costs_its_group_a_second_round(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it cannot be taken along."""
    monkeypatch.setattr("icepact.execute.late_deletes.MOST_ROWS", 0)
    plan = compactor.plan(days)
    spark.sql(f"DELETE FROM {days} WHERE id = 4")
    outcome = compactor.apply(plan)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 2)
    assert ids(spark, days) == [i for i in range(30) if i != 4]
    assert compactor.plan(days).rewrites == ()


def test_inputs_replaced_by_another_compactor_are_superseded(
    compactor: Compactor, spark: SparkSession, table: str
) -> None:
    plan = compactor.plan(table)
    assert compactor.compact(table).status is Status.COMMITTED
    before = seen(spark, table)
    outcome = compactor.apply(plan)
    assert outcome.status is Status.SUPERSEDED
    assert outcome.groups[0].reason.startswith("superseded: 3 inputs are gone")
    assert seen(spark, table) == before
    assert run_files(compactor, table, outcome) == []


def test_an_upgrade_during_the_rewrite_is_planned_again(compactor: Compactor, spark: SparkSession, table: str) -> None:
    plan = compactor.plan(table)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    outcome = compactor.apply(plan)
    assert (outcome.status, len(run_files(compactor, table, outcome))) == (Status.COMMITTED, 1)
    assert ids(spark, table) == list(range(30))


# -- bound to the judged head: commits that land between judgement and commit -------------------------


def interleave(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let somebody commit after our judgement and before our commit, once."""
    pending = [action]

    def commit_after_action(*args: Any, **kwargs: Any) -> int:
        if pending:
            pending.pop()()
        return replace_files(*args, **kwargs)

    monkeypatch.setattr(protocol, "replace_files", commit_after_action)


def test_an_append_between_judgement_and_commit_is_accepted(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interleave(monkeypatch, lambda: append(spark, table, 100, 105))
    assert compactor.compact(table).status is Status.COMMITTED
    assert ids(spark, table) == [*range(30), *range(100, 105)]


def test_a_delete_between_judgement_and_commit_is_judged_again(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icepact.execute.late_deletes.MOST_ROWS", 0)  # it cannot be taken along
    interleave(monkeypatch, lambda: spark.sql(f"DELETE FROM {days} WHERE id = 4"))
    outcome = compactor.compact(days)
    assert {g.partition: g.committed for g in outcome.groups} == {"day=0": True, "day=1": True}
    assert len(outcome.snapshots) == 2
    assert ids(spark, days) == [i for i in range(30) if i != 4]
    assert delete_files(spark, days) == []


def test_r3_between_judgement_and_commit(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg itself does not see deletes that a replace added: only the binding to the judged head does."""
    equality_delete(spark, f"local.{table}", [{"id": 3}], columns=["id"])
    append(spark, table, 100, 110)
    interleave(monkeypatch, lambda: convert_to_positions(spark, f"local.{table}", deleted=3))
    outcome = compactor.compact(table, where="id < 50")
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 1)
    assert ids(spark, table) == [i for i in (*range(30), *range(100, 110)) if i != 3]


def test_r2_between_judgement_and_commit(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with an old sequence number arrives after the delete was judged dangling."""
    name = moved_table(spark, namespace)
    interleave(monkeypatch, lambda: _move_into_partition(spark, f"local.{name}", "day=7"))
    outcome = compactor.compact(name, where="id >= 100")
    assert outcome.status is Status.COMMITTED
    assert ids(spark, name) == [
        *(i for i in range(10) if i != 5),
        *(i for i in range(100, 110) if i != 105),
        *range(200, 210),
    ]
    assert len(delete_files(spark, name)) == 1


def test_an_equality_delete_elsewhere_survives_the_commit(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete newer than the pin, on a partition that is not rewritten, must still be live afterwards."""
    plan = compactor.plan(days, where="day = 1")
    equality_delete(spark, f"local.{days}", [{"id": 4}], columns=["id"], partition="day=0")
    append_elsewhere = spark.range(100, 101, 1, 1).selectExpr("id", "0 AS day")
    append_elsewhere.writeTo(days).append()
    assert compactor.apply(plan).status is Status.COMMITTED
    assert ids(spark, days) == sorted([*(i for i in range(30) if i != 4), 100])
    assert len(delete_files(spark, days)) == 1


# -- knowing what happened ---------------------------------------------------------------------------


def test_an_unknown_commit_that_landed_is_recognised(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lands_but_answers_late(*args: Any, **kwargs: Any) -> int:
        replace_files(*args, **kwargs)
        raise CommitUnknown("the connection broke")

    monkeypatch.setattr(protocol, "replace_files", lands_but_answers_late)
    outcome = compactor.compact(table)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, table) == list(range(30))
    assert len(data_files(spark, table)) == 1


def test_an_unknown_commit_deletes_nothing(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_answers(*args: Any, **kwargs: Any) -> int:
        raise CommitUnknown("the connection broke")

    monkeypatch.setattr(protocol, "replace_files", never_answers)
    outcome = compactor.compact(table)
    assert outcome.status is Status.UNKNOWN
    assert outcome.error == "the connection broke"
    assert len(run_files(compactor, table, outcome)) == 1
    assert ids(spark, table) == list(range(30))


@pytest.mark.parametrize("trouble", [RuntimeError("no more memory"), KeyboardInterrupt()])
def test_trouble_after_the_commit_landed_deletes_nothing(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    def lands_and_breaks(*args: Any, **kwargs: Any) -> int:
        replace_files(*args, **kwargs)
        raise trouble

    monkeypatch.setattr(protocol, "replace_files", lands_and_breaks)
    with pytest.raises(type(trouble)):
        compactor.compact(table)
    assert ids(spark, table) == list(range(30))
    assert len(data_files(spark, table)) == 1
    assert [run.status for run in compactor.runs(table)] == [Status.UNKNOWN]
    resumed = compactor.resume_dead(table)
    assert resumed is not None
    assert (resumed.status, resumed.files_after) == (Status.COMMITTED, 1)
    assert ids(spark, table) == list(range(30))


def test_facts_in_the_snapshot_summary(compactor: Compactor, spark: SparkSession, table: str) -> None:
    plan = compactor.plan(table)
    outcome = compactor.apply(plan)
    summary = spark.sql(f"SELECT summary FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()[0][0]
    facts = {k: v for k, v in summary.items() if k.startswith("icepact.")}
    assert plan.planned_at is not None
    assert facts == {
        "icepact.commit-id": f"{outcome.run_id}/0.1/1",
        "icepact.run-id": outcome.run_id,
        "icepact.strategy": "small-files",
        "icepact.layout": plan.policy.fingerprint,
        "icepact.pinned-snapshot-id": str(plan.snapshot_id),
        "icepact.pinned-sequence-number": str(plan.sequence_number),
        "icepact.planned-at": plan.planned_at.isoformat(),
        "icepact.proof": "footers",
        "icepact.tier": "minor",
        "icepact.proof-rows": "30",
        "icepact.proof-columns": "2",
        "icepact.complete": "true",
    }
    assert sum(len(k) + len(v) for k, v in facts.items()) < 1024


def test_a_commit_that_lost_rows_is_rolled_back(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check after the commit is the last line: here a group lies about its rows."""
    real = protocol.commit

    def lying(table_: Any, staging: Any, batch: Any, groups: Any, *more: Any) -> Any:
        return real(table_, staging, batch, [replace(g, rows_out=g.rows_out - 1) for g in groups], *more)

    monkeypatch.setattr("icepact.maintain.rounds.commit", lying)
    outcome = compactor.compact(table)
    assert outcome.status is Status.FAILED
    assert "the row count is off by 1" in (outcome.error or "")
    assert "it was rolled back" in (outcome.error or "")
    assert len(run_files(compactor, table, outcome)) == 1  # the rolled-back snapshot still refers to it
    assert ids(spark, table) == list(range(30))
    assert len(data_files(spark, table)) == 3


@pytest.mark.parametrize("found_by", ["resume", "cleanup"])
def test_a_commit_that_lost_rows_unseen_is_rolled_back_by_whoever_finds_it(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, found_by: str
) -> None:
    """As before, but whoever made the commit died before the check."""
    real = protocol.commit

    def lying(table_: Any, staging: Any, batch: Any, groups: Any, *more: Any) -> Any:
        return real(table_, staging, batch, [replace(g, rows_out=g.rows_out - 1) for g in groups], *more)

    def lands_and_breaks(*args: Any, **kwargs: Any) -> int:
        replace_files(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("icepact.maintain.rounds.commit", lying)
        patched.setattr(protocol, "replace_files", lands_and_breaks)
        with pytest.raises(KeyboardInterrupt):
            compactor.compact(table)
    assert len(data_files(spark, table)) == 1
    if found_by == "resume":
        outcome = compactor.resume_dead(table)
        assert outcome is not None
        assert outcome.status is Status.FAILED
        assert "the row count is off by 1" in (outcome.error or "")
    else:
        compactor.cleanup(table, delete=True)
        assert [run.status for run in compactor.runs(table)] == [Status.ABANDONED]
    spark.sql(f"REFRESH TABLE {table}")
    assert ids(spark, table) == list(range(30))
    assert len(data_files(spark, table)) == 3
    with pytest.raises(BadInput, match="off by 1"):
        compactor.compact(table)


def test_rollback_refuses_when_the_table_moved_on(compactor: Compactor, spark: SparkSession, table: str) -> None:
    first = compactor.application.spark_catalog.table(table).head("main").snapshotId()
    append(spark, table, 100, 105)
    append(spark, table, 200, 205)
    loaded = compactor.application.spark_catalog.table(table)
    middle = loaded.head("main").parentId()
    assert roll_back(loaded, "main", bad=middle, good=first) is False
    assert ids(spark, table) == [*range(30), *range(100, 105), *range(200, 205)]


def test_a_failing_rewrite_leaves_no_file_and_costs_its_group_only(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    """One partition has lost a file on storage: it fails, the other is committed, nothing is left over."""
    lost = spark.sql(f"SELECT file_path FROM {days}.files WHERE partition.day = 0 LIMIT 1").collect()[0][0]
    Path(lost.removeprefix("file:")).unlink()
    outcome = compactor.compact(days)
    assert outcome.status is Status.PARTLY_COMMITTED
    assert {g.partition: g.committed for g in outcome.groups} == {"day=0": False, "day=1": True}
    live = {path.removeprefix("file:") for path in data_files(spark, days)}
    assert {str(path) for path in run_files(compactor, days, outcome)} <= live
    assert sorted(r[0] for r in spark.sql(f"SELECT id FROM {days} WHERE day = 1").collect()) == list(range(1, 30, 2))
