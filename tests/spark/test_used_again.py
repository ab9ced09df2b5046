"""Numbers, files and names that are used again: what was known of the old ones must not be taken for the new."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.replace import replace_files
from icepact.maintain.aftercare import resume_dead
from icepact.model.errors import CommitUnknown
from icepact.model.progress import Silent
from icepact.model.status import Status
from icepact.record.sql import SqlStore
from tests.spark.test_ways_to_hurt import (
    all_there,
    append,
    before_the_commit,
    call,
    head,
    ids,
    make_days,
    metadata_of,
    point_to,
)
from tests.support.meanwhile import Meanwhile
from tests.support.oracle import data_files, seen


@pytest.fixture
def days(spark: SparkSession, namespace: str) -> str:
    """Two partitions of three small files each, ids 0 to 29; odd ones on day 1."""
    return make_days(spark, namespace, 2)


def edit_metadata(
    compactor: Compactor, spark: SparkSession, table: str, change: Callable[[dict[str, Any]], object]
) -> None:
    """As another catalog, or an old version of Iceberg, would have written it."""
    told = metadata_of(spark, table)
    document = json.loads(Path(told.removeprefix("file:")).read_text())
    change(document)
    edited = told.replace(".metadata.json", "-edited.metadata.json")
    Path(edited.removeprefix("file:")).write_text(json.dumps(document))
    point_to(compactor, spark, table, edited)


@pytest.mark.parametrize("when", ["proven", "commit"])
def test_a_partition_spec_gets_the_number_of_one_that_was_removed(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """An expiry removes specs that no file has yet. Values of the old one must not be taken for those of the new: a
    column that is an identity partition is not even read from the files."""
    table = f"{namespace}.specs"
    spark.sql(f"CREATE TABLE {table} (id bigint, day int, key bigint) USING iceberg")
    for start in (0, 10, 20):
        append(spark, table, start, start + 10)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD day")
    before = seen(spark, table)

    def use_again() -> None:
        spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD day")
        older = "older_than => TIMESTAMP '2100-01-01 00:00:00'"
        call(spark, f"expire_snapshots(table => '{table}', {older}, clean_expired_metadata => true)")
        spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD key")

    if when == "commit":
        before_the_commit(monkeypatch, use_again)
    outcome = compactor.compact(table, progress=Meanwhile(when, use_again))
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert seen(spark, table) == before


def test_snapshots_need_not_be_in_the_order_in_which_they_were_made(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some catalogs keep them in no order at all: a commit that was rolled back is found all the same, and its files
    are not committed once more."""
    before, pending = head(spark, days), [True]

    def lands_and_is_taken_back(*args: Any, **kwargs: Any) -> int:
        landed = replace_files(*args, **kwargs)
        if pending:
            pending.pop()
            call(spark, f"rollback_to_snapshot('{days}', {before})")
            edit_metadata(compactor, spark, days, lambda document: document["snapshots"].reverse())
            raise CommitUnknown("no answer")
        return landed

    monkeypatch.setattr(protocol, "replace_files", lands_and_is_taken_back)
    assert compactor.compact(days).status is Status.COMMITTED
    added = spark.sql(f"SELECT data_file.file_path FROM {days}.all_entries WHERE status = 1").collect()
    paths = [row[0] for row in added if "/icepact-" in row[0]]
    assert len(paths) == len(set(paths)) == 4
    assert ids(spark, days) == list(range(30))


def test_a_copy_of_the_record_store_is_used_elsewhere(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path
) -> None:
    """A machine was copied while it worked. The copy takes the run for dead and commits its files; the original finds
    its inputs gone, has never tried to commit, and must not delete what is live."""

    def resume_in_the_copy() -> None:
        assert compactor.catalog.embedded is not None
        store, copy = compactor.catalog.embedded / "icepact.db", tmp_path / "icepact.db"
        with closing(sqlite3.connect(store)) as original, closing(sqlite3.connect(copy)) as made:
            original.backup(made)
            made.execute("DELETE FROM leases")
            made.commit()
        outcome = resume_dead(compactor.application.spark_catalog, days, SqlStore.in_file(copy), Silent())
        assert outcome is not None
        assert outcome.status is Status.COMMITTED

    assert compactor.compact(days, progress=Meanwhile("proven", resume_in_the_copy)).status is Status.SUPERSEDED
    spark.sql(f"REFRESH TABLE {days}")
    assert all_there(spark, days)
    assert ids(spark, days) == list(range(30))


def test_a_run_is_not_complete_once_one_of_its_commits_was_rolled_back(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    before = head(spark, days)
    back = Meanwhile("committed", lambda: call(spark, f"rollback_to_snapshot('{days}', {before})"))
    outcome = compactor.compact(days, max_commits=2, progress=back)
    assert outcome.status is Status.PARTLY_COMMITTED
    assert [group.reason for group in outcome.groups if not group.committed] == [
        f"superseded: snapshot {outcome.snapshots[0]} was rolled back"
    ]
    assert compactor.compact(days).status is Status.COMMITTED
    assert (len(data_files(spark, days)), ids(spark, days)) == (2, list(range(30)))


@pytest.mark.parametrize("step", ["proven", "attempting"])
def test_another_table_has_the_name_by_now(compactor: Compactor, spark: SparkSession, days: str, step: str) -> None:
    def another() -> None:
        spark.sql(f"ALTER TABLE {days} RENAME TO {days}2")
        spark.sql(f"CREATE TABLE {days} (id bigint, day int, key bigint) USING iceberg")
        append(spark, days, 100, 102)

    outcome = compactor.compact(days, progress=Meanwhile(step, another))
    assert outcome.status in (Status.FAILED, Status.UNKNOWN)
    assert "another table has its name by now" in (outcome.error or "")
    assert "UUID" not in (outcome.error or "")
    assert (ids(spark, days), ids(spark, f"{days}2")) == ([100, 101], list(range(30)))


def test_a_very_old_table_has_no_uuid(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = make_days(spark, namespace, 1)
    edit_metadata(compactor, spark, table, lambda document: document.pop("table-uuid"))
    assert compactor.compact(table).status is Status.COMMITTED
    assert (len(data_files(spark, table)), ids(spark, table)) == (2, list(range(30)))
