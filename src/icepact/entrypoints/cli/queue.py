"""The queue of jobs that a command looks into: in the record store, or through a service."""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from icepact.client import Client
from icepact.entrypoints.cli.session import Session
from icepact.model.job import Job, JobStatus
from icepact.schedule.jobs import MOST_RESULTS, Jobs

_OPEN = (JobStatus.QUEUED, JobStatus.RUNNING)


class Queue(Protocol):
    """Jobs, wherever they are."""

    def list(self, table: str | None, *, limit: int, open_only: bool) -> Sequence[Job]:
        """The newest jobs first."""

    def get(self, job_id: str) -> Job:
        """One job; JobNotFound if there is none."""

    def cancel(self, job_id: str) -> Job:
        """Cancel it, or ask its worker to stop."""

    def resume(self, job_id: str) -> Job:
        """Put it back into the queue."""


class _Here:
    """Jobs in the record store."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self.get, self.cancel, self.resume = jobs.get, jobs.cancel, jobs.resume

    def list(self, table: str | None, *, limit: int, open_only: bool) -> Sequence[Job]:
        """The newest jobs first."""
        return self._jobs.list(table=table, limit=min(limit, MOST_RESULTS), statuses=_OPEN if open_only else ())


class _There:
    """Jobs of a service."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.get, self.cancel, self.resume = client.job, client.cancel, client.resume

    def list(self, table: str | None, *, limit: int, open_only: bool) -> Sequence[Job]:
        """The newest jobs first."""
        return list(islice(self._client.jobs(table=table, statuses=_OPEN if open_only else ()), limit))


def queue_of(session: Session) -> Queue:
    """The queue that the global options mean."""
    if session.server is not None:
        return _There(session.client())
    from icepact.entrypoints.serving import build_service

    return _Here(build_service(session.service_settings).jobs)
