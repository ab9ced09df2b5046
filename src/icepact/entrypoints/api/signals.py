"""What others tell the service: that somebody has committed to a table."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from icepact.entrypoints.api.bodies import CommitBody
from icepact.entrypoints.api.callers import Asked, Operator
from icepact.entrypoints.api.routes import WholeText
from icepact.schedule.commits import REPORTS, note_commit, parse_report

router = APIRouter(route_class=WholeText, tags=["signals"])
_REPORT: dict[str, Any] = {
    "type": "object",
    "required": ["table-name"],
    "properties": {
        "report-type": {"type": "string", "enum": list(REPORTS)},
        "table-name": {"type": "string", "minLength": 1},
        "snapshot-id": {"type": "integer"},
    },
}
NOTED: dict[int | str, dict[str, Any]] = {204: {"description": "It is noted."}}


@router.post("/events/commit", summary="Tell of a commit.", status_code=204, responses=NOTED)
def commit_event(asked: Operator, body: CommitBody) -> Response:
    """A webhook for writers and catalogs. A snapshot that is told of twice counts once."""
    _note(asked, body.table, body.snapshot_id)
    return Response(status_code=204)


@router.post("/reports", summary="Take an Iceberg report.", status_code=204, responses=NOTED)
def report(asked: Operator, body: Annotated[dict[str, Any], Body(json_schema_extra=_REPORT)]) -> Response:
    """Reports of scans and commits as REST catalogs receive them. Commits make tables due. Scans are answered alike, so
    that engines may send both, and are not kept: how often a table is read, its policy says as `scans_per_day`."""
    found = parse_report(body)
    if found.commit:
        _note(asked, found.table, found.snapshot_id)
    else:
        asked.table(found.table)
    return Response(status_code=204)


def _note(asked: Asked, table: str, snapshot_id: int | None) -> None:
    service = asked.context.service
    note_commit(service.store, asked.table(table), snapshot_id, catalog=service.catalog.recorded_as)
