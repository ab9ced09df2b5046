"""One behaviour suite over every store: who watches hears what others do with jobs."""

import logging
import re
import struct
import threading
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import create_engine, text

from icepact.model.errors import Conflict, JobLost
from icepact.model.job import Job, JobClaim, JobStatus
from icepact.record import hearing
from icepact.record.kv.memory import Memory
from icepact.record.kv.store import KvStore
from icepact.record.open import open_store
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from icepact.schedule.queue import next_job
from tests.support.ears import Ear
from tests.support.jobs import US, job_request, make_job
from tests.support.records import NOON
from tests.support.servers.cutting import door_to
from tests.support.servers.postgres import Postgres, fresh_database
from tests.support.servers.redis import RedisServer
from tests.support.stores import STORES, address_of

TELLING = tuple(kind for kind in STORES if kind != "sqlite")
LATER = NOON + timedelta(days=10_000)
Open = Callable[[], RecordStore]


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Of store."""
    return str(request.param)


@pytest.fixture
def another(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens one and the same store, again and again."""
    memory = Memory()
    address = "" if kind in ("memory", "sqlite") else address_of(kind, request)

    def opened() -> RecordStore:
        store: RecordStore
        match kind:
            case "memory":
                store = KvStore(memory)
            case "sqlite":
                store = SqlStore.in_file(tmp_path / "icepact.db")
            case _:
                store = open_store(address)
        request.addfinalizer(store.close)
        return store

    return opened


def hear(kind: str, ear: Ear) -> None:
    """Wait until something can be heard."""
    if kind != "memory":
        ear.until("")


def taken(store: RecordStore, job_id: str) -> Job:
    """A job that waits, in our hands."""
    job = store.take_job("local", US, seconds=60, choose=lambda _: job_id)
    assert job is not None
    return job


@pytest.mark.parametrize("kind", TELLING, indirect=True)
def test_whatever_others_wait_for_is_heard(kind: str, another: Open) -> None:
    """From another store object, in the order in which it was done, and nothing else."""
    ear = Ear()
    store = another()
    with another().watch(ear):
        hear(kind, ear)
        for job_id in ("ended", "returned", "stuck", "cancelled", "asked"):
            store.submit_job(make_job(job_id, job_request(table=f"db.{job_id}")))
        ended, returned, stuck, asked = (taken(store, name) for name in ("ended", "returned", "stuck", "asked"))
        assert store.renew_job(ended.claim, seconds=60) is not None
        store.end_job(ended.claim, JobStatus.SUCCEEDED)
        store.return_job(returned.claim, due_at=LATER)
        assert store.take_back_job(stuck, JobStatus.QUEUED, due_at=LATER)
        store.ask_to_cancel_job("cancelled")
        store.ask_to_cancel_job("asked")
        store.resume_job("cancelled")
        store.end_job(asked.claim, JobStatus.CANCELLED)
        submitted = ["ended", "returned", "stuck", "cancelled", "asked"]
        done = ["ended", "returned", "stuck", "cancelled", "asked", "cancelled", "asked"]
        assert ear.next(len(submitted) + len(done)) == [*submitted, *done]


@pytest.mark.parametrize("kind", TELLING, indirect=True)
def test_what_was_refused_is_not_heard(kind: str, another: Open) -> None:
    ear = Ear()
    store = another()
    with another().watch(ear):
        hear(kind, ear)
        first = make_job("j1", idempotency_key="k")
        store.submit_job(first)
        assert store.submit_job(make_job("j2", idempotency_key="k")).job_id == "j1"
        with pytest.raises(Conflict):
            store.submit_job(make_job("j3", job_request(table="db.other"), idempotency_key="k"))
        with pytest.raises(JobLost):
            store.end_job(JobClaim(job_id="j1", token=7), JobStatus.SUCCEEDED)
        seen = taken(store, "j1")
        assert store.renew_job(seen.claim, seconds=120) is not None
        assert not store.take_back_job(seen, JobStatus.QUEUED)
        with pytest.raises(Conflict):
            store.resume_job("j1")
        store.submit_job(make_job("last"))
        assert ear.next(2) == ["j1", "last"]


