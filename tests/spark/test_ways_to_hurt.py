"""Ways to hurt a table that were found by attacking the protocol on purpose; each with a real catalog and real writers.

`plan` pins, `apply` reads at the pin and judges at the head; what a test does between the two is what somebody else did
during the rewrite.
"""

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.replace import replace_files
from icepact.iceberg.commit.run_files import vanished
from icepact.iceberg.table import table as tables
from icepact.iceberg.table.scan import live_deletes
from icepact.maintain import runs
from icepact.model.errors import BadInput, CommitUnknown, HeadMoved
from icepact.model.status import Status
from tests.support.later import clean_up_later
from tests.support.meanwhile import Meanwhile
from tests.support.messy import equality_delete, load
from tests.support.oracle import data_files, delete_files, seen
from tests.support.tables import create


@pytest.fixture(params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    """Formats that know deletes."""
    return int(request.param)


@pytest.fixture
def days(spark: SparkSession, namespace: str, version: int) -> str:
    """Two partitions of three small files each, ids 0 to 29; odd ones on day 1."""
    return make_days(spark, namespace, version)


@pytest.fixture
def old_days(spark: SparkSession, namespace: str) -> str:
    """The same in format version 2."""
    return make_days(spark, namespace, 2)


def make_days(spark: SparkSession, namespace: str, version: int) -> str:
    name = f"{namespace}.days"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day int, key bigint) USING iceberg PARTITIONED BY (day)"
        f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    for batch in range(3):
        append(spark, name, batch * 10, batch * 10 + 10)
    return name


def append(spark: SparkSession, table: str, start: int, end: int, step: int = 1) -> None:
    """Rows for both days, or with a step of 2 for one."""
    rows = spark.range(start, end, step, 1).selectExpr("id", "cast(id % 2 as int) AS day", "id AS key")
    rows.select(*spark.table(table).columns).writeTo(table).append()


def ids(spark: SparkSession, table: str) -> list[int]:
    """All rows."""
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {table}").collect())


def head(spark: SparkSession, table: str) -> int:
    """The current snapshot."""
    return int(load(spark, f"local.{table}").currentSnapshot().snapshotId())


def call(spark: SparkSession, procedure: str) -> None:
    spark.sql(f"CALL local.system.{procedure}")


