"""Jobs: those that were asked for, one of them, how far it is, and what can be done about it."""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from icepact.entrypoints.api.answering import ACCEPTED, IdempotencyKey, Wait, job_answer, json_answer, submit, waited
from icepact.entrypoints.api.bodies import CompactBody
from icepact.entrypoints.api.callers import Asked, Operator, Viewer
from icepact.entrypoints.api.paging import After, Limit, Page, cursor_of, key_of, page
from icepact.entrypoints.api.routes import WholeText
from icepact.model.documents import document_of, to_json
from icepact.model.errors import BadInput, JobNotFound
from icepact.model.job import Job, JobStatus, Operation
from icepact.schedule.scopes import shown_job

router = APIRouter(route_class=WholeText, tags=["jobs"])
_KIND = "jobs"
_QUIET_SECONDS = 15.0
"""A stream in which nothing happens says so as often, so that nobody takes it for dead."""
_MOST_LOOKS = 20


@router.post("/compact", summary="Compact a table.", response_model=Job, responses={**ACCEPTED})
async def compact(asked: Operator, body: CompactBody, wait: Wait = None, key: IdempotencyKey = None) -> Response:
    """Put a compaction into the queue. The job's result is what `icepact compact --json` prints."""
    asked.table(body.table)
    return job_answer(await waited(asked, await submit(asked, body.request(), key=key, **body.how), wait))


@router.get("/jobs", summary="List jobs.", response_model=Page[Job])
def list_jobs(
    asked: Viewer,
    table: Annotated[str | None, Query(min_length=1, max_length=1000, description="Only on this table.")] = None,
    operation: Annotated[Operation | None, Query(description="Only of this kind.")] = None,
    status: Annotated[list[JobStatus] | None, Query(max_length=5, description="Only in one of these states.")] = None,
    run_id: Annotated[str | None, Query(max_length=200, description="Only the one that has begun this run.")] = None,
    limit: Limit = 50,
    cursor: After = None,
) -> Response:
    """Your jobs, newest first, without their results."""
    name = None if table is None else asked.table(table)
    before = key_of(cursor, _KIND)
    found: list[Job] = []
    jobs = asked.context.service.jobs
    for _ in range(_MOST_LOOKS):  # some may be on tables that do not exist for whoever asks
        batch = jobs.list(
            tenant=asked.caller.tenant,
            table=name,
            operation=operation,
            statuses=status or (),
            before=before,
            limit=limit + 1,
        )
        found += [job for job in batch if asked.may_see(job) and run_id in (None, job.run_id)]
        if len(found) > limit or len(batch) <= limit:
            break
        before = batch[-1].job_id
    else:  # there may be more of them further back
        return json_answer({"items": [document_of(job) for job in found], "next": cursor_of(_KIND, before or "")})
    shown = page(found[: limit + 1], limit, _KIND, lambda job: job.job_id)
    return json_answer({"items": [document_of(job) for job in shown.items], "next": shown.next})


def found_job(asked: Asked, job_id: str) -> Job:
    """A job of whoever asks; JobNotFound if there is none, or if it is somebody else's."""
    job = asked.context.service.jobs.get(job_id)
    if not asked.may_see(job):
        raise JobNotFound(f"there is no job {job_id}")
    return shown_job(asked.caller, job)


async def _found(asked: Asked, job_id: str) -> Job:
    return await anyio.to_thread.run_sync(found_job, asked, job_id)


@router.get("/jobs/{job_id}", summary="Get a job.", response_model=Job)
async def get_job(asked: Viewer, job_id: str, wait: Wait = None) -> Response:
    """A job with its progress, and its result if it has one. With `wait`, once it has ended."""
    job = await waited(asked, await _found(asked, job_id), wait)
    if job.status is JobStatus.QUEUED:
        job = await anyio.to_thread.run_sync(asked.with_reason, job)
    return json_answer(document_of(job))


_EVENT = {
    "type": "object",
    "description": "An event; its data is the job as JSON.",
    "required": ["event", "data"],
    "properties": {"event": {"enum": ["progress", "end"]}, "data": {"type": "string"}},
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`progress` with the job whenever something about it has changed, and `end` once it has ended.",
        "content": {"text/event-stream": {"schema": _EVENT}},
    }
}


@router.get("/jobs/{job_id}/events", summary="Watch a job.", responses=_EVENTS, response_class=StreamingResponse)
async def job_events(asked: Viewer, job_id: str) -> Response:
    """Server-sent events: the job as it is now, then whenever something about it has changed."""
    return _EventStream(asked, await _found(asked, job_id))


class _EventStream(StreamingResponse):
    """What is answered as long as somebody listens: counted from before its first line to its end."""

    def __init__(self, asked: Asked, job: Job) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(_events(asked, job), media_type="text/event-stream", headers=headers)
        self._count = asked.context.streams.one(asked.caller.key_id or "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless there are too many."""
        with self._count:
            await super().__call__(scope, receive, send)


async def _events(asked: Asked, job: Job) -> AsyncIterator[bytes]:
    context, look, rung = asked.context, 0.05, 0
    until, heard = monotonic() + context.settings.stream_seconds, monotonic()
    said = b""
    while True:
        document = to_json(document_of(job))
        if job.status.ended:
            yield b"event: end\ndata: " + document + b"\n\n"
            return
        if document != said:
            said, look, heard = document, 0.05, monotonic()
            yield b"event: progress\ndata: " + document + b"\n\n"
        elif monotonic() - heard > _QUIET_SECONDS:
            heard = monotonic()
            yield b": nothing new\n\n"
        if monotonic() > until or context.service.draining.is_set():
            return  # whoever watches asks again, perhaps another process
        look = await context.watch.pause(job, look, 1.0, since=rung)
        rung = context.watch.rung
        try:
            job = await anyio.to_thread.run_sync(_by_now, asked, job.job_id)
        except BadInput:
            return  # it does not exist any more for whoever watches


def _by_now(asked: Asked, job_id: str) -> Job:
    return asked.by_now(asked.context.service.jobs.get(job_id))


@router.post("/jobs/{job_id}/cancel", summary="Cancel a job.", response_model=Job, responses={**ACCEPTED})
async def cancel_job(asked: Operator, job_id: str, wait: Wait = None) -> Response:
    """Cancel a job that waits, or ask its worker to stop. 409 if it has ended."""
    await _found(asked, job_id)
    job = await anyio.to_thread.run_sync(asked.context.service.jobs.cancel, job_id)
    await anyio.to_thread.run_sync(asked.write_down, "jobs.cancel", job)
    return job_answer(await waited(asked, job, wait))


@router.post("/jobs/{job_id}/resume", summary="Resume a job.", response_model=Job, responses={**ACCEPTED})
async def resume_job(asked: Operator, job_id: str, wait: Wait = None) -> Response:
    """Put a job that failed or was cancelled back into the queue. 409 if it did not end so."""
    await _found(asked, job_id)
    job = await anyio.to_thread.run_sync(asked.context.service.jobs.resume, job_id)
    await anyio.to_thread.run_sync(asked.write_down, "jobs.resume", job)
    return job_answer(await waited(asked, job, wait))
