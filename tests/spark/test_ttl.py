"""Data TTL on real tables: what is younger stays, always, whatever others do meanwhile."""

import itertools
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping.ttl import carry_out_ttl, plan_ttl
from icepact.iceberg.commit.delete import check_deleted
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput, CommitBroken, CommitRefused, CommitUnknown
from icepact.model.ttl import ExpireData, ExpireDataResult
from tests.support.lying import lying
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files, seen
from tests.support.tables import create

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KEEP = timedelta(days=28)
"""To the first of February."""
COLUMNS = "id int, day date, at timestamp_ntz, tz timestamp, text string, n bigint, region string"
_ids = itertools.count(1)


def loaded(compactor: Compactor, name: str) -> IcebergTable:
    return compactor.application.spark_catalog.table(name)


def plan(compactor: Compactor, name: str, column: str = "day", **wishes: Any) -> ExpireData | str:
    return plan_ttl(loaded(compactor, name), column=column, **{"keep": KEEP, "now": NOW, **wishes})


def planned(compactor: Compactor, name: str, column: str = "day", **wishes: Any) -> ExpireData:
    step = plan(compactor, name, column, **wishes)
    assert isinstance(step, ExpireData), step
    return step


def carry_out(
    compactor: Compactor, name: str, step: ExpireData, *, lie: str = "", check: Callable[[], None] = lambda: None
) -> ExpireDataResult:
    table = loaded(compactor, name)
    if lie:
        table = lying(table, lie)
    return carry_out_ttl(table, step, commit_id=f"run{next(_ids)}/0/1", check=check, sleep=lambda _: None)


def fill(spark: SparkSession, name: str, *days: str, files: int = 1, branch: str = "") -> None:
    """A row at noon of each day, all of them in one file of each partition; `null` has no time."""
    rows = []
    for day in days:
        when = "null" if day == "null" else f"'{day} 12:00:00'"
        rows.append(f"({next(_ids)}, {when})")
    target = f"{name}.branch_{branch}" if branch else name
    spark.sql(
        f"INSERT INTO {target} SELECT /*+ COALESCE({files}) */ id, to_date(at), to_timestamp_ntz(at),"
        " to_timestamp(concat(at, 'Z')), date_format(to_timestamp_ntz(at), \"yyyy-MM-dd'T'HH:mm:ss\"),"
        " unix_millis(to_timestamp(concat(at, 'Z'))), substr('ab', id % 2 + 1, 1)"
        f" FROM VALUES {', '.join(rows)} AS t(id, at)"
    )


def days(spark: SparkSession, name: str, *, branch: str = "main") -> list[str]:
    version = "" if branch == "main" else f" VERSION AS OF '{branch}'"
    return sorted(str(row[0]) for row in spark.sql(f"SELECT day FROM {name}{version}").collect())


def proven(spark: SparkSession, compactor: Compactor, name: str, step: ExpireData, *, young: str) -> ExpireDataResult:
    """Carry a step out; every row that is `young` must be there afterwards, and nothing that was not there before."""
    spark.sql(f"REFRESH TABLE {name}")
    must = {row[0] for row in spark.sql(f"SELECT id FROM {name} WHERE {young}").collect()}
    before = {row[0] for row in spark.sql(f"SELECT id FROM {name}").collect()}
    result = carry_out(compactor, name, step)
    after = {row[0] for row in spark.sql(f"SELECT id FROM {name}").collect()}
    assert must <= after <= before
    assert result.reason == ""
    assert (result.files, result.rows) == (step.files, step.rows)
    assert (result.oldest, result.newest) == (step.oldest, step.newest)
    return result


# -- whole partitions -----------------------------------------------------------------------------

YOUNG = "day >= '2026-02-01' OR day IS NULL"
DAYS = ("2025-11-30", "2025-12-31", "2026-01-15", "2026-01-31", "2026-02-01", "2026-02-20", "null")


