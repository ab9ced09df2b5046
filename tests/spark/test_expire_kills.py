"""An expiry is killed; whoever comes next carries on: nothing that is needed is missing, nothing of it is left."""

import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping import expire
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.table.reachability import UnreachableFiles
from icepact.model.errors import BadInput
from icepact.model.status import Status
from tests.support.histories import History
from tests.support.java import jvm
from tests.support.oracle import seen
from tests.support.reach import location_of, on_disk, reachable
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


LONG = timedelta(days=8)
"""Longer than anything of a run that has ended is kept."""


def long_ago(compactor: Compactor, table: str) -> None:
    """All that is recorded, and all files of the table, are as old as that."""

    def earlier(moment: str | None) -> str | None:
        return None if moment is None else (datetime.fromisoformat(moment) - LONG).isoformat()

    with closing(sqlite3.connect(warehouse(compactor) / "icepact.db")) as store:
        store.create_function("earlier", 1, earlier)
        store.execute("UPDATE runs SET started_at = earlier(started_at), finished_at = earlier(finished_at)")
        store.execute("UPDATE leases SET since = earlier(since), expires_at = earlier(expires_at)")
        store.commit()
    for path in on_disk(compactor.spark, table):
        at = os.stat(path).st_mtime - LONG.total_seconds()
        os.utime(path, (at, at))


def elsewhere(compactor: Compactor, folder: Path) -> Compactor:
    """The same catalog, with a record store that knows nothing of the other one."""
    config = folder / "icepact.yaml"
    config.write_text(f"state: {folder}\n")
    return Compactor(warehouse=warehouse(compactor), config=config)


def nothing_is_left(spark: SparkSession, table: str, before: dict[str, Any]) -> None:
    """But old metadata, which every commit drops from the log: that is for the removal of orphans."""
    needed, there = reachable(spark, table), on_disk(spark, table)
    assert needed <= there
    assert {path for path in there - needed if not path.endswith(".metadata.json")} == set()
    assert readers(spark, table) == before


def test_carried_on_with_after_more_than_a_week(compactor: Compactor, spark: SparkSession, history: History) -> None:
    """What runs that have ended wrote down is forgotten by then, and this one has not ended."""
    table = history.table
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED  # its old files go, too
    before = readers(spark, table)
    killed(warehouse(compactor), table, "landed", "expire")
    long_ago(compactor, table)
    [dead] = compactor.runs(table, open_only=True)
    other = History(compactor, f"{table}_other", 1, version=2)
    other.append()
    compactor.compact(other.table, rewrite_all=True)  # by which the store forgets what is old
    assert list(compactor.application.store.checkpoints(dead.run_id))
    done = compactor.expire(table)
    assert (done.status, done.run_id) == (Status.COMMITTED, dead.run_id), done.error
    nothing_is_left(spark, table, before)


