"""Saved plans on real tables: what changed since is refused, the rest is done, and no row differs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.entrypoints.cli.main import _guarded
from icepact.model.errors import BadInput, TableNotFound
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.messy import equality_delete, load
from tests.support.oracle import data_files, seen
from tests.support.reach import on_disk
from tests.support.tables import create

DAYS = 4
OPTIONS: dict[str, Any] = {"min_input_files": 2}


@pytest.fixture
def days(spark: SparkSession, namespace: str) -> str:
    """Four partitions of three small files each."""
    name = create(spark, f"{namespace}.days", "id bigint, day int", "day")
    for batch in range(3):
        rows = spark.range(batch * 40, batch * 40 + 40, 1, 1).selectExpr("id", f"cast(id % {DAYS} as int) AS day")
        rows.sortWithinPartitions("day").writeTo(name).append()
    return name


def saved(compactor: Compactor, table: str, folder: Path, **given: Any) -> Path:
    """A plan in a file."""
    file = folder / "plan.json"
    compactor.save_plan(compactor.plan(table, **OPTIONS, **given), file)
    return file


def apply(compactor: Compactor, file: Path) -> Outcome:
    """As `icepact apply` does it."""
    return compactor.apply(compactor.load_plan(file))


def by_day(outcome: Outcome) -> dict[str, str]:
    """What became of each partition."""
    return {group.partition: "done" if group.committed else group.reason for group in outcome.groups}


def test_what_changed_is_refused_and_the_rest_is_done(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path
) -> None:
    """Day 0 gets a position delete, day 1 an equality delete, day 2 is compacted by somebody else, and day 3 only gets
    another file."""
    file = saved(compactor, days, tmp_path)
    spark.sql(f"DELETE FROM {days} WHERE id = 4")
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1")
    compactor.compact(days, where="day = 2", **OPTIONS)
    spark.sql(f"INSERT INTO {days} VALUES (1003, 3)")
    before, live = seen(spark, days), data_files(spark, days)

    outcome = apply(compactor, file)
    assert outcome.status is Status.PARTLY_COMMITTED
    found = by_day(outcome)
    assert found["day=3"] == "done"
    assert found["day=0"].startswith("refused: the deletes that apply to ")
    assert found["day=1"].startswith("refused: 1 new equality deletes apply to ")
    assert found["day=2"].startswith("refused: 3 inputs are gone, first ")
    assert seen(spark, days) == before
    after = data_files(spark, days)
    assert (outcome.files_before, outcome.files_after) == (len(live), len(after))
    assert len(after) == len(live) - 2
    [own] = [run for run in compactor.runs(days, limit=1) if run.run_id == outcome.run_id]
    assert own.outcome is not None
    assert {group.reason for group in own.outcome.groups if not group.committed} == {
        reason for reason in found.values() if reason != "done"
    }

    # a refused group has not failed: the next plan takes it up
    assert compactor.compact(days, **OPTIONS).status is Status.COMMITTED
    assert seen(spark, days) == before
    assert compactor.plan(days, **OPTIONS).rewrites == ()


def test_a_plan_that_is_untouched_is_as_good_as_a_fresh_one(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path
) -> None:
    before = seen(spark, days)
    outcome = apply(compactor, saved(compactor, days, tmp_path))
    assert (outcome.status, len(outcome.groups)) == (Status.COMMITTED, DAYS)
    assert seen(spark, days) == before
    assert compactor.plan(days, **OPTIONS).rewrites == ()
    [complete] = spark.sql(
        f"SELECT summary['icepact.complete'] FROM {days}.snapshots WHERE operation = 'replace'"
    ).collect()
    assert complete[0] == "true"


def test_its_snapshot_may_have_expired(compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path) -> None:
    """The inputs are what counts. What was written since was not looked at, so the table is not settled."""
    file = saved(compactor, days, tmp_path)
    spark.sql(f"INSERT INTO {days} VALUES (1000, 0), (1004, 0)")
    spark.sql(f"INSERT INTO {days} VALUES (1008, 0)")
    before = seen(spark, days)
    load(spark, f"local.{days}").expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()
    outcome = apply(compactor, file)
    assert (outcome.status, len(outcome.groups)) == (Status.COMMITTED, DAYS)
    assert seen(spark, days) == before
    assert [step.partition for step in compactor.plan(days, **OPTIONS).rewrites] == ["day=0"]


def test_nothing_is_left(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the command line, twice: the second time everything is gone. That is no failure."""
    file = tmp_path / "plan.json"
    here = ["--warehouse", str(compactor.catalog.embedded)]
    before = seen(spark, days)
    assert _guarded([*here, "plan", days, "--min-input-files", "2", "--out", str(file)]) == 0
    assert f"icepact apply {file}" in capsys.readouterr().err
    assert _guarded([*here, "--json", "apply", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "committed"
    assert _guarded([*here, "apply", str(file), "--yes"]) == 0
    told = capsys.readouterr()
    assert "superseded" in told.out
    assert told.out.count("not done: day=") == DAYS
    assert "nothing of " in told.err
    assert "was left to do: the table has moved on; plan again" in told.err
    spark.sql(f"REFRESH TABLE {days}")  # the commands had a session of their own
    assert (seen(spark, days), len(data_files(spark, days))) == (before, DAYS)


def test_another_table_of_that_name(compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path) -> None:
    file = saved(compactor, days, tmp_path)
    spark.sql(f"DROP TABLE {days} PURGE")
    with pytest.raises(TableNotFound, match=r"plan\.json is of a table that is not there: no table"):
        apply(compactor, file)
    create(spark, days, "id bigint, day int", "day")
    with pytest.raises(BadInput, match=rf"plan\.json is of another table with the name {days} \(uuid .*: plan again"):
        apply(compactor, file)


def test_another_catalog_with_the_same_table(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path
) -> None:
    """A plan that was made through one catalog is carried out through another that has the table."""
    file = saved(compactor, days, tmp_path)
    metadata = spark.sql(f"SELECT file FROM {days}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1").first()
    assert metadata is not None
    other = Compactor(warehouse=tmp_path / "other")
    other.spark.sql(f"CREATE NAMESPACE {days.split('.')[0]}")
    other.spark.sql(f"CALL local.system.register_table(table => '{days}', metadata_file => '{metadata[0]}')")
    before = seen(other.spark, days)
    assert other.apply(other.load_plan(file)).status is Status.COMMITTED
    assert seen(other.spark, days) == before
    assert len(data_files(other.spark, days)) == DAYS
    assert len(data_files(spark, days)) == 3 * DAYS


def test_a_table_that_is_partitioned_otherwise_by_now(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path
) -> None:
    file = saved(compactor, days, tmp_path)
    spark.sql(f"ALTER TABLE {days} ADD PARTITION FIELD bucket(2, id)")
    before = seen(spark, days)
    outcome = apply(compactor, file)
    assert (outcome.status, outcome.snapshots) == (Status.SUPERSEDED, ())
    assert all(g.reason.startswith("refused: the table is partitioned by spec 1 now") for g in outcome.groups)
    assert seen(spark, days) == before


def test_the_budget_is_that_of_the_hour_in_which_it_is_carried_out(
    compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path
) -> None:
    size = sum(row[0] for row in spark.sql(f"SELECT file_size_in_bytes FROM {days}.files").collect())
    wishes: dict[str, Any] = {"max_bytes_per_hour": size}
    file = saved(compactor, days, tmp_path, **wishes)
    assert len(compactor.load_plan(file).plan.rewrites) == DAYS
    before = seen(spark, days)
    compactor.compact(days, where="day = 0", **OPTIONS, **wishes)
    spark.sql(f"INSERT INTO {days} VALUES (1001, 1)")
    compactor.compact(days, where="day = 1", **OPTIONS, **wishes)
    spent = sum(group.bytes_in for run in compactor.runs(days) if run.outcome for group in run.outcome.groups)
    outcome = apply(compactor, file)
    done = sum(group.bytes_in for group in outcome.groups if group.committed)
    assert 0 < done <= size - spent
    found = by_day(outcome)
    assert found["day=0"].startswith("refused: 3 inputs are gone")
    held = [reason for reason in found.values() if reason.startswith("over the budget (max_bytes_per_hour ")]
    assert len(held) == 1
    assert seen(spark, days)[0] == before[0] + 1


def test_no_secret_is_in_the_file(compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path) -> None:
    spark.sql(f"ALTER TABLE {days} SET TBLPROPERTIES ('s3.secret-access-key' = 'hush', 'contact' = 'hush')")
    text = saved(compactor, days, tmp_path).read_text()
    assert "hush" not in text
    assert "secret" not in text
    assert not any(str(value) in text for key, value in compactor.catalog.properties.items() if "uri" in key)


def test_housekeeping_is_saved_and_carried_out_too(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each operation, by the command line; what deletes is only shown where nobody is asked and nobody says yes."""
    table = create(spark, f"{namespace}.old", "id bigint, day date", "day")
    for first in (0, 10, 20):
        rows = spark.range(first, first + 10, 1, 1).selectExpr("id", "date_add(date '2020-01-01', int(id % 2)) AS day")
        rows.sortWithinPartitions("day").writeTo(table).append()
    before = seen(spark, table)
    time.sleep(0.02)
    young = ["--older-than", "0.01s", "--allow-young"]
    wishes = {
        "statistics": [],
        "manifests": [],
        "tags": ["--period", "hourly", "--max-delay", "2h"],
        "expire": young,
        "orphans": young,
        "ttl": ["--column", "day", "--keep", "365d"],
    }
    here = ["--warehouse", str(compactor.catalog.embedded), "--json"]
    for operation, words in wishes.items():
        file, there = tmp_path / f"{operation}.json", on_disk(spark, table)
        assert _guarded([*here, operation, table, *words, "--out", str(file)]) == 0, operation
        capsys.readouterr()
        assert _guarded([*here, "apply", str(file)]) == 0, operation
        takes_away = operation in ("expire", "ttl")  # there are no orphans
        assert ("say --yes" in capsys.readouterr().err) == takes_away, operation
        if takes_away:
            assert (there <= on_disk(spark, table), seen(spark, table)) == (True, before), operation
            assert _guarded([*here, "apply", str(file), "--yes"]) == 0, operation
            assert json.loads(capsys.readouterr().out)["status"] == "committed"
        spark.sql(f"REFRESH TABLE {table}")
        assert (there <= on_disk(spark, table)) == (operation != "expire"), operation
        assert seen(spark, table) == ((0, None) if operation == "ttl" else before), operation
    done = {run.outcome.operation for run in compactor.runs(table) if run.outcome is not None}
    assert done == set(wishes)
