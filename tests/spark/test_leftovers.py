"""What a run wrote for nothing goes; what a snapshot may refer to stays, however storage spells its path."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.replace import replace_files
from icepact.iceberg.commit.run_files import delete_run_files, run_folder
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import HeadMoved
from icepact.model.status import Status
from tests.support.oracle import data_files, seen


@pytest.fixture
def table(compactor: Compactor, spark: SparkSession, namespace: str) -> IcebergTable:
    """A table with three small files."""
    spark.sql(f"CREATE TABLE {namespace}.t (id bigint) USING iceberg")
    spark.range(0, 30, 1, 3).writeTo(f"{namespace}.t").append()
    return compactor.application.spark_catalog.table(f"{namespace}.t")


def written(table: IcebergTable, run_id: str, *names: str) -> Path:
    """Files below a run's folder, as a rewrite would leave them."""
    prefix = run_folder(table, run_id)
    assert prefix is not None
    folder = Path(prefix) / "day=1"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def test_files_are_told_apart_by_name_not_by_spelling(table: IcebergTable) -> None:
    """Manifests say `hdfs://a/x` where a listing says `hdfs://b:8020/x`: a committed file must survive that."""
    folder = written(table, "run-1", "committed.parquet", "failed.parquet")
    delete_run_files(
        table, run_folder(table, "run-1"), keep=frozenset({"viewfs://cluster/elsewhere/day=1/committed.parquet"})
    )
    assert [path.name for path in folder.iterdir()] == ["committed.parquet"]


def test_nothing_is_deleted_while_a_committed_file_is_not_recognised(table: IcebergTable) -> None:
    folder = written(table, "run-2", "a.parquet", "b.parquet")
    delete_run_files(table, run_folder(table, "run-2"), keep=frozenset({"/somewhere/c.parquet"}))
    assert sorted(path.name for path in folder.iterdir()) == ["a.parquet", "b.parquet"]


def test_a_run_that_wrote_nothing_has_nothing_to_delete(spark: SparkSession, table: IcebergTable) -> None:
    before = data_files(spark, table.name)
    delete_run_files(table, run_folder(table, "run-3"), keep=frozenset())
    assert data_files(spark, table.name) == before
    assert all(Path(path.removeprefix("file:")).is_file() for path in before)


def test_a_conflict_reported_for_a_commit_that_landed_is_seen_through(
    compactor: Compactor, spark: SparkSession, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that lost its own answer and tries again conflicts with itself."""

    def lands_and_reports_a_conflict(*args: Any, **kwargs: Any) -> int:
        replace_files(*args, **kwargs)
        raise HeadMoved("somebody else was faster")

    monkeypatch.setattr(protocol, "replace_files", lands_and_reports_a_conflict)
    before = seen(spark, table.name)
    outcome = compactor.compact(table.name)
    assert outcome.status is Status.COMMITTED
    assert seen(spark, table.name) == before
    assert len(data_files(spark, table.name)) == 1


def test_a_head_that_cannot_be_read_is_no_unknown_commit(
    compactor: Compactor, spark: SparkSession, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was attempted yet, so the outputs can go."""

    def away(*args: Any) -> Any:
        raise OSError("storage is away")

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "view", away)
        outcome = compactor.compact(table.name)
    assert outcome.status is Status.FAILED
    assert outcome.error == f"the head of {table.name} cannot be read: storage is away"
    prefix = run_folder(table, outcome.run_id)
    assert prefix is not None
    assert list(Path(prefix).rglob("*.parquet")) == []
    assert compactor.compact(table.name).status is Status.COMMITTED
