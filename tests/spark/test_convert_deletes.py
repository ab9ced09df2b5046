"""Deletes are converted while data stays: what readers see is the same, and a second run plans nothing."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.deletes.bitmaps import PositionSet
from icepact.execute.deletes.vectors import encode_vector
from icepact.iceberg.commit.run_files import listed_files, run_folder
from icepact.model.delete_files import ConvertDeletes, ConvertDeletesResult
from icepact.model.files import DeleteKind
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.messy import equality_delete, load
from tests.support.oracle import data_files, delete_files, seen
from tests.support.tables import create

VERSIONS = pytest.mark.parametrize("version", [2, 3])


def kinds(compactor: Compactor, table: str, branch: str = "main") -> dict[str, int]:
    """Live deletes by kind."""
    found = compactor.application.spark_catalog.table(table).view(branch, []).deletes
    return {kind.value: n for kind in DeleteKind if (n := sum(delete.kind is kind for delete in found))}


def converted(
    compactor: Compactor, table: str, *, branch: str = "main", lineage: bool = False, settles: bool = True
) -> ConvertDeletesResult:
    """Convert, and compare what readers see before and after; data files stay, and a second run plans nothing."""
    spark = compactor.spark
    before, files = seen(spark, table, branch=branch, lineage=lineage), data_files(spark, table, branch=branch)
    outcome = compactor.deletes(table, branch=branch)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None), outcome.error
    assert seen(spark, table, branch=branch, lineage=lineage) == before
    assert data_files(spark, table, branch=branch) == files
    [checked] = compactor.verify(table, outcome.run_id)
    assert (checked.same, checked.rows is not None) == (True, True)
    nothing_left(compactor, table, outcome, branch)
    if settles:
        again = compactor.deletes(table, branch=branch)
        assert (again.status, again.steps) == (Status.NOTHING_TO_DO, ())
    [result] = outcome.steps
    assert isinstance(result, ConvertDeletesResult)
    assert result.snapshot_id == outcome.snapshot_id
    return result


def nothing_left(compactor: Compactor, table: str, outcome: Outcome, branch: str = "main") -> None:
    """Below the run's folder is what the branch refers to, and nothing else."""
    loaded = compactor.application.spark_catalog.table(table)
    stored = {path.rsplit("/", 1)[-1] for path in listed_files(loaded, run_folder(loaded, outcome.run_id))}
    live = [*data_files(compactor.spark, table, branch=branch), *(d.path for d in loaded.view(branch, []).deletes)]
    assert stored <= {path.rsplit("/", 1)[-1] for path in live}


def append(spark: SparkSession, table: str, start: int, end: int, files: int = 1) -> None:
    rows = spark.range(start, end, 1, files).selectExpr("id", "cast(id % 2 as int) AS day", "concat('w', id) AS word")
    rows.writeTo(table).append()


def ids(spark: SparkSession, table: str, branch: str = "main") -> set[int]:
    found = [row[0] for row in spark.sql(f"SELECT id FROM {table} VERSION AS OF '{branch}'").collect()]
    assert len(found) == len(set(found))
    return set(found)


@VERSIONS
def test_keys_become_positions(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """Beside position deletes that are there; rows with a deleted key that were appended later stay."""
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", "day", version=version)
    append(spark, table, 0, 100, files=2)
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 4, 5)")
    equality_delete(spark, f"local.{table}", [{"id": 10}, {"id": 4}], columns=["id"], partition="day=0", metrics=True)
    equality_delete(spark, f"local.{table}", [{"id": 11}], columns=["id"], partition="day=1")
    append(spark, table, 10, 12)
    append(spark, table, 1000, 1002)
    result = converted(compactor, table, lineage=version > 2)
    assert ids(spark, table) == {*range(100), 1000, 1001} - {3, 4, 5}
    assert (result.removed.equality, result.rows, result.idle) == (2, 3, 0)
    assert kinds(compactor, table) == {"dv" if version > 2 else "position": result.added}
    assert 0 < result.bytes_written < 20_000

    spark.sql(f"DELETE FROM {table} WHERE id = 50")
    merge = f"MERGE INTO {table} t USING (SELECT 51 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    spark.sql(merge)
    assert ids(spark, table) == {*range(100), 1000, 1001} - {3, 4, 5, 50, 51}
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED
    assert ids(spark, table) == {*range(100), 1000, 1001} - {3, 4, 5, 50, 51}
    assert delete_files(spark, table) == []


