"""What each protection of housekeeping is for: an order of events that does no harm, and does without it."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping import expire, orphans
from icepact.iceberg import metadata
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.commit.expire import commit_expiry
from icepact.iceberg.commit.run_files import RUN_FOLDER
from icepact.iceberg.table.history import current_metadata
from icepact.iceberg.table.listing import NeededFiles
from icepact.iceberg.table.reachability import UnreachableFiles
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain import housekeeping, steps
from icepact.model.errors import BadInput
from icepact.model.expiry import ExpireSnapshots
from icepact.model.orphans import RemoveOrphans
from icepact.model.progress import Silent
from icepact.policy.options import Options
from tests.support.java import jvm
from tests.support.messy import load
from tests.support.reach import location_of, on_disk, reachable

OLD = time.time() - 10 * 86400


class Harm(AssertionError):
    """Something is gone that somebody needed, or something is left for good."""


@dataclass
class World:
    """A table whose old snapshots may go: two files were appended, overwritten, and one more was appended."""

    compactor: Compactor
    spark: SparkSession
    table: str
    patch: pytest.MonkeyPatch

    def begin(self) -> None:
        """Create it."""
        self.spark.sql(
            f"CREATE TABLE {self.table} (id bigint) USING iceberg TBLPROPERTIES ("
            "'format-version' = '2', 'history.expire.max-snapshot-age-ms' = '1')"
        )
        self.append()
        self.append()
        self.spark.sql(f"INSERT OVERWRITE {self.table} SELECT 7")
        self.append()

    def append(self) -> None:
        """One file."""
        self.spark.range(0, 10, 1, 1).writeTo(self.table).append()

    @property
    def loaded(self) -> IcebergTable:
        """As icepact has it."""
        return self.compactor.application.spark_catalog.table(self.table)

    @property
    def snapshots(self) -> list[int]:
        """Oldest first."""
        rows = self.spark.sql(f"SELECT snapshot_id FROM {self.table}.snapshots ORDER BY committed_at").collect()
        return [int(row[0]) for row in rows]

    @property
    def folder(self) -> Path:
        """Of the table."""
        return location_of(self.spark, self.table)

    def expire(self) -> None:
        """By the table's own age."""
        outcome = self.compactor.expire(self.table)
        self.error = outcome.error

    def old_file(self, name: str) -> Path:
        """Of nobody."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
        os.utime(path, (OLD, OLD))
        return path

    def plan_orphans(self, runs: Sequence[str] = ()) -> RemoveOrphans:
        """The step."""
        step = orphans.plan_orphans(
            self.loaded,
            older_than=datetime.now(UTC) - timedelta(days=3),
            exclude=(),
            runs=dict.fromkeys(runs, "open"),
            neighbours=dict,
            uploads=lambda _: 0,
        )
        assert isinstance(step, RemoveOrphans)
        return step

    def carry_out_orphans(self, step: RemoveOrphans, runs: Sequence[str] = ()) -> None:
        """Without a run."""
        orphans.carry_out_orphans(
            self.loaded,
            step,
            journal=Quiet(),
            runs=dict.fromkeys(runs, "open"),
            neighbours=lambda: self.compactor.application.spark_catalog.neighbours(but=self.table),
            abort_uploads=lambda _: 0,
        )

    def nothing_is_missing(self) -> None:
        """Every file that the table needs is there."""
        if missing := reachable(self.spark, self.table) - on_disk(self.spark, self.table):
            raise Harm(f"missing: {sorted(missing)}")


class Quiet:
    """A journal that says nothing."""

    def check(self) -> None:
        """Go on."""

    def deleted(self, files: int, size: int) -> None:
        """Well."""


# -- expiry -----------------------------------------------------------------------------------------


def after_the_commit(world: World, happens: Callable[[IcebergTable], None]) -> None:
    """Have something happen between the commit of an expiry and its deletion."""

    def committed(table: IcebergTable, *args: Any) -> None:
        commit_expiry(table, *args)
        happens(table)
        table.refresh()

    world.patch.setattr(expire, "commit_expiry", committed)


def a_removed_file_is_added_again(world: World) -> None:
    """While the expiry has committed, and not deleted."""
    java = load(world.spark, f"local.{world.table}")
    first = java.snapshot(world.snapshots[0])
    changes = jvm(world.spark).org.apache.iceberg.SnapshotChanges.builderFor(java).snapshot(first).build()
    file = next(iter(changes.addedDataFiles()))
    after_the_commit(world, lambda table: table.table.newFastAppend().appendFile(file).commit())
    world.expire()
    world.nothing_is_missing()


def statistics_are_given_to_another_snapshot(world: World) -> None:
    """The file of an expired snapshot's is registered for the head."""
    first, *_, head = world.snapshots
    path = world.old_file("metadata/some.stats")

    def register(table: Any, snapshot_id: int) -> None:
        file = table.java.jvm.org.apache.iceberg.GenericStatisticsFile(
            snapshot_id, str(path), 10, 4, table.java.from_json([], "java.util.ArrayList")
        )
        table.table.updateStatistics().setStatistics(file).commit()

    register(world.loaded, first)
    after_the_commit(world, lambda table: register(table, head))
    world.expire()
    world.nothing_is_missing()


