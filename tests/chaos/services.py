"""Killing the processes of a service under load: every job must end once, and every table be what it was."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.job import Job, JobRequest, JobStatus, Operation
from icepact.record.open import open_store
from icepact.record.process import is_gone
from icepact.record.store import RecordStore
from icepact.schedule.jobs import Jobs
from tests.support.compactors import short_compactor
from tests.support.oracle import seen
from tests.support.servers.etcd import etcd_server
from tests.support.servers.postgres import fresh_database, postgres
from tests.support.servers.redis import redis_server

KIND = "service-kill"
LONGEST = 300.0
"""Seconds for all jobs of a trial to end."""
_FILES = 4
_MOST_FAILURES = 100
"""Every kill counts as one."""
_PROGRAM = "tests.support.serving"
_WORKER = "icepact.entrypoints.service.worker"


# -- the service ----------------------------------------------------------------------------------


class ServiceUnderTest:
    """`serve` with its workers, started again and again, and everything of it that lives."""

    def __init__(self, warehouse: Path, *, workers: int, store: str | None = None, grace: str = "20s") -> None:
        config = warehouse / "service.json"
        settings = {"lease": "20s", "grace": grace}
        document = {"spark": {"master": "local[2]"}, "service": settings, **({"store": store} if store else {})}
        config.write_text(json.dumps(document))
        given = {"warehouse": str(warehouse), "config": str(config)}
        self._arguments = json.dumps({"given": given, "port": 0, "workers": workers})
        self._serves: list[subprocess.Popen[str]] = []
        self._workers: set[int] = set()
        self.log = warehouse / "service.log"

    def start(self) -> None:
        """One more `serve`; those before it are gone."""
        with self.log.open("a") as log:
            self._serves.append(
                subprocess.Popen(
                    [sys.executable, "-m", _PROGRAM, self._arguments],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            )

    @property
    def serve(self) -> int:
        """The process of the API."""
        return self._serves[-1].pid

    def workers(self) -> list[int]:
        """Processes of workers that live, orphans included."""
        for serve in self._serves:
            with suppress(psutil.Error):
                found = psutil.Process(serve.pid).children()
                self._workers |= {child.pid for child in found if _WORKER in child.cmdline()}
        return [pid for pid in sorted(self._workers) if _is_worker(pid)]

    def kill(self, pid: int) -> None:
        """`kill -9`."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if pid == self.serve:
            self._serves[-1].wait()

    def end(self) -> int:
        """Ask the last one to end; its exit code."""
        self._serves[-1].terminate()
        return self._serves[-1].wait(60)

    def kill_all(self) -> None:
        """Nothing of it lives afterwards."""
        workers = self.workers()
        for serve in self._serves:
            with suppress(ProcessLookupError):
                os.killpg(serve.pid, signal.SIGKILL)
            serve.wait()
            assert serve.stdout is not None
            serve.stdout.close()
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
    warehouse: Path, *, workers: int, store: str | None = None, grace: str = "20s"
) -> Iterator[ServiceUnderTest]:
    """A service; nothing of it lives afterwards."""
    made = ServiceUnderTest(warehouse, workers=workers, store=store, grace=grace)
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
    """Tables with more commits than jobs, or fewer."""
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
        self.verdict = ServiceVerdict()
        for table in tables:
            self._spark.sql(f"CREATE TABLE {table} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')")

    def submit(self, start: int) -> None:
        """Small files in every table, and a job for it."""
        for table in self._tables:
            for file in range(_FILES):
                self._spark.range(start + 100 * file, start + 100 * file + 50, 1, 1).writeTo(table).append()
            self._before[table], self._commits[table] = seen(self._spark, table), self._count(table)
            request = JobRequest(operation=Operation.COMPACT, table=table, options={"rewrite_all": True})
            job = self._jobs.submit(request, most_failures=_MOST_FAILURES)
            self._submitted[table] = job.job_id
        self.verdict.jobs += len(self._tables)

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
            job = self._jobs.get(job_id)
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


def service_kills(
    folder: Path, *, first: int, seed: int, store: str | None = None, tables: int = 6, workers: int = 2
) -> Generator[dict[str, Any], None, None]:
    """Trials without end, for the ledger: one kill each, and every now and then a look at everything."""
    warehouse = folder / "warehouse"
    compactor = short_compactor(warehouse=warehouse)
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS served")
    records = compactor.application.store if store is None else open_store(store)
    load = Load(compactor, records, [f"served.t{first}n{at}" for at in range(tables)])
    number, start = first, 0
    with service(warehouse, workers=workers, store=store) as served:
        while True:
            load.submit(start)
            start += 1000
            kills: list[dict[str, Any]] = []
            until = time.monotonic() + LONGEST
            while load.open() and time.monotonic() < until:
                dice = random.Random(f"{seed}/{KIND}/{number}")
                if _wait(load, dice.uniform(0.2, 12.0)):
                    kills.append({"number": number, **_kill(served, load, dice)})
                    number += 1
            load.judge()
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


def _wait(load: Load, seconds: float) -> bool:
    """False if all jobs have ended meanwhile."""
    never, until = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < until:
        if not load.open():
            return False
        never.wait(0.2)
    return True


def _kill(served: ServiceUnderTest, load: Load, dice: random.Random) -> dict[str, Any]:
    workers = served.workers()
    hit = busy(load, workers)
    victim = dice.choice([served.serve, *workers, *hit])
    what = "serve" if victim == served.serve else "worker"
    served.kill(victim)
    if what == "serve":
        served.start()
    return {"how": {"victim": what}, "hit": victim in hit}


# -- stores ---------------------------------------------------------------------------------------

STORES = ("sqlite", "postgres", "redis", "etcd")


@contextmanager
def address_of(kind: str, folder: Path) -> Iterator[str | None]:
    """A store of a kind for as long as it is needed; `None` for the one beside the warehouse."""
    match kind:
        case "sqlite":
            yield None
        case "postgres":
            with postgres(folder) as server:
                yield fresh_database(server)
        case "redis":
            with redis_server(folder) as redis:
                yield redis.uri()
        case _:
            with etcd_server(folder) as etcd:
                yield etcd.uri()