@VERSIONS
def test_every_kind_of_key(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """Nulls, NaN, zeros with a sign, several columns; columns renamed, promoted, added and dropped since."""
    columns = "id int, word string, num double, extra int"
    table = create(spark, f"{namespace}.t", columns, version=version)
    rows = [
        (1, "a", 0.0, 1), (2, None, -0.0, 2), (3, "c", math.nan, 3), (4, "d", 1.5, None), (5, None, None, 5),
        (6, "f", math.inf, 6), (7, "a", 7.5, 7),
    ]  # fmt: skip
    spark.createDataFrame(rows, columns.replace("double", "double")).coalesce(1).writeTo(table).append()
    name = f"local.{table}"
    equality_delete(spark, name, [{"num": -0.0}, {"num": math.nan}], columns=["num"])
    equality_delete(spark, name, [{"extra": None}, {"extra": 7}], columns=["extra"])
    spark.sql(f"ALTER TABLE {table} DROP COLUMN extra")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE bigint")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN word TO text")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more int")
    equality_delete(spark, name, [{"text": None, "num": None}, {"text": "a", "num": 7.0}], columns=["text", "num"])
    equality_delete(spark, name, [{"id": 6, "more": None}, {"id": 1, "more": 3}], columns=["id", "more"])
    result = converted(compactor, table)
    assert ids(spark, table) == {1}
    assert (result.removed.equality, result.rows, result.added) == (4, 6, 1)


