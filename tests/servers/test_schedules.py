"""Schedules over Redis and etcd: put through the API, fired once, whoever leads and whoever dies."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icepact.entrypoints.serving import Service, build_service, fleet_of
from icepact.model.job import Operation
from icepact.model.run import Owner
from icepact.policy.schedules import parse_schedule
from icepact.record.kv.etcd import Etcd
from icepact.record.kv.redis import Redis
from icepact.record.kv.store import KvStore
from icepact.record.process import this_process
from icepact.schedule.jobs import Jobs
from icepact.schedule.leader import LEASE_SECONDS, Leader
from icepact.schedule.scheduler import Scheduler
from icepact.schedule.triggers import Timing
from tests.support.api import as_json, served
from tests.support.listed import listed, snapshot, write_metadata
from tests.support.schedules import CATALOG, SetFleet, jobs_on, scheduler_on, work_off
from tests.support.stores import Clock, address_of

HOUR = 3600.0
HOURLY = Timing(schedule=parse_schedule("0 * * * *"))
POLICIES = """
rules:
  - match: db.t
    schedule: 1s
    operation: health
    priority: 7
"""
GONE = replace(this_process(), born=this_process().born - 1)
"""A process of this machine that has ended: its number is somebody else's by now."""
Connect = Callable[[], KvStore]


@pytest.fixture(params=["redis", "etcd"])
def address(request: pytest.FixtureRequest) -> str:
    """Of an empty store."""
    return address_of(request.param, request)


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture
def connect(address: str, clock: Clock, request: pytest.FixtureRequest) -> Connect:
    """The same store, as one more process sees it."""

    def connected() -> KvStore:
        store = KvStore((Redis if address.startswith("redis") else Etcd)(address), clock=clock)
        request.addfinalizer(store.close)
        return store

    return connected


def wait_for(found: Callable[[], bool]) -> None:
    """Until something is so."""
    until = time.monotonic() + 30
    while not found():
        assert time.monotonic() < until
        time.sleep(0.05)


def jobs_of(store: KvStore) -> Counter[str | None]:
    """How many jobs were ever submitted, by table."""
    return Counter(job.request.table for job in store.jobs(catalog=CATALOG, limit=1000))


def test_a_leader_that_dies_is_replaced_and_no_schedule_fires_twice(connect: Connect, clock: Clock) -> None:
    fleet = SetFleet({"db.t": HOURLY})
    first, second = scheduler_on(connect(), fleet), scheduler_on(connect(), fleet)
    store = connect()
    assert [first.tick(), second.tick()] == [0, 0]
    assert (first.leader.leads, second.leader.leads) == (True, False)
    clock.passes(HOUR)
    assert first.leader.lead()
    assert [second.tick(), first.tick(), second.tick(), first.tick()] == [0, 1, 0, 0]
    # the first one dies
    assert len(work_off(store)) == 1
    clock.passes(LEASE_SECONDS - 1)
    assert (second.tick(), second.leader.leads) == (0, False)
    clock.passes(2)
    assert (second.tick(), second.leader.leads) == (0, True)
    assert jobs_of(store) == {"db.t": 1}
    clock.passes(HOUR)
    assert second.tick() == 1
    assert jobs_of(store) == {"db.t": 2}


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """Dies before a job is in the queue, or right after it."""

    def __init__(self, jobs: Jobs, *, after: bool) -> None:
        self._jobs, self._after = jobs, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        """As `Jobs` does it, or not."""
        if self._after:
            self._jobs.submit(*args, **kwargs)
        raise Killed


