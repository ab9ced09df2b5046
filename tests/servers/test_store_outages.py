"""Record stores that go away and come back: nothing is lost, nothing is done twice, no table has two holders."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import NullPool, create_engine, text

from icepact.model.errors import StoreUnusable
from icepact.model.job import JobStatus
from icepact.record import retries
from icepact.record.open import open_store
from icepact.record.store import RecordStore
from icepact.schedule.queue import next_job
from tests.support.ears import Ear
from tests.support.jobs import US, job_request, make_job
from tests.support.servers.cutting import Door, door_to
from tests.support.servers.durable import KINDS, Server, address_of
from tests.support.servers.etcd import EtcdServer, etcd_server
from tests.support.servers.postgres import Postgres
from tests.support.servers.process import free_ports
from tests.support.servers.redis import redis_server
from tests.support.servers.wire import Cut, Wire, wire

Proxy = Door | Wire
JOBS, TABLES, WORKERS = 30, 7, 3
LONGEST = 120.0
"""Seconds for all of them."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not heard of a server yet waits for it as others do."""
    monkeypatch.setattr(retries, "FIRST_PATIENCE", retries.PATIENCE)


@pytest.fixture
def door(server: Server) -> Iterator[Proxy]:
    """A line to it that can be cut."""
    if isinstance(server, Postgres):
        with wire(server.port) as proxy:
            yield proxy
        return
    with door_to(server.port) as line:
        yield line


@dataclass
class Ledger:
    """What workers saw, beside the store."""

    done: Counter[str]
    errors: list[BaseException]
    stop: threading.Event


def work(store: RecordStore, ledger: Ledger, held: set[str], lock: threading.Lock) -> None:
    """Take jobs and end them, until all are done."""
    try:
        until = time.monotonic() + LONGEST
        while not ledger.stop.is_set() and store.queue_sizes("local"):
            assert time.monotonic() < until, "jobs that nobody has and that have not ended"
            job = store.take_job("local", US, seconds=600, choose=next_job)
            if job is None:
                time.sleep(0.005)
                continue
            table = str(job.request.table)
            with lock:
                assert table not in held, f"{table} is held by two"
                held.add(table)
            renewed = store.renew_job(job.claim, seconds=600, run_id=f"run of {job.job_id}")
            assert renewed is not None
            with lock:
                held.remove(table)
            store.end_job(job.claim, JobStatus.SUCCEEDED, result={"job": job.job_id})
            with lock:
                ledger.done[job.job_id] += 1
    except BaseException as error:
        ledger.errors.append(error)
        ledger.stop.set()


def all_jobs_done(address: str, disturb: "Disturbing") -> RecordStore:
    """Jobs submitted and done by several workers, while somebody disturbs them: each of them once."""
    ledger = Ledger(done=Counter(), errors=[], stop=threading.Event())
    held: set[str] = set()
    lock = threading.Lock()
    stores = [open_store(address) for _ in range(WORKERS)]
    with ExitStack() as stack:
        for store in stores[1:]:
            stack.callback(store.close)
        disturb.begin()
        for n in range(JOBS):
            stores[0].submit_job(make_job(f"j{n:03}", job_request(table=f"db.t{n % TABLES}"), tenant=f"t{n % 2}"))
        threads = [threading.Thread(target=work, args=(store, ledger, held, lock)) for store in stores]
        for thread in threads:
            thread.start()
        disturb.go_on(lambda: len(ledger.done), ledger.stop)
        for thread in threads:
            thread.join()
    assert not ledger.errors
    assert ledger.done == Counter({f"j{n:03}": 1 for n in range(JOBS)})
    jobs = stores[0].jobs(catalog="local", limit=JOBS + 1, results=True)
    assert [(job.status, job.attempts, job.result) for job in jobs] == [
        (JobStatus.SUCCEEDED, 1, {"job": job.job_id}) for job in jobs
    ]
    assert len(jobs) == JOBS
    return stores[0]


class Disturbing:
    """Nobody does."""

    def begin(self) -> None:
        """Before the first job."""

    def go_on(self, done: object, stop: threading.Event) -> None:
        """While workers work."""


class Killing(Disturbing):
    """The server is killed after some jobs, again and again, and starts with its data."""

    def __init__(self, server: Server, times: int) -> None:
        self._server = server
        self._times = times

    def go_on(self, done: object, stop: threading.Event) -> None:
        """Kill it, and start it."""
        assert callable(done)
        for n in range(1, self._times + 1):
            while done() < n * JOBS // (self._times + 1) and not stop.is_set():
                time.sleep(0.002)
            if isinstance(self._server, EtcdServer):  # 3.5.1, as it comes in a wheel, loses changes when it is killed
                self._server.process.stop()
            else:
                self._server.process.kill()
            self._server.process.start()


def some_cut(asked: bytes | str, dice: random.Random, cuts: Sequence[Cut], share: float) -> Cut | None:
    """What happens to a request that reads or writes; connecting goes well."""
    text = asked if isinstance(asked, str) else asked.decode(errors="replace")
    meant = any(word in text for word in ("EVALSHA", "/kv/txn", "COMMIT"))
    return dice.choice(cuts) if meant and dice.random() < share else None


class Cutting(Disturbing):
    """Lines are cut, at some of all requests."""

    def __init__(self, door: Proxy, seed: int) -> None:
        self._door = door
        self._dice = random.Random(seed)

    def begin(self) -> None:
        """From now on."""
        cuts = list(Cut)
        self._door.rule = lambda asked: some_cut(asked, self._dice, cuts, 0.15)


