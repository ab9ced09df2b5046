"""Tables at the edge: nothing in them, one file, a file listed twice, branches, tags, neighbours."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.errors import BadInput
from icepact.model.status import Status
from tests.support.checks import keeps_rows
from tests.support.messy import load, scan_tasks
from tests.support.oracle import data_files, seen
from tests.support.tables import create


def append(spark: SparkSession, table: str, first: int, last: int, *, files: int = 1) -> None:
    rows = spark.range(first, last, 1, files).selectExpr("id", "substr('ab', int(id % 2) + 1, 1) AS kind")
    rows.writeTo(table).append()


# -- nothing to do --------------------------------------------------------------------------------


def test_nothing_to_do(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A table without a snapshot, one with a snapshot and no rows, one whose rows are gone, one with one file."""
    new, hollow, emptied, single = (
        create(spark, f"{namespace}.{name}", "id bigint, kind string")
        for name in ("new", "hollow", "emptied", "single")
    )
    spark.range(0).selectExpr("id", "'x' AS kind").writeTo(hollow).append()
    append(spark, emptied, 0, 20, files=5)
    spark.sql(f"DELETE FROM {emptied}")
    append(spark, single, 0, 20)
    for table, rows, files in ((new, 0, 0), (hollow, 0, 0), (emptied, 0, 0), (single, 20, 1)):
        head = load(spark, f"local.{table}").currentSnapshot()
        outcome = compactor.compact(table)
        assert (outcome.status, outcome.files_before, outcome.files_after) == (Status.NOTHING_TO_DO, files, files)
        assert outcome.snapshot_id == (None if head is None else head.snapshotId())
        assert seen(spark, table)[0] == rows
        now = load(spark, f"local.{table}").currentSnapshot()
        assert (now and now.snapshotId()) == (head and head.snapshotId())


def test_rewrite_all_of_nothing(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, kind string")
    assert compactor.compact(table, rewrite_all=True).status is Status.NOTHING_TO_DO


# -- a broken table -------------------------------------------------------------------------------


def test_path_that_is_live_twice(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Its partition is refused with the path, and stays as it is; other partitions are compacted."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string", "kind")
    append(spark, table, 0, 60, files=6)
    java = load(spark, f"local.{table}")
    twice = next(task.file() for task in scan_tasks(java) if "/kind=b/" in task.file().location())
    java.newFastAppend().appendFile(twice).commit()
    in_b = f"(SELECT * FROM {table} WHERE kind = 'b')"
    files_of_b = f"SELECT file_path FROM {table}.data_files WHERE partition.kind = 'b' ORDER BY 1"
    before, files = seen(spark, in_b), spark.sql(files_of_b).collect()
    assert (before[0], len(files)) == (35, 7)

    plan = compactor.plan(table)
    assert [(entry.partition, entry.files, entry.reason) for entry in plan.left_out] == [
        ("kind=b", 7, f"refused: {twice.location()} is live more than once in this snapshot")
    ]
    outcome = keeps_rows(compactor, table)

    assert [g.partition for g in outcome.groups] == ["kind=a"]
    assert seen(spark, in_b) == before
    assert spark.sql(files_of_b).collect() == files
    assert compactor.compact(table, rewrite_all=True, where="kind = 'b'").status is Status.NOTHING_TO_DO


# -- branches, tags, neighbours -------------------------------------------------------------------


def test_branch(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Only the branch that was named changes."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string")
    append(spark, table, 0, 60, files=6)
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH `fix-1`")
    append(spark, f"{table}.`branch_fix-1`", 60, 90, files=3)
    spark.sql(f"DELETE FROM {table}.`branch_fix-1` WHERE id % 5 = 0")
    append(spark, table, 200, 210)
    main, files = seen(spark, table), data_files(spark, table)
    head = load(spark, f"local.{table}").currentSnapshot().snapshotId()
    assert seen(spark, table, branch="fix-1")[0] == 72

    outcome = keeps_rows(compactor, table, branch="fix-1")

    assert outcome.files_after == 1
    assert (seen(spark, table), data_files(spark, table)) == (main, files)
    assert load(spark, f"local.{table}").currentSnapshot().snapshotId() == head
    keeps_rows(compactor, table)
    assert seen(spark, table, branch="fix-1")[0] == 72


def test_tag(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A tag shows the same rows from the same files after main was compacted, and is never compacted itself."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string")
    append(spark, table, 0, 60, files=6)
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    spark.sql(f"ALTER TABLE {table} CREATE TAG audit")
    tagged, files = seen(spark, table, branch="audit"), data_files(spark, table, branch="audit")
    append(spark, table, 60, 90, files=3)

    keeps_rows(compactor, table)

    assert seen(spark, table, branch="audit") == tagged
    assert data_files(spark, table, branch="audit") == files
    with pytest.raises(BadInput, match=r"'audit' of .* is a tag, not a branch: tags never change"):
        compactor.compact(table, branch="audit")


def test_other_tables_are_not_touched(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Neither their files nor those in a folder whose name starts alike; no file of the table itself is lost."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string")
    neighbour = create(spark, f"{namespace}.t2", "id bigint, kind string")
    for name in (table, neighbour):
        append(spark, name, 0, 60, files=6)
    root = Path(str(load(spark, f"local.{table}").location()).removeprefix("file:")).parent
    stray = root / "t" / "data" / "icepact-notes.txt"
    stray.write_text("not ours")

    def listed() -> dict[str, tuple[int, int]]:
        found = [path for path in root.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    before = listed()
    keeps_rows(compactor, table)
    after = listed()

    assert {path: facts for path, facts in after.items() if path in before} == before
    assert all(path.startswith(f"{root}/t/") for path in after.keys() - before.keys())
