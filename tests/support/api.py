"""A service that answers: the API in a thread, a record store in a file, and somebody who ends jobs without Spark."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from icepact.app import Application
from icepact.client import Client
from icepact.entrypoints.api.application import create_api
from icepact.entrypoints.api.server import server_of
from icepact.entrypoints.api.settings import ApiSettings
from icepact.entrypoints.serving import Service, build_service
from icepact.model.errors import IcepactError
from icepact.model.fleet import Fleet, RankedTable, TableSummary
from icepact.model.health import Health
from icepact.model.job import Job, JobProgress, JobStatus, Operation
from icepact.policy.config import Config
from icepact.record.process import this_process
from icepact.schedule.answers import keep_health, keep_plan, keep_ranking, keep_tables
from icepact.schedule.jobs import Jobs
from icepact.schedule.queue import next_job
from icepact.schedule.requests import Names
from tests.support.reports import messy

Answers = Mapping[Operation, Callable[[Job], Mapping[str, Any]]]
ROOMY = ApiSettings(requests_per_second=1e6, burst=1_000_000, failures_per_minute=1e6)
"""Limits that no test reaches by chance."""


def health_document(table: str = "db.events") -> dict[str, Any]:
    """What `icepact health --json` prints of some table."""
    return {**some_health().to_dict(), "table": table}


@dataclass
class Hands:
    """Takes jobs and ends them at once, as a worker would that has nothing to do."""

    service: Service
    answers: Answers
    plan: bytes = b""
    """What jobs that plan have planned."""

    def one(self) -> Job | None:
        """Take a job and end it; `None` if there is none."""
        store, catalog = self.service.store, self.service.catalog.recorded_as
        job = store.take_job(catalog, this_process(), seconds=60, choose=next_job)
        if job is None:
            return None
        store.renew_job(job.claim, seconds=60, progress=JobProgress(step="executed", units=2, planned_units=4))
        try:
            answer = self.answers.get(job.request.operation)
            result = answer(job) if answer else {}
        except IcepactError as error:
            kind = type(error).__name__
            store.end_job(job.claim, JobStatus.FAILED, error=str(error), error_type=kind, failed=True)
            return job
        self._keep(job, result)
        store.end_job(job.claim, JobStatus.SUCCEEDED, result=result)
        self.service.ended.ring(job.job_id)
        return job

    def _keep(self, job: Job, result: Mapping[str, Any]) -> None:
        store, catalog, now = self.service.store, self.service.catalog.recorded_as, self.service.clock()
        if job.request.operation is Operation.HEALTH:
            keep_health(store, catalog, job.request.table or "", result, taken_at=now)
        if job.request.operation is Operation.TABLES:
            keep_tables(store, catalog, result["tables"], taken_at=now)
        if job.request.operation is Operation.FLEET:
            keep_ranking(store, job.job_id, json.dumps(result).encode())
        if self.plan and (job.request.operation is Operation.PLAN or job.request.dry_run):
            keep_plan(store, job.job_id, self.plan)

    def until(self, stop: threading.Event) -> None:
        """Go on until told to stop."""
        while not stop.is_set():
            if self.one() is None:
                stop.wait(0.01)


ANSWERS: Answers = {
    Operation.HEALTH: lambda job: health_document(job.request.table or ""),
    Operation.TABLES: lambda _: {"tables": ["db.clicks", "db.events"]},
    Operation.FLEET: lambda _: ranking("db.clicks", "db.events").to_dict(),
    Operation.UNBLOCK: lambda _: {"forgotten": 3},
}


def ranking(*tables: str, **given: Any) -> Fleet:
    """A ranking of tables, all of which are worth doing."""
    found = [
        RankedTable(
            rank=rank,
            summary=TableSummary(
                table=table, score=50.0, data_files=12, bytes=1200, small_files=12, delete_records=0, input_files=12
            ),
            chosen=True,
            reason="worth it",
        )
        for rank, table in enumerate(tables, 1)
    ]
    return Fleet(**{"tables": found, "currency": "USD", **given})


@dataclass
class Served:
    """A service, and where it is."""

    service: Service
    url: str

    @property
    def port(self) -> int:
        """On 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    def http(self, key: str | None = None) -> httpx.Client:
        """Requests as they are."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def client(self, key: str | None = None, **more: Any) -> Client:
        """The client that people use."""
        return Client(self.url, key, **more)

    @contextmanager
    def working(self, answers: Answers = ANSWERS, plan: bytes = b"") -> Iterator[None]:
        """Somebody ends jobs."""
        stop = threading.Event()
        thread = threading.Thread(target=Hands(self.service, answers, plan).until, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def served(folder: Path, settings: ApiSettings = ROOMY, **given: Any) -> Iterator[Served]:
    """The API over a new record store in a folder."""
    service = build_service({"warehouse": str(folder / "warehouse"), **given}, {})
    try:
        with _listening(service, settings) as url:
            yield Served(service, url)
    finally:
        service.store.close()


@contextmanager
def serving(application: Application) -> Iterator[str]:
    """The API over the record store of an application; its address."""
    store, catalog = application.store, application.catalog
    service = Service(
        config=Config(),
        catalog=catalog,
        namespace=("default",),
        policies=application.policies,
        prices=application.prices,
        budgets=application.budgets,
        store=store,
        jobs=Jobs(store, catalog.recorded_as, names=Names(catalog=catalog.name)),
        clock=store.now,
    )
    with _listening(service, ROOMY) as url:
        yield url


@contextmanager
def _listening(service: Service, settings: ApiSettings) -> Iterator[str]:
    server = server_of(create_api(service, settings), settings, port=0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until = time.monotonic() + 20
            while not server.started:
                assert time.monotonic() < until, "the API does not start"
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def some_health() -> Health:
    """The health of a table with two partitions."""
    return messy()[0]


def as_json(response: httpx.Response, status: int) -> Any:
    """The document of an answer that has this status."""
    assert response.status_code == status, response.text
    return json.loads(response.text)
