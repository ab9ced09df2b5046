"""Equality deletes of four times the memory of a task: joined by Spark, then converted, applied, carried as others."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.assemble.messages import JoinContext
from icepact.execute.rewriters.anti_join import KeyJoiner
from icepact.housekeeping.deletes import plan_deletes
from icepact.iceberg.commit.run_files import listed_files, run_folder
from icepact.model.delete_files import ConvertDeletes, ConvertDeletesResult
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files, seen
from tests.support.planning import NOW
from tests.support.tables import create

MEMORY = 256 * 1024
ROWS, KEYS = 12_000, 24_000


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many data files each join was for."""
    done: list[int] = []
    whole = KeyJoiner._run

    def run(self: KeyJoiner, context: JoinContext) -> Any:
        done.append(len(context.files))
        return whole(self, context)

    monkeypatch.setattr(KeyJoiner, "_run", run)
    return done


def append(spark: SparkSession, table: str, start: int, end: int) -> None:
    """Rows of two days; every seventh has no word."""
    word = "if(id % 7 = 0, null, concat('w', id % 3))"
    rows = spark.range(start, end, 1, 1).selectExpr("int(id) AS id", "int(id % 2) AS day", f"{word} AS word")
    rows.writeTo(table).append()


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    """Formats that know deletes."""
    return int(request.param)


@pytest.fixture
def table(spark: SparkSession, namespace: str, version: int) -> str:
    """Two old files in each partition and one that is newer than some keys; positions are deleted, too, and a column
    became wider."""
    properties = {"write.delete.mode": "merge-on-read", "icepact.task-memory": str(MEMORY)}
    name = create(spark, f"{namespace}.t", "id int, day int, word string", version=version, properties=properties)
    append(spark, name, 0, 100)  # of the spec without partitions
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD day")
    append(spark, name, 100, ROWS // 2)
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE bigint")
    append(spark, name, ROWS // 2, ROWS)
    spark.sql(f"DELETE FROM {name} WHERE id IN (1, 2, 3, 9999)")
    full = f"local.{name}"
    for first in (0, KEYS // 2):  # everywhere; most of these keys are nowhere
        keys = [{"id": 3 * n} for n in range(first, first + KEYS // 2)]
        equality_delete(spark, full, keys, columns=["id"], unpartitioned=True, metrics=first == 0)
        append(spark, name, 3 * first, 3 * first + 30)  # written again
    pairs = [{"id": n, "word": None} for n in range(0, 7000, 7)]
    equality_delete(spark, full, pairs, columns=["id", "word"], partition="day=1")
    equality_delete(spark, full, [{"id": n} for n in range(0, 9, 3)], columns=["id"], unpartitioned=True)
    return name


def left_over(compactor: Compactor, table: str, outcome: Outcome) -> set[str]:
    """What a run left below its folder that the table does not refer to."""
    loaded = compactor.application.spark_catalog.table(table)
    stored = listed_files(loaded, run_folder(loaded, outcome.run_id))
    live = [*data_files(compactor.spark, table), *(d.path for d in loaded.view("main", []).deletes)]
    return {path.rsplit("/", 1)[-1] for path in stored} - {path.rsplit("/", 1)[-1] for path in live}


def test_more_keys_than_a_task_can_hold(
    compactor: Compactor, spark: SparkSession, table: str, version: int, joins: list[int]
) -> None:
    lineage = version > 2
    before, head = seen(spark, table, lineage=lineage), compactor.application.spark_catalog.table(table)
    pinned = head.head_id("main")

    step = plan_deletes(head, branch="main", task_memory=MEMORY, now=NOW)
    assert isinstance(step, ConvertDeletes)
    assert step.joined is not None
    assert step.joined.lookup_bytes >= 4 * MEMORY
    assert step.joined.memory == MEMORY // 2
    assert any("joined with those of" in line for line in step.explain(None))

    outcome = compactor.deletes(table)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert seen(spark, table, lineage=lineage) == before
    [result] = outcome.steps
    assert isinstance(result, ConvertDeletesResult)
    assert (result.removed.equality, joins) == (4, [step.joined.data_files])
    assert result.rows > ROWS // 3
    assert left_over(compactor, table, outcome) == set()
    assert compactor.deletes(table).status is Status.NOTHING_TO_DO

    for how in ("apply", "carry") if lineage else ("apply",):
        spark.sql(f"CALL local.system.set_current_snapshot('{table}', {pinned})")
        joins.clear()
        wanted: dict[str, Any] = {"deletes": how, "min_input_files": 2, "rewrite_all": how == "apply"}
        plan = compactor.plan(table, **wanted)
        assert {step.method for step in plan.rewrites} >= {"assemble"}
        assert "joined with those of" in plan.explain()
        outcome = compactor.compact(table, **wanted)
        assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
        assert sum(outcome.methods.values()) == len(plan.rewrites)
        assert outcome.methods["assemble"] == sum(step.method == "assemble" for step in plan.rewrites)
        assert seen(spark, table, lineage=lineage) == before
        assert len(joins) == 1
        assert left_over(compactor, table, outcome) == set()
    assert (delete_files(spark, table) != []) == lineage


def test_few_keys_are_looked_up(compactor: Compactor, spark: SparkSession, namespace: str, joins: list[int]) -> None:
    table = create(spark, f"{namespace}.t", "id int, day int, word string")
    append(spark, table, 0, 100)
    equality_delete(spark, f"local.{table}", [{"id": n} for n in range(10)], columns=["id"])
    assert compactor.deletes(table).status is Status.COMMITTED
    assert (joins, spark.table(table).count()) == ([], 90)
