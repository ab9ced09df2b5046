"""A record store that knows nothing of a table: its runs are told by its snapshots, and nobody works by that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor, Outcome
from icepact.app import Application
from icepact.maintain import past_runs
from icepact.model.status import Status
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from tests.support.messy import equality_delete
from tests.support.tables import create


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Two days of six small files."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day)")
    append(spark, name)
    return name


def append(spark: SparkSession, table: str) -> None:
    """Three small files for each day."""
    for batch in range(3):
        spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", "int(id % 2) AS day").writeTo(table).append()


def with_store(compactor: Compactor, store: RecordStore) -> Compactor:
    """A compactor on the same tables, with another record store."""
    known = compactor.application
    return Compactor.of(
        Application(
            catalog=known.catalog,
            namespace=(),
            policies=known.policies,
            prices=known.prices,
            budgets=known.budgets,
            open_catalog=lambda _: known.spark_catalog,
            open_store=lambda: store,
        )
    )


def in_memory(_: Path) -> RecordStore:
    """Empty."""
    return KvStore.in_memory()


def in_a_file(folder: Path) -> RecordStore:
    """Empty, too."""
    return SqlStore.in_file(folder / "other.db")


def told(compactor: Compactor, table: str) -> list[tuple[Any, ...]]:
    """What snapshots say of runs, by id: what began within one second has no other order."""
    found = [(run, run.recovered) for run in compactor.runs(table)]
    assert all(run.status is Status.COMMITTED and run.outcome is None for run, _ in found)
    return sorted(
        (
            run.run_id,
            r.operation,
            [batch.snapshot_id for batch in run.landed],
            (r.files_before, r.files_after),
            (r.rows_before, r.rows_after),
            (r.bytes_before, r.bytes_after),
        )
        for run, r in found
        if r is not None
    )


def known(outcome: Outcome) -> tuple[Any, ...]:
    """What the process itself says of a run."""
    return (
        outcome.run_id,
        outcome.operation,
        list(outcome.snapshots),
        (outcome.files_before, outcome.files_after),
        (outcome.rows_before, outcome.rows_after),
        (outcome.bytes_before, outcome.bytes_after),
    )


@pytest.mark.parametrize("empty", [in_memory, in_a_file])
def test_runs_of_earlier_processes_are_told_as_they_were(
    compactor: Compactor,
    spark: SparkSession,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    empty: Callable[[Path], RecordStore],
) -> None:
    first = compactor.compact(table, min_input_files=2, max_commits=2)
    append(spark, table)
    second = compactor.compact(table, min_input_files=2)
    assert (len(first.snapshots), len(second.snapshots)) == (2, 1)
    store = empty(tmp_path)
    forgetful = with_store(compactor, store)
    expected = sorted([known(second), known(first)])
    assert told(forgetful, table) == expected
    monkeypatch.setattr(past_runs, "watcher_of", lambda _: None)  # as of catalogs that only Java can ask
    assert told(forgetful, table) == expected
    assert [run.recovered for run in compactor.runs(table)] == [None, None]
    store.close()


def test_nobody_works_by_what_snapshots_tell(compactor: Compactor, spark: SparkSession, table: str) -> None:
    compactor.compact(table, min_input_files=2)
    store = KvStore.in_memory()
    forgetful = with_store(compactor, store)
    [run] = forgetful.runs(table)
    untaught = forgetful.learned(table)
    assert forgetful.why_dead(run) is None
    assert forgetful.resume_dead(table) is None
    assert list(forgetful.cleanup(table, delete=True)) == []
    assert list(forgetful.costs(table)) == []
    assert list(store.runs(catalog=run.catalog, table=table)) == []
    assert compactor.learned(table) != untaught == with_store(compactor, KvStore.in_memory()).learned(table)
    append(spark, table)
    outcome = forgetful.compact(table, min_input_files=2)
    assert [run.run_id for run in forgetful.runs(table)] == [outcome.run_id]


def test_other_operations_are_told_and_what_has_expired_is_not(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    name = create(spark, f"{namespace}.kept", "id bigint, day date", "day", version=2)
    for batch in range(12):
        days = "IF(id % 2 = 0, DATE'2020-01-01', DATE'2099-01-01') AS day"
        spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", days).writeTo(name).append()
    manifests = compactor.manifests(name)
    compacted = compactor.compact(name, min_input_files=2)
    equality_delete(spark, f"local.{name}", [{"id": 3}], columns=["id"], partition="day=2099-01-01")
    deletes = compactor.deletes(name)
    expired = compactor.ttl(name, column="day", keep="100d")
    forgetful = with_store(compactor, KvStore.in_memory())
    assert {
        run.run_id: (run.recovered.operation, run.recovered.files_before, run.recovered.files_after)
        for run in forgetful.runs(name)
        if run.recovered
    } == {
        manifests.run_id: ("manifests", 24, 24),
        compacted.run_id: ("compact", 24, 2),
        deletes.run_id: ("deletes", 2, 2),
        expired.run_id: ("ttl", 2, 1),
    }
    later = f"table => '{name}', older_than => TIMESTAMP '2099-01-01', retain_last => 2"
    spark.sql(f"CALL local.system.expire_snapshots({later})")
    assert {run.run_id for run in forgetful.runs(name)} == {expired.run_id, deletes.run_id}
