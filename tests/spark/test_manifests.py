"""Manifests are rewritten and nothing else changes: what readers see, what entries say, what old snapshots have."""

import datetime
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping.manifests import carry_out_manifests, plan_manifests
from icepact.iceberg.commit import rewrite_manifests
from icepact.iceberg.commit.replace import manifests_of
from icepact.iceberg.commit.rewrite_manifests import StagedManifests
from icepact.iceberg.table.manifest_facts import manifests_at
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.table import IcebergTable
from icepact.model.documents import from_json, to_json
from icepact.model.errors import BadInput, Cancelled, CommitUnknown
from icepact.model.manifests import ManifestFacts, ManifestsResult, RewriteManifests
from tests.support.java import int_array, jvm
from tests.support.messy import equality_delete
from tests.support.oracle import seen
from tests.support.tables import create

NOW = datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC)
COMMIT_ID = "run-1/manifests/1"


def opened(compactor: Compactor, name: str) -> IcebergTable:
    return compactor.application.spark_catalog.table(name)


def planned(table: IcebergTable, **options: Any) -> RewriteManifests:
    step = plan_manifests(table, branch="main", now=NOW, **options)
    assert isinstance(step, RewriteManifests), step
    return from_json(RewriteManifests, to_json(step))


def carried_out(
    table: IcebergTable, step: RewriteManifests, check: Callable[[], None] = lambda: None
) -> ManifestsResult:
    return carry_out_manifests(table, step, commit_id=COMMIT_ID, check=check)


def live(table: IcebergTable) -> list[ManifestFacts]:
    table.refresh()
    return manifests_at(table, table.head("main"))


def entries(spark: SparkSession, name: str) -> list[str]:
    """Every live entry: whose it is, its numbers, and all that is known of its file."""
    spark.sql(f"REFRESH TABLE {name}")
    columns = "snapshot_id, sequence_number, file_sequence_number, data_file.*"
    rows = spark.sql(f"SELECT {columns} FROM {name}.entries WHERE status < 2").collect()
    return sorted(str(sorted(row.asDict(recursive=True).items(), key=lambda item: item[0])) for row in rows)


def stored(table: IcebergTable) -> set[str]:
    """Manifests and lists of them on storage, by name."""
    folder = Path(str(table.table.location()).removeprefix("file:")) / "metadata"
    return {path.name for path in folder.glob("*.avro")}


def staged_files(table: IcebergTable) -> set[str]:
    return {name for name in stored(table) if name.startswith("icepact-")}


def nothing_leaked(table: IcebergTable) -> bool:
    """Whether a snapshot needs every manifest and list on storage."""
    table.refresh()
    needed = set[str]()
    for snapshot in table.java.items(table.table.operations().current().snapshots()):
        needed |= manifests_of(table, snapshot.snapshotId())
    return stored(table) == {path.rpartition("/")[2] for path in needed}


