"""Which job is next, and what becomes of a job that did not end well: functions of values."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from icepact.model.errors import (
    BadInput,
    Cancelled,
    CommitUnknown,
    PermanentError,
    QuotaUsed,
    RunLost,
    StoreUnusable,
    TableBusy,
    TablePaused,
    Unfinished,
)
from icepact.model.job import Job, JobStatus, Operation, Queue, TenantLimit, WaitingJob
from icepact.model.status import Status

_FIRST_WAIT = timedelta(seconds=5)
_LONGEST_WAIT = timedelta(minutes=10)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_BUSY = 4
"""A table that is busy is asked for again no later than after so many failures."""
_OF_OTHERS = (TableBusy, TablePaused, QuotaUsed, RunLost, StoreUnusable)
"""What keeps a job from being done and is no fault of its own."""
_MAY_PASS = (Cancelled, *_OF_OTHERS)
"""Errors that are refusals, and after which the same request may be carried out all the same."""
_OF_PEOPLE = 10
"""Priority of what leaves tables as they are: somebody waits for the answer, and it does not take long."""


def next_job(queue: Queue) -> str | None:
    """The id of the job that is to be taken next; `None` if there is none that can be.

    The tenant with the fewest running jobs has its turn, and of those the one that has waited longest for one. Of its
    jobs those with the highest priority come first, and then the oldest. A job whose table is held waits, and so does
    one whose tenant has as much as it may have; they let others by.
    """
    turns = {turn.tenant: (turn.running, turn.taken_at or _LONG_AGO) for turn in queue.turns}
    limits = {limit.tenant: limit for limit in queue.limits}
    ready = [
        job
        for job in queue.waiting
        if (job.table is None or job.table not in queue.held_tables)
        and _is_free(job, limits.get(job.tenant), turns.get(job.tenant, (0, _LONG_AGO))[0])
    ]
    first = min(
        ready,
        key=lambda job: (
            *turns.get(job.tenant, (0, _LONG_AGO)),
            job.tenant,
            -job.priority,
            job.submitted_at,
            job.job_id,
        ),
        default=None,
    )
    return None if first is None else first.job_id


def _is_free(job: WaitingJob, limit: TenantLimit | None, running: int) -> bool:
    """Whether the tenant of a job, which has so many running, may have it done now."""
    if limit is None:
        return True
    if limit.jobs_at_once is not None and running >= limit.jobs_at_once:
        return False
    return job.table is None or not limit.used_up


def usual_priority(operation: Operation) -> int:
    """The priority of a job that was given none."""
    return _OF_PEOPLE if operation.leaves_tables else 0


def wait_after(failures: int, dice: float) -> timedelta:
    """How long a job that failed so often waits until it is tried again; `dice` is between 0 and 1, so that jobs which
    failed together are not tried together."""
    doubled: int = 1 << min(max(failures - 1, 0), 16)
    return min(_FIRST_WAIT * doubled, _LONGEST_WAIT) * (0.5 + dice / 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnd:
    """What becomes of a job that a worker is done with."""

    status: JobStatus
    """`QUEUED` if it is tried again."""
    error: str | None = None
    error_type: str | None = None
    due_at: datetime | None = None
    """When it is tried again."""
    failed: bool = False
    """Whether that counts as a failure."""
    begin_anew: bool = True
    """False if whoever tries again should carry on with the run of this time."""


def after_error(job: Job, error: BaseException, message: str, *, now: datetime, dice: float) -> JobEnd:
    """What becomes of a job whose operation raised an error, told in one line. That somebody else works on the table,
    that it is paused, that its tenant has spent what it may, or that the record store is away, is no failure: the job
    waits for its turn."""
    kind = type(error).__name__
    if isinstance(error, Cancelled) and job.cancel_asked:
        return JobEnd(status=JobStatus.CANCELLED, error=message, error_type=kind)
    if isinstance(error, BadInput | PermanentError) and not isinstance(error, _MAY_PASS):
        return JobEnd(status=JobStatus.FAILED, error=message, error_type=kind, failed=True)
    if isinstance(error, _OF_OTHERS) and not job.cancel_asked:
        due_at = now + wait_after(min(job.attempts, _BUSY if isinstance(error, TableBusy) else job.attempts), dice)
        if job.deadline is not None and due_at >= job.deadline:
            return JobEnd(status=JobStatus.FAILED, error=message, error_type=kind)
        return JobEnd(status=JobStatus.QUEUED, error=message, error_type=kind, due_at=due_at, begin_anew=False)
    left_open = isinstance(error, CommitUnknown | Unfinished)
    return replace(_tried_again(job, message, kind, now, dice), begin_anew=not left_open)


def after_outcome(job: Job, status: Status, error: str | None, *, now: datetime, dice: float) -> JobEnd:
    """What becomes of a job whose run ended so."""
    message = error or f"its run is {status}"
    if status is Status.CANCELLED and job.cancel_asked:
        return JobEnd(status=JobStatus.CANCELLED, error=message, error_type=Cancelled.__name__)
    if status in (Status.FAILED, Status.UNKNOWN, Status.CANCELLED):
        return replace(_tried_again(job, message, None, now, dice), begin_anew=status is not Status.UNKNOWN)
    return JobEnd(status=JobStatus.SUCCEEDED)


def after_death(job: Job, reason: str, *, now: datetime) -> JobEnd:
    """What becomes of a job whose worker died over it: another worker takes it at once, as long as it has not killed
    too many."""
    if job.cancel_asked:
        return JobEnd(status=JobStatus.CANCELLED, error=f"cancelled; its worker died: {reason}")
    message = f"its worker died: {reason}"
    if job.failures + 1 >= job.most_failures:
        return JobEnd(status=JobStatus.FAILED, error=f"{message}, for the {_nth(job.failures + 1)} time", failed=True)
    return JobEnd(status=JobStatus.QUEUED, error=message, due_at=now, failed=True, begin_anew=False)


def is_late(job: Job, now: datetime) -> bool:
    """Whether the deadline of a job has passed."""
    return job.deadline is not None and now >= job.deadline


def _tried_again(job: Job, message: str, kind: str | None, now: datetime, dice: float) -> JobEnd:
    failures = job.failures + 1
    due_at = now + wait_after(failures, dice)
    too_late = job.deadline is not None and due_at >= job.deadline
    if job.cancel_asked:
        return JobEnd(status=JobStatus.CANCELLED, error=message, error_type=kind, failed=True)
    if failures >= job.most_failures or too_late:
        return JobEnd(status=JobStatus.FAILED, error=message, error_type=kind, failed=True)
    return JobEnd(status=JobStatus.QUEUED, error=message, error_type=kind, due_at=due_at, failed=True)


def _nth(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{endings.get(number % 10 if number % 100 not in (11, 12, 13) else 0, 'th')}"
