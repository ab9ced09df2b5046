"""Statistics on real tables: computed, carried over a compaction, read by Spark's optimizer, and never lost."""

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping.statistics import carry_out_statistics, plan_statistics, statistics_age
from icepact.iceberg.commit import statistics
from icepact.iceberg.table.statistics import partition_files, sketch_files
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput, Cancelled, CommitUnknown, TableBusy
from icepact.model.statistics import ComputeStatistics, StatisticsResult
from tests.support.java import items, jvm
from tests.support.oracle import seen
from tests.support.tables import create

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Load = Callable[[str], IcebergTable]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compactions leave statistics alone here; that they keep them is shown in test_maintain.py."""
    monkeypatch.setattr("icepact.maintain.runs.keep_statistics", lambda *_: None)


@pytest.fixture
def load(compactor: Compactor) -> Load:
    """Load a table of the catalog."""
    return compactor.application.spark_catalog.table


@pytest.fixture
def optimizer(spark: SparkSession) -> Iterator[Callable[[str], dict[str, int]]]:
    """What Spark's cost-based optimizer knows of a table: distinct values by column."""

    def known(table: str) -> dict[str, int]:
        plan = spark.table(table)._jdf.queryExecution().optimizedPlan()
        text = str(plan.stats().attributeStats().toString())
        return {name: int(count) for name, count in re.findall(r"(\w+)#\d+L? -> ColumnStat\(Some\((\d+)\)", text)}

    spark.conf.set("spark.sql.cbo.enabled", "true")
    yield known
    spark.conf.unset("spark.sql.cbo.enabled")


def insert(spark: SparkSession, table: str, values: str, numbers: str) -> None:
    """Append a row for each number."""
    spark.sql(f"INSERT INTO {table} SELECT {values} FROM range({numbers})")


def plan(table: IcebergTable, **wishes: Any) -> ComputeStatistics | str:
    return plan_statistics(table, now=NOW, **wishes)


def planned(table: IcebergTable, **wishes: Any) -> ComputeStatistics:
    step = plan(table, **wishes)
    assert isinstance(step, ComputeStatistics), step
    return step


def carry_out(
    table: IcebergTable, step: ComputeStatistics, check: Callable[[], None] = lambda: None
) -> StatisticsResult:
    return carry_out_statistics(table, step, commit_id="run/1", check=check)


def compute(table: IcebergTable, **wishes: Any) -> StatisticsResult:
    """Plan and carry out; there must be something to do, and nothing left to do."""
    result = carry_out(table, planned(table, **wishes))
    assert isinstance(plan(table, **wishes), str)
    return result


def distinct(table: IcebergTable, path: str) -> dict[int, int]:
    """By field id, the distinct values that a Puffin file speaks of; every sketch in it is read."""
    java = jvm(table.session)
    reader = java.org.apache.iceberg.puffin.Puffin.read(table.table.io().newInputFile(path)).build()
    blobs = reader.fileMetadata().blobs()
    contents = table.java.listed(reader.readAll(blobs))
    reader.close()
    assert [pair.second().remaining() > 0 for pair in items(contents)] == [True] * blobs.size()
    return {blob.inputFields()[0]: int(blob.properties()["ndv"]) for blob in items(blobs)}


def of_head(table: IcebergTable) -> str | None:
    """The file of sketches that is registered for the head."""
    table.refresh()
    head = table.head_id("main")
    file = sketch_files(table).get(head) if head is not None else None
    return None if file is None else file.path


def of_partitions(table: IcebergTable) -> str | None:
    """The file of partition statistics that is registered for the head."""
    return partition_files(table).get(table.head_id("main") or 0)


def statistics_on_disk(table: IcebergTable) -> set[str]:
    """Files of sketches and of partition statistics below a table."""
    folder = Path(str(table.table.location()).removeprefix("file:")) / "metadata"
    names = {path.name for path in folder.iterdir() if not path.name.endswith(".crc")}
    return {name for name in names if name.endswith(".stats") or name.startswith("partition-stats-")}


