"""For whom a run was: the tenant of the job that began it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from icepact.model.job import DEFAULT_TENANT, Job, Operation
from icepact.model.run import RunRecord
from icepact.record.store import JobStore

_MOST_JOBS = 200
"""The newest jobs on a table; if there are more, so many of each kind that changes tables."""
_CHANGING = tuple(operation for operation in Operation if not operation.leaves_tables)


def tenants_of_runs(store: JobStore, catalog: str, runs: Iterable[RunRecord]) -> Mapping[str, str]:
    """The tenant of each run, by its id. Runs that no job is known for are of `default`: they came from the command
    line or the library, or their jobs are not kept any more."""
    by_table: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        by_table[run.table].append(run)
    found: dict[str, str] = {}
    for table, of_table in by_table.items():
        jobs = _jobs(store, catalog, table)
        for run in of_table:
            job = job_of(run, jobs)
            found[run.run_id] = DEFAULT_TENANT if job is None else job.tenant
    return found


def job_of(run: RunRecord, jobs: Sequence[Job]) -> Job | None:
    """Which of the jobs on its table has begun a run; `None` if none has.

    A job knows the run that it began last. An earlier one of it was begun while it held the table: by the process that
    held the job last, or, if several processes had it, by any.
    """
    exact = next((job for job in jobs if job.run_id == run.run_id), None)
    if exact is not None:
        return exact
    meanwhile = [
        job
        for job in jobs
        if job.started_at is not None
        and job.started_at <= run.started_at
        and (job.finished_at is None or run.started_at <= job.finished_at)
    ]
    likely = [job for job in meanwhile if job.worker is not None and job.worker == run.owner]
    return max(likely or [job for job in meanwhile if job.attempts > 1], key=_started, default=None)


def _started(job: Job) -> tuple[str, str]:
    assert job.started_at is not None
    return job.started_at.isoformat(), job.job_id


def _jobs(store: JobStore, catalog: str, table: str) -> Sequence[Job]:
    newest = store.jobs(catalog=catalog, table=table, limit=_MOST_JOBS)
    if len(newest) == _MOST_JOBS:
        newest = [
            job
            for operation in _CHANGING
            for job in store.jobs(catalog=catalog, table=table, operation=operation, limit=_MOST_JOBS)
        ]
    return [job for job in newest if job.request.holds_table]