@VERSIONS
def test_every_scope(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """Global deletes reach all specs, those of a partition only theirs; what reaches nothing goes."""
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", "", version=version)
    name = f"local.{table}"
    append(spark, table, 0, 10)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD day")
    append(spark, table, 10, 20)
    equality_delete(spark, name, [{"id": 3}, {"id": 13}], columns=["id"], unpartitioned=True)
    equality_delete(spark, name, [{"id": 5}, {"id": 14}], columns=["id"], partition="day=0")
    equality_delete(spark, name, [{"id": 15}], columns=["id"], partition="day=7")
    append(spark, table, 20, 30)
    equality_delete(spark, name, [{"id": 500}], columns=["id"], unpartitioned=True, metrics=True)
    result = converted(compactor, table)
    assert ids(spark, table) == set(range(30)) - {3, 13, 14}
    assert (result.removed.equality, result.idle, result.added) == (4, 2, 3)


@VERSIONS
def test_odd_partitions(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    """NaN, infinity and both zeros, which Iceberg's JSON does not tell or keep apart: each file's delete is where the
    file is, and later deletes and rewrites find it."""
    table = create(spark, f"{namespace}.t", "id bigint, num double", version=version)
    java = load(spark, f"local.{table}")
    java.updateSpec().addField("num").commit()
    spark.sql(f"REFRESH TABLE {table}")
    odd = "element_at(array(double('NaN'), -0d, 0d, double('-Infinity'), 1.5d), int(id % 5) + 1)"
    spark.range(0, 50, 1, 1).selectExpr("id", f"{odd} AS num").writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (0, 1)")
    equality_delete(spark, f"local.{table}", [{"id": n} for n in range(5, 10)], columns=["id"], unpartitioned=True)
    left = set(range(50)) - {0, 1, 5, 6, 7, 8, 9}
    result = converted(compactor, table, lineage=version > 2)
    assert (ids(spark, table), result.added, result.rows) == (left, 5, 5)
    where = f"SELECT string(partition.num) FROM {table}.{{}} ORDER BY ALL"
    assert spark.sql(where.format("delete_files")).collect() == spark.sql(where.format("data_files")).collect()
    spark.sql(f"DELETE FROM {table} WHERE id IN (10, 11)")
    assert ids(spark, table) == left - {10, 11}
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED
    assert (ids(spark, table), delete_files(spark, table)) == (left - {10, 11}, [])


def test_positions_are_merged(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Several files for one data file become one; those of a partition take all that hang together with them."""
    properties = {"write.delete.granularity": "partition"}
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", "day", properties=properties)
    append(spark, table, 0, 100, files=3)
    spark.sql(f"DELETE FROM {table} WHERE id IN (2, 50, 90)")
    assert kinds(compactor, table) == {"position": 1}
    assert compactor.deletes(table).status is Status.NOTHING_TO_DO
    spark.sql(f"DELETE FROM {table} WHERE id IN (4, 52)")
    spark.sql(f"DELETE FROM {table} WHERE id IN (7, 77)")
    result = converted(compactor, table)
    assert (result.removed.positions, result.added, result.rows) == (2, 3, 0)
    assert ids(spark, table) == set(range(100)) - {2, 50, 90, 4, 52, 7, 77}
    assert kinds(compactor, table) == {"position": 4}


def test_an_upgraded_table_gets_vectors(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", "day")
    append(spark, table, 0, 100, files=2)
    spark.sql(f"DELETE FROM {table} WHERE id IN (2, 3, 90)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"DELETE FROM {table} WHERE id = 4")
    result = converted(compactor, table)
    assert result.removed.positions >= 2
    assert set(kinds(compactor, table)) == {"dv"}
    assert ids(spark, table) == set(range(100)) - {2, 3, 4, 90}


def test_deletes_that_apply_to_nothing_go(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Whose rows were rewritten, or whose partition is empty; and a file of a partition that names others only."""
    properties = {"write.delete.granularity": "partition"}
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", "day", properties=properties)
    append(spark, table, 0, 10)
    append(spark, table, 10, 20)
    spark.sql(f"DELETE FROM {table} WHERE id IN (2, 3)")
    spark.sql(
        f"CALL local.system.rewrite_data_files(table => '{table}', where => 'id < 10', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'false'))"
    )
    equality_delete(spark, f"local.{table}", [{"id": 1}], columns=["id"], partition="day=7")
    result = converted(compactor, table)
    assert (result.added, result.idle) == (0, result.removed.files)
    assert result.idle >= 2
    assert delete_files(spark, table) == []
    operation = spark.sql(f"SELECT operation FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()
    assert operation[0][0] == "replace"


@VERSIONS
def test_other_branches_keep_theirs(compactor: Compactor, spark: SparkSession, namespace: str, version: int) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", version=version)
    append(spark, table, 0, 10)
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH side")
    for branch in ("main", "side"):
        equality_delete(spark, f"local.{table}", [{"id": 3}], columns=["id"], branch=branch)
    spark.sql(f"DELETE FROM {table}.branch_side WHERE id = 4")
    main = seen(spark, table)
    converted(compactor, table, branch="side")
    assert seen(spark, table) == main
    assert kinds(compactor, table) == {"equality": 1}
    assert kinds(compactor, table, "side") == {"dv" if version > 2 else "position": 1}
    assert ids(spark, table, "side") == set(range(10)) - {3, 4}
    converted(compactor, table)
    assert ids(spark, table, "side") == set(range(10)) - {3, 4}


def test_a_dry_run_and_a_saved_plan(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", version=3)
    assert compactor.deletes(table).reason == "the table has no snapshot yet"
    append(spark, table, 0, 10)
    assert compactor.deletes(table).reason == "there are no deletes"
    equality_delete(spark, f"local.{table}", [{"id": 3}], columns=["id"])
    shown = compactor.deletes(table, dry_run=True)
    [step] = shown.steps
    assert isinstance(step, ConvertDeletesResult)
    assert (shown.status, step.removed.equality, step.added) == (Status.PLANNED, 1, 1)
    assert kinds(compactor, table) == {"equality": 1}
    _: Any = converted(compactor, table)


# -- what cannot be true ----------------------------------------------------------------------------


def refused(compactor: Compactor, table: str, *names: str) -> None:
    """The run fails, names the file, and nothing of it is left or committed."""
    loaded = compactor.application.spark_catalog.table(table)
    loaded.refresh()
    head = loaded.head_id("main")
    outcome = compactor.deletes(table)
    assert outcome.status is Status.FAILED
    assert all(name in (outcome.error or "") for name in names), outcome.error
    loaded.refresh()
    assert loaded.head_id("main") == head
    assert listed_files(loaded, run_folder(loaded, outcome.run_id)) == {}
    compactor.unblock(table)


def test_keys_that_the_manifest_rules_out(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Readers have been passing it over where it should apply: nobody can say what is right."""
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", version=3)
    append(spark, table, 0, 10)
    append(spark, table, 100, 110)
    path = equality_delete(spark, f"local.{table}", [{"id": 3}], columns=["id"], metrics=True)
    held = pq.read_table(path)
    lies = pa.table([pa.array([103], pa.int64())], schema=held.schema)
    pq.write_table(lies, path)
    refused(compactor, table, path)


def test_vectors_that_are_damaged_or_go_too_far(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", version=3)
    append(spark, table, 0, 10)
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    equality_delete(spark, f"local.{table}", [{"id": 4}], columns=["id"])
    loaded = compactor.application.spark_catalog.table(table)
    [vector] = [delete for delete in loaded.view("main", []).deletes if delete.kind is DeleteKind.DV]
    path, offset = Path(vector.path.removeprefix("file:")), vector.offset or 0
    good = path.read_bytes()
    beyond = encode_vector(PositionSet(np.array([11], dtype=np.int64)))
    assert len(beyond) == vector.size
    for blob in (bytes([*good[offset : offset + vector.size - 1], good[offset + vector.size - 1] ^ 1]), beyond):
        path.write_bytes(good[:offset] + blob + good[offset + vector.size :])
        refused(compactor, table, vector.path)
    path.write_bytes(good)
    converted(compactor, table)


@VERSIONS
def test_a_compaction_converts_what_it_leaves(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, tmp_path: Path
) -> None:
    """Small files are merged, and deletes of large ones become positions, in one run; a second one plans nothing."""
    table = create(spark, f"{namespace}.t", "id bigint, day int, word string", "day", version=version)
    append(spark, table, 0, 40_000)
    for start in range(0, 300, 100):
        rows = spark.range(start, start + 100, 1, 1)
        rows.selectExpr("id", "2 AS day", "concat('w', id) AS word").writeTo(table).append()
    for day in range(3):
        ids = [{"id": n} for n in (day, day + 10, 90_000)]
        equality_delete(spark, f"local.{table}", ids, columns=["id"], partition=f"day={day}", metrics=True)
    wanted: dict[str, Any] = {"target_file_size": "16KB", "min_input_files": 2}
    before = seen(spark, table, lineage=version > 2)

    def steps(**given: Any) -> tuple[int, list[ConvertDeletes], list[str]]:
        plan = compactor.plan(table, **{**wanted, **given})
        found = [step for step in plan.chores if isinstance(step, ConvertDeletes)]
        return len(plan.rewrites), found, [entry.reason for entry in plan.left_out if "deletes of" in entry.partition]

    assert steps(strategy="auto", deletes="apply")[1:] == ([], [])
    assert steps(strategy="small-files", deletes="carry")[1:] == ([], [])
    assert steps(strategy="deletes", deletes="carry", partition="day=0")[1:] == ([], [])
    _, found, reasons = steps(strategy="auto", deletes="auto", scans_per_day=0.001)
    assert (found, len(reasons)) == ([], 1)
    assert "not worth it: scans would save" in reasons[0]
    _, found, reasons = steps(strategy="deletes", deletes="carry", max_cost=1e-6)
    assert (found, len(reasons)) == ([], 1)
    assert "over the budget (max_cost" in reasons[0]
    wanted |= {"strategy": "deletes", "deletes": "carry"}
    groups, [step], _ = steps()
    assert (groups, step.data_files, step.converted.equality) == (1, 2, 2)
    assert "each scan takes about" in "\n".join(step.explain(None))

    saved = tmp_path / "plan.json"
    compactor.save_plan(compactor.plan(table, **wanted), saved)
    outcome = compactor.apply(compactor.load_plan(saved))
    assert (outcome.status, len(outcome.groups), len(outcome.snapshots)) == (Status.COMMITTED, 1, 2), outcome.error
    assert seen(spark, table, lineage=version > 2) == before
    assert outcome.steps[0].to_dict()["removed"]["equality"] >= 2
    assert "equality" not in kinds(compactor, table)
    nothing_left(compactor, table, outcome)
    assert compactor.compact(table, **wanted).status is Status.NOTHING_TO_DO
    assert compactor.plan(table, **wanted).steps == ()
