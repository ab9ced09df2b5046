"""Jobs that requests ask for: submitted, waited for if that is wanted, and answered."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Header, Query, Response
from pydantic import TypeAdapter

from icepact.entrypoints.api.callers import Asked
from icepact.entrypoints.api.problems import answer, kind_of, of_status, problem_of
from icepact.model.documents import document_of
from icepact.model.errors import TemporaryError
from icepact.model.job import MOST_FAILURES, Job, JobRequest, JobStatus
from icepact.schedule.scopes import shown_job

_WAIT = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
USUAL_WAIT = "30s"
_RETRY_AFTER = "2"

Wait = Annotated[
    str | None,
    Query(
        pattern=f"^{_WAIT.pattern}$",
        description="How long to wait for the job to end, such as 30s; 5 minutes at most. If it has not ended then, "
        "the answer is 202.",
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="A name for this request: asked again by it, the answer is the job of the first time.",
    ),
]
Most = Annotated[int, Query(ge=1, le=100, description="After so many failures it has failed.")]
ACCEPTED: Mapping[int | str, dict[str, Any]] = {
    202: {
        "description": "The job has not ended yet.",
        "model": Job,
        "headers": {
            "Location": {"description": "Of the job.", "schema": {"type": "string"}},
            "Retry-After": {"description": "Seconds.", "schema": {"type": "string"}},
        },
    }
}
_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def json_answer(document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document as an answer."""
    return Response(_ANY.dump_json(document), status, headers, media_type="application/json")


def seconds_of(wait: str | None, most: float) -> float:
    """How long to wait, at most so long."""
    match = _WAIT.fullmatch(wait or "")
    return min(float(match[1]) * _UNITS[match[2]], most) if match else 0.0


async def submit(
    asked: Asked,
    request: JobRequest,
    *,
    key: str | None = None,
    priority: int | None = None,
    deadline: datetime | None = None,
    most_failures: int = MOST_FAILURES,
    plan: bytes = b"",
) -> Job:
    """Put a job into the queue for whoever asks."""
    if asked.context.service.draining.is_set():
        raise TemporaryError("this process is about to end, and takes no new jobs")
    submitted = partial(
        asked.context.service.jobs.submit,
        request,
        tenant=asked.caller.tenant,
        priority=priority,
        deadline=deadline,
        idempotency_key=key,
        plan=plan,
        most_failures=most_failures,
    )
    job = await anyio.to_thread.run_sync(submitted)
    if not request.operation.only_reads:
        await anyio.to_thread.run_sync(asked.write_down, f"jobs.{request.operation}", job)
    return job


async def waited(asked: Asked, job: Job, wait: str | None) -> Job:
    """The same job after a while, as whoever asks may see it."""
    seconds = seconds_of(wait, asked.context.settings.most_wait)
    if not seconds or job.status.ended:
        return shown_job(asked.caller, job)
    ended = await asked.context.watch.ended(job, seconds)
    return await anyio.to_thread.run_sync(asked.by_now, ended)


def job_answer(job: Job) -> Response:
    """A job: 200 if it has ended, 202 if it has not."""
    if job.status.ended:
        return json_answer(document_of(job))
    headers = {"Location": f"/api/v1/jobs/{job.job_id}", "Retry-After": _RETRY_AFTER}
    return json_answer(document_of(job), status=202, headers=headers)


def failure_of(asked: Asked, job: Job) -> Response | None:
    """Why there is no answer if a job was asked for one: the problem that its worker met, or the job if it has not
    ended; `None` if it succeeded."""
    if job.status is JobStatus.SUCCEEDED:
        return None
    if not job.status.ended:
        return job_answer(job)
    if job.status is JobStatus.CANCELLED:
        return answer(of_status(409, f"job {job.job_id}, which was to answer, was cancelled", asked.request_id))
    kind = kind_of(job.error_type)
    problem = problem_of(kind, job.error or "", asked.request_id)
    if problem.status >= 500:
        detail = f"job {job.job_id}, which was to answer, failed: ask for it to see why"
        return answer(of_status(503, detail, asked.request_id))
    return answer(problem)
