"""Others at work while deletes are converted, a process that dies, a catalog that does not answer: no row is lost, none
comes back, and nothing is left behind."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import delete_change
from icepact.iceberg.commit import replace
from icepact.iceberg.commit.run_files import listed_files, run_folder
from icepact.maintain import convert
from icepact.model.delete_files import ConvertDeletesResult
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.java import jvm
from tests.support.lying import lying
from tests.support.meanwhile import Meanwhile
from tests.support.messy import equality_delete, load, scan_tasks
from tests.support.oracle import delete_files, seen
from tests.support.sleeper import killed
from tests.support.tables import create


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    """Formats that know deletes."""
    return int(request.param)


@pytest.fixture
def table(spark: SparkSession, namespace: str, version: int) -> str:
    """Ids 0 to 199 in two files; 5 and 105 are deleted by position, 10 and 110 by key."""
    name = create(spark, f"{namespace}.t", "id bigint, word string", version=version)
    append(spark, name, 0, 100)
    append(spark, name, 100, 200)
    spark.sql(f"DELETE FROM {name} WHERE id IN (5, 105)")
    equality_delete(spark, f"local.{name}", [{"id": 10}, {"id": 110}], columns=["id"])
    return name


THERE = frozenset(range(200)) - {5, 105, 10, 110}


def append(spark: SparkSession, table: str, start: int, end: int) -> None:
    spark.range(start, end, 1, 1).selectExpr("id", "concat('w', id % 7) AS word").writeTo(table).append()


def ids(spark: SparkSession, table: str) -> frozenset[int]:
    spark.catalog.refreshTable(table)
    found = [row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()]
    assert len(found) == len(set(found))
    return frozenset(found)


def result_of(outcome: Outcome) -> ConvertDeletesResult:
    [result] = outcome.steps
    assert isinstance(result, ConvertDeletesResult)
    return result


def nothing_left(compactor: Compactor, spark: SparkSession, table: str, outcome: Outcome) -> None:
    """Below the run's folder is what the head refers to, and nothing else."""
    loaded = compactor.application.spark_catalog.table(table)
    stored = {path.rsplit("/", 1)[-1] for path in listed_files(loaded, run_folder(loaded, outcome.run_id))}
    assert stored <= {path.rsplit("/", 1)[-1] for path in delete_files(spark, table)}


def settles(compactor: Compactor, table: str) -> None:
    """Whatever is left is done next, and then nothing is."""
    before = seen(compactor.spark, table)
    assert compactor.deletes(table).status in (Status.COMMITTED, Status.NOTHING_TO_DO)
    assert compactor.deletes(table).status is Status.NOTHING_TO_DO
    assert seen(compactor.spark, table) == before


def others(
    spark: SparkSession, compactor: Compactor, table: str
) -> dict[str, tuple[Callable[[], object], set[int], set[int]]]:
    """What others do, the ids that they delete, and those that they add."""
    merge = (
        f"MERGE INTO {table} t USING (SELECT id FROM {table} WHERE id % 50 = 20) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET id = t.id + 1000"
    )
    twenties = {20, 70, 120, 170}
    return {
        "append of the same keys": (lambda: append(spark, table, 300, 310), set(), set(range(300, 310))),
        "delete by position": (lambda: spark.sql(f"DELETE FROM {table} WHERE id IN (7, 107)"), {7, 107}, set()),
        "merge": (lambda: spark.sql(merge), twenties, {n + 1000 for n in twenties}),
        "delete by key": (
            lambda: equality_delete(spark, f"local.{table}", [{"id": 8}, {"id": 108}], columns=["id"]),
            {8, 108},
            set(),
        ),
        "rewrite": (lambda: compactor.compact(table, rewrite_all=True), set(), set()),
        "rewrite by Spark": (
            lambda: spark.sql(
                f"CALL local.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
            ),
            set(),
            set(),
        ),
        "another column": (lambda: spark.sql(f"ALTER TABLE {table} ADD COLUMN more int"), set(), set()),
    }


NAMES = (
    "append of the same keys",
    "delete by position",
    "merge",
    "delete by key",
    "rewrite by Spark",
    "another column",
)


