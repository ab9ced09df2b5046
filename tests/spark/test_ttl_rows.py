"""Data TTL of single rows on real tables: exactly those go that a file of their own would."""

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping import ttl
from icepact.housekeeping.event_time import event_time
from icepact.housekeeping.ttl import carry_out_ttl, plan_ttl
from icepact.iceberg.commit.delete_rows import delete_rows
from icepact.iceberg.table.file_ages import last_write
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput, CommitBroken, HeadMoved
from icepact.model.status import Status
from icepact.model.ttl import ExpireData, ExpireDataResult
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, seen
from tests.support.tables import create

CUTOFF = datetime(2026, 2, 1, 6, 30, tzinfo=UTC)
KEEP = timedelta(days=28)
NOW = CUTOFF + KEEP
COLUMNS = "id int, day date, at timestamp_ntz, tz timestamp, text string, n bigint, v int"
PATTERNS = {"text": "yyyy-MM-dd'T'HH:mm", "n": "epoch-ms"}
KINDS = {"day": "date", "at": "timestamp", "tz": "timestamptz", "text": "string", "n": "long"}
ODD = (
    *("2026-01-32T10:00", "2025-02-29T00:00", "2026-01-03", "2026-01-03 10:00", "x", ""),
    *("2026-01-03T10:00\n", "0000-01-01T00:00", "2026-01-03T24:00", "2026-1-03T010:00"),
)
"""Texts that follow no pattern, or speak of no time that there is."""
_ids = itertools.count(1)


def loaded(compactor: Compactor, name: str) -> IcebergTable:
    return compactor.application.spark_catalog.table(name)


def planned(compactor: Compactor, name: str, column: str = "at", **wishes: Any) -> ExpireData | str:
    usual = {"keep": KEEP, "now": NOW, "level": "file", "rows": True, "pattern": PATTERNS.get(column)}
    return plan_ttl(loaded(compactor, name), column=column, **{**usual, **wishes})


def carry_out(
    compactor: Compactor, name: str, step: ExpireData | str, *, check: Callable[[], None] = lambda: None
) -> ExpireDataResult:
    assert isinstance(step, ExpireData), step
    table = loaded(compactor, name)
    return carry_out_ttl(table, step, commit_id=f"run{next(_ids)}/0/1", check=check, sleep=lambda _: None)


def append(spark: SparkSession, name: str, moments: list[datetime | None], *, texts: tuple[str, ...] = ()) -> None:
    """One file, with a row for each moment, and for each text."""
    rows = [f"({next(_ids)}, {'null' if at is None else repr(at.isoformat(' '))}, null)" for at in moments]
    rows += [f"({next(_ids)}, null, '{text}')" for text in texts]
    spark.sql(
        f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, to_date(at), to_timestamp_ntz(at),"
        " to_timestamp(concat(at, 'Z')), coalesce(text, date_format(to_timestamp_ntz(at), \"yyyy-MM-dd'T'HH:mm\")),"
        " unix_millis(to_timestamp(concat(at, 'Z'))), id % 3"
        f" FROM VALUES {', '.join(rows)} AS t(id, at, text)"
    )


def old_ids(spark: SparkSession, name: str, column: str, zone: str) -> set[int]:
    """The rows that are old: judged one by one, by the rule for identity partitions."""
    clock = event_time(column, KINDS[column], pattern=PATTERNS.get(column), zone=zone)
    shown = {"tz": "unix_micros(tz)", "day": "string(day)"}.get(column, column)
    cutoff = (CUTOFF - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    old = set()
    for number, value in spark.sql(f"SELECT id, {shown} FROM {name}").collect():
        if column == "at" and value is not None:
            value = value.isoformat()
        if column == "tz" and value is not None:
            value = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).isoformat()
        span = clock.of_partition("identity", value)
        over = None if span is None else clock.over(span)
        if over is not None and over <= cutoff:
            old.add(number)
    return old


def ids(spark: SparkSession, name: str, branch: str = "main") -> list[int]:
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {name} VERSION AS OF '{branch}'").collect())


