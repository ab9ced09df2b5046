"""Options that say where to look, from when on, and how much at once."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.errors import BadInput
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.oracle import data_files, seen
from tests.support.tables import create


def append(spark: SparkSession, table: str, *, files: int = 6, rows: int = 60, kinds: str = "abc") -> None:
    """Rows in so many files of each kind."""
    kind = f"substr('{kinds}', int(id % {len(kinds)}) + 1, 1)"
    frame = spark.range(0, rows, 1, files).selectExpr("id", f"{kind} AS kind", "repeat('x', 100) AS text")
    frame.writeTo(table).option("fanout-enabled", "true").append()


@pytest.fixture
def kinds(spark: SparkSession, namespace: str) -> str:
    """Three partitions with six small files each."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string, text string", "kind")
    append(spark, table)
    return table


def head(spark: SparkSession, table: str) -> int:
    """The newest snapshot."""
    found: int = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()[0][0]
    return found


def done(outcome: Outcome) -> list[tuple[str, int]]:
    """What was replaced."""
    assert outcome.status is Status.COMMITTED
    return sorted((g.partition, g.input_files) for g in outcome.groups)


# -- where ----------------------------------------------------------------------------------------


def test_partition(compactor: Compactor, spark: SparkSession, kinds: str) -> None:
    """Only what matches is looked at, old partitions too; whatever else is left out says why."""
    before = seen(spark, kinds)
    outcome = compactor.compact(kinds, partition="kind=[ab]")
    assert done(outcome) == [("kind=a", 6), ("kind=b", 6)]
    plan = compactor.plan(kinds, partition="kind=[ab]")
    assert plan.rewrites == ()
    [left] = [e.reason for e in plan.left_out if e.partition == "kind=c"]
    assert left == "not asked for: only partitions like kind=[ab]"
    assert compactor.compact(kinds, partition="kind=nobody").status is Status.NOTHING_TO_DO
    spark.sql(f"ALTER TABLE {kinds} ADD PARTITION FIELD bucket(2, id)")
    append(spark, kinds)
    others = {path for path in data_files(spark, kinds) if "/kind=c" not in path}
    replaced = dict(done(compactor.compact(kinds, partition="kind=c", rewrite_all=True)))
    assert set(replaced) == {"kind=c (old spec 0)", "kind=c/id_bucket_2=0", "kind=c/id_bucket_2=1"}
    assert replaced["kind=c (old spec 0)"] == 6
    assert others < set(data_files(spark, kinds))
    assert seen(spark, kinds) == (2 * before[0], 2 * before[1])


# -- from when on ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_snapshot(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """Only what was there then is rewritten, and what was written since is neither lost nor taken for judged."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string, text string", "kind", version=version)
    append(spark, table)
    then = head(spark, table)
    append(spark, table, kinds="ab")
    before = seen(spark, table)

    plan = compactor.plan(table, snapshot_id=then)
    assert (plan.snapshot_id, plan.predicted.files_before, plan.predicted.input_files) == (then, 18, 18)
    assert compactor.health(table, snapshot_id=then).facts.data_files == 18
    assert done(compactor.apply(plan)) == [("kind=a", 6), ("kind=b", 6), ("kind=c", 6)]
    assert seen(spark, table) == before
    assert len(data_files(spark, table)) == 3 + 12

    again = compactor.plan(table, snapshot_id=then)
    assert again.rewrites == ()
    assert {entry.reason for entry in again.left_out} == {"its files were replaced since this snapshot"}
    assert done(compactor.compact(table)) == [("kind=a", 7), ("kind=b", 7)]
    assert compactor.plan(table).rewrites == ()
    assert seen(spark, table) == before


