"""Runs, under way and past, as the record store has them: listed, stopped, carried on with."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Path, Query, Response

from icepact.entrypoints.api.answering import (
    ACCEPTED,
    IdempotencyKey,
    Most,
    Wait,
    job_answer,
    json_answer,
    submit,
    waited,
)
from icepact.entrypoints.api.callers import Asked, Operator, Viewer
from icepact.entrypoints.api.paging import After, Limit, Page, cursor_of, key_of
from icepact.entrypoints.api.routes import WholeText
from icepact.model.answers import StopAsked
from icepact.model.documents import document_of
from icepact.model.errors import BadInput, Conflict, NotFound
from icepact.model.job import MOST_FAILURES, Job, JobRequest, Operation
from icepact.model.run import RunRecord
from icepact.record.liveness import ask_to_stop, check_resumable, dead, job_of
from icepact.schedule.scopes import shown

router = APIRouter(route_class=WholeText, tags=["tables"])
_BATCH = 1000
"""Runs that are looked at at once."""
_KIND = "runs"
RunId = Annotated[str, Path(min_length=1, max_length=200, description="As `GET /runs` names it.")]
OpenOnly = Annotated[bool, Query(description="Only runs that have not ended.")]
Table = Annotated[str, Path(min_length=1, max_length=1000, description="As in Spark SQL: `db.table`.")]


@router.get("/runs", summary="List runs.", response_model=Page[RunRecord])
def list_runs(
    asked: Viewer,
    table: Annotated[str | None, Query(min_length=1, max_length=1000, description="Only on this table.")] = None,
    open_only: OpenOnly = False,
    limit: Limit = 50,
    cursor: After = None,
) -> Response:
    """Runs, newest first, with their outcomes; `dead` says why nobody works on one any more that has not ended."""
    return _page(asked, None if table is None else asked.table(table), open_only, limit, cursor)


@router.get("/tables/{table}/history", summary="Runs on a table.", response_model=Page[RunRecord])
def history(
    asked: Viewer, table: Table, open_only: OpenOnly = False, limit: Limit = 50, cursor: After = None
) -> Response:
    """Runs on a table, newest first, with their outcomes. If the record store knows none, those that the snapshots of
    the table tell of: `recovered` is what they say."""
    return _page(asked, asked.table(table), open_only, limit, cursor)


@router.get("/runs/{run_id}", summary="Get a run.", response_model=RunRecord)
def get_run(asked: Viewer, run_id: RunId) -> Response:
    """A run with its outcome; `dead` says why nobody works on it any more if it has not ended."""
    return json_answer(_document(asked, _found(asked, run_id)))


@router.post("/runs/{run_id}/cancel", summary="Stop a run.", response_model=StopAsked)
def cancel_run(asked: Operator, run_id: RunId) -> Response:
    """Ask whoever works on a run to stop. If it is that of a job, the job is cancelled. 409 if the run has ended."""
    run, service = _found(asked, run_id), asked.context.service
    job = job_of(run, service.store)
    if job is not None and job.tenant != asked.caller.tenant and not asked.looks_after_all:
        raise Conflict(f"run {run_id} is that of a job which is not yours: whoever asked for it can cancel it")
    with asked.audited("runs.cancel", run_id):
        message = ask_to_stop(run, job, service.store)
    mine = job is not None and asked.may_see(job)
    return json_answer(
        document_of(StopAsked(run_id=run_id, job_id=job.job_id if job and mine else None, message=message))
    )


@router.post("/runs/{run_id}/resume", summary="Carry on with a run.", response_model=Job, responses={**ACCEPTED})
async def resume_run(
    asked: Operator,
    run_id: RunId,
    wait: Wait = None,
    key: IdempotencyKey = None,
    most_failures: Most = MOST_FAILURES,
) -> Response:
    """Carry on with a run whose process died, by a job. 409 if it has ended, or if somebody works on it."""
    run = await anyio.to_thread.run_sync(_resumable, asked, run_id)
    request = JobRequest(operation=Operation.RESUME, table=run.table, run_id=run_id)
    job = await submit(asked, request, key=key, most_failures=most_failures)
    return job_answer(await waited(asked, job, wait))


def _found(asked: Asked, run_id: str) -> RunRecord:
    """A run on a table that exists for whoever asks; NotFound if there is none."""
    run = asked.context.service.store.run(run_id)
    if run is None or run.catalog != asked.context.service.catalog.recorded_as or not asked.caller.sees(run.table):
        raise NotFound(f"there is no run {run_id}")
    return run


def _resumable(asked: Asked, run_id: str) -> RunRecord:
    run = _found(asked, run_id)
    check_resumable(run)
    if dead(run, asked.context.service.store) is None:
        raise Conflict(f"{run.owner} works on run {run_id}: there is nothing to resume")
    return run


# -- pages ----------------------------------------------------------------------------------------


def _page(asked: Asked, table: str | None, open_only: bool, limit: int, cursor: str | None) -> Response:
    service = asked.context.service
    position, size = _position_of(cursor), limit + 1
    if table is not None and not open_only and _knows_none(asked, table):
        past = [run for run in asked.context.fleet.past_runs(table) if position is None or _began_at(run) < position]
        return _answer(asked, past[:size], limit)
    found: list[RunRecord] = []
    while len(found) <= limit:  # only some of them may exist for whoever asks
        batch = service.store.runs(
            catalog=service.catalog.recorded_as,
            table=table,
            limit=size,
            open_only=open_only,
            outcomes=False,
            before=position,
        )
        found += [run for run in batch if asked.caller.sees(run.table)]
        if len(batch) < size:
            break
        position, size = _began_at(batch[-1]), _BATCH
    whole = [service.store.run(run.run_id) or run for run in found[:limit]]
    return _answer(asked, [*whole, *found[limit:]], limit)


def _knows_none(asked: Asked, table: str) -> bool:
    service = asked.context.service
    return not service.store.runs(catalog=service.catalog.recorded_as, table=table, limit=1, outcomes=False)


def _answer(asked: Asked, found: Sequence[RunRecord], limit: int) -> Response:
    """A page of runs; there is a next one if more were found than are shown."""
    last = found[limit - 1] if len(found) > limit else None
    more = None if last is None else cursor_of(_KIND, f"{last.started_at.isoformat()} {last.run_id}")
    return json_answer({"items": [_document(asked, run) for run in found[:limit]], "next": more})


def _began_at(run: RunRecord) -> tuple[datetime, str]:
    """Of a run among others: pages begin after one."""
    return run.started_at, run.run_id


def _position_of(cursor: str | None) -> tuple[datetime, str] | None:
    """When the run began, and its id, after which a page begins."""
    after = key_of(cursor, _KIND)
    if after is None:
        return None
    moment, _, run_id = after.partition(" ")
    try:
        began = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, OverflowError):
        began = None
    if began is None or not (run_id.isascii() and run_id.isprintable()):
        raise BadInput("cursor: give `next` of the page before, as it is")
    return began, run_id


def _document(asked: Asked, run: RunRecord) -> dict[str, Any]:
    why = dead(run, asked.context.service.store) if run.status.open else None
    return {**shown(asked.caller, document_of(run)), "dead": why}