@pytest.mark.parametrize(
    ("version", "partitions", "column", "files", "newest"),
    [
        (1, "day", "day", 4, "2026-01-31"),
        (2, "days(at), region", "at", 4, "2026-01-31T12:00:00"),
        (3, "months(tz)", "tz", 3, "2026-01-31T12:00:00+00:00"),
        (3, "hours(at)", "at", 4, "2026-01-31T12:00:00"),
        (2, "text", "text", 4, "2026-01-31T12:00:00"),
        (1, "n", "n", 4, "2026-01-31T12:00:00+00:00"),
    ],
)
def test_partitions_go_once_they_are_over(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    version: int,
    partitions: str,
    column: str,
    files: int,
    newest: str,
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, partitions, version=version)
    fill(spark, name, *DAYS)
    pattern = {"text": "yyyy-MM-dd'T'HH:mm:ss", "n": "epoch-ms"}.get(column)
    step = planned(compactor, name, column, pattern=pattern)
    assert (step.files, step.partition_count, step.rows) == (files, files, 4)
    assert step.newest == newest
    assert any("without a value" in entry.why for entry in step.kept)
    result = proven(spark, compactor, name, step, young=YOUNG)
    summary = spark.sql(f"SELECT summary, operation FROM {name}.snapshots WHERE snapshot_id = {result.snapshot_id}")
    facts, operation = summary.collect()[0]
    assert (operation, facts["deleted-records"]) == ("delete", str(step.rows))
    assert facts["icepact.commit-id"].startswith("run")
    again = plan(compactor, name, column, pattern=pattern)
    assert str(again).startswith("no partition is older than 28d as a whole (")


def test_files_of_old_specs_go_by_their_own(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS)
    fill(spark, name, "2025-12-01", "2025-12-02")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD months(at)")
    fill(spark, name, "2025-12-05", "2026-01-20", "2026-02-02")
    spark.sql(f"ALTER TABLE {name} REPLACE PARTITION FIELD at_month WITH days(at)")
    fill(spark, name, "2026-01-20", "2026-02-03")
    step = planned(compactor, name, "at", keep=timedelta(days=35))  # to the 25th of January
    assert step.partitions == ("at_month=2025-12 (old spec 1)", "at_day=2026-01-20")
    assert [entry.why for entry in step.kept] == [
        "its partition spec says nothing of the column",
        "younger rows are in it, too, or may be",
    ]
    proven(spark, compactor, name, step, young="at >= '2026-01-25'")
    assert days(spark, name) == ["2025-12-01", "2025-12-02", "2026-01-20", "2026-02-02", "2026-02-03"]
    by_file = planned(compactor, name, "at", keep=timedelta(days=35), level="file")
    assert (by_file.files, by_file.rows) == (2, 3)
    proven(spark, compactor, name, by_file, young="at >= '2026-01-25'")
    assert days(spark, name) == ["2026-02-02", "2026-02-03"]


# -- single files ---------------------------------------------------------------------------------


def test_files_go_whose_newest_value_is_old(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, version=3)
    for some in (
        ("2025-12-01", "2026-01-31"),
        ("2026-01-31", "2026-02-01"),
        ("2026-01-01", "null"),
        ("2026-02-05",),
        ("null",),
    ):
        fill(spark, name, *some)
    expected = {
        "day": (None, "2025-12-01", "2026-01-31"),
        "at": (None, "2025-12-01T12:00:00", "2026-01-31T12:00:00"),
        "tz": (None, "2025-12-01T12:00:00+00:00", "2026-01-31T12:00:00+00:00"),
        "text": ("yyyy-MM-dd'T'HH:mm:ss", "2025-12-01T12:00:00", "2026-01-31T12:00:59"),  # bounds are cut off
        "n": ("epoch-ms", "2025-12-01T12:00:00+00:00", "2026-01-31T12:00:00+00:00"),
    }
    for column, (pattern, oldest, newest) in expected.items():
        step = planned(compactor, name, column, pattern=pattern, level="file")
        assert (step.files, step.rows, step.partitions) == (1, 2, ("(all)",)), column
        assert (step.oldest, step.newest) == (oldest, newest), column
        stays = {entry.why: entry.what for entry in step.kept}
        assert set(stays) == {
            "younger rows are in it, too, or may be",
            "rows without a value in the column have no age",
        }, column
    proven(spark, compactor, name, planned(compactor, name, level="file"), young=YOUNG)
    left = "no file is older than 28d as a whole"
    assert str(plan(compactor, name, "text", pattern=expected["text"][0], level="file")).startswith(left)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.metadata.metrics.default' = 'none')")
    fill(spark, name, "2020-01-01")
    unknown = plan(compactor, name, level="file")
    assert isinstance(unknown, str)
    assert "its manifest does not tell its oldest and newest value" in unknown


