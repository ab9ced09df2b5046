"""Killing the processes of a service under load, and its record store: every job must end once, and every table be what
it was."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.client import Client
from icepact.model.errors import IcepactError, ServiceUnreachable
from icepact.model.job import Job, JobStatus
from icepact.record.open import open_store
from icepact.record.process import is_gone
from icepact.record.store import RecordStore
from icepact.schedule.jobs import Jobs
from tests.support.compactors import short_compactor
from tests.support.oracle import seen
from tests.support.servers.durable import address_of, durable_server
from tests.support.servers.process import free_ports

KIND = "service-kill"
LONGEST = 300.0
"""Seconds for all jobs of a trial to end."""
_FILES = 4
_MOST_FAILURES = 100
"""Every kill counts as one."""
_IN_A_RUN = 0.75
"""So many kills come after a run has begun; the others at any instant, while Java starts as a rule."""
_STORE_TOO = 0.4
"""With so many kills the server of the record store dies in the same instant, and comes back with its data."""
_AFTER_ITS_BEGIN = (0.2, 2.0)
"""Seconds at most from the begin of a run to the kill: hardly more than one in a warm process takes, or a cold one."""
_KILLS_IN_A_ROUND = 8
"""At most: jobs that are killed each time they begin do not end."""
_AT_ANY_TIME = 2.0
_LONGEST_WAIT = 30.0
_COMMAND = (sys.executable, "-c", "from icepact.entrypoints.cli.start import run; run()", "serve")
_WORKER = "icepact.entrypoints.service.worker"


# -- the service ----------------------------------------------------------------------------------


class ServiceUnderTest:
    """Replicas of `icepact serve` with their workers, started again and again, and everything of them that lives."""

    def __init__(
        self, warehouse: Path, *, workers: int, replicas: int = 1, store: str | None = None, grace: str = "20s"
    ) -> None:
        config = warehouse / "service.json"
        settings = {"lease": "20s", "grace": grace, "requests_per_second": 1_000_000}
        document = {"spark": {"master": "local[2]"}, "service": settings, **({"store": store} if store else {})}
        config.write_text(json.dumps(document))
        self._flags = ["--warehouse", str(warehouse), "--config", str(config), "--workers", str(workers)]
        self._ports = free_ports(replicas)
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        """By the port of each replica."""
        self._ended: list[subprocess.Popen[bytes]] = []
        self._workers: set[int] = set()
        self.log = warehouse / "service.log"

    def start(self) -> None:
        """Start every replica that does not run."""
        for port in self._ports:
            if port not in self._running:
                with self.log.open("a") as log:
                    self._running[port] = subprocess.Popen(
                        [*_COMMAND, *self._flags, "--port", str(port)], stdout=log, stderr=log, start_new_session=True
                    )

    @property
    def serves(self) -> list[int]:
        """The processes of the API; one of them leads the schedules."""
        return [process.pid for process in self._running.values()]

    def workers(self) -> list[int]:
        """Processes of workers that live, orphans included."""
        for pid in self.serves:
            with suppress(psutil.Error):
                found = psutil.Process(pid).children()
                self._workers |= {child.pid for child in found if _WORKER in child.cmdline()}
        return [pid for pid in sorted(self._workers) if _is_worker(pid)]

    def submit(self, table: str, key: str, dice: random.Random) -> Job:
        """Have a table compacted, by whichever replica answers, asked as often as that needs."""
        until = time.monotonic() + LONGEST
        while True:
            try:
                with Client(f"http://127.0.0.1:{dice.choice(self._ports)}", retries=1) as client:
                    return client.compact(
                        table, options={"rewrite_all": True}, most_failures=_MOST_FAILURES, idempotency_key=key
                    )
            except ServiceUnreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def kill(self, pid: int) -> None:
        """`kill -9`."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        for port, process in list(self._running.items()):
            if process.pid == pid:
                process.wait()
                self._ended.append(self._running.pop(port))

    def end(self) -> list[int]:
        """Ask all replicas to end; their exit codes."""
        for process in self._running.values():
            process.terminate()
        return [process.wait(60) for process in self._running.values()]

    def kill_all(self) -> None:
        """Nothing of it lives afterwards."""
        workers = self.workers()
        for process in (*self._running.values(), *self._ended):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_worker(pid: int) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and _WORKER in process.cmdline()
    return False