@pytest.mark.parametrize(
    ("version", "step"),
    [
        (2, "written"),
        pytest.param(2, "attempting", marks=pytest.mark.matrix),
        pytest.param(3, "written", marks=pytest.mark.matrix),
        (3, "attempting"),
    ],
)
def test_somebody_else_commits(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, step: str
) -> None:
    """Once, right before it is judged again or committed."""
    for number, name in enumerate(NAMES):
        table = create(spark, f"{namespace}.t{number}", "id bigint, word string", version=version)
        append(spark, table, 0, 100)
        append(spark, table, 100, 200)
        spark.sql(f"DELETE FROM {table} WHERE id IN (5, 105)")
        equality_delete(spark, f"local.{table}", [{"id": 10}, {"id": 110}], columns=["id"])
        action, gone, come = others(spark, compactor, table)[name]
        outcome = compactor.deletes(table, progress=Meanwhile(step, action))
        assert outcome.status in (Status.COMMITTED, Status.NOTHING_TO_DO), (name, outcome.error)
        assert ids(spark, table) == (THERE - gone) | come, name
        nothing_left(compactor, spark, table, outcome)
        settles(compactor, table)
        assert ids(spark, table) == (THERE - gone) | come, name


def test_a_stream_of_others_does_not_keep_it_from_finishing(
    compactor: Compactor, spark: SparkSession, table: str
) -> None:
    """Every time that it is about to commit, rows are deleted by key and by position, in every file."""
    deleted: set[int] = set()

    def more() -> None:
        first = 20 + len(deleted)
        deleted.update({first, first + 100, first + 1})
        spark.sql(f"DELETE FROM {table} WHERE id IN ({first}, {first + 100})")
        equality_delete(spark, f"local.{table}", [{"id": first + 1}], columns=["id"])

    outcome = compactor.deletes(table, progress=Meanwhile("attempting", more, times=2))
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert ids(spark, table) == THERE - deleted
    nothing_left(compactor, spark, table, outcome)
    settles(compactor, table)