def moments(dice: random.Random, count: int) -> list[datetime | None]:
    """Around the cutoff, to the minute and to the microsecond."""
    local = CUTOFF.replace(tzinfo=None)
    steps = (timedelta(0), timedelta(microseconds=1), timedelta(minutes=1), timedelta(hours=10), timedelta(days=1))
    edges = [local + sign * step for step in steps for sign in (-1, 1)]
    some = [local + timedelta(minutes=dice.randrange(-4000, 4000)) for _ in range(count)]
    return [None, *edges, *some]


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        (1, "copy-on-write"),
        (2, "merge-on-read"),
        pytest.param(2, "copy-on-write", marks=pytest.mark.matrix),
        (3, "merge-on-read"),
        pytest.param(3, "copy-on-write", marks=pytest.mark.matrix),
    ],
)
def test_exactly_the_old_rows_go(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, mode: str
) -> None:
    """By every kind of column, on a branch of its own; whatever was deleted before stays so."""
    dice = random.Random(version)
    name = create(spark, f"{namespace}.t", COLUMNS, version=version, properties={"write.delete.mode": mode})
    old = datetime(2025, 12, 1, 3)  # noqa: DTZ001
    append(spark, name, [old, old + timedelta(days=3)])
    for _ in range(3):
        append(spark, name, moments(dice, 12), texts=ODD)
    append(spark, name, [datetime(2026, 3, 1)])  # noqa: DTZ001
    if mode == "merge-on-read":
        spark.sql(f"DELETE FROM {name} WHERE id % 5 = 0")
    if version > 1:
        equality_delete(spark, f"local.{name}", [{"v": 1}], columns=["v"])
    table = loaded(compactor, name)
    table.refresh()
    lineage = version == 3
    before, everything = data_files(spark, name), ids(spark, name)
    whole = seen(spark, name, lineage=lineage)
    for column, zone in (("day", "UTC"), ("at", "Pacific/Honolulu"), ("tz", "UTC"), ("text", "UTC"), ("n", "UTC")):
        spark.sql(f"ALTER TABLE {name} CREATE BRANCH b_{column}")
        spark.sql(f"REFRESH TABLE {name}")
        gone = old_ids(spark, name, column, zone)
        assert 2 < len(gone) < len(everything) - 5
        extra = ", _row_id, _last_updated_sequence_number" if lineage else ""
        stay = seen(spark, f"(SELECT *{extra} FROM {name} WHERE id NOT IN ({', '.join(map(str, gone))}))")
        wishes = {"zone": zone, "branch": f"b_{column}"}
        step = planned(compactor, name, column, **wishes)
        assert isinstance(step, ExpireData)
        assert f"then {step.mixed_rows} rows out of {step.mixed_files} file" in "\n".join(step.explain(None))
        result = carry_out(compactor, name, step)
        assert (result.mixed_rows, result.mixed_files) == (step.mixed_rows, step.mixed_files)
        assert result.files == (1 if column != "text" else result.files)
        assert result.reason == ""
        spark.sql(f"REFRESH TABLE {name}")
        left = ids(spark, name, f"b_{column}")
        assert left == sorted(set(everything) - gone), column
        assert seen(spark, f"(SELECT *{extra} FROM {name} VERSION AS OF 'b_{column}')") == stay, column
        assert result.rows_snapshot_id is not None
        assert str(loaded(compactor, name).fact(result.rows_snapshot_id, "commit-id")).endswith("/rows")
        again = planned(compactor, name, column, **wishes)
        assert isinstance(again, str), column
        assert "as a whole, and no row" in again
    assert seen(spark, name, lineage=lineage) == whole
    assert data_files(spark, name) == before


def day(text: str) -> datetime:
    """Noon, of a local day."""
    return datetime.fromisoformat(f"{text}T12:00")


OLD, YOUNG = day("2026-01-03"), day("2026-02-20")