@contextmanager
def service(
    warehouse: Path, *, workers: int, replicas: int = 1, store: str | None = None, grace: str = "20s"
) -> Iterator[ServiceUnderTest]:
    """A service; nothing of it lives afterwards."""
    made = ServiceUnderTest(warehouse, workers=workers, replicas=replicas, store=store, grace=grace)
    made.start()
    try:
        yield made
    finally:
        made.kill_all()


# -- what must hold -------------------------------------------------------------------------------


@dataclass(kw_only=True)
class ServiceVerdict:
    """What became of jobs and tables."""

    jobs: int = 0
    lost: list[str] = field(default_factory=list)
    """Jobs that did not end well, and how."""
    twice: list[str] = field(default_factory=list)
    """Tables with more commits than jobs, or fewer; and requests that were made twice and became two jobs."""
    changed: list[str] = field(default_factory=list)
    """Tables that readers see otherwise."""
    held_by_two: list[str] = field(default_factory=list)
    """Tables on which two processes that live had open runs."""

    @property
    def clean(self) -> bool:
        """Nothing is wrong."""
        return not (self.lost or self.twice or self.changed or self.held_by_two)


class Load:
    """Jobs on tables, one for each table and round, and what the tables were before."""

    def __init__(self, compactor: Compactor, store: RecordStore, tables: Sequence[str]) -> None:
        self._spark: SparkSession = compactor.spark
        self._store = store
        self._catalog = compactor.application.catalog.recorded_as
        self._jobs = Jobs(store, self._catalog)
        self._tables = tables
        self._before: dict[str, Any] = {}
        self._commits: dict[str, int] = {}
        self._submitted: dict[str, str] = {}
        self._round = 0
        self.verdict = ServiceVerdict()
        for table in tables:
            self._spark.sql(f"CREATE TABLE {table} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')")

    def write(self, start: int) -> None:
        """Small files in every table."""
        self._submitted.clear()
        self._round += 1
        for table in self._tables:
            for file in range(_FILES):
                self._spark.range(start + 100 * file, start + 100 * file + 50, 1, 1).writeTo(table).append()
            self._before[table], self._commits[table] = seen(self._spark, table), self._count(table)
        self.verdict.jobs += len(self._tables)

    def submit(self, served: ServiceUnderTest, dice: random.Random) -> None:
        """A job for every table, asked for twice."""
        for table in self._tables:
            key = f"{table}-{self._round}"
            first, second = (served.submit(table, key, dice).job_id for _ in range(2))
            self._submitted[table] = first
            if first != second:
                self.verdict.twice.append(f"{table}: one request became the jobs {first} and {second}")

    @property
    def asked(self) -> bool:
        """Whether there is a job for every table."""
        return len(self._submitted) == len(self._tables)

    def open(self) -> Sequence[Job]:
        """Jobs that have not ended; and while we are at it, nobody shares a table."""
        for table in self._tables:
            runs = self._store.runs(catalog=self._catalog, table=table, open_only=True, outcomes=False)
            alive = {run.owner for run in runs if run.owner is not None and not is_gone(run.owner)}
            if len(alive) > 1 and table not in self.verdict.held_by_two:
                self.verdict.held_by_two.append(table)
        return self._jobs.list(statuses=[JobStatus.QUEUED, JobStatus.RUNNING], limit=1000)

    def judge(self) -> None:
        """After all jobs have ended."""
        for table, job_id in self._submitted.items():
            try:
                job = self._jobs.get(job_id)
            except IcepactError as error:
                self.verdict.lost.append(f"{job_id} on {table}: {error}")
                continue
            if job.status is not JobStatus.SUCCEEDED:
                self.verdict.lost.append(f"{job_id} on {table}: {job.status} ({job.error})")
            self._spark.sql(f"REFRESH TABLE {table}")
            more = self._count(table) - self._commits[table]
            if more != 1:
                self.verdict.twice.append(f"{table}: {more} commits for one job")
            if seen(self._spark, table) != self._before[table]:
                self.verdict.changed.append(table)

    def _count(self, table: str) -> int:
        return self._spark.sql(f"SELECT * FROM {table}.snapshots").count()


def busy(load: Load, among: Collection[int]) -> Mapping[int, Job]:
    """Workers in the middle of a run, and their jobs."""
    found = [job for job in load.open() if job.status is JobStatus.RUNNING and job.run_id is not None]
    return {job.worker.pid: job for job in found if job.worker is not None and job.worker.pid in among}


