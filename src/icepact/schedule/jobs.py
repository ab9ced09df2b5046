"""Jobs for whoever wants something done: put one into the queue, look at it, wait for it, cancel it, resume it."""

import secrets
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from icepact.model.errors import BadInput, JobNotFound
from icepact.model.job import (
    DEFAULT_TENANT,
    HIGHEST_PRIORITY,
    MOST_FAILURES,
    Job,
    JobRequest,
    JobStatus,
    Operation,
    QueueSize,
)
from icepact.record.store import JobStore
from icepact.schedule.bell import Bell
from icepact.schedule.queue import usual_priority
from icepact.schedule.requests import Names, checked
from icepact.telemetry import trace

MOST_RESULTS = 1000
"""Jobs of one list."""
_MOST_TRIES = 100
_LONGEST_KEY = 255
_FIRST_LOOK = 0.05
"""Seconds; doubles from there."""
_LONGEST_LOOK = 1.0


class Jobs:
    """The jobs on one catalog."""

    def __init__(
        self,
        store: JobStore,
        catalog: str,
        *,
        names: Names | None = None,
        submitted: Callable[[], None] = lambda: None,
        ended: Bell | None = None,
    ) -> None:
        """`catalog` is its name in the record store, `names` says how its tables are named. `submitted` is called after
        a job was put into the queue; `ended` rings when one has ended, if somebody knows."""
        self._store = store
        self._catalog = catalog
        self._names = names or Names(catalog=catalog)
        self._submitted = submitted
        self._ended = ended or Bell()

    def submit(
        self,
        request: JobRequest,
        *,
        tenant: str = DEFAULT_TENANT,
        priority: int | None = None,
        deadline: datetime | None = None,
        idempotency_key: str | None = None,
        plan: bytes = b"",
        most_failures: int = MOST_FAILURES,
    ) -> Job:
        """Put a job into the queue; BadInput names the field that is wrong. `plan` is the saved plan that is applied.

        A job that its tenant has named so before is answered instead; Conflict if it was asked to do something else.
        """
        if priority is not None and abs(priority) > HIGHEST_PRIORITY:
            raise BadInput(f"priority: it goes from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}")
        if not 1 <= most_failures <= _MOST_TRIES:
            raise BadInput(f"most_failures: it goes from 1 to {_MOST_TRIES}")
        if idempotency_key is not None and not 0 < len(idempotency_key) <= _LONGEST_KEY:
            raise BadInput(f"idempotency_key: it has 1 to {_LONGEST_KEY} characters")
        asked = checked(request, plan, self._names)
        now = self._store.now()
        _check_deadline(deadline, now, asked_before=idempotency_key is not None)
        job = self._store.submit_job(
            Job(
                job_id=_new_id(now),
                catalog=self._catalog,
                request=asked,
                submitted_at=now,
                due_at=now,
                tenant=tenant,
                priority=usual_priority(asked.operation) if priority is None else priority,
                deadline=deadline,
                most_failures=most_failures,
                idempotency_key=idempotency_key,
                fingerprint=asked.fingerprint(plan),
                trace=trace.traceparent(),
            ),
            plan,
        )
        self._submitted()
        return job

    def name(self, table: str) -> str:
        """The full name of a table, however it was written."""
        return self._names.full(table)

    def get(self, job_id: str) -> Job:
        """One job, with its result; JobNotFound if there is none of that id on this catalog."""
        job = self._store.job(job_id)
        if job is None or job.catalog != self._catalog:
            raise _not_found(job_id)
        return job

    def list(
        self,
        *,
        tenant: str | None = None,
        table: str | None = None,
        operation: Operation | None = None,
        statuses: Collection[JobStatus] = (),
        before: str | None = None,
        limit: int = 100,
        results: bool = False,
    ) -> Sequence[Job]:
        """The newest jobs first; only those with smaller ids than `before`. No `statuses` means all."""
        if not 1 <= limit <= MOST_RESULTS:
            raise BadInput(f"limit: it goes from 1 to {MOST_RESULTS}")
        return self._store.jobs(
            catalog=self._catalog,
            tenant=tenant,
            table=None if table is None else self._names.full(table),
            operation=operation,
            statuses=statuses,
            before=before,
            limit=limit,
            results=results,
        )

    def wait(self, job_id: str, seconds: float) -> Job:
        """A job once it has ended, or as it is after so many seconds."""
        until, look = time.monotonic() + seconds, _FIRST_LOOK
        while True:
            rung = self._ended.rung
            job = self.get(job_id)
            left = until - time.monotonic()
            if job.status.ended or left <= 0:
                return job
            if not self._ended.wait(min(look, left), since=rung):
                look = min(2 * look, _LONGEST_LOOK)

    def cancel(self, job_id: str) -> Job:
        """Cancel a job that waits, or ask its worker to stop; returns it as it is then. Conflict if it has ended."""
        self.get(job_id)
        job = self._store.ask_to_cancel_job(job_id)
        if job is None:
            raise _not_found(job_id)
        return job

    def resume(self, job_id: str) -> Job:
        """Put a job that failed or was cancelled back into the queue; Conflict if it did not end so."""
        self.get(job_id)
        job = self._store.resume_job(job_id)
        if job is None:
            raise _not_found(job_id)
        self._submitted()
        return job

    def sizes(self) -> Sequence[QueueSize]:
        """How many jobs of each tenant wait and run."""
        return self._store.queue_sizes(self._catalog)


def _new_id(now: datetime) -> str:
    """Later ones are greater."""
    return f"{now:%Y%m%d%H%M%S%f}-{secrets.token_hex(5)}"


def _not_found(job_id: str) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}")


def _check_deadline(deadline: datetime | None, now: datetime, *, asked_before: bool) -> None:
    if deadline is None:
        return
    if deadline.tzinfo is None:
        raise BadInput("deadline: it must carry its time zone")
    try:
        deadline.astimezone(UTC)
    except OverflowError:
        raise BadInput(f"deadline: {deadline.isoformat()} is beyond the calendar") from None
    if deadline <= now and not asked_before:  # asked again by its name, the job is answered as it was
        raise BadInput(f"deadline: {deadline.isoformat()} has passed")
