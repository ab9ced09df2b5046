"""Record stores that go away and come back: nothing is lost, nothing is done twice, no table has two holders."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from icepact.model.errors import StoreUnusable
from icepact.model.job import JobStatus
from icepact.record.kv import retries
from icepact.record.kv.store import KvStore
from icepact.record.open import open_store
from icepact.schedule.queue import next_job
from tests.support.jobs import US, job_request, make_job
from tests.support.servers.cutting import Door, calm, door_to
from tests.support.servers.etcd import EtcdServer, etcd_server
from tests.support.servers.process import free_ports
from tests.support.servers.redis import RedisServer, redis_server
from tests.support.servers.wire import Cut

KINDS = ("redis", "etcd")
JOBS, TABLES, WORKERS = 40, 7, 3


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, servers_folder: Path) -> Iterator[RedisServer | EtcdServer]:
    """A server that remembers what it answered for."""
    start = redis_server if request.param == "redis" else etcd_server
    with start(servers_folder, durable=True) as running:
        yield running


@pytest.fixture
def door(server: RedisServer | EtcdServer) -> Iterator[Door]:
    """A line to it that can be cut."""
    with door_to(server.port) as proxy:
        yield proxy


def opened(address: str) -> KvStore:
    """A store over a backend."""
    store = open_store(address)
    assert isinstance(store, KvStore)
    return store


@dataclass
class Ledger:
    """What workers saw, beside the store."""

    done: Counter[str]
    errors: list[BaseException]
    stop: threading.Event


def work(store: KvStore, ledger: Ledger, held: set[str], lock: threading.Lock) -> None:
    """Take jobs and end them, until all are done."""
    try:
        while not ledger.stop.is_set() and store.queue_sizes("local"):
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


def all_jobs_done(address: str, disturb: "Disturbing") -> KvStore:
    """Jobs submitted and done by several workers, while somebody disturbs them: each of them once."""
    ledger = Ledger(done=Counter(), errors=[], stop=threading.Event())
    held: set[str] = set()
    lock = threading.Lock()
    stores = [opened(address) for _ in range(WORKERS)]
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

    def __init__(self, server: RedisServer | EtcdServer, times: int) -> None:
        self._server = server
        self._times = times

    def go_on(self, done: object, stop: threading.Event) -> None:
        """Kill it, and start it."""
        assert callable(done)
        for n in range(1, self._times + 1):
            while done() < n * JOBS // (self._times + 1) and not stop.is_set():
                time.sleep(0.002)
            self._server.process.kill()
            self._server.process.start()


def some_cut(asked: bytes, dice: random.Random, cuts: Sequence[Cut], share: float) -> Cut | None:
    """What happens to a request that reads or writes; connecting goes well."""
    return dice.choice(cuts) if (b"EVALSHA" in asked or b"/kv/txn" in asked) and dice.random() < share else None


class Cutting(Disturbing):
    """Lines are cut, at some of all requests."""

    def __init__(self, door: Door, seed: int) -> None:
        self._door = door
        self._dice = random.Random(seed)

    def begin(self) -> None:
        """From now on."""
        self._door.rule = lambda asked: some_cut(asked, self._dice, list(Cut), 0.15)


def test_a_server_that_is_killed_and_comes_back_loses_nothing(server: RedisServer | EtcdServer) -> None:
    all_jobs_done(server.uri(), Killing(server, 2)).close()


def test_answers_that_are_lost_do_nothing_twice(server: RedisServer | EtcdServer, door: Door) -> None:
    """Requests that never arrive, answers that never come back, and requests that arrive late."""
    all_jobs_done(server.uri(door.port), Cutting(door, seed=1)).close()
    assert set(door.faults) == set(Cut)


def test_a_change_whose_answer_is_lost_is_made_once(server: RedisServer | EtcdServer, door: Door) -> None:
    store = opened(server.uri(door.port))
    dice = random.Random(7)
    seen = store.put_document("counter", "n", {"n": 0})
    door.rule = lambda asked: some_cut(asked, dice, [Cut.AFTER], 0.3)
    for n in range(1, 41):
        seen = store.put_document("counter", "n", {"n": n}, version=seen.version)
    door.rule = calm
    assert store.document("counter", "n") == seen
    assert (seen.version, seen.body) == (41, {"n": 40})
    assert door.faults[Cut.AFTER] > 5
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_stays_away_is_an_error_after_a_while(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PATIENCE", 0.2)
    [port] = free_ports(1)
    store = opened(f"{kind}://me:s3cret-word@127.0.0.1:{port}")
    began = time.monotonic()
    with pytest.raises(StoreUnusable, match=r"^the run history .*127.0.0.1.* cannot be used \(.*\): see `store` in"):
        store.run("r1")
    assert time.monotonic() - began < 5
    with pytest.raises(StoreUnusable) as refused:
        store.now()
    assert "s3cret-word" not in str(refused.value)
    store.close()