def test_a_server_that_is_killed_and_comes_back_loses_nothing(server: Server) -> None:
    all_jobs_done(address_of(server), Killing(server, 2)).close()


def test_answers_that_are_lost_do_nothing_twice(server: Server, door: Proxy) -> None:
    """Requests that never arrive, answers that never come back, and requests that arrive late."""
    all_jobs_done(address_of(server, door.port), Cutting(door, seed=1)).close()
    assert set(door.faults) == set(Cut)


def test_a_change_whose_answer_is_lost_is_made_once(server: Server, door: Proxy) -> None:
    store = open_store(address_of(server, door.port))
    dice = random.Random(7)
    seen = store.put_document("counter", "n", {"n": 0})
    door.rule = lambda asked: some_cut(asked, dice, [Cut.AFTER], 0.3)
    for n in range(1, 41):
        seen = store.put_document("counter", "n", {"n": n}, version=seen.version)
    door.rule = lambda asked: None
    assert store.document("counter", "n") == seen
    assert (seen.version, seen.body) == (41, {"n": 40})
    assert door.faults[Cut.AFTER] > 5
    store.close()


class GivingAway:
    """Kills PostgreSQL when it is to commit, and lets somebody else have the number of the transaction then."""

    def __init__(self, server: Postgres) -> None:
        self._process = server.process
        # a killed server must have forgotten what was not committed
        self._server = create_engine(
            server.uri.replace("psycopg2", "psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        self.ask("ALTER SYSTEM SET wal_writer_delay = 10000")
        self.ask("SELECT pg_reload_conf()")
        self.armed = False
        self.given: list[int] = []
        """Numbers that transactions had which were lost, and others after them."""

    def ask(self, statement: str) -> int:
        """By a line of its own."""
        with self._server.connect() as connection:
            result = connection.execute(text(statement))
            return int(result.scalar() or 0) if result.returns_rows else 0

    def __call__(self, statement: str) -> Cut | None:
        """What happens to a request."""
        if not self.armed or "COMMIT" not in statement:
            return None
        self.armed = False
        number = self.ask("SELECT max(backend_xid::text::bigint) FROM pg_stat_activity WHERE backend_xid IS NOT NULL")
        self._process.kill()
        self._process.start()
        while (theirs := self.ask("SELECT txid_current()")) < number:
            pass
        self.given += [number] if theirs == number else []
        return Cut.BEFORE


@pytest.mark.parametrize("server", ["postgresql"], indirect=True)
def test_a_number_that_a_killed_server_gives_away_again_proves_nothing(server: Server, door: Proxy) -> None:
    """Somebody else has committed under it before we ask what became of ours."""
    assert isinstance(server, Postgres)
    store = open_store(address_of(server, door.port))
    seen = store.put_document("counter", "n", {"n": 0})
    door.rule = kills = GivingAway(server)
    for n in range(1, 4):
        kills.armed = True
        seen = store.put_document("counter", "n", {"n": n}, version=seen.version)
        assert not kills.armed
        assert store.document("counter", "n") == seen
        assert (seen.version, seen.body) == (n + 1, {"n": n})
    assert kills.given
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_stays_away_is_an_error_after_a_while(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PATIENCE", 0.2)
    [port] = free_ports(1)
    store = open_store(f"{kind}://me:s3cret-word@127.0.0.1:{port}")
    began = time.monotonic()
    with pytest.raises(StoreUnusable, match=r"^the run history .*127.0.0.1.* cannot be used \(.*\): see `store` in"):
        store.run("r1")
    assert time.monotonic() - began < 5
    with pytest.raises(StoreUnusable) as refused:
        store.now()
    assert "s3cret-word" not in str(refused.value)
    store.close()


def test_etcd_asks_for_a_password_and_tokens_expire(servers_folder: Path) -> None:
    with etcd_server(servers_folder) as server:
        address = f"http://127.0.0.1:{server.port}/v3/auth"
        for method, body in (
            ("user/add", {"name": "root", "password": "s3cret/word"}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            assert httpx.post(f"{address}/{method}", json=body).status_code == 200
        named = server.uri().replace("//", "//root:s3cret%2Fword@")
        store = open_store(named)
        store.put_document("counter", "n", {"n": 1})
        ear = Ear()
        with store.watch(ear):
            ear.until("")
            server.process.kill()
            server.process.start()  # it has forgotten all tokens
            ear.until("")
        found = store.document("counter", "n")
        assert found is not None
        assert found.body == {"n": 1}
        store.close()
        for wrong in (server.uri(), named.replace("s3cret", "s3cert")):
            other = open_store(wrong)
            with pytest.raises(StoreUnusable, match="cannot be used") as refused:
                other.document("counter", "n")
            assert "s3c" not in str(refused.value)
            other.close()


def test_settings_of_redis_that_lose_what_it_keeps_are_told(servers_folder: Path) -> None:
    with redis_server(servers_folder, durable=True) as safe, redis_server(servers_folder) as forgetful:
        stores = [open_store(server.uri()) for server in (safe, forgetful)]
        assert stores[0].concerns() == []
        [concern] = stores[1].concerns()
        assert concern.startswith("appendonly is off: ")
        for store in stores:
            store.close()
