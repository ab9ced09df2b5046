"""Expiry on real tables: what a snapshot, branch or tag can reach stays, and nothing else of what expired does."""

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.commit.expire import commit_expiry
from icepact.iceberg.table.reachability import UnreachableFiles
from icepact.model.errors import BadInput
from icepact.model.expiry import ExpireResult
from icepact.model.status import Status
from tests.support.histories import History
from tests.support.oracle import seen
from tests.support.reach import on_disk, reachable

YOUNG: dict[str, Any] = {"older_than": "0.01s", "allow_young": True}


def readers(spark: SparkSession, table: str) -> dict[str, tuple[int, Any]]:
    """What is read at every branch and tag."""
    refs = [row[0] for row in spark.sql(f"SELECT name FROM {table}.refs").collect()]
    return {name: seen(spark, table, branch=name) for name in refs}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.matrix) for seed in range(2, 20))])
def test_nothing_that_can_be_reached_goes_and_nothing_else_stays(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    version: int,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What goes is worked out in this process first, then by tasks of Spark."""
    history = History(compactor, f"{namespace}.t", seed, version=version)
    table = history.table
    for most in (1_000_000, 0):
        monkeypatch.setattr("icepact.iceberg.table.reachability.MOST_HERE", most)
        happened = history.happen(9)
        before, was_there, needed = readers(spark, table), on_disk(spark, table), reachable(spark, table)
        time.sleep(0.02)
        planned = compactor.expire(table, **YOUNG, dry_run=True)
        assert on_disk(spark, table) == was_there
        done = compactor.expire(table, **YOUNG)
        assert done.status in (Status.COMMITTED, Status.NOTHING_TO_DO), (done.error, happened)
        there, still_needed = on_disk(spark, table), reachable(spark, table)
        assert still_needed <= there, happened
        # what nobody needed before is for the removal of orphans
        assert there - still_needed <= was_there - needed, happened
        assert readers(spark, table) == before, happened
        assert [s.to_dict()["files"] for s in planned.steps] == [s.to_dict()["files"] for s in done.steps]
        assert compactor.expire(table, **YOUNG).status is Status.NOTHING_TO_DO


def test_what_stays_is_named_and_what_is_young_is_not_asked_for(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    history = History(compactor, f"{namespace}.t", 1, version=2)
    table = history.table
    history.append()
    spark.sql(f"ALTER TABLE {table} CREATE TAG audit AS OF VERSION {_first(spark, table)}")
    history.append()
    history.stage()
    time.sleep(0.02)
    [result] = compactor.expire(table, **YOUNG, dry_run=True).steps
    assert isinstance(result, ExpireResult)
    why = sorted(entry.why.split(" as ")[0] for entry in result.kept)
    assert why == ["staged", "tag audit", "the head of branch main"]
    assert compactor.expire(table).status is Status.NOTHING_TO_DO  # all are younger than 5 days
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '1')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep' = '2')")
    history.append()
    [result] = compactor.expire(table).steps
    assert result.to_dict()["snapshots_expired"] == 1  # by the table's own age, which needs no floor


def _first(spark: SparkSession, table: str) -> int:
    return int(spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()[0][0])


def test_bad_input_deletes_nothing(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    there = on_disk(spark, table)
    for given, words in (
        ({"older_than": "1h"}, "--allow-young"),
        ({"older_than": "-5d"}, "expire_older_than"),
        ({"older_than": "soon"}, "expire_older_than"),
        ({"retain_last": 0}, "expire_retain_last"),
    ):
        with pytest.raises(BadInput, match=words):
            compactor.expire(table, **given)
    with pytest.raises(BadInput, match="no table"):
        compactor.expire(f"{namespace}.unknown")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    with pytest.raises(BadInput, match=r"gc\.enabled"):
        compactor.expire(table, **YOUNG)
    assert there <= on_disk(spark, table)


def test_a_commit_in_between_is_judged_anew(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag on a snapshot that was about to expire, a moment before the commit."""
    history = History(compactor, f"{namespace}.t", 1, version=2)
    table = history.table
    history.append()
    first, calls = _first(spark, table), list[Any]()

    def tagged_first(*args: Any) -> None:
        if not calls:
            spark.sql(f"ALTER TABLE {table} CREATE TAG late AS OF VERSION {first}")
        calls.append(args)
        commit_expiry(*args)

    monkeypatch.setattr("icepact.housekeeping.expire.commit_expiry", tagged_first)
    time.sleep(0.02)
    compactor.expire(table, **YOUNG)
    assert len(calls) <= 2
    assert seen(spark, table, branch="late")[0] == 20
    assert reachable(spark, table) <= on_disk(spark, table)


def test_a_conflict_is_one_though_no_snapshot_goes(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag that has outlived its age, on a snapshot that stays."""
    table, calls = History(compactor, f"{namespace}.t", 1, version=2).table, list[Any]()
    spark.sql(f"ALTER TABLE {table} CREATE TAG passed")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.max-ref-age-ms' = '1')")

    def others_first(*args: Any) -> None:
        if not calls:
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
        calls.append(args)
        commit_expiry(*args)

    monkeypatch.setattr("icepact.housekeeping.expire.commit_expiry", others_first)
    [result] = compactor.expire(table, **YOUNG).steps
    assert result.to_dict()["refs_removed"] == ["passed"]
    assert [row[0] for row in spark.sql(f"SELECT name FROM {table}.refs").collect()] == ["main"]


def test_a_table_that_is_protected_meanwhile_keeps_everything(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, calls = History(compactor, f"{namespace}.t", 1, version=2), list[Any]()
    table, there = history.table, on_disk(spark, history.table)
    history.overwrite()

    def protected_first(*args: Any) -> None:
        calls.append(args)
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled' = 'false')")
        commit_expiry(*args)

    monkeypatch.setattr("icepact.housekeeping.expire.commit_expiry", protected_first)
    time.sleep(0.02)
    outcome = compactor.expire(table, **YOUNG)
    assert (outcome.status, len(calls)) == (Status.FAILED, 1)
    assert "gc.enabled" in (outcome.error or "")
    assert there <= on_disk(spark, table)


def test_a_table_that_cannot_be_read_after_the_commit_is_carried_on_with(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(compactor, f"{namespace}.t", 1, version=2)
    history.overwrite()
    table, orphans = history.table, on_disk(spark, history.table) - reachable(spark, history.table)

    def refused(self: Any) -> None:
        raise OSError("the store is gone")

    time.sleep(0.02)
    with monkeypatch.context() as patched:
        patched.setattr(UnreachableFiles, "look_again", refused)
        failed = compactor.expire(table, **YOUNG)
    assert (failed.status, "the store is gone" in (failed.error or "")) == (Status.UNKNOWN, True)
    assert on_disk(spark, table) - reachable(spark, table) > orphans
    compactor.expire(table, **YOUNG)
    assert on_disk(spark, table) - reachable(spark, table) <= orphans


def test_a_run_that_cannot_delete_is_carried_on_with(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(compactor, f"{namespace}.t", 2, version=2)
    table = history.table
    history.happen(10)
    time.sleep(0.02)
    orphans = on_disk(spark, table) - reachable(spark, table)

    def refused(self: Any, paths: Any) -> list[str]:
        raise OSError("the store is gone")

    with monkeypatch.context() as patched:
        patched.setattr(BulkDeletion, "delete", refused)
        failed = compactor.expire(table, **YOUNG)
    assert failed.status is Status.UNKNOWN
    assert "the store is gone" in (failed.error or "")
    garbage = on_disk(spark, table) - reachable(spark, table) - orphans
    assert garbage
    history.append()  # life goes on
    compactor.expire(table, **YOUNG)
    assert compactor.runs(table, open_only=True) == []
    assert on_disk(spark, table) & garbage == set()
    assert reachable(spark, table) <= on_disk(spark, table)


def test_a_clean_up_deletes_what_a_dead_run_wrote_down(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(compactor, f"{namespace}.t", 2, version=2)
    table = history.table
    history.overwrite()
    orphans = on_disk(spark, table) - reachable(spark, table)
    time.sleep(0.02)

    def killed(self: Any, paths: Any) -> list[str]:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(BulkDeletion, "delete", killed)
        assert compactor.expire(table, **YOUNG).status is Status.UNKNOWN
    garbage = on_disk(spark, table) - reachable(spark, table) - orphans
    [found] = compactor.cleanup(table)
    assert (set(found.files), found.deleted, found.failed) == (garbage, False, False)
    [done] = compactor.cleanup(table, delete=True)
    assert (set(done.files), done.deleted) == (garbage, True)
    assert on_disk(spark, table) - reachable(spark, table) == orphans
    assert reachable(spark, table) <= on_disk(spark, table)
    assert list(compactor.cleanup(table)) == []
    history.overwrite()
    time.sleep(0.02)
    compactor.expire(table, **YOUNG)
    assert not any(result.failed for result in compactor.cleanup(table, delete=True))


def test_a_list_that_is_wrong_by_now_deletes_nothing_that_is_needed(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """What a dead run wrote down is compared with the table as it is, file by file."""
    history = History(compactor, f"{namespace}.t", 3, version=3)
    table = compactor.application.spark_catalog.table(history.table)
    history.happen(8)
    table.refresh()
    ids = [int(row[0]) for row in spark.sql(f"SELECT snapshot_id FROM {history.table}.snapshots").collect()]
    everything = list(UnreachableFiles.of_snapshots(table, ids))
    assert len(everything) > 5
    left = UnreachableFiles.still_unreachable(table, everything)
    needed = reachable(spark, history.table)
    assert [file for file in left if file.path in needed] == []