@pytest.mark.parametrize("kind", TELLING, indirect=True)
def test_whoever_hears_badly_is_no_matter_to_others(kind: str, another: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Neither to who commits, nor to who watches, too."""
    ear, broken = Ear(), Ear(fails=True)
    watching, store = another(), another()
    with watching.watch(broken), watching.watch(ear):
        hear(kind, ear)
        hear(kind, broken)
        for job_id in ("j1", "j2"):
            store.submit_job(make_job(job_id))
            ear.until(job_id)
            broken.until(job_id)
    assert "whoever heard of job j1 failed" in caplog.text


@pytest.mark.parametrize("kind", STORES, indirect=True)
def test_nothing_is_left_of_a_watch_that_ends(kind: str, another: Open) -> None:
    """And all else of the store can be used before, after and meanwhile."""
    ear = Ear()
    store = another()
    with store.watch(ear):
        store.submit_job(make_job("j1"))
        if kind != "sqlite":
            ear.until("j1" if kind == "memory" else "")
        store.close()
        assert store.job("j1") is not None
    assert not [thread for thread in threading.enumerate() if thread.name == "icepact-hearing"]
    ear.clear()
    store.submit_job(make_job("j2", job_request(table="db.other")))
    assert store.take_job("local", US, seconds=60, choose=next_job) is not None
    assert ear.empty()


@pytest.mark.parametrize("kind", ["redis", "etcd", "postgres"])
def test_one_hears_nothing_of_others_on_the_same_server(kind: str, request: pytest.FixtureRequest) -> None:
    ear = Ear()
    ours, theirs = (open_store(address_of(kind, request)) for _ in range(2))
    with ours.watch(ear):
        ear.until("")
        theirs.submit_job(make_job("theirs"))
        ours.submit_job(make_job("ours"))
        assert ear.next(1) == ["ours"]
    ours.close()
    theirs.close()


def test_a_line_that_is_silent_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of a server: it says nothing any more, and does not end."""
    monkeypatch.setattr(hearing, "SILENCE", 0.0)
    ear = Ear()
    lines = 0

    def listen(_: hearing.Hearing) -> Generator[str | None]:
        nonlocal lines
        lines += 1
        yield f"line {lines}"
        yield None
        yield "never asked for"

    with hearing.Hearing(listen, ear):
        assert ear.next(3) == ["line 1", "line 2", "line 3"]


# -- servers that do not tell everybody -----------------------------------------------------------


def test_those_who_may_not_publish_submit_jobs_all_the_same(redis_server: RedisServer) -> None:
    """As a user of Redis 7 who was not let use any channel."""
    admin: Any = redis.Redis(port=redis_server.port, password=redis_server.password)
    admin.execute_command("ACL", "SETUSER", "quiet", "on", ">secret", "~*", "+@all", "resetchannels")
    address = redis_server.uri()
    quiet = open_store(re.sub(r"//:[^@]+@", "//quiet:secret@", address))
    store = open_store(address)
    ear, deaf = Ear(), Ear()
    with store.watch(ear), quiet.watch(deaf):
        ear.until("")
        quiet.submit_job(make_job("j1"))
        store.submit_job(make_job("j2"))
        assert ear.next(1) == ["j2"]
        assert deaf.empty()
    assert store.job("j1") is not None
    for opened in (quiet, store, admin):
        opened.close()


def test_behind_a_pooler_nobody_listens(postgres: Postgres, caplog: pytest.LogCaptureFixture) -> None:
    """A pooler tells each client of a process that is none, and gives its connections to others."""
    address = fresh_database(postgres)

    def pooled(answer: bytes) -> bytes:
        return re.sub(rb"K\0\0\0\x0c....", b"K\0\0\0\x0c" + struct.pack("!i", 7), answer, flags=re.DOTALL)

    with door_to(postgres.port) as door, caplog.at_level(logging.INFO, "icepact"):
        door.alter = pooled
        other = address.replace(f":{postgres.port}/", f":{door.port}/")
        store = open_store(f"{other}?sslmode=disable&gssencmode=disable")
        ear = Ear()
        with store.watch(ear):
            while "does not tell of jobs now (ConnectionError)" not in caplog.text:
                store.now()
            store.submit_job(make_job("j1"))
            assert store.job("j1") is not None
            assert listeners(address) == 0
            assert ear.empty()
        store.close()
    direct = open_store(address)
    with direct.watch(ear):
        ear.until("")
        assert listeners(address) == 1
    direct.close()


def listeners(address: str) -> int:
    """How many connections to a database have listened last."""
    engine = create_engine(address.replace("postgresql", "postgresql+psycopg"))
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    with engine.connect() as connection:
        found = int(connection.execute(text(asked)).scalar_one())
    engine.dispose()
    return found
