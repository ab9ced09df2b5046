"""Gauges of the record store: the queue, and tables up to a bound."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from icepact.model.effort import Effort, Estimate
from icepact.model.job import Operation
from icepact.model.status import Status
from icepact.record.kv.store import KvStore
from icepact.schedule.answers import keep_health, keep_tables
from icepact.schedule.gauges import StoreGauges
from icepact.schedule.queue import next_job
from tests.support.jobs import US, job_request, make_job
from tests.support.records import NOON, run_outcome, run_record
from tests.support.stores import Clock


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[KvStore]:
    """An empty store."""
    made = KvStore.in_memory(clock=clock)
    yield made
    made.close()


def read(gauges: StoreGauges, name: str) -> dict[str, float]:
    """One gauge, by tenant or table."""
    found = [one for one in gauges() if one.name == name]
    assert all(one.labels["catalog"] == "local" for one in found)
    return {one.labels.get("tenant") or one.labels["table"]: one.value for one in found}


def health(store: KvStore, table: str, *, small: int, score: float, mergeable: int = 0) -> None:
    """A table was looked at."""
    found = {"small_files": small, "score": score, "mergeable_files": mergeable, "snapshot_id": 1}
    keep_health(store, "local", table, found, taken_at=NOON)


def ran(store: KvStore, run_id: str, table: str, *, minutes: int = 0, predicted: float = 0.0, **given: object) -> None:
    """A run on a table ended so many minutes after noon."""
    started = NOON + timedelta(minutes=minutes)
    claim = store.begin(run_record(run_id, table=table, started_at=started))
    likely = Estimate(likely=predicted, low=predicted, high=predicted)
    facts = {"table": table, "predicted_seconds": likely, "effort": Effort(seconds=10.0), **given}
    store.finish(claim, run_outcome(run_id, started_at=started, **facts))


def test_the_queue_by_tenant(store: KvStore, clock: Clock) -> None:
    gauges = StoreGauges(store, "local")
    assert gauges() == []
    operations = [Operation.COMPACT, Operation.MAINTAIN, Operation.HEALTH, Operation.EXPIRE]
    for n, operation in enumerate(operations):
        store.submit_job(make_job(f"j{n}", job_request(operation, table=f"db.t{n}"), tenant="red"))
    store.submit_job(make_job("j9", catalog="elsewhere"))
    store.submit_job(make_job("j8", due_at=NOON + timedelta(hours=1), tenant="blue"))
    clock.passes(90)
    taken = store.take_job("local", US, seconds=60, choose=next_job)
    assert taken is not None
    assert taken.job_id == "j0"
    assert read(gauges, "queue_depth") == {"red": 3, "blue": 1}
    assert read(gauges, "pending_compactions") == {"red": 1, "blue": 1}
    assert read(gauges, "active_compactions") == {"red": 1, "blue": 0}
    assert read(gauges, "queue_oldest_seconds") == {"red": 90, "blue": 0}


def test_tables_as_they_were_seen_last(store: KvStore) -> None:
    health(store, "db.a", small=7, score=40.5, mergeable=6)
    health(store, "db.b", small=1, score=99.0)
    gauges = StoreGauges(store, "local")
    assert read(gauges, "small_files") == {"db.a": 7, "db.b": 1}
    assert read(gauges, "health_score") == {"db.a": 40.5, "db.b": 99.0}
    assert read(gauges, "compaction_recommended") == {"db.a": 1, "db.b": 0}


def test_runs_tell_when_a_table_was_compacted_and_how_good_predictions_were(store: KvStore, clock: Clock) -> None:
    ran(store, "r1", "db.a", predicted=8.0)
    ran(store, "r2", "db.a", predicted=13.0)
    ran(store, "r3", "db.b", status=Status.FAILED, predicted=30.0)
    ran(store, "r4", "db.c", operation="expire", predicted=99.0)
    ran(store, "r5", "db.d", status=Status.NOTHING_TO_DO)
    gauges = StoreGauges(store, "local")
    assert read(gauges, "estimate_error_ratio") == pytest.approx({"db.a": 0.25, "db.b": 2.0})
    first = read(gauges, "last_compaction_timestamp_seconds")
    assert set(first) == {"db.a"}
    clock.passes(600)
    ran(store, "r6", "db.a", minutes=10, predicted=10.0)
    assert read(gauges, "estimate_error_ratio") == pytest.approx({"db.a": 5 / 30, "db.b": 2.0})
    assert read(gauges, "last_compaction_timestamp_seconds")["db.a"] > first["db.a"]


def test_only_the_last_runs_of_a_table_are_compared(store: KvStore) -> None:
    for n in range(12):
        ran(store, f"r{n:02}", "db.a", minutes=n, predicted=100.0 if n < 2 else 10.0)
    assert read(StoreGauges(store, "local"), "estimate_error_ratio") == {"db.a": 0.0}


def test_tables_beyond_the_bound_are_put_together(store: KvStore) -> None:
    for n in range(5):
        health(store, f"db.t{n}", small=n, score=100.0 - n, mergeable=n)
        ran(store, f"r{n}", f"db.t{n}", minutes=n, predicted=10.0 + n)
    gauges = StoreGauges(store, "local", tables=2)
    assert read(gauges, "small_files") == {"db.t0": 0, "db.t1": 1, "other": 2 + 3 + 4}
    assert read(gauges, "health_score") == {"db.t0": 100, "db.t1": 99, "other": 96}
    assert read(gauges, "compaction_recommended") == {"db.t0": 0, "db.t1": 1, "other": 3}
    assert read(gauges, "estimate_error_ratio") == pytest.approx({"db.t0": 0.0, "db.t1": 0.1, "other": 0.4})
    newest = read(StoreGauges(store, "local"), "last_compaction_timestamp_seconds")["db.t4"]
    assert read(gauges, "last_compaction_timestamp_seconds")["other"] == newest
    assert read(StoreGauges(store, "local", tables=0), "small_files") == {"other": 10}


def test_tables_that_are_not_there_any_more_are_left_out(store: KvStore) -> None:
    for table in ("db.a", "db.b"):
        health(store, table, small=1, score=50.0)
        ran(store, f"run of {table}", table)
    keep_tables(store, "local", ["db.b", "db.c"], taken_at=NOON + timedelta(hours=1))
    gauges = StoreGauges(store, "local")
    assert set(read(gauges, "small_files")) == {"db.b"}
    assert set(read(gauges, "last_compaction_timestamp_seconds")) == {"db.b"}
    assert set(gauges._known) == {"db.b"}  # nor remembered


def test_tables_that_were_made_since_they_were_listed_are_told_of(store: KvStore) -> None:
    keep_tables(store, "local", ["db.a"], taken_at=NOON - timedelta(hours=1))
    health(store, "db.new", small=1, score=50.0)
    ran(store, "run", "db.newer")
    gauges = StoreGauges(store, "local")
    assert set(read(gauges, "small_files")) == {"db.new"}
    assert set(read(gauges, "last_compaction_timestamp_seconds")) == {"db.newer"}


def test_tables_are_looked_at_only_so_often_and_the_queue_each_time(store: KvStore, clock: Clock) -> None:
    gauges = StoreGauges(store, "local")
    gauges()
    health(store, "db.a", small=1, score=50.0)
    store.submit_job(make_job("j1"))
    clock.passes(59)
    assert (read(gauges, "small_files"), read(gauges, "queue_depth")) == ({}, {"default": 1})
    clock.passes(2)
    assert read(gauges, "small_files") == {"db.a": 1}
    health(store, "db.a", small=2, score=50.0)
    clock.passes(-3600)
    assert read(gauges, "small_files") == {"db.a": 2}


def test_there_may_be_more_tables_than_are_read_at_once(store: KvStore) -> None:
    for n in range(450):
        health(store, f"db.t{n:03}", small=1, score=50.0)
    assert sum(read(StoreGauges(store, "local", tables=10), "small_files").values()) == 450


def test_a_catalog_without_a_name_tells_no_secret(store: KvStore) -> None:
    store.submit_job(make_job("j1", catalog="https://me:hush@host/x"))
    [depth] = [one for one in StoreGauges(store, "https://me:hush@host/x")() if one.name == "queue_depth"]
    assert depth.labels["catalog"] == "https://***@host/x"
