"""What method assemble cannot do, others do; what nobody can do costs one group. And deletes of every kind and size."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.rewriters import writing
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.checks import keeps_rows
from tests.support.messy import equality_delete, load
from tests.support.oracle import data_files, delete_files, seen
from tests.support.spoilt import footer_damaged, gone, no_footer, shorter
from tests.support.tables import create
from tests.support.ways import SEVERAL_ROW_GROUPS, WAYS, local, maybe, rewritten

ROWS = f"{maybe('id')} AS id", f"{maybe('concat(id, sha2(string(id), 256))')} AS word"


def fallen_back(compactor: Compactor, table: str) -> str:
    """Compact by assembling, and see that another method did it; returns why."""
    outcome = keeps_rows(compactor, table, **WAYS["copy"])
    assert outcome.methods == {"spark": 1}
    assert outcome.effort.copied_bytes == 0
    [group] = outcome.groups
    assert group.method == "spark"
    return group.method_reason


# -- another method ---------------------------------------------------------------------------------


def test_files_without_ids_or_mapping(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Refused in the task, and done by Spark, which then counts columns by their position."""
    table, folder = create(spark, f"{namespace}.t", "id bigint, word string"), tmp_path / "plain"
    spark.range(0, 100, 1, 5).selectExpr(*ROWS).write.parquet(str(folder))
    spark.sql(f"CALL local.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    assert fallen_back(compactor, table) == "a file has no field ids, and the table no name mapping"
    assert spark.sql(f"SELECT count(DISTINCT id), count(word) FROM {table}").collect()[0][0:2] == (100, 100)


def test_files_of_another_format(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Known from the manifests, and so never begun."""
    table = create(spark, f"{namespace}.t", "id bigint, word string", properties={"write.format.default": "orc"})
    spark.range(0, 20, 1, 1).selectExpr(*ROWS).writeTo(table).append()
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')")
    spark.range(20, 100, 1, 5).selectExpr(*ROWS).writeTo(table).append()
    [step] = compactor.plan(table, **WAYS["copy"]).rewrites
    assert (step.method, step.method_reason) == ("spark", "some files are orc")
    assert fallen_back(compactor, table) == "some files are orc"


def test_one_group_of_many(compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Only the unit that is refused goes another way; the others are assembled."""
    table, folder = create(spark, f"{namespace}.t", "id bigint, word string, kind string", "kind"), tmp_path / "a"
    for kind in ("a", "b"):
        rows = spark.range(0, 100, 1, 5).selectExpr(*ROWS, f"{maybe(repr(kind))} AS kind")
        if kind == "a":
            rows.write.partitionBy("kind").parquet(str(folder))
        else:
            rows.writeTo(table).append()
    spark.sql(f"CALL local.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')")
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    outcome = keeps_rows(compactor, table, **WAYS["copy"])
    assert {g.partition: g.method for g in outcome.groups} == {"kind=a": "spark", "kind=b": "assemble"}
    assert outcome.methods == {"spark": 1, "assemble": 1}


# -- nobody -----------------------------------------------------------------------------------------


def page_damaged(path: Path) -> None:
    """The first page of the word column: its header is whole, its content is not."""
    data = bytearray(path.read_bytes())
    at = data.index(b"\x28\xb5\x2f\xfd", len(data) // 4)  # a frame of zstd begins
    data[at : at + 60] = b"\xaa" * 60
    path.write_bytes(data)


@pytest.fixture
def broken_off(spark: SparkSession, namespace: str) -> Callable[[Callable[[Path], None]], tuple[str, Path]]:
    """A table with the partitions a, b and c, of which a file in b is spoilt; and that file."""

    def spoil(how: Callable[[Path], None]) -> tuple[str, Path]:
        table = create(spark, f"{namespace}.t", "id bigint, word string, kind string", "kind")
        kind = maybe("substr('abc', int(id % 3) + 1, 1)")
        spark.range(0, 300, 1, 5).selectExpr(*ROWS, f"{kind} AS kind").writeTo(table).append()
        path = local(next(path for path in data_files(spark, table) if "kind=b" in path))
        how(path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        return table, path

    return spoil


def left_alone(spark: SparkSession, table: str, outcome: Outcome) -> None:
    """Of the run, nothing is on storage but what was committed."""
    root = local(str(load(spark, f"local.{table}").location()))
    ours = {str(path) for path in root.rglob(f"*{outcome.run_id}*/**/*.parquet")}
    assert ours == {path for path in data_files(spark, table) if outcome.run_id in path}


@pytest.mark.parametrize(
    ("way", "how"),
    [
        *(("copy", how) for how in (gone, shorter, footer_damaged, no_footer)),
        *(pytest.param("encode", how, marks=pytest.mark.matrix) for how in (gone, shorter, footer_damaged, no_footer)),
        ("encode", page_damaged),
    ],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_spoilt_file(
    compactor: Compactor,
    spark: SparkSession,
    broken_off: Callable[[Callable[[Path], None]], tuple[str, Path]],
    way: str,
    how: Callable[[Path], None],
) -> None:
    """Its group fails with a line that names it; the others are committed; nothing is left behind."""
    table, path = broken_off(how)
    whole = f"(SELECT * FROM {table} WHERE kind != 'b')"
    before, files = seen(spark, whole), data_files(spark, table)

    outcome = compactor.compact(table, **WAYS[way])

    assert outcome.status is Status.PARTLY_COMMITTED
    assert {g.partition for g in outcome.groups if g.committed} == {"kind=a", "kind=c"}
    [failed] = [g for g in outcome.groups if not g.committed]
    assert failed.partition == "kind=b"
    assert path.name in failed.reason
    assert "\n" not in failed.reason
    assert len(failed.reason) < 400
    assert seen(spark, whole) == before
    assert {p for p in files if "kind=b" in p} <= set(data_files(spark, table))
    left_alone(spark, table, outcome)


def test_delete_file_that_is_gone(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """It costs the groups it belongs to, and no other."""
    table = create(spark, f"{namespace}.t", "id bigint, word string, kind string", "kind")
    kind = maybe("substr('abc', int(id % 3) + 1, 1)")
    spark.range(0, 300, 1, 5).selectExpr(*ROWS, f"{kind} AS kind").writeTo(table).append()
    path = Path(equality_delete(spark, f"local.{table}", [{"id": 4}], columns=["id"], partition="kind=b"))
    path.unlink()
    outcome = compactor.compact(table, **WAYS["copy"])
    assert {g.partition: g.committed for g in outcome.groups} == {"kind=a": True, "kind=b": False, "kind=c": True}
    [failed] = [g for g in outcome.groups if not g.committed]
    assert path.name in failed.reason
    left_alone(spark, table, outcome)


# -- deletes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_are_not_sent_along(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Beyond a limit, tasks read them by themselves: files, and vectors out of a Puffin file."""
    monkeypatch.setattr(writing, "INLINE_DELETES", 0)
    properties = {**SEVERAL_ROW_GROUPS, "write.delete.granularity": "partition"}
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=version, properties=properties)
    spark.range(0, 200, 1, 5).selectExpr(*ROWS).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 50, 170)")
    equality_delete(spark, f"local.{table}", [{"id": 25}, {"id": 190}], columns=["id"])
    # of ten row groups of twenty rows the first three lose rows, and the last two
    outcome = rewritten(compactor, table, "copy", lineage=version == 3, copied=5, encoded=2)
    assert outcome.rows_deleted == 5
    assert delete_files(spark, table) == []


@pytest.mark.parametrize("way", ["copy", "encode"])
@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_format_of_delete_files(
    compactor: Compactor, spark: SparkSession, namespace: str, file_format: str, way: str
) -> None:
    """Position deletes may be of another format than the data."""
    properties = {**SEVERAL_ROW_GROUPS, "write.delete.format.default": file_format}
    table = create(spark, f"{namespace}.t", "id bigint, word string", properties=properties)
    spark.range(0, 200, 1, 5).selectExpr(*ROWS).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 4, 50, 170)")
    formats = spark.sql(f"SELECT DISTINCT file_format FROM {table}.delete_files").collect()
    assert [row[0] for row in formats] == [file_format.upper()]
    outcome = rewritten(compactor, table, way, copied=7 if way == "copy" else 0)
    assert outcome.rows_deleted == 4
    assert delete_files(spark, table) == []