def somebody_tags_what_was_judged(world: World) -> None:
    """A moment before the commit."""
    first = world.snapshots[0]
    write_down = steps.RunJournal.write_down

    def tagged(self: steps.RunJournal, files: Any) -> None:
        write_down(self, files)
        world.spark.sql(f"ALTER TABLE {world.table} CREATE TAG IF NOT EXISTS late AS OF VERSION {first}")

    world.patch.setattr(steps.RunJournal, "write_down", tagged)
    world.expire()
    try:
        world.spark.sql(f"SELECT * FROM {world.table} VERSION AS OF 'late'").collect()
    except PySparkException as error:
        raise Harm("the tag is gone") from error


def a_run_works_with_an_old_snapshot(world: World) -> None:
    """The plan of a run that is under way; others may expire with records of the same store."""

    class Listener(Silent):
        """Asks in the middle of the run."""

        def step(self, name: str) -> None:
            """The newest was made meanwhile."""
            if name == "recorded":
                head = world.snapshots[-1]
                world.append()
                made = housekeeping.plan_chore(
                    world.compactor.application.context(world.table),
                    world.table,
                    Options(),
                    "expire",
                    housekeeping.expire_step,
                    allow_young=False,
                )
                expiries = [step for step in made.steps if isinstance(step, ExpireSnapshots)]
                gone = {number for expiry in expiries for number in expiry.snapshot_ids}
                if head in gone:
                    raise Harm(f"{head} would expire")

    world.compactor.compact(world.table, rewrite_all=True, progress=Listener())


