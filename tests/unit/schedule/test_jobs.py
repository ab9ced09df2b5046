"""Jobs from the outside: what is refused at once, what is answered, and who is woken."""

import threading
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from icepact.model.errors import BadInput, Conflict, JobNotFound
from icepact.model.job import JobRequest, JobStatus, Operation
from icepact.record.kv.store import KvStore
from icepact.schedule.bell import Bell
from icepact.schedule.jobs import Jobs
from icepact.schedule.queue import next_job
from icepact.schedule.requests import ALLOWED, Names
from tests.support.jobs import US
from tests.support.stores import Clock

CATALOG = "local"


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture
def store(clock: Clock) -> KvStore:
    """An empty one."""
    return KvStore.in_memory(clock=clock)


@pytest.fixture
def jobs(store: KvStore) -> Jobs:
    """None yet."""
    return Jobs(store, CATALOG, names=Names(catalog="lake", namespace=("shop",)))


def asked(operation: Operation = Operation.COMPACT, table: str | None = "shop.sales", **given: Any) -> JobRequest:
    """A request."""
    return JobRequest(operation=operation, table=table, **given)


def test_every_operation_says_what_it_may_be_asked_for() -> None:
    assert set(ALLOWED) == set(Operation)


@pytest.mark.parametrize("name", ["sales", "shop.sales", "lake.shop.sales", "`shop`.`sales`"])
def test_a_table_has_one_name_in_the_queue(jobs: Jobs, name: str) -> None:
    assert jobs.submit(asked(table=name)).request.table == "shop.sales"
    assert [job.request.table for job in jobs.list(table=name)] == ["shop.sales"]


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (asked(table=None), "table: none is given"),
        (asked(table=""), "table: none is given"),
        (asked(table="a b"), "table: 'a b' is not a table name"),
        (asked(Operation.TABLES), "table: tables is on all of them"),
        (asked(options={"target_file_size": "big"}), "target_file_size: 'big' is not a size"),
        (asked(options={"target": "1GB"}), "target: unknown option"),
        (asked(options={"ttl_keep": "5d"}), "ttl_keep: compact does not take this option"),
        (asked(options={"strategy": "mine"}), "strategy: unknown strategy"),
        (asked(Operation.EXPIRE, options={"branch": "b"}), "branch: expire does not take this option"),
        (asked(Operation.MANIFESTS, options={"branch": "b"}), "it takes none"),
        (asked(exclude=("tmp",)), "exclude: compact does not take it"),
        (asked(Operation.EXPIRE, columns=("id",)), "columns: expire does not take it"),
        (asked(Operation.COMPACT, allow_young=True), "allow_young: compact does not take it"),
        (asked(Operation.PLAN, dry_run=True), "dry_run: plan does not take it"),
        (asked(Operation.APPLY, table=None), "plan: none is given"),
    ],
)
def test_a_wrong_request_is_refused_before_it_is_queued(jobs: Jobs, request_: JobRequest, complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        jobs.submit(request_)
    assert complaint in str(refused.value)
    assert jobs.list() == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"priority": 101}, "priority: it goes from -100 to 100"),
        ({"most_failures": 0}, "most_failures: it goes from 1"),
        ({"idempotency_key": ""}, "idempotency_key: it has 1 to 255"),
        ({"idempotency_key": "k" * 256}, "idempotency_key: it has 1 to 255"),
        ({"deadline": datetime(2030, 1, 1)}, "deadline: it must carry its time zone"),  # noqa: DTZ001
        ({"deadline": Clock()() - timedelta(seconds=1)}, "has passed"),
        ({"plan": b"{}"}, "plan: compact takes none"),
    ],
)
def test_what_comes_with_a_request_is_looked_at_too(jobs: Jobs, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput) as refused:
        jobs.submit(asked(), **given)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("plan", [b"\xff\xfe", b"{}", b"[", b'{"kind": "icepact-plan"}'])
def test_what_is_no_plan_cannot_be_applied(jobs: Jobs, plan: bytes) -> None:
    with pytest.raises(BadInput, match="plan"):
        jobs.submit(asked(Operation.APPLY, table=None), plan=plan)


