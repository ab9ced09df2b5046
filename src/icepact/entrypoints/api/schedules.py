"""Schedules: when tables are next, why, and what is expected of their writers."""

from itertools import islice

from fastapi import APIRouter, Response

from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.callers import Viewer
from icepact.entrypoints.api.paging import After, Limit, Page, cursor_of, key_of
from icepact.entrypoints.api.routes import WholeText
from icepact.entrypoints.api.tables import Table
from icepact.model.documents import document_of
from icepact.model.schedule import ScheduleView
from icepact.schedule.overview import view_of, views

router = APIRouter(route_class=WholeText, tags=["schedules"])


@router.get("/schedules", summary="List schedules.", response_model=Page[ScheduleView])
def list_schedules(asked: Viewer, limit: Limit = 100, cursor: After = None) -> Response:
    """Tables that are looked after by themselves, by name: when each is next, and what it waits for."""
    service, after = asked.context.service, key_of(cursor, "schedules") or ""
    catalog = service.catalog.recorded_as
    rest = views(service.store, asked.context.fleet, catalog, now=service.clock(), after=after)
    shown = list(islice((view for view in rest if asked.caller.sees(view.table)), limit + 1))
    more = cursor_of("schedules", shown[limit - 1].table) if len(shown) > limit else None
    return json_answer({"items": [document_of(view) for view in shown[:limit]], "next": more})


@router.get("/tables/{table}/schedule", summary="When a table is next.", response_model=ScheduleView)
def table_schedule(asked: Viewer, table: Table) -> Response:
    """Its schedule, the forecast of its writers and how far off that was, and the time that is chosen."""
    service, name = asked.context.service, asked.table(table)
    view = view_of(service.store, asked.context.fleet, service.catalog.recorded_as, name, now=service.clock())
    return json_answer(document_of(view))
