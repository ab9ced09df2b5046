"""Removal of orphans on real tables: exactly the old files that nothing refers to."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping import orphans
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table import listing
from icepact.iceberg.table.listing import NeededFiles
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.housekeeping import orphans_step, plan_chore
from icepact.model.errors import BadInput
from icepact.model.orphans import OrphanFile, OrphansResult, RemoveOrphans
from icepact.model.status import Status
from icepact.policy.options import Options
from tests.support.histories import History
from tests.support.java import jvm
from tests.support.oracle import seen
from tests.support.reach import location_of, on_disk, reachable

OLD = time.time() - 10 * 86400


def old(*paths: Path | str) -> None:
    """Make files as old as orphans are."""
    for path in paths:
        os.utime(path, (OLD, OLD))


def orphaned(folder: Path, names: Sequence[str]) -> set[str]:
    """Old files that no table has ever heard of."""
    made = [folder / name for name in names]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
    old(*made)
    return {str(path) for path in made}


NAMES = (
    "data/kind=a/lost.parquet",
    "data/kind=ü ñ/lost file%20.parquet",
    "data/x-deletes.parquet",
    "metadata/lost-m0.avro",
    "metadata/snap-1-1-lost.avro",
    "metadata/00099-lost.metadata.json",
    "metadata/lost.stats",
    "somewhere/else.bin",
)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_exactly_what_nothing_refers_to_goes(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    history = History(compactor, f"{namespace}.t", version, version=version)
    table, folder = history.table, location_of(spark, history.table)
    history.happen(10)
    lost = orphaned(folder, NAMES)
    hidden = orphaned(folder, ["_delta_log/1.json", "data/_temporary/x.parquet", ".hidden/y.parquet"])
    fresh = folder / "data" / "kind=a" / "being-written.parquet"
    fresh.write_bytes(b"x")
    before, needed, there = seen(spark, table), reachable(spark, table), on_disk(spark, table)
    old(*there - {str(fresh)})
    orphans = there - needed - hidden - {str(fresh)}
    assert lost <= orphans
    planned = compactor.orphans(table, dry_run=True)
    assert (planned.status, on_disk(spark, table)) == (Status.PLANNED, there)
    done = compactor.orphans(table)
    [result] = done.steps
    assert done.status is Status.COMMITTED, done.error
    assert on_disk(spark, table) == there - orphans
    assert isinstance(result, OrphansResult)
    assert result.files.files == len(orphans)
    assert planned.steps[0].to_dict()["files"] == result.to_dict()["files"]
    assert reachable(spark, table) <= on_disk(spark, table)
    assert seen(spark, table) == before
    assert compactor.orphans(table).status is Status.NOTHING_TO_DO


def test_a_listing_waits_until_it_is_known_what_is_needed(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun by then: a file that is committed meanwhile is needed, however few files it may remember."""
    table = History(compactor, f"{namespace}.t", 5, version=2).table
    folder = location_of(spark, table)
    late, lost = (str(folder / f"data/kind=a/{name}.parquet") for name in ("late", "lost"))
    orphaned(folder, ["data/kind=a/late.parquet", "data/kind=a/lost.parquet"])
    needed_files = orphans._needed_files

    def meanwhile(known: IcebergTable, locations: Sequence[str]) -> NeededFiles:
        wait_for(lambda: len(listings(spark)) == 1)
        _append_file(compactor, table, late)
        known.refresh()
        return needed_files(known, locations)

    def fails(known: IcebergTable, locations: Sequence[str]) -> NeededFiles:
        raise BadInput("no")

    for most in (1, 100_000):
        monkeypatch.setattr(listing, "_MOST_WAITING", most)
        monkeypatch.setattr(orphans, "_needed_files", fails)
        with pytest.raises(BadInput, match="no"):
            compactor.orphans(table, dry_run=True)
        wait_for(lambda: not listings(spark))
        monkeypatch.setattr(orphans, "_needed_files", meanwhile if most == 1 else needed_files)
        planned = compactor.orphans(table, dry_run=True).steps[0]
        assert planned.to_dict()["files"]["data_files"] == 1
    assert compactor.orphans(table).status is Status.COMMITTED
    assert (Path(late).exists(), Path(lost).exists()) == (True, False)