def a_write_waits_for_its_audit(world: World) -> None:
    """It was staged, and is as old as those that go."""
    world.spark.sql(f"ALTER TABLE {world.table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    world.spark.conf.set("spark.wap.id", "audit")
    world.append()
    world.spark.conf.unset("spark.wap.id")
    staged = world.snapshots[-1]
    time.sleep(0.01)
    world.expire()
    if staged not in world.snapshots:
        raise Harm("the staged write is gone")


def others_may_need_the_files(world: World) -> None:
    """And say so."""
    world.spark.sql(f"ALTER TABLE {world.table} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    there = on_disk(world.spark, world.table)
    with suppress(BadInput):
        world.expire()
    if gone := there - on_disk(world.spark, world.table):
        raise Harm(f"gone: {gone}")


def killed_after_the_commit(world: World) -> None:
    """The deletion dies; the next command carries on."""
    before = on_disk(world.spark, world.table)

    def dies(self: BulkDeletion, paths: Sequence[str]) -> list[str]:
        raise OSError("no answer")

    with world.patch.context() as dying:
        dying.setattr(BulkDeletion, "delete", dies)
        world.expire()
    world.compactor.expire(world.table)
    world.nothing_is_missing()
    if left := before & on_disk(world.spark, world.table) - reachable(world.spark, world.table):
        raise Harm(f"left: {left}")


# -- orphans ----------------------------------------------------------------------------------------


def committed_between_list_and_deletion(world: World) -> None:
    """A writer wrote long ago, and commits late."""
    path = world.old_file("data/late.parquet")
    world.old_file("data/lost.parquet")
    step = world.plan_orphans()
    iceberg = jvm(world.spark).org.apache.iceberg
    file = iceberg.DataFiles.builder(iceberg.PartitionSpec.unpartitioned()).withPath(str(path))
    file = file.withFormat("parquet").withFileSizeInBytes(10).withRecordCount(1).build()
    world.loaded.table.newFastAppend().appendFile(file).commit()
    world.carry_out_orphans(step)
    world.nothing_is_missing()


def a_run_of_ours_is_open(world: World) -> None:
    """It began long ago, and its files are on no snapshot yet."""
    path = world.old_file(f"data/{RUN_FOLDER}r1/part.parquet")
    world.old_file("data/lost.parquet")
    world.carry_out_orphans(world.plan_orphans(["r1"]), ["r1"])
    if not path.exists():
        raise Harm("a file of the run is gone")


def a_run_of_ours_is_opened_after_the_list(world: World) -> None:
    """It takes up files of its own that were listed."""
    path = world.old_file(f"data/{RUN_FOLDER}r1/part.parquet")
    step = world.plan_orphans()
    assert str(path) in {file.path for file in step.paths}
    world.carry_out_orphans(step, ["r1"])
    if not path.exists():
        raise Harm("a file of the run is gone")


def another_table_is_inside(world: World) -> None:
    """Its files look like orphans."""
    inner = f"{world.table}_inner"
    world.spark.sql(f"CREATE TABLE {inner} (id bigint) USING iceberg LOCATION '{world.folder}/inner'")
    world.spark.sql(f"INSERT INTO {inner} VALUES (1)")
    for path in world.folder.rglob("*.parquet"):
        os.utime(path, (OLD, OLD))
    needed = reachable(world.spark, inner)
    with suppress(BadInput):
        world.compactor.orphans(world.table)
    if missing := needed - on_disk(world.spark, world.table):
        raise Harm(f"missing: {missing}")


def another_table_is_made_inside_after_the_list(world: World) -> None:
    """It takes up a file that was listed."""
    path = world.old_file("inner/data/added.parquet")
    step = world.plan_orphans()
    inner, iceberg = f"{world.table}_inner", jvm(world.spark).org.apache.iceberg
    world.spark.sql(f"CREATE TABLE {inner} (id bigint) USING iceberg LOCATION '{world.folder}/inner'")
    file = iceberg.DataFiles.builder(iceberg.PartitionSpec.unpartitioned()).withPath(str(path))
    file = file.withFormat("parquet").withFileSizeInBytes(10).withRecordCount(1).build()
    world.compactor.application.spark_catalog.table(inner).table.newFastAppend().appendFile(file).commit()
    with suppress(BadInput):
        world.carry_out_orphans(step)
    if not path.exists():
        raise Harm("a file of the other table is gone")


def a_writer_is_in_flight(world: World) -> None:
    """And somebody thinks that a second is long."""
    path = world.folder / "data" / "in-flight.parquet"
    path.write_bytes(b"x")
    os.utime(path, (time.time() - 60, time.time() - 60))
    with suppress(BadInput):
        world.compactor.orphans(world.table, older_than="1s")
    if not path.exists():
        raise Harm("a file in flight is gone")


def where_tasks_judge(danger: Callable[[World], None]) -> Callable[[World], None]:
    """The same, where there is so much to read that tasks of Spark do it."""

    def same(world: World) -> None:
        world.patch.setattr("icepact.iceberg.table.reachability.MOST_HERE", 0)
        danger(world)

    same.__name__ = f"{danger.__name__}_where_tasks_judge"
    return same


# -- without protection -----------------------------------------------------------------------------


def not_looked_again(patch: pytest.MonkeyPatch) -> None:
    """What came since the judgement does not count."""
    patch.setattr(UnreachableFiles, "look_again", lambda self: None)


def names_not_asked(patch: pytest.MonkeyPatch) -> None:
    """What the metadata itself names does not count."""
    patch.setattr(expire, "_keep_what_is_named", lambda table, files: None)


def bound_to_nothing(patch: pytest.MonkeyPatch) -> None:
    """The commit goes upon whatever is newest."""

    def anyway(table: IcebergTable, base: Any, *args: Any) -> None:
        table.refresh()
        commit_expiry(table, current_metadata(table), *args)

    patch.setattr(expire, "commit_expiry", anyway)


def runs_not_asked(patch: pytest.MonkeyPatch) -> None:
    """Nobody needs a snapshot."""
    patch.setattr(housekeeping, "needed_snapshots", lambda *args, **named: {})


def staged_like_any_other(patch: pytest.MonkeyPatch) -> None:
    """Nothing shows that it waits."""
    patch.setattr(metadata, "_STAGED", "no such word")


def protected_all_the_same(patch: pytest.MonkeyPatch) -> None:
    """`gc.enabled` is not asked."""
    patch.setattr(expire, "refuse_protected", lambda table: None)


def nothing_written_down(patch: pytest.MonkeyPatch) -> None:
    """The list is in memory only."""
    patch.setattr(steps.RunJournal, "write_down", lambda self, files: None)


def listed_is_gone(patch: pytest.MonkeyPatch) -> None:
    """The second look before a deletion is left out."""
    add, calls = NeededFiles.add, list[int]()

    def once(self: NeededFiles, table: IcebergTable) -> None:
        if not calls:
            add(self, table)
        calls.append(1)

    patch.setattr(orphans, "_KNOWN", {})
    patch.setattr(NeededFiles, "add", once)


def no_marks(patch: pytest.MonkeyPatch) -> None:
    """Files of runs are like any others."""
    patch.setattr(orphans, "_marks", lambda runs: [])


def no_neighbours(patch: pytest.MonkeyPatch) -> None:
    """Other tables are not asked for."""
    patch.setattr(orphans, "refuse_shared", lambda *args: None)


def no_floor(patch: pytest.MonkeyPatch) -> None:
    """Any age will do."""
    patch.setattr(housekeeping, "refuse_young", lambda *args: None)


Unprotected = Callable[[pytest.MonkeyPatch], None]
Danger = Callable[[World], None]
DANGERS: list[tuple[Unprotected, Danger]] = [
    (not_looked_again, a_removed_file_is_added_again),
    (not_looked_again, where_tasks_judge(a_removed_file_is_added_again)),
    (names_not_asked, statistics_are_given_to_another_snapshot),
    (names_not_asked, where_tasks_judge(statistics_are_given_to_another_snapshot)),
    (bound_to_nothing, somebody_tags_what_was_judged),
    (runs_not_asked, a_run_works_with_an_old_snapshot),
    (staged_like_any_other, a_write_waits_for_its_audit),
    (protected_all_the_same, others_may_need_the_files),
    (nothing_written_down, killed_after_the_commit),
    (listed_is_gone, committed_between_list_and_deletion),
    (no_marks, a_run_of_ours_is_open),
    (no_marks, a_run_of_ours_is_opened_after_the_list),
    (no_neighbours, another_table_is_inside),
    (no_neighbours, another_table_is_made_inside_after_the_list),
    (no_floor, a_writer_is_in_flight),
]


def _name(function: Callable[..., object]) -> str:
    return function.__name__


@pytest.fixture
def world(compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch) -> World:
    """A fresh one."""
    made = World(compactor, spark, f"{namespace}.t", monkeypatch)
    made.begin()
    return made


@pytest.mark.parametrize("danger", [danger for _, danger in DANGERS], ids=_name)
def test_a_danger_is_averted(world: World, danger: Danger) -> None:
    danger(world)


@pytest.mark.parametrize(("unprotected", "danger"), DANGERS, ids=_name)
def test_a_danger_is_real(world: World, unprotected: Unprotected, danger: Danger) -> None:
    unprotected(world.patch)
    with pytest.raises(Harm):
        danger(world)