# -- sketches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 3])
def test_sketches_outlive_a_compaction_and_the_snapshot_that_they_are_of(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    load: Load,
    optimizer: Callable[[str], dict[str, int]],
    version: int,
) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, word string, tags array<string>", version=version)
    insert(spark, name, "id, concat('w', id % 10), array('a')", "0, 100, 1, 4")
    table = load(name)
    first = table.head_id("main")
    assert statistics_age(table) is None
    step = planned(table)
    assert (step.table, step.partitions, step.columns) == ("compute", "keep", ("id", "word"))
    assert step.reason == "there are no sketches of distinct values"
    assert [kept.what for kept in step.kept] == ["column tags"]

    result = carry_out(table, step)
    assert (result.table, result.columns, result.of_snapshot, result.reason) == ("compute", 2, first, "")
    [computed] = result.files
    assert plan(table) == "the sketches are those of the head; it has no partition statistics: it is not partitioned"
    assert optimizer(name) == {"id": 100, "word": 10}

    assert compactor.compact(name, rewrite_all=True).snapshots
    table.refresh()
    assert of_head(table) is None
    assert optimizer(name) == {}
    step = planned(table)
    assert (step.table, step.bytes_to_read) == ("carry over", 0)
    result = carry_out(table, step)
    assert (result.table, result.columns, result.files, result.bytes_written) == ("carry over", 2, (computed,), 0)
    assert isinstance(plan(table), str)
    assert optimizer(name) == {"id": 100, "word": 10}

    spark.sql(f"CALL local.system.expire_snapshots('{name}', TIMESTAMP '2999-01-01 00:00:00', 1)").collect()
    table.refresh()
    assert not table.has_snapshot(first)
    assert of_head(table) == computed
    assert distinct(table, computed) == {1: 100, 2: 10}
    age = statistics_age(table)
    assert age is not None
    assert (age.computed_from, age.rows_changed, age.same_rows) == (first, None, True)
    assert isinstance(plan(table), str)

    insert(spark, name, "id, 'new', array('a')", "100, 150")
    step = planned(table)
    assert (step.table, step.snapshot_id) == ("compute", table.head_id("main"))
    carry_out(table, step)
    assert optimizer(name) == {"id": 150, "word": 11}


def test_a_little_change_is_carried_over_until_it_is_much(spark: SparkSession, namespace: str, load: Load) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, day int", "day")
    insert(spark, name, "id, cast(id % 2 as int)", "0, 100")
    table = load(name)
    result = compute(table, partition_statistics=False)
    first = result.of_snapshot
    for more, work in ((6, "carry over"), (4, "carry over"), (1, "compute")):
        insert(spark, name, "id + 1000, 7", str(more))
        step = planned(table, partition_statistics=False)
        assert (step.table, step.table_age and step.table_age.computed_from) == (work, first)
        carry_out(table, step)
    spark.sql(f"DELETE FROM {name} WHERE id < 20")
    age = statistics_age(load(name))
    assert age is not None
    assert (age.snapshots, age.rows_changed, age.rows) == (1, 20, 111)
    assert planned(table, partition_statistics=False, stale_after=0.1).table == "compute"
    assert planned(table, partition_statistics=False, stale_after=0.5).table == "carry over"


def test_columns_come_go_and_are_renamed(
    spark: SparkSession, namespace: str, load: Load, optimizer: Callable[[str], dict[str, int]]
) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, old string, gone int")
    insert(spark, name, "id, concat('w', id % 4), 7", "0, 40")
    table = load(name)
    computed = compute(table).files
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN old TO word")
    assert isinstance(plan(table), str)
    spark.sql(f"ALTER TABLE {name} ADD COLUMN extra int")
    assert isinstance(plan(table), str)

    spark.sql(f"ALTER TABLE {name} DROP COLUMN gone")
    step = planned(table)
    assert (step.table, step.reason) == ("carry over", "the table has lost 1 column that there are sketches of")
    assert carry_out(table, step).files == computed
    assert optimizer(name) == {"id": 40, "word": 4}
    assert isinstance(plan(table), str)

    spark.sql(f"INSERT INTO {name} VALUES (99, 'w9', 5)")
    step = planned(table)
    assert (step.table, step.reason) == ("compute", "there is no sketch of extra")
    result = carry_out(table, step)
    assert optimizer(name) == {"id": 41, "word": 5, "extra": 1}
    assert distinct(table, result.files[0]) == {1: 41, 2: 5, 4: 1}


def test_columns_under_another_name_in_the_snapshot_are_found(spark: SparkSession, namespace: str, load: Load) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, `a.b` string, `odd name` string")
    insert(spark, name, "id, 'x', concat('w', id % 3)", "0, 20")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN id TO number")
    table = load(name)
    step = planned(table)
    assert step.columns == ("id", "odd name")
    assert [kept.what for kept in step.kept] == ["column a.b"]
    assert distinct(table, carry_out(table, step).files[0]) == {1: 20, 3: 3}