def listings(spark: SparkSession) -> list[str]:
    """Threads of Java that list."""
    threads = jvm(spark).java.lang.Thread.getAllStackTraces().keySet()
    return [name for name in (str(thread.getName()) for thread in threads) if name == "icepact-listing"]


def wait_for(done: Callable[[], bool]) -> None:
    """Until something is so."""
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_committed_after_the_listing_stays(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """A writer wrote its files long ago, and commits them between the list and the deletion."""
    history = History(compactor, f"{namespace}.t", 1, version=2)
    table, folder = history.table, location_of(spark, history.table)
    orphaned(folder, ["data/kind=a/late.parquet", "data/kind=a/lost.parquet"])
    plan = tmp_path / "list"
    application = compactor.application
    made = plan_chore(application.context(table), table, Options(), "orphans", orphans_step(()), allow_young=False)
    compactor.save_plan(made, plan)
    _append_file(compactor, table, str(folder / "data/kind=a/late.parquet"))
    outcome = compactor.apply(compactor.load_plan(plan))
    [result] = outcome.steps
    assert isinstance(result, OrphansResult)
    assert (result.files.files, result.needed_again) == (1, 1)
    assert (folder / "data/kind=a/late.parquet").exists()
    assert not (folder / "data/kind=a/lost.parquet").exists()


def test_a_list_of_files_elsewhere_is_refused(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    folder, context = location_of(spark, table), compactor.application.context(table)
    lost = orphaned(folder, ["data/lost.parquet", "data/lost2.parquet"])
    [other] = orphaned(tmp_path, ["others.parquet"])
    made = plan_chore(context, table, Options(), "orphans", orphans_step(()), allow_young=False)
    [step] = made.steps
    assert isinstance(step, RemoveOrphans)
    for strange in (other, f"{folder}/../others.parquet"):
        edited = replace(made, steps=(replace(step, paths=(*step.paths, OrphanFile(strange, 1, 1))),))
        outcome = compactor.apply(edited)
        assert outcome.status is Status.FAILED
        assert "plan again" in (outcome.error or "")
    assert all(Path(path).exists() for path in (*lost, other))


def _append_file(compactor: Compactor, table: str, path: str) -> None:
    loaded = compactor.application.spark_catalog.table(table)
    file = {
        "spec-id": 0,
        "content": "data",
        "file-path": path,
        "file-format": "parquet",
        "partition": ["a"],
        "record-count": 1,
        "file-size-in-bytes": 10,
    }
    append = loaded.table.newFastAppend()
    for one in loaded.java.items(described_files(loaded.java, loaded.table, [file])):
        append.appendFile(one)
    append.commit()


def test_bad_input_deletes_nothing(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    folder = location_of(spark, table)
    lost = orphaned(folder, ["data/lost.parquet"])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"older_than": "2h"}, "--allow-young"),
        ({"older_than": "-3d"}, "orphans_older_than"),
        ({"older_than": "soon"}, "orphans_older_than"),
    ]
    for given, words in cases:
        with pytest.raises(BadInput, match=words):
            compactor.orphans(table, **given)
    inner = f"{namespace}.inner"
    spark.sql(f"CREATE TABLE {inner} (id bigint) USING iceberg LOCATION '{folder}/inner'")
    spark.sql(f"INSERT INTO {inner} VALUES (1)")
    old(*(path for path in folder.rglob("*") if path.is_file()))
    for name in (table, inner):
        with pytest.raises(BadInput, match="may look like an orphan"):
            compactor.orphans(name)
    assert all(Path(path).exists() for path in lost)
    with pytest.raises(BadInput, match="see how it is spelled"):
        compactor.orphans(table, exclude=[f"file:{folder}/inner", f"{folder}_inner"])
    [result] = compactor.orphans(table, exclude=[f"file:{folder}/inner"]).steps
    assert isinstance(result, OrphansResult)
    assert result.files.files == 1
    assert spark.table(inner).count() == 1
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    with pytest.raises(BadInput, match=r"gc\.enabled"):
        compactor.orphans(table)
    left_out = {
        one.operation: one for one in compactor.maintain(table).operations if "gc.enabled" in (one.reason or "")
    }
    assert (set(left_out), any(one.failed for one in left_out.values())) == ({"expire", "orphans"}, False)


