"""Holding a job: what its worker says, and what it hears."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from icepact.model.errors import Cancelled, JobLost, StoreUnusable
from icepact.model.job import NO_PROGRESS, Job, JobStatus
from icepact.model.progress import UnitDone
from icepact.record.kv.store import KvStore
from icepact.schedule.holding import Holding
from icepact.schedule.queue import next_job
from tests.support.jobs import THEM, US, make_job
from tests.support.records import NOON, run_record
from tests.support.stores import Clock

ONE = UnitDone(partition="day=1", files=3, bytes=30)


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture
def store(clock: Clock) -> KvStore:
    """With one job that waits."""
    store = KvStore.in_memory(clock=clock)
    store.submit_job(make_job("j1", deadline=clock() + timedelta(hours=1)))
    return store


@pytest.fixture
def holding(store: KvStore) -> Holding:
    """The job in our hands."""
    return Holding(store, taken(store), US, seconds=60)


def taken(store: KvStore) -> Job:
    """The job, taken by us."""
    job = store.take_job("local", US, seconds=60, choose=next_job)
    assert job is not None
    return job


def seen(store: KvStore) -> Job:
    """The job as the store has it."""
    job = store.job("j1")
    assert job is not None
    return job


def test_progress_is_told_with_the_next_beat(store: KvStore, holding: Holding, clock: Clock) -> None:
    holding.advance(ONE)
    holding.advance(ONE)
    holding.step("written")
    assert seen(store).progress.units == 0
    clock.passes(10)
    holding.beat()
    told = seen(store)
    assert (told.progress.units, told.progress.files, told.progress.bytes, told.progress.step) == (2, 6, 60, "written")
    assert told.expires_at == clock() + timedelta(seconds=60)
    holding.on_operation("expire")
    holding.beat()
    assert (seen(store).progress.operation, seen(store).progress.units) == ("expire", 0)


def test_a_table_that_is_looked_at_is_a_unit(store: KvStore, holding: Holding) -> None:
    for number, table in enumerate(("db.a", "db.b")):
        holding.on_table(table, 7)
        holding.beat()
        told = seen(store).progress
        assert (told.operation, told.units, told.planned_units) == (table, number, 7)


def test_the_run_is_told_as_soon_as_it_is_recorded(store: KvStore, holding: Holding) -> None:
    store.begin(run_record("theirs", catalog="local", table="db.events", owner=THEM))
    store.begin(run_record("ours", catalog="local", table="db.events", owner=US))
    store.begin(run_record("elsewhere", catalog="local", table="db.other", owner=US))
    holding.step("held")
    assert seen(store).run_id is None
    holding.step("recorded")
    assert seen(store).run_id == holding.run_id == "ours"


def test_who_is_to_stop_hears_it_before_the_run_begins(store: KvStore, holding: Holding) -> None:
    holding.check()
    store.ask_to_cancel_job("j1")
    holding.beat()
    look = partial(holding.on_table, "db.events", 1)
    for ask in (partial(holding.on_resumed, None), partial(holding.on_operation, "expire"), holding.check, look):
        with pytest.raises(Cancelled, match="job j1 was cancelled"):
            ask()
    holding.advance(ONE)  # in the middle of a run it is the run that is asked
    holding.step("written")


@pytest.mark.parametrize("why", ["cancelled", "late", "lost"])
def test_a_run_is_asked_to_stop_by_its_own_means(store: KvStore, holding: Holding, clock: Clock, why: str) -> None:
    store.begin(run_record("ours", catalog="local", table="db.events", owner=US))
    holding.step("recorded")
    if why == "cancelled":
        store.ask_to_cancel_job("j1")
    elif why == "late":
        clock.passes(3600)
    else:
        assert store.take_back_job(seen(store), JobStatus.QUEUED)
        taken(store)
    holding.beat()
    run = store.run("ours")
    assert run is not None
    assert run.cancel_asked
    stop = holding.stop
    assert stop is not None
    assert stop.lost is (why == "lost")
    with pytest.raises(JobLost if why == "lost" else Cancelled):
        holding.check()


def test_a_run_that_somebody_else_carries_on_with_is_left_alone(store: KvStore, holding: Holding) -> None:
    begun = run_record("ours", catalog="local", table="db.events", owner=US)
    store.begin(begun)
    holding.step("recorded")
    store.take(begun, THEM, to=begun.status)
    assert store.take_back_job(seen(store), JobStatus.QUEUED)
    holding.beat()
    run = store.run("ours")
    assert run is not None
    assert not run.cancel_asked


def test_a_store_that_is_away_loses_no_progress(
    store: KvStore, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise StoreUnusable

    store.begin(run_record("ours", catalog="local", table="db.events", owner=US))
    with monkeypatch.context() as patch:
        patch.setattr(store, "renew_job", away)
        holding.advance(ONE)
        holding.step("recorded")  # the run goes on
        with pytest.raises(StoreUnusable):
            holding.beat()
    with monkeypatch.context() as patch:
        patch.setattr(store, "runs", away)
        holding.step("staged")
    assert holding.stop is None
    holding.beat()
    told: Sequence[Any] = (seen(store).progress.units, seen(store).progress.step, seen(store).run_id)
    assert told == (1, "staged", "ours")


def test_at_the_end_it_is_heard_whether_the_job_was_cancelled(store: KvStore, holding: Holding) -> None:
    """Nothing else is left to be told."""
    holding.beat()
    store.ask_to_cancel_job("j1")
    holding.last_word()
    assert holding.job.cancel_asked


def test_what_an_earlier_holder_has_planned_does_not_hold_any_more(store: KvStore, holding: Holding) -> None:
    holding.on_table("db.a", 7)
    holding.beat()
    store.return_job(holding.job.claim, due_at=NOON)
    assert seen(store).progress.planned_units == 7
    Holding(store, taken(store), US, seconds=60).beat()
    assert seen(store).progress == NO_PROGRESS