def test_every_type_that_is_said_to_have_sketches_has_one(spark: SparkSession, namespace: str, load: Load) -> None:
    columns = (
        "a boolean, b int, c bigint, d float, e double, f decimal(20, 3), g date, h timestamp, i timestamp_ntz,"
        " j string, k binary, l struct<x: int>, m map<string, int>, n variant"
    )
    name = create(spark, f"{namespace}.t", columns, version=3)
    spark.sql(
        f"INSERT INTO {name} SELECT id % 2 = 0, id, id, id, id, id, date_add(date'2026-01-01', cast(id as int)),"
        " timestamp_seconds(id), cast(timestamp_seconds(id) as timestamp_ntz), cast(id as string),"
        " cast(cast(id as string) as binary), named_struct('x', 1), map('k', 1), parse_json('1') FROM range(5)"
    )
    table = load(name)
    step = planned(table)
    assert "".join(step.columns) == "abcdefghijk"
    assert [kept.what for kept in step.kept] == ["column l", "column m", "column n"]
    assert list(distinct(table, carry_out(table, step).files[0]).values()) == [2, *[5] * 10]


def test_chosen_columns_only(spark: SparkSession, namespace: str, load: Load) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, word string, at struct<day: int>")
    insert(spark, name, "id, 'x', named_struct('day', 1)", "0, 20")
    table = load(name)
    assert compute(table, columns=["word"]).columns == 1
    assert planned(table).reason == "there is no sketch of id"
    for wishes, why in (
        ({"columns": ["nothing"]}, f"{name} has no column 'nothing'; there is: id, word, at"),
        (
            {"columns": ["at.day"]},
            f"column 'at.day' of {name} is nested: there are statistics of top-level columns only",
        ),
        ({"columns": []}, "no columns are named: leave columns out for all that can have statistics"),
        ({"stale_after": 10}, "stale_after is 10: give a share of the rows from 0 to 1, such as 0.1"),
        ({"branch": "nothing"}, f"{name} has no branch 'nothing'; there is: main"),
    ):
        with pytest.raises(BadInput) as refused:
            plan(table, **wishes)
        assert str(refused.value) == why


def test_tables_without_rows_have_no_statistics(spark: SparkSession, namespace: str, load: Load) -> None:
    name = create(spark, f"{namespace}.t", "id bigint")
    table = load(name)
    assert plan(table) == f"{name} has no snapshot yet"
    assert statistics_age(table) is None
    spark.range(3).writeTo(name).append()
    assert plan(table, table_statistics=False, partition_statistics=False).startswith("neither")  # type: ignore[union-attr]
    spark.sql(f"DELETE FROM {name}")
    assert str(plan(table)).startswith("there are no rows in snapshot")


def test_branches_have_statistics_of_their_own(spark: SparkSession, namespace: str, load: Load) -> None:
    name = create(spark, f"{namespace}.t", "id bigint")
    spark.range(10).writeTo(name).append()
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    spark.sql(f"ALTER TABLE {name} CREATE TAG fixed")
    spark.sql(f"INSERT INTO {name}.branch_audit SELECT id + 50 FROM range(30)")
    table = load(name)
    on_branch = compute(table, branch="audit")
    assert on_branch.of_snapshot == table.head_id("audit")
    assert distinct(table, on_branch.files[0]) == {1: 40}
    assert statistics_age(table) is None
    on_main = compute(table)
    assert distinct(table, on_main.files[0]) == {1: 10}
    with pytest.raises(BadInput, match="is a tag, not a branch"):
        plan(table, branch="fixed")


# -- partition statistics -------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_partition_statistics_follow_appends_deletes_and_compactions(
    compactor: Compactor, spark: SparkSession, namespace: str, load: Load, version: int
) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, day int", "day", version=version)
    insert(spark, name, "id, cast(id % 3 as int)", "0, 60, 1, 2")
    table = load(name)

    def in_file() -> list[Any]:
        path = of_partitions(table)
        assert path is not None
        columns = ("partition.day", "data_record_count", "data_file_count", "position_delete_record_count")
        return sorted(tuple(row) for row in spark.read.parquet(path).select(*columns).collect() if row[2])

    def in_metadata() -> list[Any]:
        columns = ("partition.day", "record_count", "file_count", "position_delete_record_count")
        return sorted(tuple(row) for row in spark.table(f"{name}.partitions").select(*columns).collect())

    def step_of() -> ComputeStatistics:
        return planned(table, table_statistics=False)

    assert step_of().reason == "there are no partition statistics"
    compute(table, table_statistics=False)
    assert in_file() == in_metadata()
    assert str(plan(table, table_statistics=False)) == "the partition statistics are those of the head"

    insert(spark, name, "id, 7", "100, 130")
    spark.sql(f"DELETE FROM {name} WHERE id IN (3, 4, 110)")
    step = step_of()
    assert step.partition_age is not None
    assert (step.partition_age.snapshots, step.partition_age.rows_changed) == (2, 33)
    carry_out(table, step)
    assert in_file() == in_metadata()

    assert compactor.compact(name, rewrite_all=True).snapshots
    assert step_of().reason.endswith("of the files changed since")
    carry_out(table, step_of())
    assert in_file() == in_metadata()

    spark.sql(f"CALL local.system.rewrite_manifests('{name}')").collect()
    assert "0% of the rows and files changed since" in str(plan(table, table_statistics=False))

    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
    insert(spark, name, "id, 8", "200, 240")
    carry_out(table, step_of())
    assert in_file() == in_metadata()


