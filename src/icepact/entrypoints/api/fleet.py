"""All tables at once: what is known of their health, and rankings by what compacting them brings and costs."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from icepact.entrypoints.api.answering import (
    ACCEPTED,
    IdempotencyKey,
    Wait,
    job_answer,
    json_answer,
    submit,
    waited,
)
from icepact.entrypoints.api.bodies import RankBody
from icepact.entrypoints.api.callers import Viewer
from icepact.entrypoints.api.jobs import found_job
from icepact.entrypoints.api.paging import MOST, After, Limit, Page, cursor_of, key_of
from icepact.entrypoints.api.routes import WholeText
from icepact.entrypoints.api.tables import entry_of
from icepact.model.answers import TableEntry
from icepact.model.documents import document_of
from icepact.model.errors import JobNotFound, NotFound
from icepact.model.fleet import Fleet
from icepact.model.job import Job
from icepact.schedule.answers import kept_ranking, known_healths
from icepact.schedule.scopes import shown_ranking

router = APIRouter(route_class=WholeText, prefix="/fleet", tags=["fleet"])


@router.get("", summary="The health of all tables.", response_model=Page[TableEntry])
def fleet(
    asked: Viewer,
    limit: Limit = MOST,
    cursor: After = None,
    below: Annotated[float, Query(ge=0, le=101, description="Only tables with a lower score.")] = 101,
) -> Response:
    """What workers know of all tables that they have looked at, the worst first."""
    service = asked.context.service
    found: list[TableEntry] = []
    after = ""
    while batch := known_healths(service.store, service.catalog.recorded_as, after=after, limit=1000):
        found += [entry_of(name, known) for name, known in batch.items() if asked.caller.sees(name)]
        after = max(batch)
    ranked = sorted((entry for entry in found if (entry.score or 0.0) < below), key=_position)
    position = key_of(cursor, "fleet")
    rest = [entry for entry in ranked if position is None or _position(entry) > position]
    shown = rest[:limit]
    more = cursor_of("fleet", _position(shown[-1])) if len(rest) > limit else None
    return json_answer({"items": [document_of(entry) for entry in shown], "next": more})


def _position(entry: TableEntry) -> str:
    return f"{entry.score or 0.0:09.3f} {entry.table}"


@router.post("", summary="Rank tables.", response_model=Job, responses={**ACCEPTED})
async def rank(asked: Viewer, body: RankBody | None = None, wait: Wait = None, key: IdempotencyKey = None) -> Response:
    """Have a worker look at all tables, or at those that a pattern means, and rank them by what compacting them brings
    and costs. The job's result is what `icepact fleet --json` prints; long ones are cut there, and whole at
    `/fleet/{job_id}`."""
    wanted = body or RankBody()
    return job_answer(await waited(asked, await submit(asked, wanted.request(), key=key, **wanted.how), wait))


@router.get("/{job_id}", summary="Get a ranking.", response_model=Fleet)
def ranking(asked: Viewer, job_id: str) -> Response:
    """The ranking that a job has made, all of it. It is kept as long as plans are."""
    try:
        job = found_job(asked, job_id)
    except JobNotFound:
        raise NotFound(f"there is no ranking of job {job_id}, or it is not kept any more: rank again") from None
    found = kept_ranking(asked.context.service.store, job.job_id)
    return json_answer(shown_ranking(asked.caller, found))