def test_given_up_without_harm(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Somebody commits every single time."""
    deleted: set[int] = set()

    def more() -> None:
        deleted.add(20 + len(deleted))
        spark.sql(f"DELETE FROM {table} WHERE id IN ({max(deleted)}, {max(deleted) + 100})")

    outcome = compactor.deletes(table, progress=Meanwhile("attempting", more, times=100))
    gone = deleted | {n + 100 for n in deleted}
    assert ids(spark, table) == THERE - gone
    assert outcome.status is Status.NOTHING_TO_DO
    assert "attempts" in result_of(outcome).reason
    nothing_left(compactor, spark, table, outcome)
    settles(compactor, table)
    assert ids(spark, table) == THERE - gone


def test_another_rewrite_sees_the_new_deletes(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """A rewrite that began before a delete by key, and would bring its rows back once that is converted: with the old
    sequence number, it counts on the delete."""
    plan = compactor.plan(table, rewrite_all=True)
    equality_delete(spark, f"local.{table}", [{"id": 50}, {"id": 150}], columns=["id"])
    assert compactor.deletes(table).status is Status.COMMITTED
    compactor.apply(plan)
    assert ids(spark, table) == THERE - {50, 150}


# -- a catalog that does not answer -----------------------------------------------------------------


LIES: dict[str, tuple[Status, bool]] = {
    "landed-unknown": (Status.COMMITTED, True),
    "landed-failed": (Status.COMMITTED, True),
    "landed-and-broke": (Status.COMMITTED, True),
    "failed": (Status.COMMITTED, True),
    "unknown": (Status.UNKNOWN, False),
    "broke": (Status.UNKNOWN, False),
    "forbidden": (Status.FAILED, False),
}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the catalog says of the next commit, if anything."""
    lies: list[str] = []
    commit = delete_change.commit_delete_change

    def lied_to(table: Any, *args: Any, **kwargs: Any) -> Any:
        return commit(lying(table, lies.pop()) if lies else table, *args, **kwargs)

    monkeypatch.setattr(convert, "commit_delete_change", lied_to)
    return lies


def test_a_catalog_that_lies(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, told: list[str]
) -> None:
    """What it says is not what it did; files of a commit that may still land stay until that is known."""
    for number, (lie, (status, done)) in enumerate(LIES.items()):
        table = create(spark, f"{namespace}.t{number}", "id bigint, word string", version=version)
        append(spark, table, 0, 100)
        equality_delete(spark, f"local.{table}", [{"id": 10}], columns=["id"])
        told.append(lie)
        outcome = compactor.deletes(table)
        assert outcome.status is status, (lie, outcome.error)
        assert ids(spark, table) == frozenset(range(100)) - {10}
        loaded = compactor.application.spark_catalog.table(table)
        written = listed_files(loaded, run_folder(loaded, outcome.run_id))
        assert written, lie  # of a commit that may still land, too
        if done:
            nothing_left(compactor, spark, table, outcome)
            assert compactor.deletes(table).status is Status.NOTHING_TO_DO


# -- kills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finisher", ["resume", pytest.param("cleanup", marks=pytest.mark.matrix)])
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("recorded", marks=pytest.mark.matrix),
        pytest.param("judged", marks=pytest.mark.matrix),
        "written",
        pytest.param("attempting", marks=pytest.mark.matrix),
        "landed",
    ],
)
def test_killed(compactor: Compactor, spark: SparkSession, namespace: str, step: str, finisher: str) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=3)
    append(spark, table, 0, 100)
    spark.sql(f"DELETE FROM {table} WHERE id = 5")
    equality_delete(spark, f"local.{table}", [{"id": 10}], columns=["id"])
    before = seen(spark, table)
    assert compactor.catalog.embedded is not None
    killed(Path(compactor.catalog.embedded), table, step, "deletes")
    [dead] = compactor.runs(table, open_only=True)
    spark.catalog.refreshTable(table)
    assert seen(spark, table) == before
    if finisher == "cleanup" and step not in ("attempting", "landed"):  # what may still land is left alone for an hour
        compactor.cleanup(table, delete=True)
    outcome = compactor.deletes(table)
    assert outcome.status in (Status.COMMITTED, Status.NOTHING_TO_DO), outcome.error
    assert seen(spark, table) == before
    assert compactor.runs(table, open_only=True) == []
    assert compactor.deletes(table).status is Status.NOTHING_TO_DO
    compactor.cleanup(table, delete=True)
    for run_id in {dead.run_id, outcome.run_id} - {""}:
        loaded = compactor.application.spark_catalog.table(table)
        stored = {path.rsplit("/", 1)[-1] for path in listed_files(loaded, run_folder(loaded, run_id))}
        assert stored <= {path.rsplit("/", 1)[-1] for path in delete_files(spark, table)}
    assert seen(spark, table) == before


# -- protections switched off -----------------------------------------------------------------------


def moved_as_it_was(spark: SparkSession, table: str) -> None:
    """What a rewrite does that began before the delete by key: the copy of a file is as old as the file, so that the
    delete applies to it."""
    java = load(spark, f"local.{table}")
    old = next(task.file() for task in scan_tasks(java) if task.deletes().size())
    path = str(old.location()).removeprefix("file:")
    copy = f"{path}-copy.parquet"
    shutil.copy(path, copy)
    moved = jvm(spark).org.apache.iceberg.DataFiles.builder(java.spec()).copy(old).withPath(copy).build()
    java.newRewrite().dataSequenceNumber(old.dataSequenceNumber()).deleteFile(old).addFile(moved).commit()


@pytest.mark.parametrize("protected", [True, False])
def test_the_binding_keeps_rows_from_coming_back(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    version: int,
    monkeypatch: pytest.MonkeyPatch,
    protected: bool,
) -> None:
    """A file that an equality delete applies to comes in between the judgement and the commit that removes it."""
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=version)
    append(spark, table, 0, 100)
    append(spark, table, 100, 200)
    equality_delete(spark, f"local.{table}", [{"id": 10}, {"id": 110}], columns=["id"])
    if not protected:
        monkeypatch.setattr(replace.BoundToHead, "validate", lambda self, snapshots: True)
    compactor.deletes(table, progress=Meanwhile("attempting", lambda: moved_as_it_was(spark, table)))
    assert (ids(spark, table) == frozenset(range(200)) - {10, 110}) is protected
