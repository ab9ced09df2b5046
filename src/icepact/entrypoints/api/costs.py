"""What runs cost, as JSON or CSV."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from icepact.economics.costs_csv import costs_csv, tenant_costs_csv
from icepact.economics.report import costs_of
from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.callers import Viewer
from icepact.entrypoints.api.routes import WholeText
from icepact.model.answers import TenantCosts
from icepact.model.costs import Costs
from icepact.model.documents import document_of
from icepact.schedule.spent import costs_by_tenant

router = APIRouter(route_class=WholeText, tags=["costs"])
MOST_RUNS = 1000
Runs = Annotated[int, Query(ge=1, le=MOST_RUNS, description="The newest so many runs.")]
Format = Annotated[Literal["json", "csv"], Query(description="How the answer is written.")]
CSV: dict[int | str, dict[str, Any]] = {
    200: {"description": "Costs by table and method.", "content": {"text/csv": {"schema": {"type": "string"}}}}
}


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
    table: Annotated[str | None, Query(min_length=1, max_length=1000, description="Only on this table.")] = None,
    format: Format = "json",
) -> Response:
    """What the runs of each tenant cost, by table and method; for others than the tenant `default`, their own."""
    service = asked.context.service
    since = service.clock() - timedelta(days=days)
    name = None if table is None else asked.table(table)
    by_tenant = costs_by_tenant(service.store, service.catalog.recorded_as, since=since, table=name)
    own = {asked.caller.tenant: by_tenant.get(asked.caller.tenant, ())}
    shown = {
        name: [entry for entry in found if asked.looks_after_all or asked.caller.sees(entry.table)]
        for name, found in (by_tenant if asked.looks_after_all else own).items()
    }
    if format == "json":
        return json_answer([document_of(TenantCosts(tenant=name, costs=found)) for name, found in shown.items()])
    return _csv(tenant_costs_csv((name, entry) for name, found in shown.items() for entry in found))


def costs_answer(found: Sequence[Costs], form: str) -> Response:
    """Costs in one of the forms."""
    return json_answer([document_of(entry) for entry in found]) if form == "json" else _csv(costs_csv(found))


def _csv(text: str) -> Response:
    return Response(text, media_type="text/csv")
