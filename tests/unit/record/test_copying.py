"""Copying one record store into another, of whatever kind."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from icepact.model.errors import BadInput, StoreUnusable
from icepact.model.job import JobStatus, Operation
from icepact.model.run import Checkpoint, Failure
from icepact.model.status import Status
from icepact.record.copying import copy_store, sizes_of
from icepact.record.kv.store import KvStore
from icepact.record.rows import KEYS, Row, key_of
from icepact.record.store import RecordStore
from icepact.schedule.queue import next_job
from tests.support.jobs import THEM, US, job_request, make_job
from tests.support.records import NOON, run_outcome, run_record
from tests.support.stores import STORES, Clock, made

OPEN = ["r3", "r2"] if Status.FENCED.open else ["r2"]


def filled(store: RecordStore, clock: Clock) -> None:
    """Something of everything."""
    ended, open_run = (store.begin(replace(run_record(name), uuid="u"), b'{"plan": 1}') for name in ("r1", "r2"))
    store.finish(ended, run_outcome("r1"))
    store.checkpoint(open_run, [Checkpoint(unit_id=f"u{n}", document={"n": n}) for n in range(3)])
    store.begin(replace(run_record("r3", status=Status.FENCED), uuid="v"))
    store.release(store.acquire("t", "r1", US, seconds=60))
    store.acquire("u", "r2", US, seconds=1)
    store.failed("u", Failure(signature="s", partition="day=1", reason="disk full", count=0, last_at=NOON))
    store.forget_lessons("local", "db.events")
    store.mark_compacted("u", "main", {"day=d1": "minor", "day=d2": "full"}, NOON)
    store.keep_manifest_stats("u", {"s3://b/m1.avro": b"1" * 3000, "s3://b/m2.avro": b"\0\xff"}, live=set(), room=10**6)
    for name in ("j1", "j2"):
        store.submit_job(make_job(name, tenant="red", idempotency_key=name), b"saved plan")
    job = store.take_job("local", US, seconds=60, choose=next_job)
    assert job is not None
    store.end_job(job.claim, JobStatus.SUCCEEDED, result={"text": "ü"})
    store.submit_job(make_job("j3", job_request(Operation.HEALTH, "db.ü"), due_at=NOON + timedelta(hours=1)))
    store.put_document("tenant", "a/b", {"text": "ü"})
    store.put_document("tenant", "a/b", {"text": "ö"})
    clock.passes(60)


def content(store: RecordStore) -> dict[str, list[Row]]:
    """All rows, sorted."""
    return {table: sorted(map(dict, store.rows(table)), key=lambda row: key_of(table, row)) for table in KEYS}


def test_everything_goes_from_any_store_to_any_other(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> None:
    stores = [made(kind, request, tmp_path / str(n), clock) for n, kind in enumerate([*STORES, "redis", "sqlite"])]
    filled(stores[0], clock)
    wanted = content(stores[0])
    assert all(wanted.values())
    counts = [(len(rows), len(rows)) for rows in wanted.values()]
    for source, target in pairwise(stores):
        copied = copy_store(source, target, origin="here")
        assert content(target) == wanted
        assert [(one.rows, one.written) for one in copied.tables] == counts
        assert sizes_of(target) == sizes_of(source)
    for store in stores:
        lives_on(store)


def lives_on(store: RecordStore) -> None:
    """What was copied does what it did before."""
    assert [run.run_id for run in store.runs(catalog="local")] == ["r3", "r2", "r1"]
    assert [run.run_id for run in store.runs(catalog="local", open_only=True)] == OPEN
    first = store.run("r1")
    assert first is not None
    assert (first.outcome, store.plan("r2")) == (run_outcome("r1"), b'{"plan": 1}')
    assert store.acquire("t", "r9", THEM, seconds=60).token == 2
    repeated = store.submit_job(make_job("j9", tenant="red", idempotency_key="j1"), b"saved plan")
    assert (repeated.job_id, repeated.result) == ("j1", {"text": "ü"})
    job = store.take_job("local", THEM, seconds=60, choose=next_job)
    assert job is not None
    assert (job.job_id, store.job_plan("j2")) == ("j2", b"saved plan")
    assert store.forget(before=NOON + timedelta(days=1)) == 1
    assert store.forget_jobs(before=NOON + timedelta(days=1)) == 1
    assert store.forget_documents("tenant", before=NOON + timedelta(days=1)) == 1


def test_a_store_with_something_in_it_is_only_added_to(store: RecordStore, clock: Clock) -> None:
    other = KvStore.in_memory(clock=clock)
    filled(other, clock)
    store.put_document("tenant", "a/b", {"text": "mine"})
    with pytest.raises(BadInput, match=r"something in that store already \(1 documents\): say --into-existing"):
        copy_store(other, store, origin="here")
    made_now = copy_store(other, store, origin="here", into_existing=True)
    assert {one.table: one.written for one in made_now.tables}["documents"] == 0
    kept = store.document("tenant", "a/b")
    assert kept is not None
    assert kept.body == {"text": "mine"}
    assert len(store.jobs(catalog="local")) == 3


def test_a_dry_run_writes_nothing(store: RecordStore, clock: Clock) -> None:
    other = KvStore.in_memory(clock=clock)
    filled(other, clock)
    looked = copy_store(other, store, origin="here", dry_run=True)
    assert (looked.copied, sum(one.rows for one in looked.tables) > 15) == (False, True)
    assert not any(sizes_of(store).values())


def test_a_store_that_is_in_use_is_not_copied(store: RecordStore, clock: Clock) -> None:
    store.acquire("t", "r1", US, seconds=60)
    store.submit_job(make_job("j1"))
    store.take_job("local", US, seconds=60, choose=next_job)
    other = KvStore.in_memory(clock=clock)
    with pytest.raises(BadInput, match=r"the store is in use \(1 table held, 1 job running\)"):
        copy_store(store, other, origin="here")
    clock.passes(61)
    assert copy_store(store, other, origin="here").copied


def test_a_copy_that_was_interrupted_goes_on(store: RecordStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    source = KvStore.in_memory(clock=clock)
    filled(source, clock)
    put = store.put_rows

    def breaks_off(table: str, rows: list[Row], *, replace: bool) -> int:
        if table == "jobs":
            put(table, rows[:1], replace=replace)
            raise StoreUnusable("away")
        return put(table, rows, replace=replace)

    with monkeypatch.context() as patch:
        patch.setattr(store, "put_rows", breaks_off)
        with pytest.raises(StoreUnusable):
            copy_store(source, store, origin="here")
    with pytest.raises(BadInput, match="something in that store already"):
        copy_store(source, store, origin="elsewhere")
    assert copy_store(source, store, origin="here").resumed
    assert content(store) == content(source)
