"""Whether anybody works on a run, and asking them to stop; without Spark, since whoever lists runs does without it."""

from contextlib import suppress
from datetime import datetime

from icepact.model.errors import Conflict
from icepact.model.job import Job, JobStatus
from icepact.model.run import RunRecord
from icepact.model.status import Status
from icepact.record.process import is_gone
from icepact.record.store import JobStore, LeaseStore, RunsAndLeases, RunsLeasesAndJobs

_OPEN_JOBS = 1000
"""Of a table that are looked at."""


def dead(record: RunRecord, store: LeaseStore, now: datetime | None = None) -> str | None:
    """Why nobody works on an open run any more; `None` if somebody may."""
    if record.status is Status.UNKNOWN:
        return "it ended without knowing whether its last commit landed"
    if record.owner is not None and is_gone(record.owner):
        return f"{record.owner} is gone"
    lease = store.lease(record.uuid)
    if lease is None or lease.run_id != record.run_id:
        return f"{record.owner or 'nobody'} does not hold the table any more"
    if (now or store.now()) >= lease.expires_at:
        return f"{record.owner} was last heard of at {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return None


def job_of(record: RunRecord, store: JobStore) -> Job | None:
    """The job whose run an open run is, and which has not ended either; `None` if there is none."""
    if not record.status.open:
        return None
    jobs = store.jobs(
        catalog=record.catalog, table=record.table, statuses=[JobStatus.QUEUED, JobStatus.RUNNING], limit=_OPEN_JOBS
    )
    # a worker has one job, and may not have said yet which run it has begun
    held = (job for job in jobs if job.status is JobStatus.RUNNING and job.worker == record.owner)
    return next((job for job in jobs if job.run_id == record.run_id), None) or next(held, None)


def ask_to_stop(record: RunRecord, job: Job | None, store: RunsLeasesAndJobs) -> str:
    """Ask whoever works on a run to stop, and cancel the job whose run it is, which would begin another one; says what
    will happen to the run. Conflict if it has ended."""
    if job is not None:
        with suppress(Conflict):  # it has just ended
            store.ask_to_cancel_job(job.job_id)
    if not store.ask_to_cancel(record.run_id):
        raise Conflict(f"run {record.run_id} has ended ({record.status}): there is nothing to cancel")
    reason = dead(record, store)
    if reason is None:
        return f"asked {record.owner} to stop run {record.run_id}"
    return f"run {record.run_id} is dead already ({reason}): `icepact cleanup` removes what it left"


def check_resumable(record: RunRecord) -> None:
    """Raise Conflict if a run has ended, or is to end."""
    if record.cancel_asked and record.status.open:
        raise Conflict(f"run {record.run_id} was cancelled: `icepact cleanup` ends it and deletes what it left")
    if not record.status.open or record.status is Status.FENCED:
        raise Conflict(f"run {record.run_id} has ended ({record.status}): there is nothing to resume")


def resumable_run(store: RunsAndLeases, catalog: str, table: str) -> RunRecord | None:
    """The newest run on a table that died and can be carried on with; the clean-up ends those that were cancelled."""
    for record in store.runs(catalog=catalog, table=table, open_only=True):
        if record.status is Status.FENCED or record.cancel_asked:
            continue
        if dead(record, store) and store.plan(record.run_id):
            return record
    return None
