"""Which job is next, and what becomes of one that did not end well."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import (
    BadInput,
    Cancelled,
    CatalogUnusable,
    CommitUnknown,
    IcepactError,
    TableBusy,
    TableNotFound,
    Unfinished,
)
from icepact.model.job import JobStatus, Operation, Queue, TenantTurn, WaitingJob
from icepact.model.status import Status
from icepact.schedule.queue import (
    after_death,
    after_error,
    after_outcome,
    is_late,
    next_job,
    usual_priority,
    wait_after,
)
from tests.support.jobs import make_job
from tests.support.records import NOON

TENANTS = ("red", "green", "blue")
TABLES = ("a", "b", "c", None)


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """Any queue."""
    waiting = [
        WaitingJob(
            job_id=f"j{n:02}",
            tenant=draw(st.sampled_from(TENANTS)),
            table=draw(st.sampled_from(TABLES)),
            priority=draw(st.integers(-2, 2)),
            submitted_at=NOON + timedelta(seconds=draw(st.integers(0, 5))),
        )
        for n in range(draw(st.integers(0, 12)))
    ]
    moments = st.none() | st.integers(0, 9).map(lambda n: NOON + timedelta(seconds=n))
    turns = [
        TenantTurn(tenant=name, running=draw(st.integers(0, 2)), taken_at=draw(moments))
        for name in draw(st.permutations(TENANTS))
    ]
    held = draw(st.frozensets(st.sampled_from(TABLES[:3])))
    return Queue(waiting=draw(st.permutations(waiting)), turns=turns, held_tables=held)


@given(queue=queues())
def test_a_job_is_next_if_one_can_be_taken(queue: Queue) -> None:
    """Nobody is idle while there is work, and nobody gets a table that somebody has."""
    able = {job.job_id for job in queue.waiting if job.table not in queue.held_tables}
    chosen = next_job(queue)
    assert chosen in able if able else chosen is None


@given(queue=queues(), data=st.data())
def test_the_order_in_which_jobs_are_listed_does_not_matter(queue: Queue, data: st.DataObject) -> None:
    shuffled = replace(
        queue, waiting=data.draw(st.permutations(queue.waiting)), turns=data.draw(st.permutations(queue.turns))
    )
    assert next_job(shuffled) == next_job(queue)


@given(queue=queues())
def test_of_one_tenant_the_most_urgent_job_is_next_and_then_the_oldest(queue: Queue) -> None:
    by_id = {job.job_id: job for job in queue.waiting}
    chosen = by_id.get(next_job(queue) or "")
    if chosen is not None:
        for other in queue.waiting:
            if other.tenant == chosen.tenant and other.table not in queue.held_tables:
                assert (-chosen.priority, chosen.submitted_at) <= (-other.priority, other.submitted_at)


@given(queue=queues())
def test_no_tenant_that_has_less_is_passed_over(queue: Queue) -> None:
    turns = {turn.tenant: turn for turn in queue.turns}
    chosen = next((job for job in queue.waiting if job.job_id == next_job(queue)), None)
    if chosen is not None:
        for other in queue.waiting:
            if other.table not in queue.held_tables:
                assert turns[chosen.tenant].running <= turns[other.tenant].running


@given(
    jobs=st.lists(st.tuples(st.sampled_from(TENANTS), st.integers(0, 3)), min_size=1, max_size=30),
    workers=st.integers(1, 3),
)
def test_everybody_gets_as_much_as_everybody_else(jobs: list[tuple[str, int]], workers: int) -> None:
    """However many jobs somebody has, and however urgent they are: as long as others have some, all get the same."""
    waiting = [
        WaitingJob(job_id=f"j{n:02}", tenant=tenant, table=f"t{n}", priority=priority, submitted_at=NOON)
        for n, (tenant, priority) in enumerate(jobs)
    ]
    turns = {name: TenantTurn(tenant=name, running=0, taken_at=None) for name in TENANTS}
    counts = dict.fromkeys({tenant for tenant, _ in jobs}, 0)
    running: list[str] = []
    for second in range(len(jobs)):
        chosen = next(job for job in waiting if job.job_id == next_job(Queue(waiting=waiting, turns=[*turns.values()])))
        waiting.remove(chosen)
        counts[chosen.tenant] += 1
        running.append(chosen.tenant)
        turns[chosen.tenant] = replace(turns[chosen.tenant], taken_at=NOON + timedelta(seconds=second))
        if len(running) == workers:
            running.pop(0)
        turns = {name: replace(turn, running=running.count(name)) for name, turn in turns.items()}
        still = {job.tenant for job in waiting}
        for one in still:
            assert counts[one] >= max(counts.values()) - 1 - (workers > 1)


def test_a_held_table_lets_others_by() -> None:
    urgent = WaitingJob(job_id="j1", tenant="red", table="a", priority=9, submitted_at=NOON)
    other = replace(urgent, job_id="j2", table="b", priority=0)
    turns = [TenantTurn(tenant="red", running=1, taken_at=NOON)]
    assert next_job(Queue(waiting=[urgent, other], turns=turns, held_tables=frozenset("a"))) == "j2"
    assert next_job(Queue(waiting=[urgent], turns=turns, held_tables=frozenset("a"))) is None
    assert next_job(Queue(waiting=[urgent, other], turns=turns)) == "j1"


def test_what_leaves_tables_as_they_are_comes_before_what_takes_long() -> None:
    assert {usual_priority(one) for one in Operation if one.leaves_tables} == {10}
    assert {usual_priority(one) for one in Operation if not one.leaves_tables} == {0}


# -- what becomes of it ---------------------------------------------------------------------------


@given(failures=st.integers(1, 60), dice=st.floats(0, 1))
def test_the_wait_doubles_up_to_ten_minutes(failures: int, dice: float) -> None:
    wait = wait_after(failures, dice)
    assert timedelta(seconds=2.5) <= wait <= timedelta(minutes=10)
    assert wait_after(failures + 1, dice) >= wait
    assert wait_after(failures, 0) <= wait <= wait_after(failures, 1)
    assert wait_after(failures, 1) == timedelta(seconds=min(5 * 2 ** (failures - 1), 600))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput("no such option"), JobStatus.FAILED),
        (TableNotFound("no table"), JobStatus.FAILED),
        (CommitUnknown("nobody knows"), JobStatus.QUEUED),
        (IcepactError("Java has ended"), JobStatus.QUEUED),
        (OSError("no answer"), JobStatus.QUEUED),
        (Cancelled("its worker was asked to end"), JobStatus.QUEUED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_what_could_go_well_the_next_time_is_tried_again(error: BaseException, status: JobStatus) -> None:
    end = after_error(make_job("j1"), error, str(error), now=NOON, dice=1)
    assert (end.status, end.error, end.error_type, end.failed) == (status, str(error), type(error).__name__, True)
    assert end.due_at == (NOON + timedelta(seconds=5) if status is JobStatus.QUEUED else None)


def test_a_table_that_somebody_works_on_is_waited_for_as_long_as_it_takes() -> None:
    for attempts in (1, 3, 500):
        end = after_error(make_job("j1", attempts=attempts), TableBusy("busy"), "busy", now=NOON, dice=1)
        assert (end.status, end.failed, end.begin_anew) == (JobStatus.QUEUED, False, False)
        assert end.due_at == NOON + timedelta(seconds={1: 5, 3: 20, 500: 40}[attempts])


def test_a_run_that_was_left_open_is_carried_on_with() -> None:
    job = make_job("j1")
    kept = (CommitUnknown("nobody knows"), Unfinished("half of it is done"))
    assert {after_error(job, error, "", now=NOON, dice=0).begin_anew for error in kept} == {False}
    assert after_error(job, OSError("no answer"), "", now=NOON, dice=0).begin_anew
    assert not after_outcome(job, Status.UNKNOWN, None, now=NOON, dice=0).begin_anew
    assert after_outcome(job, Status.FAILED, None, now=NOON, dice=0).begin_anew


def test_after_so_many_failures_a_job_has_failed() -> None:
    job = make_job("j1", most_failures=3)
    ends = [
        after_error(replace(job, failures=n), CatalogUnusable("busy"), "busy", now=NOON, dice=0).status
        for n in range(4)
    ]
    assert ends == [JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.FAILED, JobStatus.FAILED]
    deaths = [after_death(replace(job, failures=n), "killed", now=NOON) for n in range(3)]
    assert [end.status for end in deaths] == [JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.FAILED]
    assert deaths[0].due_at == NOON
    assert deaths[2].error == "its worker died: killed, for the 3rd time"


def test_nothing_is_tried_again_after_its_deadline() -> None:
    job = make_job("j1", deadline=NOON + timedelta(seconds=4))
    assert after_error(job, CatalogUnusable("busy"), "busy", now=NOON, dice=1).status is JobStatus.FAILED
    assert after_error(job, CatalogUnusable("busy"), "busy", now=NOON, dice=0).status is JobStatus.QUEUED
    assert [is_late(job, NOON + timedelta(seconds=n)) for n in (3, 4)] == [False, True]
    assert not is_late(make_job("j2"), NOON + timedelta(days=9))


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (Status.COMMITTED, JobStatus.SUCCEEDED),
        (Status.PARTLY_COMMITTED, JobStatus.SUCCEEDED),
        (Status.NOTHING_TO_DO, JobStatus.SUCCEEDED),
        (Status.SUPERSEDED, JobStatus.SUCCEEDED),
        (Status.PLANNED, JobStatus.SUCCEEDED),
        (Status.FAILED, JobStatus.QUEUED),
        (Status.UNKNOWN, JobStatus.QUEUED),
        (Status.CANCELLED, JobStatus.QUEUED),
    ],
)
def test_a_job_ends_as_its_run_did(status: Status, end: JobStatus) -> None:
    assert after_outcome(make_job("j1"), status, None, now=NOON, dice=0).status is end
    asked = make_job("j1", cancel_asked=True)
    cancelled = after_outcome(asked, status, None, now=NOON, dice=0).status
    assert cancelled is (JobStatus.CANCELLED if end is JobStatus.QUEUED else end)


def test_what_was_cancelled_is_not_tried_again() -> None:
    job = make_job("j1", cancel_asked=True)
    assert after_error(job, Cancelled("asked"), "asked", now=NOON, dice=0).status is JobStatus.CANCELLED
    assert after_error(job, CatalogUnusable("busy"), "busy", now=NOON, dice=0).status is JobStatus.CANCELLED
    assert after_death(job, "killed", now=NOON).status is JobStatus.CANCELLED