def test_a_request_that_has_a_name_is_one_job(jobs: Jobs) -> None:
    first = jobs.submit(asked(), idempotency_key="monday")
    assert jobs.submit(asked(), idempotency_key="monday") == first
    assert jobs.submit(asked(), idempotency_key="monday", tenant="other").job_id != first.job_id
    with pytest.raises(Conflict):
        jobs.submit(asked(dry_run=True), idempotency_key="monday")


def test_a_request_that_is_sent_again_after_its_deadline_is_still_one_job(jobs: Jobs, clock: Clock) -> None:
    deadline = clock() + timedelta(seconds=10)
    first = jobs.submit(asked(), idempotency_key="monday", deadline=deadline)
    clock.passes(20)
    assert jobs.submit(asked(), idempotency_key="monday", deadline=deadline) == first


def test_ids_are_in_the_order_of_time_and_pages_follow_each_other(jobs: Jobs, clock: Clock) -> None:
    made = []
    for _ in range(5):
        made.append(jobs.submit(asked()).job_id)
        clock.passes(0.000001)
    assert sorted(made) == made
    first = jobs.list(limit=3)
    rest = jobs.list(limit=3, before=first[-1].job_id)
    assert [job.job_id for job in [*first, *rest]] == made[::-1]
    assert len({jobs.submit(asked()).job_id for _ in range(100)}) == 100


def test_jobs_of_another_catalog_are_not_there(jobs: Jobs, store: KvStore) -> None:
    elsewhere = Jobs(store, "elsewhere").submit(asked()).job_id
    for ask in (jobs.get, jobs.cancel, jobs.resume):
        with pytest.raises(JobNotFound, match=f"there is no job {elsewhere}"):
            ask(elsewhere)
    with pytest.raises(JobNotFound):
        jobs.wait("none", 0.0)


def test_cancelled_and_resumed(jobs: Jobs) -> None:
    job = jobs.submit(asked())
    assert jobs.cancel(job.job_id).status is JobStatus.CANCELLED
    assert jobs.sizes() == []
    assert jobs.resume(job.job_id).status is JobStatus.QUEUED
    assert [(size.queued, size.running) for size in jobs.sizes()] == [(1, 0)]
    with pytest.raises(Conflict):
        jobs.resume(job.job_id)


def test_who_only_looks_comes_first(jobs: Jobs) -> None:
    assert jobs.submit(asked(Operation.HEALTH)).priority > jobs.submit(asked()).priority
    assert jobs.submit(asked(), priority=-3).priority == -3


def test_waiting_ends_with_the_job_or_with_the_time(store: KvStore) -> None:
    ended = Bell()
    jobs = Jobs(store, CATALOG, ended=ended)
    job = jobs.submit(asked())
    assert jobs.wait(job.job_id, 0.01).status is JobStatus.QUEUED

    def work() -> None:
        taken = store.take_job(CATALOG, US, seconds=10, choose=next_job)
        assert taken is not None
        store.end_job(taken.claim, JobStatus.SUCCEEDED, result={"files": 3})
        ended.ring(job.job_id)

    worker = threading.Timer(0.1, work)
    worker.start()
    began = time.monotonic()
    assert jobs.wait(job.job_id, 30).result == {"files": 3}
    assert time.monotonic() - began < 5
    worker.join()


def test_the_bell_rings_for_what_was_submitted(store: KvStore) -> None:
    submitted = Bell()
    jobs = Jobs(store, CATALOG, submitted=submitted.ring)
    job = jobs.submit(asked())
    assert submitted.rung == 1
    jobs.cancel(job.job_id)
    jobs.resume(job.job_id)
    assert submitted.rung == 2
    assert submitted.wait(0, since=1)
    assert not submitted.wait(0, since=2)


def test_a_bell_rings_about_one_thing_or_about_all() -> None:
    bell = Bell()
    bell.ring("a")
    assert bell.has_rung("a", since=0)
    assert not bell.has_rung("b", since=0)
    assert not bell.has_rung("a", since=bell.rung)
    since = bell.rung
    bell.ring()
    assert bell.has_rung("a", since=since)
    assert bell.has_rung("b", since=since)
