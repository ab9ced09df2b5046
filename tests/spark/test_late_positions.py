"""Position deletes and vectors that reach inputs while they are rewritten are taken along, whatever wrote them.

`plan` pins, `apply` reads at the pin and judges at the head; what a test does between the two is what a concurrent
writer did during the rewrite.
"""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.replace import replace_files
from icepact.iceberg.commit.run_files import listed_files, run_folder
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.later import clean_up_later
from tests.support.meanwhile import Meanwhile
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files, seen
from tests.support.tables import create


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    """Formats that know deletes."""
    return int(request.param)


@pytest.fixture
def days(spark: SparkSession, namespace: str, version: int) -> str:
    """Two partitions of three small files each, ids 0 to 299; every tenth row was deleted before."""
    columns, properties = "id bigint, day int, word string", {"write.merge.mode": "merge-on-read"}
    name = create(spark, f"{namespace}.days", columns, "day", version=version, properties=properties)
    for batch in range(3):
        append(spark, name, batch * 100, batch * 100 + 100)
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 3")
    return name


BEFORE = frozenset(i for i in range(300) if i % 10 != 3)


def append(spark: SparkSession, table: str, start: int, end: int) -> None:
    """Rows for both days."""
    rows = spark.range(start, end, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day", "concat('w', id % 7) AS word")
    rows.writeTo(table).append()


def ids(spark: SparkSession, table: str) -> frozenset[int]:
    """All rows; none is there twice."""
    found = [row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()]
    assert len(found) == len(set(found))
    return frozenset(found)


def rounds(spark: SparkSession, table: str, outcome: Outcome) -> set[str]:
    """Epochs and rounds in which the outputs of `assemble` were written."""
    names = [path.rsplit("/", 1)[-1] for path in data_files(spark, table)]
    return {name.split("-")[4] for name in names if name.startswith(outcome.run_id)}


def carried(compactor: Compactor, table: str, outcome: Outcome) -> int:
    """Rows whose deletes were taken along, as the snapshots say."""
    loaded = compactor.application.spark_catalog.table(table)
    return sum(int(loaded.fact(snapshot, "carried-deletes") or 0) for snapshot in outcome.snapshots)


def nothing_left(compactor: Compactor, spark: SparkSession, table: str, outcome: Outcome) -> None:
    """Below the run's folder is what the head refers to, and nothing else."""
    loaded = compactor.application.spark_catalog.table(table)
    stored = {path.rsplit("/", 1)[-1] for path in listed_files(loaded, run_folder(loaded, outcome.run_id))}
    known = {path.rsplit("/", 1)[-1] for path in (*data_files(spark, table), *delete_files(spark, table))}
    assert stored
    assert stored <= known


def test_deletes_are_taken_along(compactor: Compactor, spark: SparkSession, days: str, version: int) -> None:
    plan = compactor.plan(days)
    assert len(plan.rewrites) == 2
    spark.sql(f"DELETE FROM {days} WHERE id % 10 = 4")
    spark.sql(f"DELETE FROM {days} WHERE id BETWEEN 50 AND 160")
    before = seen(spark, days, lineage=version > 2)
    outcome = compactor.apply(plan)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 1)
    assert seen(spark, days, lineage=version > 2) == before
    left = frozenset(i for i in BEFORE if i % 10 != 4 and not 50 <= i <= 160)
    assert ids(spark, days) == left
    assert rounds(spark, days, outcome) == {"00"}
    assert carried(compactor, days, outcome) == outcome.deletes_carried == len(BEFORE) - len(left)
    assert not outcome.complete
    assert len(data_files(spark, days)) == len(delete_files(spark, days)) == 2
    nothing_left(compactor, spark, days, outcome)
    loaded = compactor.application.spark_catalog.table(days)
    assert loaded.fact(outcome.snapshots[0], "complete") == "false"  # no plan has judged what was taken along
    assert compactor.plan(days, strategy="deletes", max_delete_ratio=0.01).rewrites

    spark.sql(f"DELETE FROM {days} WHERE id IN (1, 2)")
    assert ids(spark, days) == left - {1, 2}
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == left - {1, 2}
    assert delete_files(spark, days) == []


def test_however_often_the_head_moves(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """A MERGE that deletes rows of every file and appends, each time that a commit is about to be made."""
    merged: list[int] = []

    def merge() -> None:
        number = 4 + len(merged)
        merged.append(number)
        spark.sql(
            f"MERGE INTO {days} t USING (SELECT id FROM {days} WHERE id % 10 = {number} AND id < 300) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET id = t.id + 1000"
        )

    outcome = compactor.compact(days, rewrite_all=True, progress=Meanwhile("attempting", merge, times=3))
    assert (outcome.status, len(merged)) == (Status.COMMITTED, 3)
    assert ids(spark, days) == {i + 1000 if i % 10 in merged else i for i in BEFORE}
    assert rounds(spark, days, outcome) == {"00"}
    assert carried(compactor, days, outcome) == 90
    nothing_left(compactor, spark, days, outcome)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_files_of_several_data_files(
    compactor: Compactor, spark: SparkSession, namespace: str, granularity: str
) -> None:
    """What goes with the inputs makes room for what comes; one that others need stays, and the group is done again."""
    name = f"{namespace}.t"
    create(spark, name, "id bigint", version=2, properties={"write.delete.granularity": granularity})
    for first in (0, 100, 200):
        spark.range(first, first + 100, 1, 1).writeTo(name).append()
    plan = compactor.plan(name)
    spark.range(1000, 1100, 1, 1).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id IN (5, 105, 205)")
    spark.sql(f"DELETE FROM {name} WHERE id IN (6, 1006)")
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, name) == {*range(300), *range(1000, 1100)} - {5, 6, 105, 205, 1006}
    assert rounds(spark, name, outcome) == {"00"}
    assert carried(compactor, name, outcome) == 4
    nothing_left(compactor, spark, name, outcome)


