"""The behaviour suite of record stores, as far as it is about jobs."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from icepact.model.errors import Conflict, JobLost, StoreUnusable
from icepact.model.job import DEFAULT_TENANT, Job, JobProgress, JobStatus, Operation, Queue, TenantLimit
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from icepact.record.tables import JOBS
from icepact.schedule.queue import next_job
from icepact.schedule.worker import storable
from tests.support.jobs import THEM, US, job_request, make_job
from tests.support.records import NOON
from tests.support.stores import SHARED, Clock, made


def take(store: RecordStore, worker: object = US, catalog: str = "local") -> Job | None:
    """The next job, for a minute."""
    return store.take_job(catalog, US if worker is US else THEM, seconds=60, choose=next_job)


def taken(store: RecordStore) -> Job:
    """The next job; there is one."""
    job = take(store)
    assert job is not None
    return job


def now(store: RecordStore, job_id: str) -> Job:
    """A job as it is; there is one."""
    job = store.job(job_id)
    assert job is not None
    return job


def ids(jobs: Sequence[Job]) -> list[str]:
    """Of jobs, in their order."""
    return [job.job_id for job in jobs]


# -- waiting and being taken ----------------------------------------------------------------------


def test_an_empty_store_has_no_jobs(store: RecordStore) -> None:
    assert store.jobs(catalog="local") == []
    assert (store.job("j1"), store.job_plan("j1"), take(store)) == (None, b"", None)
    assert store.queue_sizes("local") == []
    assert (store.ask_to_cancel_job("j1"), store.resume_job("j1")) == (None, None)


def test_a_job_comes_back_as_it_was_submitted(store: RecordStore) -> None:
    asked = job_request(
        Operation.ORPHANS, exclude=("s3://b/x",), options={"orphans_older_than": "4d"}, allow_young=True, columns=("a",)
    )
    job = make_job(
        "j1",
        asked,
        tenant="red",
        priority=7,
        deadline=NOON + timedelta(hours=1),
        most_failures=2,
        idempotency_key="k",
    )
    assert store.submit_job(job, b'{"plan": 1}') == job
    assert store.job("j1") == job
    assert store.job_plan("j1") == b'{"plan": 1}'
    assert store.jobs(catalog="local") == [job]
    assert [(one.tenant, one.queued, one.running) for one in store.queue_sizes("local")] == [("red", 1, 0)]


def test_whoever_takes_a_job_holds_it(store: RecordStore, clock: Clock) -> None:
    store.submit_job(make_job("j1"))
    clock.passes(5)
    job = taken(store)
    assert (job.status, job.worker, job.attempts, job.token) == (JobStatus.RUNNING, US, 1, 1)
    assert (job.started_at, job.expires_at) == (clock.now, clock.now + timedelta(seconds=60))
    assert now(store, "j1") == job
    assert take(store, THEM) is None
    assert [(one.queued, one.running) for one in store.queue_sizes("local")] == [(0, 1)]


def test_what_is_not_due_waits(store: RecordStore, clock: Clock) -> None:
    store.submit_job(make_job("j1", due_at=NOON + timedelta(seconds=10)))
    assert take(store) is None
    clock.passes(10)
    assert taken(store).job_id == "j1"


def test_jobs_of_another_catalog_are_of_no_interest(store: RecordStore) -> None:
    store.submit_job(make_job("j1", catalog="prod"))
    assert take(store) is None
    assert store.jobs(catalog="local") == []
    assert take(store, catalog="prod") is not None


def test_one_job_holds_a_table_and_readers_come_by(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    store.submit_job(make_job("j2"))
    store.submit_job(make_job("j3", job_request(Operation.HEALTH)))
    store.submit_job(make_job("j4", job_request(dry_run=True)))
    store.submit_job(make_job("j5", job_request(table="db.other")))
    first = taken(store)
    assert [taken(store).job_id for _ in range(3)] == ["j3", "j4", "j5"]
    assert take(store) is None
    store.end_job(first.claim, JobStatus.SUCCEEDED)
    assert taken(store).job_id == "j2"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_database_itself_refuses_a_second_job_on_a_table(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, kind: str
) -> None:
    store = made(kind, request, tmp_path, clock)
    assert isinstance(store, SqlStore)
    for job_id in ("j1", "j2"):
        store.submit_job(make_job(job_id))
    taken(store)
    with pytest.raises(IntegrityError), store._engine.begin() as connection:
        connection.execute(update(JOBS).where(JOBS.c.job_id == "j2").values(status="running"))


def test_tenants_take_turns(store: RecordStore, clock: Clock) -> None:
    """Whoever asks for much does not keep others waiting."""
    for n in range(6):
        store.submit_job(make_job(f"a{n}", job_request(table=f"db.a{n}"), tenant="a", priority=50))
    for n in range(2):
        store.submit_job(make_job(f"b{n}", job_request(table=f"db.b{n}"), tenant="b"))
    order = []
    for _ in range(8):
        clock.passes(1)
        job = taken(store)
        order.append(job.job_id)
        store.end_job(job.claim, JobStatus.SUCCEEDED)
    assert order == ["a0", "b0", "a1", "b1", "a2", "a3", "a4", "a5"]


def test_who_only_looks_comes_by_those_who_spent_too_much(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    store.submit_job(make_job("j2", job_request(table="db.other"), tenant="b", priority=-9))
    store.submit_job(make_job("j3", job_request(Operation.HEALTH), priority=-9))

    def choose(queue: Queue) -> str | None:
        limits = [TenantLimit(tenant=name, used_up=True) for name in (DEFAULT_TENANT, "b")]
        return next_job(replace(queue, limits=limits))

    job = store.take_job("local", US, seconds=60, choose=choose)
    assert job is not None
    assert job.job_id == "j3"


def test_a_choice_that_somebody_else_made_is_no_job(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))

    def choose(queue: Queue) -> str | None:
        assert [job.job_id for job in queue.waiting] == ["j1"]
        return "j0"

    assert store.take_job("local", US, seconds=60, choose=choose) is None
    assert now(store, "j1").status is JobStatus.QUEUED


def test_of_many_workers_each_gets_another_job(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> None:
    for kind in SHARED:
        store = made(kind, request, tmp_path / kind, clock)
        for n in range(12):
            store.submit_job(make_job(f"j{n:02}", job_request(table=f"db.t{n % 6}"), tenant=f"t{n % 3}"))

        def work(number: int, store: RecordStore = store) -> list[str]:
            done = []
            while store.queue_sizes("local"):
                job = take(store)
                if job is not None:
                    held = store.jobs(catalog="local", statuses=[JobStatus.RUNNING])
                    assert len({one.request.table for one in held}) == len(held)
                    store.end_job(job.claim, JobStatus.SUCCEEDED, result={"worker": number})
                    done.append(job.job_id)
            return done

        with ThreadPoolExecutor(4) as pool:
            done = [job_id for some in pool.map(work, range(4)) for job_id in some]
        assert sorted(done) == [f"j{n:02}" for n in range(12)]


def test_the_queue_tells_of_compactions_and_of_the_job_that_waits_longest(store: RecordStore, clock: Clock) -> None:
    operations = [Operation.COMPACT, Operation.EXPIRE, Operation.MAINTAIN, Operation.HEALTH]
    for n, operation in enumerate(operations):
        given = {"due_at": NOON + timedelta(seconds=10 * n), "tenant": "red"}
        store.submit_job(make_job(f"j{n}", job_request(operation, table=f"db.t{n}"), **given))
    store.submit_job(make_job("j9", job_request(table="db.t9"), tenant="blue", due_at=NOON + timedelta(hours=1)))
    assert taken(store).job_id == "j0"
    blue, red = store.queue_sizes("local")
    assert (blue.tenant, blue.queued_compactions, blue.first_due_at) == ("blue", 1, NOON + timedelta(hours=1))
    assert (red.queued, red.running, red.queued_compactions, red.running_compactions) == (3, 1, 1, 1)
    assert red.first_due_at == NOON + timedelta(seconds=10)


def test_a_job_remembers_which_trace_it_is_part_of(store: RecordStore) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    store.submit_job(make_job("j1", trace=trace))
    job = taken(store)
    assert job.trace == trace
    store.return_job(job.claim, due_at=NOON)
    assert now(store, "j1").trace == trace
    assert "trace" not in job.to_dict()


# -- holding, and losing --------------------------------------------------------------------------


def test_a_worker_that_is_heard_of_keeps_its_job_and_tells_of_it(store: RecordStore, clock: Clock) -> None:
    store.submit_job(make_job("j1"))
    job = taken(store)
    clock.passes(50)
    progress = JobProgress(step="written", units=2, files=9, bytes=900, planned_units=4, planned_bytes=1800)
    renewed = store.renew_job(job.claim, seconds=60, progress=progress, run_id="r1")
    assert renewed is not None
    assert (renewed.progress, renewed.run_id) == (progress, "r1")
    assert renewed.expires_at == NOON + timedelta(seconds=110)
    again = store.renew_job(job.claim, seconds=60)
    assert again is not None
    assert (again.progress, again.run_id) == (progress, "r1")


def test_what_a_worker_says_after_it_lost_its_job_is_not_listened_to(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    zombie = taken(store)
    assert store.take_back_job(zombie, JobStatus.QUEUED, error="it died", failed=True)
    heir = taken(store)
    assert (heir.token, heir.attempts, heir.failures, heir.error) == (3, 2, 1, "it died")
    with pytest.raises(JobLost, match=r"job j1 is running by now, last in the hands of process 1 on here"):
        store.end_job(zombie.claim, JobStatus.SUCCEEDED)
    with pytest.raises(JobLost):
        store.return_job(zombie.claim, due_at=NOON)
    assert store.renew_job(zombie.claim, seconds=60) is None
    assert not store.take_back_job(zombie, JobStatus.QUEUED)
    store.end_job(heir.claim, JobStatus.SUCCEEDED, result={"well": True})
    with pytest.raises(JobLost, match="job j1 is succeeded by now"):
        store.end_job(heir.claim, JobStatus.FAILED)
    assert now(store, "j1").result == {"well": True}
    with pytest.raises(JobLost, match="there is no job j2"):
        store.end_job(replace(heir.claim, job_id="j2"), JobStatus.FAILED)


def test_a_worker_that_was_heard_of_meanwhile_is_not_dead(store: RecordStore, clock: Clock) -> None:
    store.submit_job(make_job("j1"))
    seen = taken(store)
    clock.passes(61)
    store.renew_job(seen.claim, seconds=60)
    assert not store.take_back_job(seen, JobStatus.QUEUED)
    assert now(store, "j1").status is JobStatus.RUNNING


def test_the_next_worker_hears_of_the_run_of_the_one_that_died(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    store.renew_job(taken(store).claim, seconds=60, run_id="r1")
    assert store.take_back_job(now(store, "j1"), JobStatus.QUEUED)
    waiting = now(store, "j1")
    assert (waiting.run_id, waiting.worker, waiting.expires_at) == ("r1", US, None)


def test_a_job_that_failed_is_tried_again_when_it_is_due(store: RecordStore, clock: Clock) -> None:
    store.submit_job(make_job("j1"))
    first = taken(store)
    store.renew_job(first.claim, seconds=60, run_id="r1")
    due_at = NOON + timedelta(seconds=30)
    store.return_job(first.claim, due_at=due_at, error="the store was away", error_type="TableBusy", failed=True)
    job = now(store, "j1")
    assert (job.status, job.failures, job.error, job.error_type) == (
        *(JobStatus.QUEUED, 1),
        *("the store was away", "TableBusy"),
    )
    assert (job.run_id, job.worker) == (None, None)  # it begins anew
    assert take(store) is None
    clock.passes(30)
    assert taken(store).attempts == 2


def test_a_job_that_is_handed_over_has_not_failed(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    job = taken(store)
    store.renew_job(job.claim, seconds=60, run_id="r1")
    store.return_job(job.claim, due_at=NOON, begin_anew=False)
    waiting = now(store, "j1")
    assert (waiting.status, waiting.failures, waiting.run_id, waiting.worker) == (JobStatus.QUEUED, 0, "r1", US)
    assert taken(store).attempts == 2


# -- asking, cancelling, resuming -----------------------------------------------------------------


def test_a_message_is_kept_whatever_is_in_it(store: RecordStore) -> None:
    store.submit_job(make_job("1"))
    store.return_job(taken(store).claim, due_at=NOON, error=storable("no \0 and no \ud800, but \N{GRINNING FACE}"))
    assert now(store, "1").error == "no ? and no ?, but \N{GRINNING FACE}"


def test_what_a_later_version_asked_for_is_left_to_its_workers(
    store: RecordStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.submit_job(make_job("1", request=job_request(table="db.a", operation=Operation.EXPIRE)))
    store.submit_job(make_job("2", request=job_request(table="db.b")))
    known = frozenset(operation.value for operation in Operation if operation is not Operation.EXPIRE)
    for module in ("icepact.record.sql_jobs", "icepact.record.kv.jobs"):
        monkeypatch.setattr(f"{module}.KNOWN_OPERATIONS", known)
    assert taken(store).job_id == "2"
    assert take(store) is None
    monkeypatch.undo()
    assert taken(store).job_id == "1"


def test_a_job_of_a_later_version_is_in_nobodys_way(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'runs.db'}")
    for job_id in ("1", "2"):
        store.submit_job(make_job(job_id, request=job_request(table=f"db.t{job_id}")))
    with store._writing() as connection:
        odd = '{"operation": "vacuum", "table": "db.t1"}'
        connection.execute(update(JOBS).where(JOBS.c.job_id == "1").values(operation="vacuum", request=odd))
    assert ids(store.jobs(catalog="local")) == ["2"]
    assert taken(store).job_id == "2"
    assert take(store) is None
    assert [(size.queued, size.running) for size in store.queue_sizes("local")] == [(1, 1)]
    with pytest.raises(StoreUnusable, match="a later version"):
        store.job("1")


def test_results_are_given_to_who_asks_for_them(store: RecordStore) -> None:
    store.submit_job(make_job("j1", job_request(Operation.HEALTH)))
    store.end_job(taken(store).claim, JobStatus.SUCCEEDED, result={"score": 81.5, "text": "ü"})
    assert now(store, "j1").result == {"score": 81.5, "text": "ü"}
    assert now(store, "j1").finished_at == NOON
    assert [job.result for job in store.jobs(catalog="local")] == [None]
    assert [job.result for job in store.jobs(catalog="local", results=True)] == [{"score": 81.5, "text": "ü"}]


def test_jobs_are_listed_page_by_page_whatever_comes_in_between(store: RecordStore) -> None:
    for n in range(5):
        store.submit_job(make_job(f"j{n}"))
    first = store.jobs(catalog="local", limit=2)
    store.submit_job(make_job("j9"))
    second = store.jobs(catalog="local", limit=2, before=first[-1].job_id)
    third = store.jobs(catalog="local", limit=2, before=second[-1].job_id)
    assert [*ids(first), *ids(second), *ids(third)] == ["j4", "j3", "j2", "j1", "j0"]


def test_jobs_are_found_by_what_they_are(store: RecordStore) -> None:
    store.submit_job(make_job("j1", tenant="red"))
    store.submit_job(make_job("j2", job_request(Operation.EXPIRE, table="db.other")))
    store.submit_job(make_job("j3", job_request(Operation.EXPIRE)))
    store.end_job(taken(store).claim, JobStatus.SUCCEEDED)  # whose turn it is does not matter here
    [ended] = store.jobs(catalog="local", statuses=[JobStatus.SUCCEEDED])
    waiting = {"j1", "j2", "j3"} - {ended.job_id}
    assert set(ids(store.jobs(catalog="local", statuses=[JobStatus.QUEUED, JobStatus.RUNNING]))) == waiting
    assert ids(store.jobs(catalog="local", tenant="red")) == ["j1"]
    assert ids(store.jobs(catalog="local", table="db.events")) == ["j3", "j1"]
    assert ids(store.jobs(catalog="local", table="db.events", operation=Operation.EXPIRE)) == ["j3"]


def test_a_job_that_waits_is_cancelled_at_once(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    cancelled = store.ask_to_cancel_job("j1")
    assert cancelled is not None
    assert (cancelled.status, cancelled.cancel_asked, cancelled.finished_at) == (JobStatus.CANCELLED, True, NOON)
    assert take(store) is None
    with pytest.raises(Conflict, match=r"job j1 has ended \(cancelled\): there is nothing to cancel"):
        store.ask_to_cancel_job("j1")


def test_a_worker_hears_that_its_job_is_to_be_cancelled(store: RecordStore) -> None:
    store.submit_job(make_job("j1"))
    job = taken(store)
    asked = store.ask_to_cancel_job("j1")
    assert asked is not None
    assert asked.status is JobStatus.RUNNING
    renewed = store.renew_job(job.claim, seconds=60)
    assert renewed is not None
    assert renewed.cancel_asked
    store.end_job(job.claim, JobStatus.CANCELLED)
    assert now(store, "j1").status is JobStatus.CANCELLED


def test_what_failed_or_was_cancelled_can_be_resumed(store: RecordStore) -> None:
    store.submit_job(make_job("j1", deadline=NOON + timedelta(hours=1)))
    store.end_job(taken(store).claim, JobStatus.FAILED, error="no room", failed=True)
    resumed = store.resume_job("j1")
    assert resumed is not None
    assert (resumed.status, resumed.failures, resumed.cancel_asked, resumed.finished_at, resumed.deadline) == (
        *(JobStatus.QUEUED, 0, False),
        *(None, None),
    )
    store.ask_to_cancel_job("j1")
    store.resume_job("j1")
    job = taken(store)
    with pytest.raises(Conflict, match="job j1 is running: only one that failed or was cancelled can be resumed"):
        store.resume_job("j1")
    store.end_job(job.claim, JobStatus.SUCCEEDED)
    with pytest.raises(Conflict, match="job j1 is succeeded"):
        store.resume_job("j1")


def test_a_request_that_is_repeated_is_the_same_job(store: RecordStore) -> None:
    job = make_job("j1", idempotency_key="k")
    store.submit_job(job)
    store.end_job(taken(store).claim, JobStatus.SUCCEEDED, result={"well": True})
    repeated = store.submit_job(replace(job, job_id="j2"))
    assert (repeated.job_id, repeated.result) == ("j1", {"well": True})
    other = make_job("j3", job_request(table="db.other"), idempotency_key="k")
    with pytest.raises(Conflict, match="the idempotency key stands for job j1, which was asked to do something else"):
        store.submit_job(other)
    assert store.submit_job(replace(other, tenant="red")).job_id == "j3"
    assert ids(store.jobs(catalog="local")) == ["j3", "j1"]


def test_of_many_requests_with_one_key_one_is_a_job(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> None:
    for kind in SHARED:
        store = made(kind, request, tmp_path / kind, clock)

        def submit(number: int, store: RecordStore = store) -> str:
            return store.submit_job(make_job(f"j{number}", idempotency_key="k")).job_id

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(submit, range(8)))) == 1
        assert len(store.jobs(catalog="local")) == 1


def test_jobs_that_ended_long_ago_are_forgotten(store: RecordStore, clock: Clock) -> None:
    for job_id in ("j1", "j2"):
        store.submit_job(make_job(job_id))
    store.end_job(taken(store).claim, JobStatus.SUCCEEDED)
    clock.passes(3600)
    assert store.forget_jobs(before=NOON) == 0
    assert store.forget_jobs(before=NOON + timedelta(seconds=1)) == 1
    assert ids(store.jobs(catalog="local")) == ["j2"]


# -- whatever happens -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_no_job_is_lost_and_none_is_done_twice(store: RecordStore, clock: Clock, seed: int) -> None:
    """Workers that work, fail, die and wake up late, in any order."""
    dice = random.Random(seed)
    for n in range(20):
        store.submit_job(make_job(f"j{n:02}", job_request(table=f"db.t{n % 7}"), tenant=f"t{n % 3}"))
    held: list[Job] = []
    dead: list[Job] = []
    done: list[str] = []
    for _ in range(4000):
        clock.passes(dice.choice([0, 1, 30]))
        match dice.choice(["take", "take", "end", "fail", "die", "revive", "late"]):
            case "take" if (job := take(store)) is not None:
                held.append(job)
            case "end" if held:
                job = held.pop(dice.randrange(len(held)))
                store.end_job(job.claim, JobStatus.SUCCEEDED)
                done.append(job.job_id)
            case "fail" if held:
                job = held.pop(dice.randrange(len(held)))
                store.return_job(job.claim, due_at=clock.now + timedelta(seconds=dice.choice([0, 60])), failed=True)
            case "die" if held:
                dead.append(held.pop(dice.randrange(len(held))))
            case "revive":
                for job in [one for one in dead if store.take_back_job(one, JobStatus.QUEUED, failed=True)]:
                    assert now(store, job.job_id).token > job.token
            case "late" if dead:
                job = dice.choice(dead)
                if now(store, job.job_id).token != job.token:
                    with pytest.raises(JobLost):
                        store.end_job(job.claim, JobStatus.SUCCEEDED)
        running = store.jobs(catalog="local", statuses=[JobStatus.RUNNING])
        assert len({job.request.table for job in running}) == len(running)
        if len(done) == 20:
            break
    assert sorted(done) == [f"j{n:02}" for n in range(20)]
    assert {job.status for job in store.jobs(catalog="local")} == {JobStatus.SUCCEEDED}