@pytest.mark.parametrize("after", [False, True])
def test_what_a_leader_has_decided_on_is_submitted_once_by_the_next(
    connect: Connect, clock: Clock, after: bool
) -> None:
    store, fleet = connect(), SetFleet({"db.t": HOURLY})
    mortal: Any = Dying(jobs_on(store), after=after)
    first = Scheduler(store, mortal, fleet, catalog=CATALOG, leader=Leader(store, CATALOG, owner=GONE))
    first.tick()
    clock.passes(HOUR)
    with pytest.raises(Killed):
        first.tick()
    assert jobs_of(store) == ({"db.t": 1} if after else {})
    second = scheduler_on(connect(), fleet)
    second.tick()
    assert second.leader.leads
    second.tick()
    assert jobs_of(store) == {"db.t": 1}


def test_many_that_all_believe_to_lead_submit_each_job_once(connect: Connect, clock: Clock) -> None:
    tables = {f"db.t{number}": HOURLY for number in range(8)}
    processes = [scheduler_on(connect(), SetFleet(tables)) for _ in range(5)]
    for process in processes:
        process.leader.lead = lambda: True  # type: ignore[method-assign]
        process.tick()
    clock.passes(HOUR)
    fired: list[int] = []
    start = threading.Barrier(len(processes))

    def tick(process: Scheduler) -> None:
        start.wait()
        fired.append(sum(process.tick() for _ in range(2)))

    threads = [threading.Thread(target=tick, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fired) == len(processes)
    store = connect()
    assert jobs_of(store) == dict.fromkeys(tables, 1)
    work_off(store)
    for process in processes:
        process.tick()
    assert jobs_of(store) == dict.fromkeys(tables, 1)


def test_a_schedule_that_was_put_through_the_api_fires_and_is_shown(address: str, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    listed(warehouse, [("db", name, "", "TABLE") for name in ("t", "other")])
    for name in ("t", "other"):
        write_metadata(warehouse, name, 1, [snapshot(1)])
    given = {"warehouse": str(warehouse), "store": address}
    with served(tmp_path, store=address) as api, api.http() as http:
        assert as_json(http.get("/api/v1/schedules"), 200)["items"] == []
        put = as_json(http.put("/api/v1/policies", json={"text": POLICIES}, headers={"If-Match": '"0"'}), 200)
        assert put["version"] == 1
        as_json(http.put("/api/v1/policies", json={"text": POLICIES}, headers={"If-Match": '"0"'}), 409)

        services = [build_service(given, {}) for _ in range(3)]
        first, second, third = (
            scheduler_of(one, owner) for one, owner in zip(services, (GONE, None, None), strict=True)
        )
        wait_for(lambda: first.tick() == 1)
        first.tick()
        second.tick()
        assert second.leader.leads  # the kernel says that the first one is gone
        for _ in range(3):
            assert second.tick() == 0  # the job is not done yet
        [job] = as_json(http.get("/api/v1/jobs"), 200)["items"]
        assert (job["request"]["operation"], job["request"]["table"], job["priority"]) == ("health", "db.t", 7)

        [view] = as_json(http.get("/api/v1/schedules"), 200)["items"]
        assert (view["table"], view["schedule"], view["operation"]) == ("db.t", "1s", Operation.HEALTH)
        one = as_json(http.get("/api/v1/tables/db.t/schedule"), 200)
        assert one["last"]["job_id"] == job["job_id"]
        assert one["next"] is not None
        off = as_json(http.get("/api/v1/tables/db.other/schedule"), 200)["off"]
        assert off == "its policy has no schedule and no check_interval"
        as_json(http.get("/api/v1/tables/db.nobody/schedule"), 404)

        assert [done.job_id for done in work_off(services[1].store)] == [job["job_id"]]
        second.leader.step_down()
        wait_for(lambda: third.tick() == 1)
        assert len(as_json(http.get("/api/v1/jobs"), 200)["items"]) == 2
        for service in services:
            service.store.close()


def scheduler_of(service: Service, owner: Owner | None) -> Scheduler:
    """The scheduler of a process."""
    catalog = service.catalog.recorded_as
    leader = Leader(service.store, catalog, owner=owner)
    return Scheduler(service.store, service.jobs, fleet_of(service), catalog=catalog, leader=leader)