def test_where_no_delete_goes_one_moves(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Iceberg does not let a rewrite add deletes where it removes none: one that others need comes again as a copy."""
    name = f"{namespace}.t"
    create(spark, name, "id bigint", version=2, properties={"write.delete.granularity": "partition"})
    for first in (0, 100, 200):
        spark.range(first, first + 100, 1, 1).writeTo(name).append()
    plan = compactor.plan(name)
    spark.range(1000, 1100, 1, 1).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id IN (6, 1006)")
    [before] = delete_files(spark, name)
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, name) == {*range(300), *range(1000, 1100)} - {6, 1006}
    assert rounds(spark, name, outcome) == {"00"}
    assert carried(compactor, name, outcome) == 1
    assert len(delete_files(spark, name)) == 2
    assert before not in delete_files(spark, name)
    nothing_left(compactor, spark, name, outcome)
    spark.sql(f"CALL local.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)").collect()
    assert ids(spark, name) == {*range(300), *range(1000, 1100)} - {6, 1006}


def test_a_delete_that_hits_no_input_costs_nothing(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A file of the whole partition is attached to the inputs, whatever it says."""
    name = f"{namespace}.t"
    create(spark, name, "id bigint", version=2, properties={"write.delete.granularity": "partition"})
    for first in (0, 100, 200):
        spark.range(first, first + 100, 1, 1).writeTo(name).append()
    plan = compactor.plan(name)
    for first in (1000, 1100):
        spark.range(first, first + 100, 1, 1).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id IN (1006, 1106)")
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, name) == {*range(300), *range(1000, 1200)} - {1006, 1106}
    assert rounds(spark, name, outcome) == {"00"}
    assert len(delete_files(spark, name)) == 1


@pytest.mark.parametrize(
    ("key", "where", "taken"),
    [
        pytest.param(107, "00", 1, id="of different inputs"),
        pytest.param(7, "00", 2, id="of one input, where a delete is replaced"),
    ],
)
def test_equality_beside_positions(
    compactor: Compactor, spark: SparkSession, days: str, key: int, where: str, taken: int
) -> None:
    """Outputs as old as the pin, for the new equality delete, with new deletes. Where one delete replaces another, the
    rows that the equality delete hits are looked for: only all together say whether every row is deleted still."""
    plan = compactor.plan(days, where="day = 1")
    spark.sql(f"DELETE FROM {days} WHERE id = 5")
    equality_delete(spark, f"local.{days}", [{"id": key}], columns=["id"], partition="day=1", metrics=True)
    append(spark, days, 400, 404)
    left = (BEFORE | {400, 401, 402, 403}) - {5, key}
    assert ids(spark, days) == left
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, days) == left
    assert rounds(spark, days, outcome) == {where}
    assert carried(compactor, days, outcome) == taken
    nothing_left(compactor, spark, days, outcome)
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == left


def test_method_spark_makes_no_map(compactor: Compactor, spark: SparkSession, days: str, version: int) -> None:
    """Nor would the ids of rows do: an updated row has the id of the one that it replaced, which is deleted."""
    spark.sql(f"UPDATE {days} SET word = 'changed' WHERE id IN (5, 105)")
    plan = compactor.plan(days, method="spark")
    spark.sql(f"DELETE FROM {days} WHERE id % 10 = 4")
    before = seen(spark, days, lineage=version > 2)
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert seen(spark, days, lineage=version > 2) == before
    assert ids(spark, days) == {i for i in BEFORE if i % 10 != 4}
    assert carried(compactor, days, outcome) == 0
    nothing_left(compactor, spark, days, outcome)


@pytest.mark.parametrize("found_by", ["resume", "cleanup"])
def test_whoever_finds_the_commit_keeps_what_it_needs(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch, found_by: str
) -> None:
    """The process dies when its commit has landed, after one that came to nothing."""
    deleted: list[bool] = []

    def lands_and_breaks(*args: Any, **kwargs: Any) -> int:
        if not deleted:
            spark.sql(f"DELETE FROM {days} WHERE id = 0")
            deleted.append(True)
            return replace_files(*args, **kwargs)
        replace_files(*args, **kwargs)
        raise KeyboardInterrupt

    plan = compactor.plan(days)
    spark.sql(f"DELETE FROM {days} WHERE id % 10 = 4")
    left = {i for i in BEFORE if i % 10 != 4 and i}
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", lands_and_breaks)
        with pytest.raises(KeyboardInterrupt):
            compactor.apply(plan)
    assert ids(spark, days) == left
    if found_by == "resume":
        resumed = compactor.resume_dead(days)
        assert resumed is not None
        assert resumed.status is Status.COMMITTED
        nothing_left(compactor, spark, days, resumed)
    clean_up_later(compactor, days)
    assert ids(spark, days) == left
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == left