def test_tables_that_lost_their_partitions_have_no_partition_statistics(
    spark: SparkSession, namespace: str, load: Load
) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, day int", "day")
    insert(spark, name, "id, 1", "5")
    spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD day")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN day")
    assert plan(load(name), table_statistics=False) == (
        "it has no partition statistics: the column of one of its partition fields was dropped"
    )


def test_both_kinds_are_registered_in_one_commit(spark: SparkSession, namespace: str, load: Load) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, day int", "day")
    insert(spark, name, "id, 1", "10")
    table = load(name)
    before = seen(spark, name)
    metadata = table.table.operations().current().previousFiles().size()
    result = compute(table)
    assert (result.table, result.partitions, len(result.files)) == ("compute", "compute", 2)
    assert table.table.operations().current().previousFiles().size() == metadata + 1
    assert seen(spark, name) == before
    assert statistics_on_disk(table) == {path.rsplit("/", 1)[-1] for path in result.files}


# -- others, and what goes wrong ------------------------------------------------------------------


class Between:
    """Calls of the check, of which one does something."""

    def __init__(self, call: int, action: Callable[[], object]) -> None:
        self.calls = 0
        self._call, self._action = call, action

    def __call__(self) -> None:
        """Count, and act if it is time."""
        self.calls += 1
        if self.calls == self._call:
            self._action()


@pytest.fixture
def table(spark: SparkSession, namespace: str, load: Load) -> IcebergTable:
    """A table of ten rows in two partitions, without statistics."""
    name = create(spark, f"{namespace}.t", "id bigint", "bucket(2, id)")
    spark.range(10).writeTo(name).append()
    return load(name)


def stop() -> None:
    raise Cancelled("somebody asked for it")


def test_a_step_is_judged_again_at_the_head(spark: SparkSession, table: IcebergTable) -> None:
    step = planned(table)
    spark.range(50, 60).writeTo(table.name).append()
    result = carry_out(table, step)
    assert result.of_snapshot == table.head_id("main") != step.snapshot_id
    assert carry_out(table, step).reason.startswith("the sketches are those of the head")
    assert len(statistics_on_disk(table)) == 2


def test_whoever_appends_meanwhile_loses_nothing(spark: SparkSession, table: IcebergTable) -> None:
    at_commit = Between(4, lambda: spark.range(50, 60).writeTo(table.name).append())
    result = carry_out(table, planned(table), at_commit)
    assert at_commit.calls == 4
    assert result.of_snapshot == table.parent_of(table.head_id("main") or 0)
    assert seen(spark, table.name)[0] == 20


def test_what_was_cancelled_leaves_no_file(table: IcebergTable) -> None:
    for call in range(1, 5):
        with pytest.raises(Cancelled):
            carry_out(table, planned(table), Between(call, stop))
    assert statistics_on_disk(table) == set()
    assert of_head(table) is None


def test_statistics_of_a_snapshot_that_expires_meanwhile_are_not_registered(
    spark: SparkSession, table: IcebergTable
) -> None:
    def append_and_expire() -> None:
        spark.range(50, 60).writeTo(table.name).append()
        spark.sql(f"CALL local.system.expire_snapshots('{table.name}', TIMESTAMP '2999-01-01 00:00:00', 1)").collect()

    step = planned(table)
    result = carry_out(table, step, Between(4, append_and_expire))
    assert (result.of_snapshot, result.reason) == (None, f"snapshot {step.snapshot_id} has expired meanwhile")
    assert statistics_on_disk(table) == set()
    assert sketch_files(table) == {}