def expire_all_but_the_head(spark: SparkSession, table: str) -> None:
    call(
        spark, f"expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    )
    spark.sql(f"REFRESH TABLE {table}")


def all_there(spark: SparkSession, table: str) -> bool:
    """Whether all live files are on storage."""
    return all(Path(path.removeprefix("file:")).is_file() for path in data_files(spark, table))


def before_the_commit(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let somebody do something after our judgement and before our commit, once."""
    pending = [action]

    def commit_after_action(*args: Any, **kwargs: Any) -> int:
        if pending:
            pending.pop()()
        return replace_files(*args, **kwargs)

    monkeypatch.setattr(protocol, "replace_files", commit_after_action)


# -- outputs that vanish (R6) -------------------------------------------------------------------------


def new_files(compactor: Compactor, table: str) -> list[Path]:
    """What runs have written below their folders."""
    location = Path(str(compactor.application.spark_catalog.table(table).table.location()).removeprefix("file:"))
    return sorted(location.glob("data/icepact-*/**/*.parquet"))


def test_files_that_vanish_before_the_commit_are_written_again(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    before = seen(spark, days)
    gone = []

    def remove_orphans() -> None:
        gone.append(new_files(compactor, days)[0])
        gone[0].unlink()

    outcome = compactor.compact(days, progress=Meanwhile("judged", remove_orphans))
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 2)
    assert (seen(spark, days), len(data_files(spark, days))) == (before, 2)
    assert not gone[0].exists()


def test_files_that_are_cut_short_before_the_commit_are_written_again(
    compactor: Compactor, spark: SparkSession, old_days: str
) -> None:
    before = seen(spark, old_days)

    def cut() -> None:
        file = new_files(compactor, old_days)[0]
        file.write_bytes(file.read_bytes()[:-1])

    outcome = compactor.compact(old_days, progress=Meanwhile("judged", cut))
    assert (outcome.status, seen(spark, old_days)) == (Status.COMMITTED, before)


def test_files_that_vanish_during_the_commit_are_missed_right_after_it(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_commit(monkeypatch, lambda: new_files(compactor, old_days)[0].unlink())
    outcome = compactor.compact(old_days)
    assert outcome.status is Status.FAILED
    assert "1 of the new files are not on storage, first " in (outcome.error or "")
    assert "it was rolled back" in (outcome.error or "")
    assert ids(spark, old_days) == list(range(30))


@pytest.mark.parametrize("too_old", [False, True])
def test_units_are_recalled_only_as_long_as_nobody_takes_them_for_orphans(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch, too_old: bool
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compactor.compact(old_days, progress=Meanwhile("attempting", die))
    written = {path.name for path in new_files(compactor, old_days)}
    if too_old:
        monkeypatch.setattr(runs, "RECALLED_FOR", timedelta())
    outcome = compactor.resume_dead(old_days)
    assert outcome is not None
    assert outcome.status is Status.COMMITTED
    spark.sql(f"REFRESH TABLE {old_days}")
    live = {path.rpartition("/")[2] for path in data_files(spark, old_days)}
    assert (live == written, live & written == set()) == (not too_old, too_old)
    assert ids(spark, old_days) == list(range(30))


def test_verify_says_what_is_missing(compactor: Compactor, spark: SparkSession, old_days: str) -> None:
    outcome = compactor.compact(old_days)
    new_files(compactor, old_days)[0].unlink()
    [checked] = compactor.verify(old_days, outcome.run_id)
    assert checked.same is False
    assert checked.reason.startswith("1 of its 2 files are not on storage any more, first ")


# -- what is not late (R7) ----------------------------------------------------------------------------


def test_a_rollback_to_an_older_equality_delete(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """The delete is older than what was read, and applies again."""
    earlier = head(spark, days)
    equality_delete(spark, f"local.{days}", [{"id": 5}], columns=["id"], partition="day=1")
    deleted = head(spark, days)
    call(spark, f"rollback_to_snapshot('{days}', {earlier})")
    append(spark, days, 100, 102, step=2)
    plan = compactor.plan(days, where="day = 1")
    call(spark, f"set_current_snapshot('{days}', {deleted})")
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, days) == [i for i in range(30) if i != 5]


def test_a_rollback_a_cherry_pick_and_a_delete(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """The same files are newer than when they were read: an equality delete in between does not apply to them."""
    earlier = head(spark, days)
    for start in (101, 111, 121):
        append(spark, days, start, start + 8, step=2)
    pinned = head(spark, days)
    picks = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {days}.snapshots ORDER BY committed_at").collect()]
    plan = compactor.plan(days, where="day = 1 AND id > 100")
    call(spark, f"rollback_to_snapshot('{days}', {earlier})")
    equality_delete(spark, f"local.{days}", [{"id": 103}], columns=["id"], partition="day=1")
    for snapshot in picks[picks.index(earlier) + 1 :]:
        call(spark, f"cherrypick_snapshot('{days}', {snapshot})")
    assert head(spark, days) != pinned
    equality_delete(spark, f"local.{days}", [{"id": 105}], columns=["id"], partition="day=1")
    expected = [i for i in (*range(30), *range(101, 129, 2)) if i != 105 and i not in (109, 119)]
    assert ids(spark, days) == expected
    outcome = compactor.apply(plan)
    assert outcome.status is Status.COMMITTED
    assert ids(spark, days) == expected


@pytest.mark.parametrize("expired", [False, True])
def test_a_key_column_that_is_dropped_after_the_pin(
    compactor: Compactor, spark: SparkSession, days: str, expired: bool
) -> None:
    """The outputs lack the column that a late equality delete asks for."""
    plan = compactor.plan(days, where="day = 1")
    equality_delete(spark, f"local.{days}", [{"key": 5}], columns=["key"], partition="day=1")
    spark.sql(f"ALTER TABLE {days} DROP COLUMN key")
    expected = [i for i in range(30) if i != 5]

    def expire() -> None:
        if expired:
            append(spark, days, 100, 102, step=2)
            expire_all_but_the_head(spark, days)
            expected.append(100)

    outcome = compactor.apply(plan, progress=Meanwhile("proven", expire))
    assert outcome.status is Status.COMMITTED
    assert ids(spark, days) == expected
    assert compactor.compact(days, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, days) == expected


# -- equality deletes on dropped columns --------------------------------------------------------------


def test_an_equality_delete_on_a_dropped_column_is_planned(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    equality_delete(spark, f"local.{days}", [{"key": 5}], columns=["key"], partition="day=1")
    spark.sql(f"ALTER TABLE {days} DROP COLUMN key")
    assert compactor.health(days).to_dict()
    plan = compactor.plan(days)
    assert len(plan.rewrites) == 2
    assert compactor.apply(plan).status is Status.COMMITTED
    assert ids(spark, days) == [i for i in range(30) if i != 5]
    assert delete_files(spark, days) == []


def test_a_delete_on_a_dropped_column_between_judgement_and_commit(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's own validation does not know dropped columns, and fails in its own way."""

    def delete() -> None:
        equality_delete(spark, f"local.{days}", [{"key": 5}], columns=["key"], partition="day=1", metrics=True)
        spark.sql(f"ALTER TABLE {days} DROP COLUMN key")

    before_the_commit(monkeypatch, delete)
    outcome = compactor.compact(days)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert ids(spark, days) == [i for i in range(30) if i != 5]


# -- starving (R8) ------------------------------------------------------------------------------------


def test_upserts_with_growing_keys_do_not_keep_a_run_from_finishing(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    """Their bounds miss the inputs: no scan attaches them, so nothing is new."""
    plan = compactor.plan(days)
    for key in (1000, 2000):
        append(spark, days, key, key + 2)
        for day in (0, 1):
            rows = [{"id": key + day}]
            equality_delete(spark, f"local.{days}", rows, columns=["id"], partition=f"day={day}", metrics=True)
    outcome = compactor.apply(plan)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 1)
    assert ids(spark, days) == list(range(30))


# -- a history that is cut off (R10) ------------------------------------------------------------------


def test_a_commit_that_was_refused_had_landed_and_has_expired(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog calls its own commit a conflict; by the time it is looked for, its snapshot has expired."""

    def lands_and_is_refused(*args: Any, **kwargs: Any) -> int:
        replace_files(*args, **kwargs)
        append(spark, days, 100, 102)
        expire_all_but_the_head(spark, days)
        raise HeadMoved("the table moved on")

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", lands_and_is_refused)
        outcome = compactor.compact(days)
    assert outcome.status is Status.COMMITTED
    clean_up_later(compactor, days)
    assert all_there(spark, days)
    assert ids(spark, days) == [*range(30), 100, 101]
    assert len(data_files(spark, days)) == 4


def test_a_pin_that_expires_before_anything_is_read(compactor: Compactor, spark: SparkSession, days: str) -> None:
    def expire() -> None:
        append(spark, days, 100, 102)
        expire_all_but_the_head(spark, days)

    outcome = compactor.compact(days, progress=Meanwhile("recorded", expire))
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert ids(spark, days) == [*range(30), 100, 101]


def test_a_head_that_expires_while_it_is_looked_at(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, real = [True], live_deletes

    def slowly(java: Any, table: Any, snapshot: Any) -> Any:
        if pending:
            pending.pop()
            append(spark, old_days, 100, 102)
            expire_all_but_the_head(spark, old_days)
        return real(java, table, snapshot)

    plan = compactor.plan(old_days)
    monkeypatch.setattr(tables, "live_deletes", slowly)
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert ids(spark, old_days) == [*range(30), 100, 101]


# -- row ids (R9) -------------------------------------------------------------------------------------


@pytest.mark.parametrize("upgraded", ["before", "meanwhile"])
def test_row_ids_that_come_between_judgement_and_commit_stay(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch, upgraded: str
) -> None:
    """The first append after an upgrade gives ids to all rows; what was read before it has none."""
    upgrade = f"ALTER TABLE {old_days} SET TBLPROPERTIES ('format-version' = '3')"
    if upgraded == "before":
        spark.sql(upgrade)
    told = []

    def give_ids() -> None:
        if upgraded == "meanwhile":
            spark.sql(upgrade)
        append(spark, old_days, 100, 102)
        told.append(seen(spark, old_days, lineage=True))

    before_the_commit(monkeypatch, give_ids)
    outcome = compactor.compact(old_days, where="id < 50")
    assert outcome.status is Status.COMMITTED
    assert seen(spark, old_days, lineage=True) == told[0]


def test_an_upgrade_between_judgement_and_commit_is_judged_again(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    real = protocol._judge

    def counting(*given: Any) -> Any:
        tried.append(given[0].format_version)
        return real(*given)

    monkeypatch.setattr(protocol, "_judge", counting)
    before_the_commit(
        monkeypatch, lambda: spark.sql(f"ALTER TABLE {old_days} SET TBLPROPERTIES ('format-version' = '3')")
    )
    assert compactor.compact(old_days).status is Status.COMMITTED
    assert len(tried) > 1
    assert ids(spark, old_days) == list(range(30))


# -- what no snapshot tells ---------------------------------------------------------------------------


@pytest.mark.parametrize(("when", "mapped"), [("staged", True), ("judged", True), ("proven", False)])
def test_files_without_ids_whose_meaning_changes_during_the_run(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path, when: str, mapped: bool
) -> None:
    """They hold a column that the table gets meanwhile, by the name mapping or by place: no snapshot tells of it."""
    table, folder = f"{namespace}.migrated", tmp_path / "plain"
    spark.sql(f"CREATE TABLE {table} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    spark.range(0, 60, 1, 6).selectExpr("id", "id * 2 AS foo").write.parquet(str(folder))
    spark.sql(f"CALL local.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')")
    if not mapped:
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    add = f"ALTER TABLE {table} ADD COLUMN foo bigint"
    outcome = compactor.compact(table, progress=Meanwhile(when, lambda: spark.sql(add)))
    assert outcome.status is Status.COMMITTED
    assert spark.sql(f"SELECT count(*), sum(foo) FROM {table}").collect()[0] == (60, 60 * 59)


def test_a_branch_that_is_dropped_between_judgement_and_commit_does_not_come_back(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java takes the history of `main` for that of a branch that is not there, and would make it anew."""
    spark.sql(f"ALTER TABLE {old_days} CREATE BRANCH audit")
    before_the_commit(monkeypatch, lambda: spark.sql(f"ALTER TABLE {old_days} DROP BRANCH audit"))
    outcome = compactor.compact(old_days, branch="audit")
    assert outcome.status is Status.FAILED
    assert "has no branch 'audit'" in (outcome.error or "")
    assert [row[0] for row in spark.sql(f"SELECT name FROM {old_days}.refs").collect()] == ["main"]
    assert compactor.compact(old_days).status is Status.COMMITTED  # nobody has stopped the table


def test_files_of_a_commit_that_was_rolled_back_at_once_are_not_committed_again(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, pending = head(spark, old_days), [True]

    def lands_and_is_taken_back(*args: Any, **kwargs: Any) -> int:
        landed = replace_files(*args, **kwargs)
        if pending:
            pending.pop()
            call(spark, f"rollback_to_snapshot('{old_days}', {before})")
            raise CommitUnknown("no answer")
        return landed

    monkeypatch.setattr(protocol, "replace_files", lands_and_is_taken_back)
    outcome = compactor.compact(old_days)
    assert outcome.status is Status.COMMITTED
    added = spark.sql(f"SELECT data_file.file_path FROM {old_days}.all_entries WHERE status = 1").collect()
    paths = [row[0] for row in added if "/icepact-" in row[0]]
    assert len(paths) == len(set(paths)) == 4
    assert ids(spark, old_days) == list(range(30))


@pytest.mark.parametrize("times", [1, 100])
def test_a_record_store_that_is_away_while_a_commit_is_judged(
    compactor: Compactor, spark: SparkSession, old_days: str, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Nothing was sent: it is tried again, and never called unknown."""
    away = iter(range(times))

    def now() -> Any:
        if next(away, None) is not None:
            raise BadInput("the record store cannot be reached")
        return real()

    def commit(*args: Any, **kwargs: Any) -> int:
        with monkeypatch.context() as patched:
            patched.setattr(compactor.application.store, "now", now)
            return replace_files(*args, **kwargs)

    real = compactor.application.store.now
    monkeypatch.setattr(protocol, "replace_files", commit)
    outcome = compactor.compact(old_days)
    assert outcome.status is (Status.COMMITTED if times == 1 else Status.FAILED)
    if times > 1:
        assert "the commit cannot be judged: the record store cannot be reached" in outcome.groups[0].reason
    assert ids(spark, old_days) == list(range(30))


# -- the check after a commit -------------------------------------------------------------------------


def test_a_lost_delete_from_before_the_pin_is_seen_after_the_commit(
    compactor: Compactor, spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is not rewritten needs it."""
    path = equality_delete(spark, f"local.{days}", [{"id": 4}], columns=["id"], partition="day=0")
    append(spark, days, 100, 102)

    def loses_it(*args: Any, dangling: list[str], **kwargs: Any) -> int:
        return replace_files(*args, dangling=[*dangling, path], **kwargs)

    monkeypatch.setattr(protocol, "replace_files", loses_it)
    outcome = compactor.compact(days, where="day = 1")
    assert outcome.status is Status.FAILED
    assert "it was rolled back" in (outcome.error or "")
    assert ids(spark, days) == [i for i in (*range(30), 100, 101) if i != 4]


# -- another state of the catalog ---------------------------------------------------------------------


@pytest.mark.parametrize("remembered", [True, False])
def test_a_clean_up_through_an_older_state_of_the_catalog_deletes_nothing_that_is_live(
    compactor: Compactor, spark: SparkSession, days: str, remembered: bool
) -> None:
    """A catalog restored from a copy knows the table as it was: the run's files are in no snapshot there."""
    old = metadata_of(spark, days)
    outcome = compactor.compact(days)
    new = metadata_of(spark, days)
    if not remembered:
        compactor.application.store.forget(before=compactor.application.store.now() + timedelta(days=1))
        assert not compactor.application.store.checkpoints(outcome.run_id)
    point_to(compactor, spark, days, old)
    clean_up_later(compactor, days)
    point_to(compactor, spark, days, new)
    assert all_there(spark, days)
    assert ids(spark, days) == list(range(30))


def metadata_of(spark: SparkSession, table: str) -> str:
    return str(load(spark, f"local.{table}").operations().current().metadataFileLocation())


def point_to(compactor: Compactor, spark: SparkSession, table: str, metadata: str) -> None:
    """As if the catalog had been restored."""
    assert compactor.catalog.embedded is not None
    namespace, _, name = table.partition(".")
    with sqlite3.connect(compactor.catalog.embedded / "catalog.db") as connection:
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?",
            (metadata, namespace, name),
        )
    connection.close()
    spark.sql(f"REFRESH TABLE {table}")


# -- a table that is not there any more ---------------------------------------------------------------


@pytest.mark.parametrize("how", ["ALTER TABLE {0} RENAME TO {0}2", "DROP TABLE {0}"])
@pytest.mark.parametrize("step", ["proven", "attempting"])
def test_a_table_that_is_renamed_or_dropped_during_a_run(
    compactor: Compactor, spark: SparkSession, old_days: str, how: str, step: str
) -> None:
    outcome = compactor.compact(old_days, progress=Meanwhile(step, lambda: spark.sql(how.format(old_days))))
    assert outcome.status in (Status.FAILED, Status.UNKNOWN)
    assert "NullPointer" not in (outcome.error or "")
    if how.startswith("ALTER"):
        assert ids(spark, f"{old_days}2") == list(range(30))


def test_the_clean_up_says_where_files_are_of_a_table_that_was_renamed(
    compactor: Compactor, spark: SparkSession, old_days: str
) -> None:
    def rename_and_die() -> None:
        spark.sql(f"ALTER TABLE {old_days} RENAME TO {old_days}2")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compactor.compact(old_days, progress=Meanwhile("attempting", rename_and_die))
    [left] = compactor.cleanup(old_days, delete=True)
    assert left.left_alone
    assert "has another name now, or is gone; if it was renamed, what the run left is below " in left.reason


def test_a_table_that_is_made_anew_during_a_run_supersedes_it(
    compactor: Compactor, spark: SparkSession, old_days: str
) -> None:
    anew = f"CREATE OR REPLACE TABLE {old_days} (id bigint) USING iceberg"
    outcome = compactor.compact(old_days, progress=Meanwhile("proven", lambda: spark.sql(anew)))
    assert (outcome.status, outcome.error) == (Status.SUPERSEDED, None)
    assert ids(spark, old_days) == []


def test_outputs_that_are_gone_or_changed_are_told_before_a_commit(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """Whatever spells their paths: Hadoop is not asked for a listing of local files."""
    table = create(spark, f"{namespace}.t", "id bigint")
    spark.range(0, 40, 1, 4).writeTo(table).append()
    whole, *rest, shorter, gone = map(Path, (path.removeprefix("file:") for path in data_files(spark, table)))
    described = [
        {"file-path": spelling + str(path), "file-size-in-bytes": path.stat().st_size}
        for path, spelling in zip([whole, *rest, shorter, gone], ["", "file:", "", "file:"], strict=True)
    ]
    loaded = compactor.application.spark_catalog.table(table)
    assert vanished(loaded, "run", described) == frozenset()
    gone.unlink()
    shorter.write_bytes(shorter.read_bytes()[:-1])
    assert vanished(loaded, "run", described) == {str(shorter), f"file:{gone}"}
