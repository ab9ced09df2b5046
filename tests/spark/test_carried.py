"""Deletes that are carried: data files are merged as they are, and readers see the same rows through new deletes."""

import json
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
from tests.support.messy import equality_delete, load
from tests.support.oracle import data_files, delete_files, seen
from tests.support.tables import create

CARRY: dict[str, Any] = {"deletes": "carry", "min_input_files": 2}


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    """Formats that know deletes."""
    return int(request.param)


@pytest.fixture
def days(spark: SparkSession, namespace: str, version: int) -> str:
    """Two partitions of three small files each, ids 0 to 299; a tenth of the rows is deleted."""
    columns, properties = "id bigint, day int, word string", {"write.merge.mode": "merge-on-read"}
    name = create(spark, f"{namespace}.days", columns, "day", version=version, properties=properties)
    for batch in range(3):
        append(spark, name, batch * 100, batch * 100 + 100)
    spark.sql(f"DELETE FROM {name} WHERE id % 20 IN (3, 6)")
    return name


LEFT = frozenset(i for i in range(300) if i % 20 not in (3, 6))


def append(spark: SparkSession, table: str, start: int, end: int) -> None:
    """Rows for both days."""
    rows = spark.range(start, end, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day", "concat('w', id % 7) AS word")
    rows.writeTo(table).append()


def ids(spark: SparkSession, table: str) -> frozenset[int]:
    """All rows; none is there twice."""
    found = [row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()]
    assert len(found) == len(set(found))
    return frozenset(found)


def fact(compactor: Compactor, table: str, outcome: Outcome, name: str) -> str | None:
    """What the snapshot's summary says."""
    return compactor.application.spark_catalog.table(table).fact(outcome.snapshots[-1], name)


def carried(compactor: Compactor, spark: SparkSession, table: str, *, lineage: bool = False, **given: Any) -> Outcome:
    """Compacted in one round; nothing is lost, nothing is back, and nothing is left to do or lying about."""
    before = seen(spark, table, lineage=lineage)
    plan = compactor.plan(table, **{**CARRY, **given})
    assert all(step.carries for step in plan.rewrites)
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.complete, outcome.late_deletes) == (Status.COMMITTED, True, 0), outcome
    assert seen(spark, table, lineage=lineage) == before
    assert outcome.rows_deleted == 0
    nothing_left(compactor, spark, table, outcome)
    return outcome


def nothing_left(compactor: Compactor, spark: SparkSession, table: str, outcome: Outcome) -> None:
    """Below the run's folder is what the head refers to, and nothing else."""
    loaded = compactor.application.spark_catalog.table(table)
    stored = {path.rsplit("/", 1)[-1] for path in listed_files(loaded, run_folder(loaded, outcome.run_id))}
    known = {path.rsplit("/", 1)[-1] for path in (*data_files(spark, table), *delete_files(spark, table))}
    assert stored
    assert stored <= known


def one_delete_for_each(spark: SparkSession, table: str, version: int) -> None:
    """Each data file has one delete at most, of the kind that the format wants."""
    rows = spark.sql(f"SELECT * FROM {table}.delete_files").collect()
    bound = [row["referenced_data_file"] for row in rows]
    assert len(set(bound)) == len(bound) == len(rows)
    assert {row["file_format"] for row in rows} == {"PUFFIN" if version > 2 else "PARQUET"}


