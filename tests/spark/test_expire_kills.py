"""An expiry is killed; whoever comes next carries on: nothing that is needed is missing, nothing of it is left."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.errors import BadInput
from icepact.model.status import Status
from tests.support.histories import History
from tests.support.oracle import seen
from tests.support.reach import on_disk, reachable
from tests.support.sleeper import killed

MAX_AGE = "history.expire.max-snapshot-age-ms"


@pytest.fixture
def history(compactor: Compactor, spark: SparkSession, namespace: str) -> History:
    """Of which nearly all may go, and a tag stays."""
    made = History(compactor, f"{namespace}.t", 5, version=3)
    spark.sql(f"ALTER TABLE {made.table} CREATE TAG first")
    for happens in (made.append, made.delete, made.overwrite, made.compact, made.append):
        happens()
    spark.sql(f"ALTER TABLE {made.table} SET TBLPROPERTIES ('{MAX_AGE}' = '1')")
    return made


def warehouse(compactor: Compactor) -> Path:
    """Of the embedded catalog."""
    assert compactor.catalog.embedded is not None
    return compactor.catalog.embedded


def readers(spark: SparkSession, table: str) -> dict[str, Any]:
    """At the head and at the tag."""
    return {name: seen(spark, table, branch=name) for name in ("main", "first")}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("recorded", marks=pytest.mark.matrix),
        pytest.param("listed", marks=pytest.mark.matrix),
        "landed",
        pytest.param("halfway", marks=pytest.mark.matrix),
        pytest.param("deleted", marks=pytest.mark.matrix),
    ],
)
def test_killed_and_carried_on_with(compactor: Compactor, spark: SparkSession, history: History, step: str) -> None:
    table = history.table
    before, needed, there = readers(spark, table), reachable(spark, table), on_disk(spark, table)
    killed(warehouse(compactor), table, step, "expire")
    [dead] = compactor.runs(table, open_only=True)
    assert reachable(spark, table) <= on_disk(spark, table)
    assert readers(spark, table) == before
    then = reachable(spark, table)
    history.append()  # somebody else comes first, and lets go old metadata
    dropped = then - reachable(spark, table)
    before = readers(spark, table)
    done = compactor.expire(table)
    assert done.status in (Status.COMMITTED, Status.NOTHING_TO_DO), done.error
    assert compactor.runs(table, open_only=True) == []
    assert dead.run_id in {run.run_id for run in compactor.runs(table)}
    still_needed, left = reachable(spark, table), on_disk(spark, table)
    assert still_needed <= left
    assert left - still_needed <= (there - needed) | dropped  # what nobody needed before is for the removal of orphans
    assert readers(spark, table) == before
    assert compactor.expire(table).status is Status.NOTHING_TO_DO


@pytest.mark.matrix
def test_killed_and_protected_since(compactor: Compactor, spark: SparkSession, history: History) -> None:
    """Whoever carries on respects what was said meanwhile."""
    table = history.table
    killed(warehouse(compactor), table, "listed", "expire")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    there = on_disk(spark, table)
    with pytest.raises(BadInput, match=r"gc\.enabled"):
        compactor.expire(table)
    assert there <= on_disk(spark, table)
    assert reachable(spark, table) <= on_disk(spark, table)