# -- trials without end ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class StorePlace:
    """A record store, and how its server dies and comes back."""

    address: str | None = None
    """`None` for the one beside the warehouse."""
    restart: Callable[[], None] | None = None


def service_kills(
    folder: Path, *, first: int, seed: int, place: StorePlace, tables: int = 12, replicas: int = 2
) -> Generator[dict[str, Any], None, None]:
    """Trials without end, for the ledger: one kill each, and every now and then a look at everything."""
    warehouse = folder / "warehouse"
    compactor = short_compactor(warehouse=warehouse)
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS served")
    records = compactor.application.store if place.address is None else open_store(place.address)
    load = Load(compactor, records, [f"served.t{first}n{at}" for at in range(tables)])
    number, start = first, 0
    with service(warehouse, workers=1, replicas=replicas, store=place.address) as served:
        while True:
            load.write(start)
            start += 1000
            kills = list(_kills_of_a_round(load, served, place, number, seed))
            number += len(kills)
            judged = load.verdict
            found = {
                "lost": len(judged.lost),
                "duplicated": len(judged.twice) + len(judged.held_by_two),
                "changed": len(judged.changed),
                "clean": judged.clean,
                "jobs": tables,
            }
            for kill in kills:  # what came of all of them is told with the last
                last = kill is kills[-1]
                yield {"kind": KIND, "seed": seed, **kill, **(found if last else {"clean": judged.clean})}
            if not judged.clean:
                raise RuntimeError(f"{judged}; see {served.log}")


def _kills_of_a_round(
    load: Load, served: ServiceUnderTest, place: StorePlace, number: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Kills while jobs are submitted and carried out; then all is judged."""
    asking = threading.Thread(target=load.submit, args=(served, random.Random(f"{seed}/{KIND}/{number}/submit")))
    asking.start()
    until = time.monotonic() + LONGEST
    last = number + _KILLS_IN_A_ROUND
    while _is_going_on(load, asking) and time.monotonic() < until:
        dice = random.Random(f"{seed}/{KIND}/{number}")
        if number < last and _wait(load, served, dice, asking):
            yield {"number": number, **_kill(served, load, place, dice)}
            number += 1
        else:
            time.sleep(0.05)
    asking.join()
    load.judge()
    if not load.asked:
        load.verdict.lost.append("not every request was answered")


def _is_going_on(load: Load, asking: threading.Thread) -> bool:
    return bool(load.open()) or asking.is_alive()


def _wait(load: Load, served: ServiceUnderTest, dice: random.Random, asking: threading.Thread) -> bool:
    """Wait for the time of the next kill: mostly soon after a run has begun. False if all jobs have ended meanwhile."""
    in_a_run, moment = dice.random() < _IN_A_RUN, dice.uniform(0.0, dice.choice(_AFTER_ITS_BEGIN))
    never, until = (
        threading.Event(),
        time.monotonic() + (_LONGEST_WAIT if in_a_run else dice.uniform(0.0, _AT_ANY_TIME)),
    )
    while time.monotonic() < until:
        if not _is_going_on(load, asking):
            return False
        if in_a_run and busy(load, served.workers()):
            never.wait(moment)
            break
        never.wait(0.02)
    return _is_going_on(load, asking)


def _kill(served: ServiceUnderTest, load: Load, place: StorePlace, dice: random.Random) -> dict[str, Any]:
    workers, serves = served.workers(), served.serves
    hit = busy(load, workers)
    victim = dice.choice([*serves, *workers, *hit])
    how: dict[str, Any] = {"victim": "serve" if victim in serves else "worker"}
    if place.restart is not None and dice.random() < _STORE_TOO:
        how["store"] = True
        place.restart()
    served.kill(victim)
    served.start()
    return {"how": how, "hit": victim in hit}


# -- stores ---------------------------------------------------------------------------------------

STORES = ("sqlite", "postgres", "redis", "etcd")


@contextmanager
def store_place(kind: str, folder: Path) -> Iterator[StorePlace]:
    """A store of a kind for as long as it is needed."""
    if kind == "sqlite":
        yield StorePlace()
        return
    with durable_server(kind, folder) as server:
        yield StorePlace(address=address_of(server), restart=server.process.restart)
