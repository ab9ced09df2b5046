"""What runs cost, as JSON or CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from icepact.economics.report import costs_of
from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.callers import Viewer
from icepact.model.answers import TenantCosts
from icepact.model.costs import Amounts, Costs
from icepact.model.documents import document_of
from icepact.schedule.spent import costs_by_tenant

router = APIRouter(tags=["costs"])
MOST_RUNS = 1000
Runs = Annotated[int, Query(ge=1, le=MOST_RUNS, description="The newest so many runs.")]
Format = Annotated[Literal["json", "csv"], Query(description="How the answer is written.")]
CSV: dict[int | str, dict[str, Any]] = {
    200: {"description": "Costs by table and method.", "content": {"text/csv": {"schema": {"type": "string"}}}}
}
_AMOUNTS = [field.name for field in fields(Amounts)]
_COLUMNS = (
    *("table", "method", "runs", "input_bytes"),
    *(f"predicted_{name}" for name in _AMOUNTS),
    *(f"actual_{name}" for name in _AMOUNTS),
    *("money_per_tb", "currency"),
)


@router.get("/costs", summary="What all tables cost.", response_model=list[Costs], responses=CSV)
def costs(
    asked: Viewer,
    days: Annotated[float | None, Query(gt=0, le=366, description="Runs of so many days, however many.")] = None,
    limit: Runs = 100,
    format: Format = "json",
) -> Response:
    """What the newest runs cost, or all of so many days, next to what was predicted, by table and method."""
    service = asked.context.service
    store, catalog = service.store, service.catalog.recorded_as
    if days is None:
        runs = list(store.runs(catalog=catalog, limit=MOST_RUNS, worked_only=True))
    else:
        runs = list(store.recent(catalog=catalog, since=service.clock() - timedelta(days=days)))
    seen = [run.outcome for run in runs if run.outcome and asked.caller.sees(run.table)]
    return costs_answer(costs_of(seen if days is not None else seen[:limit]), format)


@router.get("/costs/tenants", summary="What each tenant costs.", response_model=list[TenantCosts], responses=CSV)
def tenant_costs(
    asked: Viewer,
    days: Annotated[float, Query(gt=0, le=366, description="Runs of so many days.")] = 30.0,
    format: Format = "json",
) -> Response:
    """What the runs of each tenant cost, by table and method; for others than the tenant `default`, their own."""
    service = asked.context.service
    since = service.clock() - timedelta(days=days)
    by_tenant = costs_by_tenant(service.store, service.catalog.recorded_as, since=since)
    shown = {name: found for name, found in by_tenant.items() if asked.looks_after_all or name == asked.caller.tenant}
    if format == "json":
        return json_answer([document_of(TenantCosts(tenant=name, costs=found)) for name, found in shown.items()])
    rows = [[name, *row] for name, found in shown.items() for row in _rows(found)]
    return _csv(("tenant", *_COLUMNS), rows)


def costs_answer(found: Sequence[Costs], form: str) -> Response:
    """Costs in one of the forms."""
    if form == "json":
        return json_answer([document_of(entry) for entry in found])
    return _csv(_COLUMNS, list(_rows(found)))


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Response:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return Response(text.getvalue(), media_type="text/csv")


def _rows(found: Sequence[Costs]) -> Iterator[list[Any]]:
    for entry in found:
        predicted, actual = (
            [getattr(amounts, name) for name in _AMOUNTS] for amounts in (entry.predicted, entry.actual)
        )
        money = "" if entry.money_per_tb is None else entry.money_per_tb
        yield [entry.table, entry.method, entry.runs, entry.input_bytes, *predicted, *actual, money, entry.currency]


def _harmless(cell: Any) -> Any:
    """What a spreadsheet would take for a formula is text there, too."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t") else cell
