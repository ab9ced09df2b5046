"""Tables on which jobs fail are left alone for growing times."""

from datetime import timedelta

import pytest

from icepact.record.kv.store import KvStore
from icepact.record.pauses import FAILURES, forget_pause, job_failed, pause_after, pause_of
from tests.support.records import NOON
from tests.support.stores import Clock


@pytest.fixture
def store() -> KvStore:
    """An empty one."""
    return KvStore.in_memory(clock=Clock())


def test_a_table_is_paused_after_failures_in_a_row(store: KvStore) -> None:
    for _ in range(FAILURES - 1):
        job_failed(store, "local", "db.t", "no such bucket", NOON)
        assert pause_of(store, "local", "db.t", NOON) is None
    job_failed(store, "local", "db.t", "no such bucket", NOON)
    pause = pause_of(store, "local", "db.t", NOON)
    assert pause is not None
    assert pause.until == NOON + timedelta(minutes=5)
    assert pause.message == (
        "3 jobs on db.t failed one after the other, the last: no such bucket; paused until 2026-01-01 12:05 UTC, or "
        "until `icepact unblock db.t`"
    )
    assert pause_of(store, "local", "db.t", pause.until) is None
    assert pause_of(store, "local", "db.other", NOON) is None
    assert pause_of(store, "other", "db.t", NOON) is None
    job_failed(store, "local", "db.t", "again", pause.until)
    longer = pause_of(store, "local", "db.t", pause.until)
    assert longer is not None
    assert longer.until == pause.until + timedelta(minutes=10)


def test_pauses_grow_up_to_a_limit() -> None:
    minutes = [pause_after(failures).total_seconds() / 60 for failures in range(FAILURES, FAILURES + 9)]
    assert minutes == [5, 10, 20, 40, 80, 160, 320, 360, 360]
    assert pause_after(10**6) == timedelta(hours=6)


def test_success_ends_it(store: KvStore) -> None:
    assert not forget_pause(store, "local", "db.t")
    for _ in range(FAILURES):
        job_failed(store, "local", "db.t", "no", NOON)
    assert forget_pause(store, "local", "db.t")
    assert pause_of(store, "local", "db.t", NOON) is None