def test_deletes_that_came_since_the_snapshot(compactor: Compactor, spark: SparkSession, kinds: str) -> None:
    """No row comes back."""
    then = head(spark, kinds)
    spark.sql(f"ALTER TABLE {kinds} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql(f"DELETE FROM {kinds} WHERE id IN (1, 3, 30)")
    before = seen(spark, kinds)
    assert before[0] == 57
    outcome = compactor.compact(kinds, snapshot_id=then)
    assert done(outcome) == [("kind=a", 6), ("kind=b", 6), ("kind=c", 6)]
    assert seen(spark, kinds) == before


def test_a_snapshot_of_another_history(compactor: Compactor, spark: SparkSession, kinds: str) -> None:
    spark.sql(f"ALTER TABLE {kinds} CREATE BRANCH audit")
    append(spark, kinds)
    newest = head(spark, kinds)
    with pytest.raises(BadInput, match=rf"^snapshot {newest} of .* is not in the history of branch audit$"):
        compactor.plan(kinds, branch="audit", snapshot_id=newest)
    with pytest.raises(BadInput, match="has no snapshot 12: it may have expired"):
        compactor.health(kinds, snapshot_id=12)
    for where in (None, "kind = 'a'"):
        assert compactor.plan(kinds, snapshot_id=newest, where=where).snapshot_id == newest


# -- how much at once -----------------------------------------------------------------------------


def most_at_once(spark: SparkSession, run_id: str) -> int:
    """Spark tasks of a run's jobs that ran at the same time, as Spark's own history tells."""
    store: Any = spark._jsparkSession.sparkContext().statusStore()
    moments = []
    jobs = store.jobsList(None)
    for at in range(jobs.size()):
        job = jobs.apply(at)
        if not job.jobTags().contains(f"icepact-{run_id}"):
            continue
        for number in range(job.stageIds().size()):
            tasks = store.taskList(job.stageIds().apply(number), 0, 10_000)
            for n in range(tasks.size()):
                task = tasks.apply(n)
                begin = task.launchTime().getTime()
                moments += [(begin, 1), (begin + task.duration().get(), -1)]
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


@pytest.mark.parametrize("method", ["assemble", "spark"])
def test_parallelism(compactor: Compactor, spark: SparkSession, kinds: str, method: str) -> None:
    before = seen(spark, kinds)
    assert spark.sparkContext.defaultParallelism > 1
    found = {}
    for limit in (1, None):
        outcome = compactor.compact(
            kinds, method=method, parallelism=limit, target_file_size="8KB", min_row_group_size="1KB", rewrite_all=True
        )
        assert outcome.status is Status.COMMITTED
        found[limit] = most_at_once(spark, outcome.run_id)
        assert seen(spark, kinds) == before
    assert found[1] == 1 < found[None]


def test_parallelism_where_rows_are_shuffled(compactor: Compactor, spark: SparkSession, kinds: str) -> None:
    spark.sql(f"ALTER TABLE {kinds} REPLACE PARTITION FIELD kind WITH bucket(3, id)")
    before = seen(spark, kinds)
    outcome = compactor.compact(kinds, parallelism=1, target_file_size="8KB", rewrite_all=True)
    assert (outcome.status, most_at_once(spark, outcome.run_id)) == (Status.COMMITTED, 1)
    assert seen(spark, kinds) == before


def test_time_is_reckoned_with_so_many_cores(compactor: Compactor, kinds: str) -> None:
    plan = compactor.plan(kinds, max_duration="1h", parallelism=1, rewrite_all=True)
    [limit], predicted = plan.budget, plan.predicted
    assert (predicted.cores, predicted.overhead > 0) == (1, True)
    assert limit.amount == pytest.approx(3600 - predicted.overhead, abs=0.001)


def test_batch_rows(compactor: Compactor, spark: SparkSession, kinds: str) -> None:
    """By any method the same rows come out."""
    before = seen(spark, kinds)
    for method in ("assemble", "spark"):
        outcome = compactor.compact(kinds, method=method, batch_rows=3, rewrite_all=True, verify="full")
        assert (outcome.status, len(data_files(spark, kinds))) == (Status.COMMITTED, 3)
        assert seen(spark, kinds) == before