def test_whole_partitions_go_first_and_rows_of_mixed_ones_follow(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, "months(at)", version=2)
    append(spark, name, [day("2025-12-03"), OLD, day("2026-01-31"), day("2026-02-01"), YOUNG, None])
    wishes: dict[str, Any] = {"level": "partition", "now": NOW - timedelta(days=7)}  # to the 25th of January
    whole = planned(compactor, name, rows=False, **wishes)
    assert isinstance(whole, ExpireData)
    assert (whole.files, whole.row_level, whole.mixed_rows) == (1, False, 0)
    step = planned(compactor, name, **wishes)
    assert isinstance(step, ExpireData)
    assert (step.files, step.mixed_files, step.mixed_rows) == (1, 1, 1)
    assert step.cost.seconds.likely > whole.cost.seconds.likely
    result = carry_out(compactor, name, step)
    assert (result.files, result.mixed_rows) == (1, 1)
    assert None not in (result.snapshot_id, result.rows_snapshot_id)
    left = [row[0] for row in spark.sql(f"SELECT at FROM {name} WHERE at IS NOT NULL ORDER BY at").collect()]
    assert left == [day("2026-01-31"), day("2026-02-01"), YOUNG]
    assert str(planned(compactor, name, **wishes)).startswith("no partition is older than 28d as a whole, and no row (")
    later = carry_out(compactor, name, planned(compactor, name))  # by file
    assert (later.files, later.mixed_rows, later.rows_snapshot_id) == (1, 0, None)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_what_others_write_meanwhile_is_kept(
    compactor: Compactor, spark: SparkSession, namespace: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first statement meets a conflict; then somebody appends between the judgement and the statement."""
    name = create(spark, f"{namespace}.t", COLUMNS, version=3, properties={"write.delete.mode": mode})
    append(spark, name, [OLD, YOUNG])
    step = planned(compactor, name)
    tries = itertools.count(1)

    def disturbed(*given: Any, **named: Any) -> int | None:
        if next(tries) == 1:
            raise HeadMoved("Found conflicting files")
        append(spark, name, [OLD, OLD, YOUNG])
        return delete_rows(*given, **named)

    monkeypatch.setattr(ttl, "delete_rows", disturbed)
    result = carry_out(compactor, name, step)
    assert next(tries) == 3
    assert (result.mixed_rows, result.mixed_files) == (3, 2)  # as Spark has met them
    spark.sql(f"REFRESH TABLE {name}")
    assert [row[0] for row in spark.sql(f"SELECT at FROM {name}").collect()] == [YOUNG, YOUNG]
    assert isinstance(planned(compactor, name), str)

    def always(*given: Any, **named: Any) -> int | None:
        raise HeadMoved("Found conflicting files")

    append(spark, name, [OLD, YOUNG])
    monkeypatch.setattr(ttl, "delete_rows", always)
    lost = carry_out(compactor, name, planned(compactor, name))
    assert not lost.done
    why = "rows were not deleted in 5 attempts, the last time because Found conflicting files"
    assert lost.lines() == [f"no data expired: {why}"]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_spark_refuses_to_commit_over_rows_that_it_has_not_seen(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody appends while Spark reads: the first commit is refused, and the second statement sees all."""
    name = create(spark, f"{namespace}.t", COLUMNS, version=3, properties={"write.delete.mode": mode})
    append(spark, name, [OLD, YOUNG])
    step, begun, appended = planned(compactor, name), str(tmp_path / "begun"), str(tmp_path / "appended")

    def waits(number: int) -> bool:
        open(begun, "w").close()
        while not os.path.exists(appended):
            time.sleep(0.05)
        return number > 0

    def write() -> None:
        while not os.path.exists(begun):
            time.sleep(0.05)
        append(spark, name, [OLD, YOUNG])
        open(appended, "w").close()

    refused: list[str] = []

    def slowly(*given: Any, condition: str, **named: Any) -> int | None:
        try:
            return delete_rows(*given, condition=f"{condition} AND waits(id)", **named)
        except HeadMoved as error:
            refused.append(str(error))
            raise

    spark.udf.register("waits", waits, "boolean")
    monkeypatch.setattr(ttl, "delete_rows", slowly)
    writer = threading.Thread(target=write)
    writer.start()
    result = carry_out(compactor, name, step)
    writer.join()
    assert [error.startswith("Found conflicting files") for error in refused] == [True]
    assert (result.mixed_rows, result.mixed_files, result.reason) == (2, 2, "")
    spark.sql(f"REFRESH TABLE {name}")
    assert [row[0] for row in spark.sql(f"SELECT at FROM {name}").collect()] == [YOUNG, YOUNG]


def test_writers_at_the_same_time(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Spark's own validation refuses what they have overtaken; whoever wins, no young row is lost or comes back."""
    name = create(spark, f"{namespace}.t", COLUMNS, version=2, properties={"write.delete.mode": "copy-on-write"})
    append(spark, name, [OLD, YOUNG])
    young, ended = [1], threading.Event()

    def write() -> None:
        for number in range(6):
            append(spark, name, [OLD, YOUNG])
            spark.sql(f"UPDATE {name} SET v = {number} + 10 WHERE at = timestamp_ntz'{YOUNG}'")
            young[0] += 1
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not ended.is_set():
            step = planned(compactor, name)
            if isinstance(step, ExpireData):
                carry_out(compactor, name, step)
    finally:
        writer.join()
    step = planned(compactor, name)
    if isinstance(step, ExpireData):
        carry_out(compactor, name, step)
    spark.sql(f"REFRESH TABLE {name}")
    rows = spark.sql(f"SELECT at, v FROM {name}").collect()
    assert [row[0] for row in rows] == [YOUNG] * young[0]
    assert {row[1] for row in rows} == {15}


def test_a_column_that_is_another_one_by_now(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark goes by names: if one is given to another column meanwhile, the wrong rows may go, and come back."""
    name = create(spark, f"{namespace}.t", "id int, at timestamp_ntz, other timestamp_ntz")
    spark.sql(
        f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES"
        f" (1, timestamp_ntz'{OLD}', timestamp_ntz'{YOUNG}'), (2, timestamp_ntz'{YOUNG}', timestamp_ntz'{OLD}')"
    )
    before = seen(spark, f"(SELECT id FROM {name})")
    step = planned(compactor, name)

    def renamed(*given: Any, **named: Any) -> int | None:
        for old, new in (("at", "third"), ("other", "at")):
            spark.sql(f"ALTER TABLE {name} RENAME COLUMN {old} TO {new}")
        return delete_rows(*given, **named)

    monkeypatch.setattr(ttl, "delete_rows", renamed)
    with pytest.raises(CommitBroken, match=r"column at became another one .* it was rolled back"):
        carry_out(compactor, name, step)
    spark.sql(f"REFRESH TABLE {name}")
    assert seen(spark, f"(SELECT id FROM {name})") == before


def test_a_row_that_others_deleted_meanwhile(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = create(spark, f"{namespace}.t", COLUMNS, version=2)
    append(spark, name, [OLD, YOUNG])
    step = planned(compactor, name)

    def late(*given: Any, **named: Any) -> int | None:
        spark.sql(f"DELETE FROM {name} WHERE at < timestamp_ntz'{YOUNG}'")
        return delete_rows(*given, **named)

    monkeypatch.setattr(ttl, "delete_rows", late)
    assert carry_out(compactor, name, step).mixed_rows == 0
    assert [row[0] for row in spark.sql(f"SELECT at FROM {name}").collect()] == [YOUNG]


def test_through_the_door(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Only if asked for; a dry run changes nothing; and what it did is no write from which age is measured."""
    now = datetime.now(UTC).replace(tzinfo=None)
    name = create(spark, f"{namespace}.t", COLUMNS, version=2)
    append(spark, name, [OLD - timedelta(days=400), now])
    append(spark, name, [now])
    written = spark.sql(f"SELECT max(committed_at) FROM {name}.snapshots").collect()[0][0].astimezone(UTC)
    files = data_files(spark, name)
    wishes: dict[str, Any] = {"column": "at", "keep": "90d", "level": "file", "since": "last-commit"}
    assert compactor.ttl(name, **wishes).status is Status.NOTHING_TO_DO
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('icepact.ttl-rows' = 'true')")
    assert compactor.ttl(name, **wishes, rows=False).status is Status.NOTHING_TO_DO
    dry = compactor.ttl(name, **wishes, dry_run=True)
    assert (dry.status, data_files(spark, name)) == (Status.PLANNED, files)
    done = compactor.ttl(name, **wishes)
    [result] = done.steps
    assert isinstance(result, ExpireDataResult)
    assert (done.status, result.mixed_rows, result.files) == (Status.COMMITTED, 1, 0)
    assert result.lines()[0].startswith("deleted 1 row out of 1 file with younger ones, in snapshot ")
    assert done.money > 0
    assert compactor.ttl(name, **wishes).status is Status.NOTHING_TO_DO
    assert last_write(loaded(compactor, name), "main") == written


def test_rows_that_cannot_be_selected_are_refused(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", "text string", "text")
    spark.sql(f"INSERT INTO {name} VALUES ('03.01.2026'), ('20.02.2026')")
    wishes: dict[str, Any] = {"column": "text", "level": "partition"}
    assert isinstance(planned(compactor, name, **wishes, pattern="dd.MM.yyyy", rows=False), ExpireData)
    for pattern, complaint in (
        ("dd.MM.yyyy", "do not sort as their times do"),
        ("yyyy'\\\\'MM", "cannot be said in SQL"),
    ):
        with pytest.raises(BadInput, match=complaint) as refused:
            planned(compactor, name, **wishes, pattern=pattern)
        assert "\n" not in str(refused.value)