def test_the_zone_of_values_that_have_none(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Noon of the last of January is 23 hours before the cutoff in Samoa's zone, and after it in Hawaii's."""
    name = create(spark, f"{namespace}.t", COLUMNS, "days(at)")
    fill(spark, name, "2026-01-31")
    assert planned(compactor, name, "at", zone="Pacific/Apia").files == 1
    assert isinstance(plan(compactor, name, "at", zone="Pacific/Honolulu"), str)  # the day ends there at 10:00 UTC
    assert isinstance(plan(compactor, name, "at", zone="Pacific/Honolulu", level="file", keep=KEEP), ExpireData)


def test_columns_go_by_id(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """The newest snapshot knows a column by its old name, and another one not at all."""
    name = create(spark, f"{namespace}.t", "a date, b date, n int", properties={"write.format.default": "orc"})
    for at in ("2026-01-01", "2026-02-10"):
        seconds = "int(unix_timestamp(a))"
        spark.sql(f"INSERT INTO {name} SELECT a, date'2030-01-01', {seconds} FROM VALUES (date'{at}') AS t(a)")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN {old} TO {new}")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE bigint")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN late date")
    assert isinstance(plan(compactor, name, "a", level="file"), str)
    for column, pattern in (("b", None), ("n", "epoch-s")):
        step = planned(compactor, name, column, pattern=pattern, level="file")
        assert (step.files, (step.newest or "")[:10]) == (1, "2026-01-01")
    late = str(plan(compactor, name, "late", level="file"))
    assert "2 files" in late
    assert "its manifest does not tell its oldest and newest value" in late
    carry_out(compactor, name, planned(compactor, name, "b", level="file"))
    assert [str(row[0]) for row in spark.sql(f"SELECT b FROM {name}").collect()] == ["2026-02-10"]


# -- deletes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "vectors", "dangling"), [(2, 0, 2), (3, 1, 1)])
def test_deletes_of_every_kind(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, vectors: int, dangling: int
) -> None:
    """Deleted rows stay deleted; vectors go with their files, and what applies to younger files stays."""
    name = create(spark, f"{namespace}.t", "id int, day date", version=version)
    equality_delete(spark, f"local.{name}", [{"id": 99}], columns=["id"])  # older than every file: of no use to any
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD day")
    rows = ", ".join(f"({n}, date'2026-0{1 + n % 2}-10')" for n in range(10))
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, day FROM VALUES {rows} AS t(id, day)")
    spark.sql(f"DELETE FROM {name} WHERE id IN (0, 1)")
    equality_delete(spark, f"local.{name}", [{"id": 2}], columns=["id"], partition="day=2026-01-10")
    equality_delete(spark, f"local.{name}", [{"id": 4}, {"id": 5}], columns=["id"], unpartitioned=True)
    step = planned(compactor, name)
    assert (step.files, step.rows, step.delete_files, step.dangling_deletes) == (1, 5, vectors, dangling)
    young = seen(spark, f"(SELECT * FROM {name} WHERE day >= '2026-02-01')")
    proven(spark, compactor, name, step, young=YOUNG)
    assert seen(spark, name) == young
    assert [row[0] for row in spark.sql(f"SELECT id FROM {name} ORDER BY id").collect()] == [3, 7, 9]
    left = delete_files(spark, name)
    assert len(left) == (4 if version == 2 else 3)


def test_whatever_the_files_hold_no_young_row_goes(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Random files of three specs and with deletes; every trial on a branch of its own."""
    dice = random.Random(7)
    name = create(spark, f"{namespace}.t", COLUMNS, version=2)

    def append(most: int) -> None:
        start = date(2025, 12, 20) + timedelta(days=dice.randrange(70))
        spread = dice.choice((1, 1, 4, 40))
        rows = [str(start + timedelta(days=dice.randrange(spread))) for _ in range(dice.randint(1, most))]
        fill(spark, name, *rows, *(["null"] if dice.random() < 0.2 else []))

    for change in ("ADD PARTITION FIELD months(at)", "REPLACE PARTITION FIELD at_month WITH day", "ADD COLUMN x int"):
        for _ in range(2):
            append(6)
        spark.sql(f"DELETE FROM {name} WHERE id % 7 = {dice.randrange(7)}")
        spark.sql(f"ALTER TABLE {name} {change}")
    everything = {row[0]: row[1] for row in spark.sql(f"SELECT id, day FROM {name}").collect()}
    gone = 0
    for number, (column, level) in enumerate(
        (("day", "file"), ("at", "file"), ("day", "partition"), ("at", "partition"))
    ):
        cutoff = date(2026, 1, 10) + timedelta(days=10 * number)
        branch = f"b{number}"
        spark.sql(f"ALTER TABLE {name} CREATE BRANCH {branch}")
        keep = NOW - datetime(cutoff.year, cutoff.month, cutoff.day, tzinfo=UTC)
        step = plan(compactor, name, column, level=level, branch=branch, keep=keep)
        if isinstance(step, ExpireData):
            carry_out(compactor, name, step)
        left = {row[0] for row in spark.sql(f"SELECT id FROM {name} VERSION AS OF '{branch}'").collect()}
        assert left <= everything.keys()
        assert {id for id, day in everything.items() if day is None or day >= cutoff} <= left
        gone += len(everything) - len(left)
    assert gone >= 10


# -- others commit meanwhile ----------------------------------------------------------------------


def test_what_others_append_after_the_plan_is_judged_too(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, version=2)
    fill(spark, name, "2026-01-01")
    step = planned(compactor, name, level="file")
    fill(spark, name, "2026-01-02")
    fill(spark, name, "2026-01-03", "2026-02-10")
    fill(spark, name, "2026-01-04", "null")
    result = carry_out(compactor, name, step)
    assert (result.files, result.rows, result.newest) == (2, 2, "2026-01-02")
    assert days(spark, name) == ["2026-01-03", "2026-01-04", "2026-02-10", "None"]


@pytest.mark.parametrize("when", ["after the plan", "after the judgement"])
def test_files_that_were_compacted_meanwhile_are_judged_anew(
    compactor: Compactor, spark: SparkSession, namespace: str, when: str
) -> None:
    """An old file that was joined with a young one must not take the young rows with it."""
    name = create(spark, f"{namespace}.t", COLUMNS, "region", version=3)
    fill(spark, name, "2026-01-01", "2026-01-01")  # one row in each region
    fill(spark, name, "2026-02-10")
    step = planned(compactor, name, level="file")
    assert step.files == 2

    def compact() -> None:
        options = "map('rewrite-all', 'true')"
        spark.sql(f"CALL local.system.rewrite_data_files(table => '{name}', options => {options})").collect()

    calls = itertools.count()
    if when == "after the plan":
        compact()
        result = carry_out(compactor, name, step)
    else:
        result = carry_out(compactor, name, step, check=lambda: compact() if next(calls) == 1 else None)
        assert next(calls) > 3  # it was judged again
    assert (result.files, result.rows) == (1, 1)
    assert days(spark, name) == ["2026-01-01", "2026-02-10"]


def test_an_append_between_judging_and_committing_is_left_for_the_next_time(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day", version=2)
    fill(spark, name, "2026-01-01")
    step = planned(compactor, name)
    calls = itertools.count()
    result = carry_out(
        compactor, name, step, check=lambda: fill(spark, name, "2026-01-01") if next(calls) == 1 else None
    )
    assert (result.files, result.rows) == (1, 1)
    assert days(spark, name) == ["2026-01-01"]
    assert planned(compactor, name).rows == 1


@pytest.mark.parametrize("change", ["roll back", "add a column"])
def test_a_table_that_is_another_by_now_is_judged_again(
    compactor: Compactor, spark: SparkSession, namespace: str, change: str
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day")
    fill(spark, name, "2026-01-01")
    first = loaded(compactor, name).head_id("main")
    fill(spark, name, "2026-01-02")
    step = planned(compactor, name)
    calls = itertools.count()

    def act() -> None:
        if next(calls) != 1:
            return
        if change == "roll back":
            spark.sql(f"CALL local.system.rollback_to_snapshot('{name}', {first})").collect()
        else:
            spark.sql(f"ALTER TABLE {name} ADD COLUMN more int")

    result = carry_out(compactor, name, step, check=act)
    assert next(calls) == 4  # twice for each of two attempts
    assert result.files == (1 if change == "roll back" else 2)
    assert days(spark, name) == []


def test_a_branch_that_is_dropped_meanwhile_is_not_made_anew(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day")
    fill(spark, name, "2026-01-01")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    step = planned(compactor, name, branch="audit")
    calls = itertools.count()

    def drop() -> None:
        if next(calls) == 1:
            spark.sql(f"ALTER TABLE {name} DROP BRANCH audit")

    with pytest.raises(BadInput, match="has no branch 'audit'; there is: main"):
        carry_out(compactor, name, step, check=drop)
    assert days(spark, name) == ["2026-01-01"]
    assert not loaded(compactor, name).has_branch("audit")


@pytest.mark.parametrize("when", [0, 1])
def test_a_rollback_takes_the_last_commit_back(
    compactor: Compactor, spark: SparkSession, namespace: str, when: int
) -> None:
    """Age that was measured from a commit which is gone is not age, before it is judged or while it is committed."""
    name = create(spark, f"{namespace}.t", COLUMNS)
    fill(spark, name, "2026-01-01")
    table = loaded(compactor, name)
    first = table.head_id("main")
    fill(spark, name, "2026-02-10")
    table.refresh()
    written = table.committed_at(table.head_id("main"))
    assert written is not None
    keep = written - datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=UTC)  # the old row is just old enough
    step = planned(compactor, name, "tz", level="file", since="last-commit", keep=keep, now=written)
    assert (step.files, step.rows) == (1, 1)
    calls = itertools.count()

    def roll_back() -> None:
        if next(calls) == when:
            spark.sql(f"CALL local.system.rollback_to_snapshot('{name}', {first})").collect()

    assert carry_out(compactor, name, step, check=roll_back).snapshot_id is None
    assert days(spark, name) == ["2026-01-01"]


def test_nothing_is_left_to_do(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day")
    assert plan(compactor, name) == "branch main has no snapshot yet"
    assert "no commit on record" in str(plan(compactor, name, since="last-commit"))
    fill(spark, name, "2026-02-10")
    assert plan(compactor, name) == "no partition is older than 28d as a whole"
    fill(spark, name, "2026-01-10")
    step = planned(compactor, name)
    spark.sql(f"DELETE FROM {name} WHERE day < '2026-02-01'")
    result = carry_out(compactor, name, step)
    assert result.snapshot_id is None
    assert result.reason.startswith("nothing is old enough any more")
    assert days(spark, name) == ["2026-02-10"]


# -- branches, and from when ----------------------------------------------------------------------


def test_other_branches_are_untouched(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day")
    fill(spark, name, "2026-01-01", "2026-02-10")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    spark.sql(f"ALTER TABLE {name} CREATE TAG keep")
    fill(spark, name, "2026-01-05", branch="audit")
    step = planned(compactor, name, branch="audit")
    assert (step.files, step.branch) == (2, "audit")
    carry_out(compactor, name, step)
    assert days(spark, name, branch="audit") == ["2026-02-10"]
    assert days(spark, name) == days(spark, name, branch="keep") == ["2026-01-01", "2026-02-10"]
    for branch, complaint in (("none", "has no branch 'none'"), ("keep", "is a tag, not a branch")):
        with pytest.raises(BadInput, match=complaint):
            plan(compactor, name, branch=branch)
    again = planned(compactor, name, branch="audit", keep=timedelta(days=5))
    spark.sql(f"ALTER TABLE {name} DROP BRANCH audit")
    with pytest.raises(BadInput, match="has no branch 'audit'"):
        carry_out(compactor, name, again)


def test_age_from_the_last_commit_leaves_maintenance_out(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """A table that nobody writes to any more keeps what it has; it does not fade away."""
    name = create(spark, f"{namespace}.t", COLUMNS, "day")
    fill(spark, name, "2026-01-01", "2026-02-10", "2026-02-11")
    written = spark.sql(f"SELECT max(committed_at) FROM {name}.snapshots").collect()[0][0].astimezone(UTC)
    spark.sql(f"CALL local.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    keep = written - datetime(2026, 2, 1, tzinfo=UTC)
    wishes = {"keep": keep, "since": "last-commit"}
    far = written + timedelta(days=900)
    step = planned(compactor, name, now=far, **wishes)
    assert (step.cutoff, step.rows) == (datetime(2026, 2, 1, tzinfo=UTC), 1)
    assert planned(compactor, name, now=far, keep=keep).rows == 3
    carry_out(compactor, name, step)
    assert isinstance(plan(compactor, name, now=far, **wishes), str)
    late = planned(compactor, name, now=far, since="last-commit", keep=timedelta(hours=1))
    assert (late.cutoff, late.rows) == (written - timedelta(hours=1), 2)
    early = planned(
        compactor, name, now=datetime(2026, 2, 11, 1, tzinfo=UTC), since="last-commit", keep=timedelta(hours=1)
    )
    assert early.rows == 1  # never measured from the future
    assert early.newest == "2026-02-10"


# -- answers that are lost ------------------------------------------------------------------------


def test_answers_that_are_lost_or_false(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day", version=3)
    left = ["2026-02-10"]
    lies = "failed", "landed-unknown", "landed-failed", "landed-and-broke", "landed-renamed-failed"
    for number, lie in enumerate(lies, start=1):
        fill(spark, name, "2026-01-01", *([] if lie != "failed" else left))
        result = carry_out(compactor, name, planned(compactor, name), lie=lie)
        assert (result.rows, result.reason) == (1, ""), lie
        assert days(spark, name) == left, lie
        commits = spark.sql(f"SELECT count(*) FROM {name}.snapshots WHERE operation = 'delete'").collect()[0][0]
        assert commits == number, lie
    fill(spark, name, "2026-01-01")
    before = data_files(spark, name)
    for lie, error in (("unknown", CommitUnknown), ("broke", CommitUnknown), ("forbidden", CommitRefused)):
        with pytest.raises(error):
            carry_out(compactor, name, planned(compactor, name), lie=lie)
        assert data_files(spark, name) == before
    assert carry_out(compactor, name, planned(compactor, name)).rows == 1


def test_a_commit_that_did_something_else_is_taken_back(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "day")
    fill(spark, name, "2026-01-01", "2026-01-02")
    spark.sql(f"DELETE FROM {name} WHERE day = '2026-01-01'")
    table = loaded(compactor, name)
    head = table.head_id("main")
    assert head is not None
    with pytest.raises(CommitBroken, match=r"1 files, 1 rows and 0 delete files are not .* it was rolled back"):
        check_deleted(table, branch="main", snapshot_id=head, paths=frozenset(), rows=0)
    spark.sql(f"REFRESH TABLE {name}")
    assert days(spark, name) == ["2026-01-01", "2026-01-02"]
    gone = frozenset(table.changed_paths(head)[0])
    with pytest.raises(
        CommitBroken, match=r"0 files, 1 rows and 0 delete files are not .* it could not be rolled back"
    ):
        check_deleted(table, branch="main", snapshot_id=head, paths=gone, rows=0)


def test_a_commit_that_lost_a_delete_is_taken_back(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", "id int, day date", "day", version=3)
    spark.sql(f"INSERT INTO {name} VALUES (1, date'2026-01-01'), (2, date'2026-02-01'), (3, date'2026-02-01')")
    spark.sql(f"DELETE FROM {name} WHERE id = 2")
    table = loaded(compactor, name)
    head, java = table.head_id("main"), table.table
    deletes = java.currentSnapshot().deleteManifests(java.io())
    vector = table.java.listed(
        table.java.iceberg.ManifestFiles.readDeleteManifest(deletes[0], java.io(), java.specs())
    )[0]
    java.newRowDelta().removeDeletes(vector).commit()
    bad = table.head_id("main")
    assert head is not None and bad is not None  # noqa: PT018
    with pytest.raises(CommitBroken, match=r"0 files, 0 rows and 1 delete files are not .* it was rolled back"):
        check_deleted(table, branch="main", snapshot_id=bad, paths=frozenset(), rows=0)
    assert loaded(compactor, name).head_id("main") == head


# -- what is refused ------------------------------------------------------------------------------


def test_bad_input_is_one_line_and_nothing_starts(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", f"{COLUMNS}, inner struct<at: timestamp>", "day")
    fill_columns = "id, day, at, tz, text, n, region, named_struct('at', tz)"
    spark.sql(f"INSERT INTO {name} SELECT {fill_columns} FROM VALUES "
              "(1, date'2026-01-01', timestamp_ntz'2026-01-01', timestamp'2026-01-01', '2026', 1L, 'a')"
              " AS t(id, day, at, tz, text, n, region)")  # fmt: skip
    before = data_files(spark, name)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"column": "nope"}, "has no column 'nope'; there is: id, day"),
        ({"column": "inner.at"}, "is inside another one"),
        ({"column": "inner"}, "is of type struct, which tells no time"),
        ({"column": "id"}, "is of type int, which tells no time"),
        ({"column": "text"}, "a pattern is needed"),
        ({"column": "text", "pattern": "yyyy-MM-ddTHH"}, "is not known"),
        ({"column": "n"}, "say with pattern=epoch-ms or epoch-s"),
        ({"column": "at"}, "no partition of .* is made of at by .*: use level=file"),
        ({"column": "text", "pattern": "dd.MM.yyyy", "level": "file"}, "do not sort as their times do"),
        ({"keep": timedelta(0)}, "a length of time above zero"),
        ({"keep": timedelta(days=-1)}, "a length of time above zero"),
        ({"keep": timedelta.max}, "nothing can be that old"),
        ({"level": "row"}, "unknown level 'row'; there is: partition, file"),
        ({"since": "yesterday"}, "since='yesterday' is not known"),
        ({"zone": "Mars/Olympus"}, "zone 'Mars/Olympus' is not known"),
    ]
    for wishes, complaint in wrong:
        with pytest.raises(BadInput, match=complaint) as refused:
            plan(compactor, name, **wishes)
        assert "\n" not in str(refused.value)
    assert data_files(spark, name) == before