def test_sketches_that_expire_meanwhile_are_not_carried_over(
    compactor: Compactor, spark: SparkSession, table: IcebergTable
) -> None:
    compute(table)
    compactor.compact(table.name, rewrite_all=True)
    step = planned(table)
    assert step.table == "carry over"
    expire = f"CALL local.system.expire_snapshots('{table.name}', TIMESTAMP '2999-01-01 00:00:00', 1)"
    result = carry_out(table, step, Between(4, lambda: spark.sql(expire).collect()))
    assert result.reason == "the sketches that were to be carried over have expired meanwhile"
    assert of_head(table) is None
    assert statistics_on_disk(table) == set()
    assert planned(table).table == "compute"


def test_what_others_need_outlives_a_cancelled_step(
    compactor: Compactor, spark: SparkSession, table: IcebergTable
) -> None:
    path, _ = compute(table).files
    compactor.compact(table.name, rewrite_all=True)
    faster = Between(3, lambda: compute(load_again(), table_statistics=False))

    def load_again() -> IcebergTable:
        return compactor.application.spark_catalog.table(table.name)

    step = planned(table)
    assert (step.table, step.partitions) == ("carry over", "compute")
    with pytest.raises(Cancelled):
        carry_out(table, step, lambda: stop() if faster.calls == 3 else faster())
    table.refresh()
    assert distinct(table, path) == {1: 10}
    assert of_partitions(table) is not None
    assert len(statistics_on_disk(table)) == 3
    result = carry_out(table, planned(table))
    assert (result.table, result.partitions, result.files) == ("carry over", "keep", (path,))


def test_sketches_whose_file_is_gone_are_computed_anew(table: IcebergTable) -> None:
    path, _ = compute(table).files
    Path(path.removeprefix("file:")).unlink()
    assert planned(table).reason == "the file of the sketches is gone from storage"
    compute(table)
    assert of_head(table) != path


class Catalog:
    """A table whose catalog does something around a commit."""

    def __init__(self, java: Any, around: Callable[[Callable[[], None]], None]) -> None:
        self._java, self._around = java, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)

    def operations(self) -> "Catalog":
        """Where it commits."""
        return Catalog(self._java.operations(), self._around)

    def commit(self, base: Any, updated: Any) -> None:
        """Called to register."""
        self._around(lambda: self._java.commit(base, updated))


@pytest.fixture
def around_commit(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StatisticsResult]:
    """Compute statistics of the table with a catalog that does something around the commit."""

    def computed(around: Callable[[Callable[[], None]], None]) -> StatisticsResult:
        catalog = Catalog(table.table, around)
        step = planned(table)
        try:
            return carry_out(table, step, Between(4, lambda: monkeypatch.setattr(table, "table", catalog)))
        finally:
            monkeypatch.undo()

    return computed


def test_an_answer_that_is_lost_is_looked_for(
    table: IcebergTable, around_commit: Callable[..., StatisticsResult]
) -> None:
    def lands(commit: Callable[[], None]) -> None:
        commit()
        raise ConnectionError("the answer is lost")

    result = around_commit(lands)
    assert result.files == (of_head(table), of_partitions(table))


def test_nothing_is_deleted_while_nobody_knows(
    table: IcebergTable, around_commit: Callable[..., StatisticsResult]
) -> None:
    def vanishes(commit: Callable[[], None]) -> None:
        raise ConnectionError("the answer is lost")

    with pytest.raises(CommitUnknown, match="nobody can tell whether the statistics are registered"):
        around_commit(vanishes)
    assert len(statistics_on_disk(table)) == 2


def test_a_conflict_is_tried_again(
    spark: SparkSession, table: IcebergTable, around_commit: Callable[..., StatisticsResult]
) -> None:
    tries: list[int] = []

    def conflicts_once(commit: Callable[[], None]) -> None:
        tries.append(1)
        if len(tries) == 1:
            spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('somebody' = 'else')")
        commit()

    result = around_commit(conflicts_once)
    assert len(tries) == 2
    assert result.files == (of_head(table), of_partitions(table))
    assert table.properties["somebody"] == "else"


def test_others_who_commit_all_the_while_are_left_alone(
    spark: SparkSession,
    table: IcebergTable,
    around_commit: Callable[..., StatisticsResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "_FIRST_WAIT", 0.001)
    tries = itertools.count()

    def conflicts(commit: Callable[[], None]) -> None:
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('somebody' = '{next(tries)}')")
        commit()

    with pytest.raises(TableBusy, match="its statistics could not be registered"):
        around_commit(conflicts)
    assert statistics_on_disk(table) == set()