def test_a_table_that_is_made_after_the_list_stops_its_deletion(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Unless its folder was excluded when the list was made, which the list remembers."""
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    folder = location_of(spark, table)
    lost = [Path(path) for path in sorted(orphaned(folder, ["data/lost.parquet", "inner/data/x.parquet"]))]
    context = compactor.application.context(table)
    for number, exclude in enumerate(([], [f"{folder}/inner"])):
        step = orphans_step(exclude)
        made = plan_chore(context, table, Options(), "orphans", step, allow_young=False)
        compactor.save_plan(made, tmp_path / str(number))
    inner = f"{namespace}.inner"
    spark.sql(f"CREATE TABLE {inner} (id bigint) USING iceberg LOCATION '{folder}/inner'")
    refused = compactor.apply(compactor.load_plan(tmp_path / "0"))
    assert refused.status is Status.FAILED
    assert f"table {inner} is at {folder}/inner" in (refused.error or "")
    assert [path.exists() for path in lost] == [True, True]
    done = compactor.apply(compactor.load_plan(tmp_path / "1"))
    assert (done.status, [path.exists() for path in lost]) == (Status.COMMITTED, [False, True])


def test_a_table_that_cannot_be_loaded(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """It stops the removal of all others, until it is mended, or its folder is left alone."""
    table, broken = History(compactor, f"{namespace}.t", 1, version=2).table, f"{namespace}.broken"
    [lost] = orphaned(location_of(spark, table), ["data/lost.parquet"])
    spark.sql(f"CREATE TABLE {broken} (id bigint) USING iceberg")
    folder, catalog = location_of(spark, broken), compactor.application.spark_catalog
    [metadata] = folder.glob("metadata/*.metadata.json")
    metadata.rename(folder / "kept")
    identifier = catalog.java.iceberg.catalog.TableIdentifier.of(catalog._namespace((namespace,)), "broken")
    catalog._catalog().invalidateTable(identifier)  # what Spark remembers
    with pytest.raises(
        BadInput, match=rf"{broken} cannot be loaded: .*nothing is deleted.* --exclude {folder},"
    ) as told:
        compactor.orphans(table)
    assert "\n" not in str(told.value)
    assert Path(lost).exists()
    assert compactor.orphans(table, exclude=[str(folder)]).status is Status.COMMITTED
    assert not Path(lost).exists()
    (folder / "kept").rename(metadata)
    assert compactor.orphans(table).status is Status.NOTHING_TO_DO


def test_what_cannot_be_deleted_is_said(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    [stays] = orphaned(location_of(spark, table), ["data/stays.parquet"])
    monkeypatch.setattr(BulkDeletion, "delete", lambda self, paths: list(paths))
    [result] = compactor.orphans(table).steps
    assert isinstance(result, OrphansResult)
    assert (result.files.files, Path(stays).exists()) == (0, True)
    assert result.lines() == ["no orphans deleted: 1 file could not be deleted"]


def test_folders_of_several_names_are_one(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Links and dots lead to files of the table under other names than it has written down."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    for number, (location, data) in enumerate(
        [(f"{link}/t0", f"{real}/t0/data"), (f"{real}/t1", f"{link}/t1/data"), (f"{real}/t2", f"{real}/x/../t2/data")]
    ):
        table = f"{namespace}.t{number}"
        spark.sql(
            f"CREATE TABLE {table} (id bigint) USING iceberg LOCATION '{location}'"
            f" TBLPROPERTIES ('write.data.path' = '{data}')"
        )
        spark.sql(f"INSERT INTO {table} SELECT id FROM range(10)")
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('write.data.path')")
        spark.sql(f"INSERT INTO {table} SELECT id FROM range(10)")
        orphaned(real / f"t{number}", ["data/lost.parquet", "data/left/alone.parquet"])
        old(*(path for path in real.rglob("*") if path.is_file()))
        [result] = compactor.orphans(table, exclude=[f"{link}/t{number}/data/left"]).steps
        assert isinstance(result, OrphansResult)
        assert result.files.files == 1
        assert spark.table(table).count() == 20
        assert (real / f"t{number}/data/left/alone.parquet").exists()


def test_folders_that_two_tables_write_to_are_refused(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    table, other = f"{namespace}.t", f"{namespace}.other"
    for name in (table, other):
        spark.sql(
            f"CREATE TABLE {name} (id bigint) USING iceberg TBLPROPERTIES ('write.data.path' = '{tmp_path}/shared')"
        )
        spark.sql(f"INSERT INTO {name} SELECT id FROM range(10)")
    old(*(path for path in tmp_path.rglob("*") if path.is_file()))
    with pytest.raises(BadInput, match=r"other is at .*/shared"):
        compactor.orphans(table)
    for exclude in ("data", "", f"{tmp_path}/sha*"):
        with pytest.raises(BadInput, match="no folder that can be left alone"):
            compactor.orphans(table, exclude=[exclude])
    assert compactor.orphans(table, exclude=[f"{tmp_path}/shared"]).status is Status.NOTHING_TO_DO
    assert spark.table(other).count() == 10


def test_files_that_vanish_while_they_are_listed_are_no_error(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    folder, ended = location_of(spark, table) / "data" / "being-written", Event()
    folder.mkdir()

    def churn() -> None:
        while not ended.is_set():
            for number in range(50):
                (folder / str(number)).mkdir()
                (folder / f"{number}.parquet").touch()
            for number in range(50):
                (folder / f"{number}.parquet").unlink()
                (folder / str(number)).rmdir()

    writer = Thread(target=churn)
    writer.start()
    try:
        for _ in range(3):
            assert compactor.orphans(table, dry_run=True).status is Status.NOTHING_TO_DO
    finally:
        ended.set()
        writer.join()


SPELLINGS: dict[str, Any] = {
    "file:///a/b": "/a/b",
    "file:/a/b": "/a/b",
    "file://localhost/a/b": "/a/b",
    "/a//b": "/a/b",
    "s3a://bucket/a//b": "s3://bucket/a//b",
    "s3n://bucket/a b%20c": "s3://bucket/a b%20c",
    "S3://bucket/ü": "s3://bucket/ü",
    "abfss://c@acc.dfs.core.windows.net/a": "abfs://c@acc.dfs.core.windows.net/a",
    "hdfs://nn1:8020/a": "hdfs://nn1:8020/a",
}


def test_paths_are_compared_as_stores_compare_them(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = compactor.application.spark_catalog.table(History(compactor, f"{namespace}.t", 1, version=2).table)
    keys = instance_of(table.java, "Reachability")
    assert {path: str(keys.key(path)) for path in SPELLINGS} == SPELLINGS
    keys.watch(table.java.from_json(["hdfs://nn1:8020/warehouse/t"], "java.util.ArrayList"))
    keys.addPath("hdfs://nn1:8020/warehouse/t/data/f")
    assert keys.astray() is None
    keys.addPath("hdfs://other:8020/warehouse/t/data/f")
    assert keys.astray() == "hdfs://other:8020/warehouse/t/data/f"
