"""Runs, under way and past, as the record store has them."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.callers import Asked, Viewer
from icepact.entrypoints.api.paging import After, Limit, Page, cursor_of, key_of
from icepact.entrypoints.api.routes import WholeText
from icepact.model.documents import document_of
from icepact.model.errors import BadInput
from icepact.model.run import RunRecord
from icepact.record.liveness import dead
from icepact.schedule.scopes import shown

router = APIRouter(route_class=WholeText, tags=["tables"])
_MOST_RUNS = 1000
"""That can be gone back."""
_KIND = "runs"
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
    """Runs on a table, newest first, with their outcomes."""
    return _page(asked, asked.table(table), open_only, limit, cursor)


def _page(asked: Asked, table: str | None, open_only: bool, limit: int, cursor: str | None) -> Response:
    after, skip = key_of(cursor, _KIND), 0
    if after is not None:
        kept = _runs(asked, table, _MOST_RUNS, open_only, outcomes=False)
        ids = [run.run_id for run in kept if asked.caller.sees(run.table)]
        if after not in ids:
            raise BadInput("cursor: the run that the page before ended with is not kept any more")
        skip = ids.index(after) + 1
    if table is None:  # only some of them may exist for whoever asks
        found = _runs(asked, None, _MOST_RUNS, open_only, outcomes=False)
        wanted = [run for run in found if asked.caller.sees(run.table)][skip : skip + limit + 1]
        service = asked.context.service
        whole = [service.store.run(run.run_id) or run for run in wanted[:limit]]
        more = len(wanted) > limit
    else:
        batch = _runs(asked, table, skip + limit + 1, open_only)[skip:]
        whole, more = list(batch[:limit]), len(batch) > limit
    items = [_document(asked, run) for run in whole]
    return json_answer({"items": items, "next": cursor_of(_KIND, whole[-1].run_id) if more else None})


def _document(asked: Asked, run: RunRecord) -> dict[str, Any]:
    why = dead(run, asked.context.service.store) if run.status.open else None
    return {**shown(asked.caller, document_of(run)), "dead": why}


def _runs(
    asked: Asked, table: str | None, limit: int, open_only: bool, *, outcomes: bool = True
) -> Sequence[RunRecord]:
    service = asked.context.service
    return service.store.runs(
        catalog=service.catalog.recorded_as,
        table=table,
        limit=min(limit, _MOST_RUNS),
        open_only=open_only,
        outcomes=outcomes,
    )