def test_files_are_merged_with_their_deletes(
    compactor: Compactor, spark: SparkSession, days: str, version: int
) -> None:
    lineage = version > 2
    plan = compactor.plan(days, **CARRY)
    assert [(step.carries, step.deletes_reason) for step in plan.rewrites] == [(True, "as asked")] * 2
    assert plan.predicted.deletes_carried == plan.predicted.delete_records == 30
    assert "30 delete records carried" in plan.explain()
    assert {step["deletes_carried"] for step in plan.to_dict()["steps"]} == {15}
    outcome = carried(compactor, spark, days, lineage=lineage, verify="full")
    assert outcome.deletes_carried == 30
    assert fact(compactor, days, outcome, "carried-deletes") == "30"
    assert (fact(compactor, days, outcome, "late-deletes"), fact(compactor, days, outcome, "complete")) == (
        None,
        "true",
    )
    assert len(data_files(spark, days)) == len(delete_files(spark, days)) == 2
    one_delete_for_each(spark, days, version)
    assert ids(spark, days) == LEFT

    # nothing is planned until there is something new, whichever strategy asks
    for strategy in ("small-files", "deletes", "auto", "cost-optimized"):
        assert compactor.plan(days, **CARRY, strategy=strategy, scans_per_day=0.01).rewrites == (), strategy
    append(spark, days, 1000, 1010)
    for strategy in ("deletes", "auto"):
        again = compactor.plan(days, **CARRY, strategy=strategy, min_file_size="500", target_file_size="1kB")
        assert again.rewrites == (), (strategy, again.explain())

    # later deletes find the rows, later compactions the deletes
    spark.sql(f"DELETE FROM {days} WHERE id IN (1, 2)")
    assert ids(spark, days) == (LEFT | set(range(1000, 1010))) - {1, 2}
    outcome = carried(compactor, spark, days, lineage=lineage, rewrite_all=True)
    assert outcome.deletes_carried == 32
    assert ids(spark, days) == (LEFT | set(range(1000, 1010))) - {1, 2}

    # until somebody wants them gone
    erased = compactor.plan(days, erase=True, deletes="carry")
    assert {step.deletes_reason for step in erased.rewrites} == {"deleted values are to be erased"}
    outcome = compactor.apply(erased)
    assert (outcome.rows_deleted, outcome.deletes_carried) == (32, 0)
    assert ids(spark, days) == (LEFT | set(range(1000, 1010))) - {1, 2}
    assert delete_files(spark, days) == []
    assert compactor.plan(days, erase=True, deletes="carry").rewrites == ()


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_deletes_of_every_kind(compactor: Compactor, spark: SparkSession, namespace: str, granularity: str) -> None:
    """Positions of one file or of a whole partition, and keys, some of which others still need; an evolved schema."""
    name = f"{namespace}.t"
    columns, properties = "id int, day int, word string", {"write.delete.granularity": granularity}
    create(spark, name, columns, "day", version=2, properties=properties)
    append(spark, name, 0, 100)
    append(spark, name, 100, 200)
    equality_delete(spark, f"local.{name}", [{"id": 7}, {"id": 107}, {"id": 777}], columns=["id"], partition="day=1")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN id TYPE bigint")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN more string")
    spark.sql(f"INSERT INTO {name} SELECT id, cast(id % 2 as int), 'w', 'm' FROM range(200, 300)")
    spark.sql(f"DELETE FROM {name} WHERE id IN (5, 105, 205, 4)")
    left = set(range(300)) - {4, 5, 7, 105, 107, 205}
    assert ids(spark, name) == left
    outcome = carried(compactor, spark, name, verify="full")
    assert outcome.deletes_carried == 6
    assert ids(spark, name) == left
    one_delete_for_each(spark, name, 2)
    assert outcome.delete_files_removed == (5 if granularity == "file" else 3)