def messy(spark: SparkSession, name: str, version: int) -> str:
    """Three partition specs, nulls in partitions, and every kind of delete that the version has."""
    properties = {"commit.manifest-merge.enabled": "false"}  # it would merge those of old specs
    create(spark, name, "id bigint, k string, day date", version=version, properties=properties)

    def append(start: int) -> None:
        k = "CASE WHEN id % 5 = 0 THEN NULL ELSE concat('k', id % 3) END AS k"
        day = "date_add(DATE'2026-01-01', cast(id % 4 AS int)) AS day"
        spark.range(start, start + 20, 1, 1).selectExpr("id", k, day).writeTo(name).append()

    for start, fields in ((0, ("k", "bucket(4, id)")), (100, ("day",)), (200, ())):
        append(start)
        append(start + 20)
        for field in fields:
            spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {field}")
    if version > 1:
        equality_delete(spark, f"local.{name}", [{"id": 1}, {"id": 201}], columns=["id"], unpartitioned=True)
        equality_delete(spark, f"local.{name}", [{"id": 2}], columns=["id"], unpartitioned=True)
        spark.sql(f"DELETE FROM {name} WHERE id IN (3, 103, 203)")
        spark.sql(f"DELETE FROM {name} WHERE id IN (4, 104, 224)")
        append(1)  # some of these ids were deleted before, but not these rows
    return name


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_and_rows_are_as_they_were(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    name = messy(spark, f"{namespace}.t", version)
    table = opened(compactor, name)
    old = table.head_id("main")
    before, was = entries(spark, name), live(table)
    rows = seen(spark, name, lineage=version == 3)
    step = planned(table, least=2)
    contents = {group.content for group in step.groups}
    assert contents == ({"data"} if version == 1 else {"data", "deletes"})
    assert {group.spec_id for group in step.groups if group.content == "data"} == {0, 2, 3}
    assert table.head_id("main") == old, "planning changes nothing"

    result = carried_out(table, step)

    now = live(table)
    assert result.snapshot_id == table.head_id("main")
    assert (result.attempts, result.manifests_in) == (1, step.manifests_in)
    assert (len(was) - len(now), result.manifests_out) == (step.manifests_in - result.manifests_out, step.manifests_out)
    assert entries(spark, name) == before
    assert seen(spark, name, lineage=version == 3) == rows
    assert seen(spark, f"{name} VERSION AS OF {old}") == (seen(spark, name) if version == 3 else rows)
    assert table.fact(result.snapshot_id or 0, "commit-id") == COMMIT_ID
    assert nothing_leaked(table)
    assert bool(staged_files(table)) == (version > 1), "on version 1 Iceberg copies what is staged"
    again = plan_manifests(table, branch="main", now=NOW, least=2)
    assert isinstance(again, str)
    assert "there is only one" in again
    if version > 1:
        spark.sql(f"DELETE FROM {name} WHERE id IN (5, 105, 205)")
        deleted = {1, 2, 3, 4, 5, 103, 104, 105, 201, 203, 205, 224}
        first = [n for start in (0, 100, 200) for n in range(start, start + 40)]
        ids = sorted(row[0] for row in spark.sql(f"SELECT id FROM {name}").collect())
        assert ids == sorted([*(n for n in first if n not in deleted), *(n for n in range(1, 21) if n != 5)])


ALL_TYPES = {
    "b": "boolean",
    "i": "int",
    "f": "double",
    "d": "decimal(10,2)",
    "s": "string",
    "x": "binary",
    "t": "timestamp",
    "n": "timestamp_ntz",
}
"""Columns to partition by."""
VALUES = (
    "true, 1, double('NaN'), 1.25, 'é/ %', x'00ff', TIMESTAMP'2026-01-01 10:00:00', TIMESTAMP_NTZ'2026-01-01 10:00:00'",
    "false, -1, 0.0, -1.25, '', x'', TIMESTAMP'1969-12-31 23:00:00', TIMESTAMP_NTZ'1969-12-31 23:00:00'",
    "null, null, null, null, null, null, null, null",
)


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_of_every_type_and_of_none(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    """On version 1 a field that is dropped stays in the spec, with nothing but nulls."""
    name = create(
        spark,
        f"{namespace}.t",
        ", ".join(f"{column} {kind}" for column, kind in ALL_TYPES.items()),
        f"{', '.join(ALL_TYPES)}, truncate(1, s), hours(t), bucket(3, i)",
        version=version,
        properties={"commit.manifest-merge.enabled": "false"},
    )

    def insert() -> None:
        spark.sql(f"INSERT INTO {name} SELECT * FROM VALUES ({'), ('.join(VALUES)})")

    insert()
    insert()
    spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD x")
    insert()
    insert()
    table = opened(compactor, name)
    before, rows = entries(spark, name), seen(spark, name)
    result = carried_out(table, planned(table, least=2))
    assert [(group.spec_id, group.manifests_in, group.manifests_out) for group in result.groups] == [
        (0, 2, 1),
        (1, 2, 1),
    ]
    assert entries(spark, name) == before
    assert seen(spark, name) == rows


def test_partitions_whose_column_was_dropped_are_left_alone(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.t", "id bigint, day date", "day")
    table = opened(compactor, name)
    for number in range(6):
        append_described(table, range(3), number)
    spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD day")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN day")
    assert plan_manifests(opened(compactor, name), branch="main", now=NOW) == (
        "6 data manifests of spec 0: a column that their partitions come from was dropped: Iceberg would lose the "
        "partitions"
    )


# -- described files: in manifests only -----------------------------------------------------------


def described(table: IcebergTable, days: Sequence[int], number: int) -> list[Mapping[str, Any]]:
    return [
        {
            "spec-id": 0,
            "content": "data",
            "file-path": f"{table.table.location()}/data/{number}-{day}.parquet",
            "file-format": "parquet",
            "partition": [(datetime.date(2026, 1, 1) + datetime.timedelta(days=day)).isoformat()],
            "record-count": 10,
            "file-size-in-bytes": 1000 + number,
            "lower-bounds": {"keys": [1], "values": [(number * day + 1).to_bytes(8, "little").hex()]},
            "upper-bounds": {"keys": [1], "values": [(number * day * 77 + 9).to_bytes(8, "little").hex()]},
        }
        for day in days
    ]


def append_described(table: IcebergTable, days: Sequence[int], number: int, *, merge: bool = False) -> None:
    java = table.java
    files = described_files(java, table.table, described(table, days, number))
    append = table.table.newAppend() if merge else table.table.newFastAppend()
    kind = "org.apache.iceberg.AppendFiles", "appendFile", "org.apache.iceberg.DataFile"
    files.forEach(java.as_interface("java.util.function.Consumer", java.bind(java.method(*kind), 0, append)))
    append.commit()


def scanned(spark: SparkSession, table: IcebergTable, day: int) -> int:
    """Manifests that a scan of one day opens."""
    iceberg = jvm(spark).org.apache.iceberg
    date = (datetime.date(2026, 1, 1) + datetime.timedelta(days=day)).isoformat()
    expression = iceberg.expressions.Expressions.equal("day", date)
    evaluator = iceberg.expressions.ManifestEvaluator.forRowFilter(expression, table.table.spec(), True)
    manifests = table.head("main").allManifests(table.table.io())
    return sum(bool(evaluator.eval(manifest)) for manifest in table.java.items(manifests))


def test_a_scan_of_one_partition_opens_few(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(
        spark, f"{namespace}.t", "id bigint, day date", "day", properties={"commit.manifest.target-size-bytes": "16384"}
    )
    table = opened(compactor, name)
    for number in range(40):
        append_described(table, range(150), number)
    assert scanned(spark, table, 70) == 40
    step = planned(table)
    result = carried_out(table, step)
    sizes = [manifest.length for manifest in live(table)]
    assert result.manifests_out == len(sizes) >= 3
    assert all(8192 < size < 24576 for size in sizes), sizes
    assert [scanned(spark, table, day) for day in range(150)] == [1] * 150
    assert isinstance(plan_manifests(table, branch="main", now=NOW), str)

    large = {manifest.path for manifest in live(table)}
    for number in range(100, 105):
        append_described(table, [3, 140], number)
    step = planned(table)
    assert [(group.manifests_in, group.left_alone) for group in step.groups] == [(5, len(large))]
    carried_out(table, step)
    assert large < {manifest.path for manifest in live(table)}
    assert scanned(spark, table, 3) == 2
    assert isinstance(plan_manifests(table, branch="main", now=NOW), str)


@pytest.fixture
def small(compactor: Compactor, spark: SparkSession, namespace: str) -> IcebergTable:
    """Six manifests of three files each."""
    return six_manifests(compactor, spark, namespace, 2)


def six_manifests(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> IcebergTable:
    table = opened(compactor, create(spark, f"{namespace}.t", "id bigint, day date", "day", version=version))
    for number in range(6):
        append_described(table, range(3), number)
    return table


class Rival:
    """Commits at the last check before each of our commits, so many times."""

    def __init__(self, act: Callable[[], object], times: int = 1, first: int = 3) -> None:
        self.act, self.times, self.first, self.asked = act, times, first, 0

    def __call__(self) -> None:
        self.asked += 1
        if self.asked % 3 == self.first % 3 and self.times:  # at the beginning, before writing, before the commit
            self.times -= 1
            self.act()


def delete_file(table: IcebergTable, day: int, number: int) -> None:
    other = opened_again(table)
    files = described_files(other.java, other.table, described(other, [day], number))
    other.table.newDelete().deleteFile(files.iterator().next()).commit()


def test_appends_meanwhile_do_not_matter(small: IcebergTable) -> None:
    step = planned(small)
    append_described(small, range(3), 90)
    result = carried_out(small, step, Rival(lambda: append_described(opened_again(small), range(3), 91)))
    assert (result.attempts, result.manifests_in, result.manifests_out) == (1, 7, 1)
    assert sorted(manifest.live or 0 for manifest in live(small)) == [3, 21]
    assert nothing_leaked(small)


def opened_again(table: IcebergTable) -> IcebergTable:
    """The same table, as somebody else has it."""
    java = table.java
    loaded = java.iceberg.spark.Spark3Util.loadIcebergTable(java.session, table.sql_name)
    return IcebergTable(java=java, session=table.session, table=loaded, name=table.name, sql_name=table.sql_name)


@pytest.mark.parametrize("version", [1, 2])
def test_who_replaces_a_manifest_meanwhile_makes_us_judge_again(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    table = six_manifests(compactor, spark, namespace, version)
    step = planned(table)
    result = carried_out(table, step, Rival(lambda: delete_file(table, 1, 2)))
    assert (result.attempts, result.manifests_in, result.manifests_out) == (2, 6, 1)
    assert [manifest.live for manifest in live(table)] == [17]
    assert nothing_leaked(table)


def test_a_merge_of_manifests_meanwhile_makes_us_judge_again(small: IcebergTable) -> None:
    def merge() -> None:
        other = opened_again(small)
        other.table.updateProperties().set("commit.manifest.min-count-to-merge", "2").commit()
        java = other.java
        files = described_files(java, other.table, described(other, [1], 95))
        other.table.newAppend().appendFile(files.iterator().next()).commit()

    result = carried_out(small, planned(small), Rival(merge))
    assert result.snapshot_id is None
    assert result.reason == "1 data manifest of spec 0: there is only one"
    assert [manifest.live for manifest in live(small)] == [19]
    assert nothing_leaked(small)


def test_manifests_that_are_replaced_and_expire_meanwhile_are_not_missed(small: IcebergTable) -> None:
    def expire() -> None:
        for number in range(6):
            delete_file(small, 1, number)
        other = opened_again(small)
        expiry = other.table.expireSnapshots().expireOlderThan(2**62).retainLast(1)
        expiry.cleanExpiredFiles(True).commit()

    result = carried_out(small, planned(small), Rival(expire, first=2))
    assert (result.attempts, result.manifests_in, result.manifests_out) == (2, 6, 1)
    assert [manifest.live for manifest in live(small)] == [12]
    assert nothing_leaked(small)


def test_after_some_attempts_it_is_given_up(small: IcebergTable) -> None:
    numbers = iter(range(6))
    result = carried_out(small, planned(small), Rival(lambda: delete_file(small, 1, next(numbers)), times=6))
    assert (result.snapshot_id, result.attempts) == (None, 4)
    assert result.reason.startswith("others replaced manifests 4 times meanwhile, at last: Deleted manifest")
    assert nothing_leaked(small)


def test_whoever_is_cancelled_leaves_nothing(small: IcebergTable) -> None:
    def cancel() -> None:
        raise Cancelled

    head = small.head_id("main")
    with pytest.raises(Cancelled):
        carried_out(small, planned(small), Rival(cancel))
    assert nothing_leaked(small)
    small.refresh()
    assert small.head_id("main") == head


def test_a_rewrite_that_nobody_needs_any_more_is_not_made(small: IcebergTable) -> None:
    step = planned(small)
    carried_out(small, step)
    result = carried_out(small, step)
    assert (result.snapshot_id, result.attempts) == (None, 0)
    assert result.reason == "1 data manifest of spec 0: there is only one"


def numbers(spark: SparkSession, name: str) -> dict[str, tuple[Any, ...]]:
    """What must stay the same of every live file: the snapshot that brought it, its numbers, and its first row."""
    spark.sql(f"REFRESH TABLE {name}")
    columns = "snapshot_id, sequence_number, file_sequence_number, data_file.first_row_id, data_file.spec_id"
    rows = spark.sql(f"SELECT data_file.file_path, {columns} FROM {name}.entries WHERE status < 2").collect()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: tuple(row)[1:] for row in rows}


class Writers:
    """Others, who append, merge manifests, delete files and write delete files, as the dice fall."""

    def __init__(self, table: IcebergTable, dice: random.Random) -> None:
        self._table, self._dice = table, dice
        self._files: list[tuple[int, int]] = []
        """Day and number of the files that are live."""
        self._next = 0

    def act(self) -> None:
        self._table = opened_again(self._table)
        self._next += 1
        kind = self._dice.choice(["append", "append", "append", "merge", "remove", "delete"])
        days = sorted(self._dice.sample(range(12), self._dice.randint(1, 5)))
        if kind == "remove" and self._files:
            day, number = self._files.pop(self._dice.randrange(len(self._files)))
            delete_file(self._table, day, number)
        elif kind == "delete":
            self._delete(days[0])
        else:
            append_described(self._table, days, self._next, merge=kind == "merge")
            self._files += [(day, self._next) for day in days]

    def _delete(self, day: int) -> None:
        table, iceberg = self._table.table, self._table.java.iceberg
        date = (datetime.date(2026, 1, 1) + datetime.timedelta(days=day)).isoformat()
        builder = iceberg.FileMetadata.deleteFileBuilder(table.spec())
        builder = builder.ofEqualityDeletes(int_array(self._table.session, [1])).withFormat("parquet")
        builder = builder.withPath(f"{table.location()}/data/delete-{self._next}.parquet").withRecordCount(1)
        deletes = builder.withFileSizeInBytes(100).withPartitionPath(f"day={date}").build()
        table.newRowDelta().addDeletes(deletes).commit()


@pytest.mark.parametrize(("version", "seed"), [(2, 1), (3, 3)])
def test_others_commit_all_the_while(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, seed: int
) -> None:
    """Whatever they do, no entry is lost, none comes back, and none has other numbers than when it came."""
    dice = random.Random(seed)
    target = dice.choice(["8192", "16384", "8388608"])
    properties = {"commit.manifest.target-size-bytes": target, "commit.manifest.min-count-to-merge": "3"}
    name = create(spark, f"{namespace}.t", "id bigint, day date", "day", version=version, properties=properties)
    table = opened(compactor, name)
    writers, rewrites = Writers(table, dice), 0
    for _ in range(4):
        for _ in range(dice.randint(3, 6)):
            writers.act()
        step = plan_manifests(table, branch="main", now=NOW, least=2)
        if isinstance(step, str):
            continue
        expected = [numbers(spark, name)]

        def meanwhile(expected: list[dict[str, tuple[Any, ...]]] = expected) -> None:
            writers.act()
            expected.append(numbers(spark, name))

        result = carried_out(table, step, Rival(meanwhile))
        rewrites += result.snapshot_id is not None
        assert numbers(spark, name) == expected[-1]
        assert all(expected[-1].get(path, known) == known for path, known in expected[0].items())
        assert nothing_leaked(table)
    assert rewrites


def test_manifests_without_live_files_go(small: IcebergTable) -> None:
    small.table.newDelete().deleteFromRowFilter(small.java.iceberg.expressions.Expressions.alwaysTrue()).commit()
    result = carried_out(small, planned(small))
    assert (result.manifests_in, result.manifests_out) == (6, 0)
    assert live(small) == []
    assert nothing_leaked(small)


def test_other_wishes_are_reason_enough_to_look_again(small: IcebergTable) -> None:
    small.table.updateProperties().set("commit.manifest.target-size-bytes", "500").commit()
    append_described(small, range(40), 50)
    assert carried_out(small, planned(small)).manifests_out > 1
    assert isinstance(plan_manifests(small, branch="main", now=NOW), str)
    small.table.updateProperties().remove("commit.manifest.target-size-bytes").commit()
    assert planned(small, least=2).manifests_out == 1


class Answer:
    """A commit whose answer is lost."""

    def __init__(self, update: Any, sent: int) -> None:
        self._update, self._sent = update, sent

    def commit(self) -> None:
        for _ in range(self._sent):
            self._update.commit()
        raise ConnectionError("no answer")


def lose_answers(monkeypatch: pytest.MonkeyPatch, sent: int) -> None:
    real = StagedManifests._update
    monkeypatch.setattr(StagedManifests, "_update", lambda self, bound: Answer(real(self, bound), sent))
    monkeypatch.setattr(rewrite_manifests, "_FIRST_WAIT", 0.0)


@pytest.mark.parametrize("sent", [1, 2])
def test_a_commit_whose_answer_is_lost_is_found(
    small: IcebergTable, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """Also if a catalog that lost it made Iceberg send the same once more."""
    lose_answers(monkeypatch, sent)
    result = carried_out(small, planned(small))
    assert result.snapshot_id == small.head_id("main")
    assert [manifest.live for manifest in live(small)] == [18]
    assert nothing_leaked(small)


def test_nothing_is_deleted_if_nobody_knows_what_became_of_the_commit(
    small: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, 0)
    with pytest.raises(CommitUnknown):
        carried_out(small, planned(small))
    (left,) = staged_files(small)
    assert left.startswith("icepact-run-1-m-")


def test_what_cannot_be_done_is_refused_in_one_line(small: IcebergTable) -> None:
    with pytest.raises(BadInput, match="on branch main only, not on 'audit'"):
        plan_manifests(small, branch="audit", now=NOW)
    with pytest.raises(BadInput, match="least 1: it takes two"):
        plan_manifests(small, branch="main", now=NOW, least=1)
    small.table.updateProperties().set("commit.manifest.target-size-bytes", "8 MB").commit()
    with pytest.raises(BadInput, match="is '8 MB': it should be a number of bytes"):
        plan_manifests(small, branch="main", now=NOW)


def test_a_table_without_snapshots_has_nothing_to_rewrite(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    table = opened(compactor, create(spark, f"{namespace}.t", "id bigint"))
    assert plan_manifests(table, branch="main", now=NOW) == "the table has no snapshot yet"


def test_rows_without_ids_are_left_to_the_next_commit(
    compactor: Compactor, spark: SparkSession, small: IcebergTable
) -> None:
    """Whoever commits first after an upgrade gives them ids; between two commits these would change."""
    small.table.updateProperties().set("format-version", "3").commit()
    why = plan_manifests(small, branch="main", now=NOW)
    assert isinstance(why, str)
    assert why.startswith("rows have no ids yet since the table was upgraded")
    append_described(small, range(3), 50)
    before = entries(spark, small.name)
    assert carried_out(small, planned(small)).manifests_in == 7
    assert entries(spark, small.name) == before
