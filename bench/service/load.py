"""Many clients, many jobs, two processes of the API, two workers, one record store: what ends, what fails, what grows.

Writers append to the tables all the time, so that compactions have work. A compaction is done once if the snapshots
that its job tells of are in the table, belong to no other job, and there are no others.
"""

import asyncio
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from bench.service.processes import Place, Serve

CLIENTS = 50
_OPERATIONS = (
    "compact",
    "compact",
    "compact",
    "health",
    "compact",
    "plan",
    "compact",
    "compact",
    "manifests",
    "policy",
)
"""Jobs in turn."""
_OPTIONS = {"rewrite_all": True}
"""So that every compaction has a commit."""
_LATE = (429, 503)
"""Answers that are allowed if they say when to ask again."""
_SAMPLE = 1.0
"""Seconds between two looks at memory."""
_PATIENCE = 600.0
"""Seconds for the last jobs to end."""
_TRIES = 20
"""Of a writer's commit."""


@dataclass(kw_only=True)
class Load:
    """What came of it."""

    minutes: float
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """As they are in the end, by id."""
    submitted: int = 0
    """Requests for a job, each by a key of its own."""
    answers: Counter[str] = field(default_factory=Counter)
    """By what they were."""
    errors: list[str] = field(default_factory=list)
    """Answers that are not allowed, and what was found to be wrong."""
    waited: list[float] = field(default_factory=list)
    """Seconds from a job's submission to its end, as clients saw it."""
    looked: list[float] = field(default_factory=list)
    """Seconds that other requests took."""
    memory: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Bytes of each process, and when."""
    seconds: float = 0.0
    """Until the last job had ended."""

    def growth(self, kind: str) -> float:
        """Memory of processes of a kind in the last quarter of the time, over that in the second; the worst."""
        found = [1.0]
        for name, samples in self.memory.items():
            if not name.startswith(kind) or len(samples) < 8:
                continue
            quarter = len(samples) // 4
            late, early = samples[-quarter:], samples[quarter : 2 * quarter]
            found.append(statistics.median(size for _, size in late) / statistics.median(size for _, size in early))
        return max(found[1:], default=1.0)

    def size(self, kind: str) -> float:
        """Megabytes of the largest process of a kind, in the end."""
        return max((samples[-1][1] for name, samples in self.memory.items() if name.startswith(kind)), default=0) / 1e6


def load(place: Place, serves: Sequence[Serve], *, key: str, minutes: float, jobs: int, tables: int) -> Load:
    """Have clients ask for so many jobs in so many minutes."""
    result = Load(minutes=minutes)
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(serves, result, over))
    watch.start()
    try:
        began = time.monotonic()
        asyncio.run(_Clients(place, serves, result, key, tables).run(minutes * 60, jobs))
        result.seconds = time.monotonic() - began
    finally:
        over.set()
        watch.join()
    _compare(place, result, tables)
    return result


def _watch(serves: Sequence[Serve], result: Load, over: threading.Event) -> None:
    began = time.monotonic()
    while not over.wait(_SAMPLE):
        for number, serve in enumerate(serves):
            for name, process in serve.processes().items():
                try:
                    size = process.memory_info().rss
                except psutil.Error:
                    continue
                result.memory.setdefault(f"{name} of {number}", []).append((time.monotonic() - began, size))


class _Clients:
    """All of them, in one process."""

    def __init__(self, place: Place, serves: Sequence[Serve], result: Load, key: str, tables: int) -> None:
        self._serves, self._result, self._tables = serves, result, tables
        self._headers = {"Authorization": f"Bearer {key}"}
        self._dice = random.Random(20)
        self._writer = _Writer(place)

    async def run(self, seconds: float, jobs: int) -> None:
        """Each client has its share of the jobs, one after the other, spread over the time."""
        async with asyncio.TaskGroup() as group:
            for client in range(CLIENTS):
                mine = range(client, jobs, CLIENTS)
                group.create_task(self._client(client, [(number, seconds * number / jobs) for number in mine]))

    async def _client(self, client: int, jobs: Sequence[tuple[int, float]]) -> None:
        began = time.monotonic()
        url = self._serves[client % len(self._serves)].url
        async with httpx.AsyncClient(base_url=url, headers=self._headers, timeout=90.0, trust_env=False) as http:
            for number, at in jobs:
                await asyncio.sleep(max(0.0, began + at - time.monotonic()))
                await self._job(http, number)

    async def _job(self, http: httpx.AsyncClient, number: int) -> None:
        table = number % self._tables
        name = f"bench.e{table}"
        operation = _OPERATIONS[number // self._tables % len(_OPERATIONS)]
        if operation == "compact":
            await asyncio.to_thread(self._writer.append, name)
        path = "/api/v1/compact" if operation == "compact" else f"/api/v1/tables/{name}/{operation}"
        body: dict[str, Any] = {"table": name} if operation == "compact" else {}
        if operation in ("compact", "plan"):
            body |= {"options": _OPTIONS}
        self._result.submitted += 1
        began = time.monotonic()
        job = await self._ask(http, "POST", path, json=body, headers={"Idempotency-Key": f"job-{number}"})
        if job is None:
            return
        looks = asyncio.create_task(self._look_around(http, name))
        until = time.monotonic() + _PATIENCE
        while job is not None and job["finished_at"] is None and time.monotonic() < until:
            job = await self._ask(http, "GET", f"/api/v1/jobs/{job['job_id']}?wait=30s")
        await looks
        if job is None or job["finished_at"] is None:
            self._result.errors.append(f"job {number} ({operation}) has not ended: {job}")
            return
        self._result.waited.append(time.monotonic() - began)
        self._result.jobs[job["job_id"]] = job
        if job["status"] != "succeeded":
            self._result.errors.append(f"job {number} ({operation}): {job['status']}: {job['error']}")

    async def _look_around(self, http: httpx.AsyncClient, name: str) -> None:
        """What people look at while they wait."""
        for path in ("/healthz", f"/api/v1/jobs?table={name}&limit=20", "/api/v1/fleet?limit=50", "/readyz"):
            began = time.monotonic()
            await self._ask(http, "GET", path)
            self._result.looked.append(time.monotonic() - began)

    async def _ask(self, http: httpx.AsyncClient, method: str, path: str, **more: Any) -> dict[str, Any] | None:
        while True:
            try:
                answer = await http.request(method, path, **more)
            except httpx.HTTPError as error:
                self._result.errors.append(f"{method} {path}: {type(error).__name__}: {error}")
                return None
            self._result.answers[f"{method} {answer.status_code}"] += 1
            if answer.is_success:
                document: dict[str, Any] = answer.json()
                return document
            wait = answer.headers.get("Retry-After", "")
            if answer.status_code not in _LATE or not wait.isdigit():
                self._result.errors.append(f"{method} {path}: {answer.status_code}: {answer.text[:300]}")
                return None
            await asyncio.sleep(int(wait) * self._dice.uniform(1.0, 1.2))


class _Writer:
    """Appends small files."""

    def __init__(self, place: Place) -> None:
        self._catalog = _catalog(place)
        self._lock = threading.Lock()

    def append(self, name: str) -> None:
        """A small file; a compaction of the table may be faster, and then it is tried again."""
        ids = list(range(1000))
        rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {one}" for one in ids]})
        with self._lock:
            for _ in range(_TRIES):
                try:
                    return self._catalog.load_table(name).append(rows)
                except (CommitFailedException, OperationalError):
                    time.sleep(0.05)
        raise RuntimeError(f"{name} cannot be written to")


def _catalog(place: Place) -> SqlCatalog:
    return SqlCatalog("local", uri=f"sqlite:///{place.warehouse / 'catalog.db'}", warehouse=str(place.warehouse))


def _compare(place: Place, result: Load, tables: int) -> None:
    """Hold what jobs say against what the tables hold."""
    if len(result.jobs) != result.submitted:
        result.errors.append(f"{result.submitted} jobs were submitted, {len(result.jobs)} have ended")
    said: Counter[int] = Counter()
    for job in result.jobs.values():
        if job["request"]["operation"] in ("compact", "manifests"):
            said.update((job["result"] or {}).get("snapshots", ()))
    committed = {
        snapshot.snapshot_id
        for table in range(tables)
        for snapshot in _catalog(place).load_table(f"bench.e{table}").metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.operation.value == "replace"
    }
    twice = [snapshot for snapshot, times in said.items() if times > 1]
    if twice or set(said) != committed:
        result.errors.append(
            f"jobs tell of {len(said)} commits, {len(twice)} of them twice; the tables have {len(committed)}, "
            f"{len(committed - set(said))} of which nobody tells"
        )
    result.answers["commits"] = len(committed)