def test_carried_on_with_from_two_record_stores_at_once(
    compactor: Compactor, spark: SparkSession, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their leases do not exclude each other. While the one that knows of the dead run is about to delete what is on
    its list, the other one expires and deletes, and somebody writes; and then both finish."""
    table, second = history.table, elsewhere(compactor, tmp_path)
    killed(warehouse(compactor), table, "landed", "expire")
    long_ago(compactor, table)
    [dead] = compactor.runs(table, open_only=True)
    assert second.runs(table) == []
    delete, calls = BulkDeletion.delete, list[str]()

    def interrupted(self: BulkDeletion, paths: Sequence[str]) -> list[str]:
        calls.append("delete")
        if len(calls) == 1:
            history.append()
            history.delete()
            assert second.expire(table).status is Status.COMMITTED
            assert second.orphans(table, older_than="7d").error is None
        return delete(self, paths)

    monkeypatch.setattr(BulkDeletion, "delete", interrupted)
    done = compactor.expire(table)
    assert (done.status, done.run_id) == (Status.COMMITTED, dead.run_id), done.error
    assert len(calls) > 2
    before = readers(spark, table)
    assert reachable(spark, table) <= on_disk(spark, table)
    assert compactor.expire(table).error is None
    assert second.expire(table).status is Status.NOTHING_TO_DO
    nothing_is_left(spark, table, before)


def test_two_record_stores_expire_at_the_same_time(
    compactor: Compactor, spark: SparkSession, history: History, tmp_path: Path
) -> None:
    """Both from the beginning; one of them meets the commit of the other, and judges again."""
    table, second = history.table, elsewhere(compactor, tmp_path)
    before = readers(spark, table)
    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(lambda one: one.expire(table), (compactor, second)))
    assert {outcome.status for outcome in ended} <= {Status.COMMITTED, Status.NOTHING_TO_DO}, ended
    nothing_is_left(spark, table, before)


@pytest.mark.parametrize("calls_before", [0, 1], ids=["while it is planned", "while it is carried out"])
def test_somebody_else_deletes_what_is_being_read(
    compactor: Compactor,
    spark: SparkSession,
    history: History,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls_before: int,
) -> None:
    """Manifests of snapshots that the other one let go are missing: all is worked out anew, and nothing is due."""
    table, second = history.table, elsewhere(compactor, tmp_path)
    before = readers(spark, table)
    monkeypatch.setattr(expire, "_KEPT_IN_MIND", -1)
    work_out, calls, overtaken = expire.unreachable_files, list[str](), list[Status]()

    def late(*given: Any) -> UnreachableFiles:
        calls.append("worked out")
        if len(calls) == calls_before + 1:
            overtaken.append(second.expire(table).status)
        return work_out(*given)

    monkeypatch.setattr(expire, "unreachable_files", late)
    outcome = compactor.expire(table)
    assert overtaken == [Status.COMMITTED]
    assert (outcome.status, outcome.error) == (Status.NOTHING_TO_DO, None)
    nothing_is_left(spark, table, before)


@pytest.mark.parametrize("how", ["the next command", "a clean-up"])
def test_a_table_that_was_dropped_and_made_anew(
    compactor: Compactor, spark: SparkSession, history: History, how: str
) -> None:
    """Its dead expiry ends, and what was on its list stays: the new table has taken it up."""
    table, folder = history.table, location_of(spark, history.table)
    there = on_disk(spark, table)
    killed(warehouse(compactor), table, "landed", "expire")
    [dead] = compactor.runs(table, open_only=True)
    gone = sorted(path for path in there - reachable(spark, table) if path.endswith(".parquet"))
    assert gone
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (id bigint) USING iceberg LOCATION '{folder}'")
    iceberg = jvm(spark).org.apache.iceberg
    file = iceberg.DataFiles.builder(iceberg.PartitionSpec.unpartitioned()).withPath(gone[0]).withFormat("parquet")
    file = file.withFileSizeInBytes(Path(gone[0]).stat().st_size).withRecordCount(1).build()
    compactor.application.spark_catalog.table(table).table.newFastAppend().appendFile(file).commit()
    if how == "a clean-up":
        [seen_only] = compactor.cleanup(table)
        assert (seen_only.left_alone, seen_only.deleted, seen_only.files) == (False, False, ())
        assert compactor.runs(table, open_only=True) != []
        [swept] = compactor.cleanup(table, delete=True)
        assert (swept.status, swept.left_alone, swept.files) == ("superseded", False, ())
    else:
        outcome = compactor.expire(table)
        ended = outcome.resumed or outcome
        assert (ended.run_id, ended.status, ended.steps) == (dead.run_id, Status.SUPERSEDED, ())
    [ended_run] = [run for run in compactor.runs(table) if run.run_id == dead.run_id]
    assert ended_run.status is Status.SUPERSEDED
    assert ended_run.outcome is not None
    assert "is another table by now" in (ended_run.outcome.reason or "")
    assert compactor.runs(table, open_only=True) == []
    assert set(gone) <= on_disk(spark, table)
    assert compactor.cleanup(table, delete=True) == []
    assert compactor.expire(table).resumed is None