def test_where_no_delete_goes_one_moves(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Iceberg does not let a rewrite add deletes where it removes none: one that others need comes again as a copy,
    as old as it was; what it was before may expire."""
    name = f"{namespace}.t"
    create(spark, name, "id bigint, part int", "part", version=2)
    for first in (0, 100, 200):
        spark.range(first, first + 100, 1, 1).selectExpr("id", "0 AS part").writeTo(name).append()
    java = load(spark, f"local.{name}")
    java.updateSpec().removeField("part").commit()
    # global: it applies to files of both specs
    spark.sql(f"REFRESH TABLE {name}")
    for first in (1000, 1100, 1200):
        spark.range(first, first + 100, 1, 1).selectExpr("id", "0 AS part").writeTo(name).append()
    path = equality_delete(spark, f"local.{name}", [{"id": 5}, {"id": 1005}, {"id": 7777}], columns=["id"])
    left = {*range(300), *range(1000, 1300)} - {5, 1005}
    assert ids(spark, name) == left
    spark.range(7777, 7778, 1, 1).selectExpr("id", "0 AS part").writeTo(name).append()  # newer: it stays
    plan = compactor.plan(name, **CARRY, where="id >= 1000 AND id < 5000")
    assert [step.carries for step in plan.rewrites] == [True]
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.deletes_carried) == (Status.COMMITTED, 1)
    assert ids(spark, name) == left | {7777}
    now = delete_files(spark, name)
    assert len(now) == 2
    assert path not in {p.removeprefix("file:") for p in now}
    nothing_left(compactor, spark, name, outcome)
    snapshot = load(spark, f"local.{name}").currentSnapshot()
    assert snapshot.operation() == "replace"
    spark.sql(f"CALL local.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)").collect()
    assert ids(spark, name) == left | {7777}
    spark.sql(f"INSERT INTO {name} VALUES (5, 0)")  # newer than the delete, which is as old as it was
    assert ids(spark, name) == left | {5, 7777}
    assert compactor.compact(name, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, name) == left | {5, 7777}
    assert delete_files(spark, name) == []


def test_what_cannot_be_carried_is_applied(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Rows of old specs go into other partitions; a table with a sort order keeps it; a full rewrite leaves all out."""
    name = f"{namespace}.t"
    create(spark, name, "id bigint, day int, word string", "day", version=3)
    for first in (0, 100, 200):
        append(spark, name, first, first + 100)
    spark.sql(f"DELETE FROM {name} WHERE id IN (5, 105)")
    left = set(range(300)) - {5, 105}
    reasons: dict[str, dict[str, Any]] = {
        "everything is rewritten": {"deletes": "auto", "tier": "full"},
        "2 delete records on 150 rows are too many": {"deletes": "auto", "max_delete_ratio": 0.01},
        "method spark leaves deleted rows out": {"deletes": "carry", "method": "spark", "min_input_files": 2},
    }
    for reason, given in reasons.items():
        steps = compactor.plan(name, **given).rewrites
        assert reason in {step.deletes_reason for step in steps}
        assert not any(step.carries for step in steps)
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
    outcome = compactor.compact(name, deletes="carry")
    assert (outcome.status, outcome.rows_deleted, outcome.deletes_carried) == (Status.COMMITTED, 2, 0)
    assert ids(spark, name) == left


def test_a_table_says_so_itself(compactor: Compactor, spark: SparkSession, days: str) -> None:
    spark.sql(f"ALTER TABLE {days} SET TBLPROPERTIES ('icepact.deletes' = 'carry', 'icepact.min-input-files' = '2')")
    assert {step.carries for step in compactor.plan(days).rewrites} == {True}
    assert {step.carries for step in compactor.plan(days, deletes="apply").rewrites} == {False}
    # files so small are encoded anyway: to leave rows out costs nothing
    weighed = compactor.plan(days, deletes="auto")
    assert {step.carries for step in weighed.rewrites} == {False}
    assert "of scans are saved by it in" in weighed.rewrites[0].deletes_reason
    for deletes in ("carry", "auto"):
        judged, steps = compactor.judge(days, deletes=deletes).chosen, compactor.plan(days, deletes=deletes).rewrites
        assert [d.cost for d in judged] == [step.cost for step in steps]
        assert [d.gain for d in judged] == [step.gain for step in steps]
    outcome = compactor.compact(days)
    assert (outcome.deletes_carried, ids(spark, days)) == (30, LEFT)
    assert compactor.plan(days).rewrites == ()


def test_late_deletes_of_carried_groups(compactor: Compactor, spark: SparkSession, days: str, version: int) -> None:
    """One delete for each file says what was deleted before and what was deleted since."""
    plan = compactor.plan(days, **CARRY)
    spark.sql(f"DELETE FROM {days} WHERE id % 20 = 4")
    before = seen(spark, days, lineage=version > 2)
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert seen(spark, days, lineage=version > 2) == before
    assert ids(spark, days) == {i for i in LEFT if i % 20 != 4}
    assert (outcome.deletes_carried, outcome.late_deletes, outcome.complete) == (45, 15, False)
    assert (fact(compactor, days, outcome, "carried-deletes"), fact(compactor, days, outcome, "late-deletes")) == (
        "45",
        "15",
    )
    one_delete_for_each(spark, days, version)
    nothing_left(compactor, spark, days, outcome)
    assert {path for path in data_files(spark, days) if "-00-" not in path} == set()


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

    outcome = compactor.compact(days, **CARRY, progress=Meanwhile("attempting", merge, times=2))
    assert (outcome.status, len(merged)) == (Status.COMMITTED, 2)
    assert ids(spark, days) == {i + 1000 if i % 10 in merged else i for i in LEFT}
    assert (outcome.deletes_carried, outcome.late_deletes) == (90, 60)
    nothing_left(compactor, spark, days, outcome)


def test_late_keys_of_carried_groups(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """The outputs are as old as the pin, their deletes as new as the snapshot."""
    plan = compactor.plan(days, **CARRY, where="day = 1")
    equality_delete(spark, f"local.{days}", [{"id": 7}], columns=["id"], partition="day=1", metrics=True)
    append(spark, days, 400, 404)
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.deletes_carried, outcome.late_deletes) == (Status.COMMITTED, 15, 0)
    left = (LEFT | {400, 401, 402, 403}) - {7}
    assert ids(spark, days) == left
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == left


@pytest.mark.parametrize("what", ["resumed", "landed", "cleaned up"])
def test_killed_and_carried_on_with(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Its deletes are checkpointed with the units, and cleaned up with them."""

    def die() -> None:
        raise KeyboardInterrupt

    def lands_and_dies(*args: Any, **kwargs: Any) -> int:
        replace_files(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if what == "landed":
            patched.setattr(protocol, "replace_files", lands_and_dies)
        with pytest.raises(KeyboardInterrupt):
            compactor.compact(days, **CARRY, progress=Meanwhile("attempting", die if what != "landed" else int))
    assert ids(spark, days) == LEFT
    if what != "cleaned up":
        outcome = compactor.resume_dead(days)
        assert outcome is not None
        assert (outcome.status, outcome.deletes_carried) == (Status.COMMITTED, 30)
        nothing_left(compactor, spark, days, outcome)
        written = {path.rsplit("/", 1)[-1].split("-")[4] for path in data_files(spark, days)}
        assert written == {"00"}  # nothing was written again
    clean_up_later(compactor, days)
    assert ids(spark, days) == LEFT
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == LEFT


def test_commits_of_their_own_and_a_rollback(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Each group in a commit; taken back, the table is as it was, and files with their deletes go."""
    outcome = carried(compactor, spark, days, max_commits=2)
    assert (len(outcome.snapshots), outcome.deletes_carried) == (2, 30)
    compactor.rollback(days, outcome.run_id)
    assert ids(spark, days) == LEFT
    assert len(data_files(spark, days)) == 6
    assert carried(compactor, spark, days).deletes_carried == 30


def test_hostile_vectors_are_refused_by_name(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A checksum that does not fit: nothing is committed."""
    name = f"{namespace}.t"
    create(spark, name, "id bigint", version=3)
    for first in (0, 100):
        spark.range(first, first + 100, 1, 1).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id = 5")
    [path] = delete_files(spark, name)
    local = path.removeprefix("file:")
    offset = spark.sql(f"SELECT content_offset, content_size_in_bytes FROM {name}.delete_files").collect()[0]
    with open(local, "r+b") as file:
        file.seek(offset[0] + offset[1] - 1)
        last = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([last ^ 1]))
    before = data_files(spark, name)
    outcome = compactor.compact(name, **CARRY)
    assert outcome.status is Status.FAILED
    assert path.rsplit("/", 1)[-1] in outcome.groups[0].reason
    assert "checksum" in outcome.groups[0].reason
    assert data_files(spark, name) == before
    assert json.loads(json.dumps(outcome.to_dict()))["deletes_carried"] == 0
