"""What machines ask: whether the process is alive, whether it should be sent requests, and how it is doing."""

from importlib.metadata import version

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response

from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.callers import Viewer
from icepact.entrypoints.api.context import Context
from icepact.entrypoints.api.problems import answer, of_status, request_id_of
from icepact.model.answers import About, Alive, Entrance, StoreStatus
from icepact.model.documents import document_of
from icepact.model.errors import IcepactError
from icepact.record.copying import sizes_of

router = APIRouter(tags=["operations"])
about = APIRouter(tags=["operations"])
_PATIENCE = 3.0
"""Seconds that the record store may take to answer."""


_ENTRANCE = Entrance(
    api="/api/v1", openapi="/api/v1/openapi.json", alive="/healthz", ready="/readyz", metrics="/metrics"
)


@about.get("/store", summary="What the record store holds.", response_model=StoreStatus)
def store_status(asked: Viewer) -> Response:
    """How many rows of each kind there are, and whether settings of the store endanger them. It is about all tenants:
    this takes a key of the tenant `default`."""
    asked.need_all()
    store = asked.context.service.store
    found = StoreStatus(store="configured", rows=sizes_of(store), concerns=store.concerns())
    return json_answer(document_of(found))


@about.get("", summary="Where there is what.", response_model=Entrance)
async def get_api() -> Response:
    """Where the description of the API is."""
    return json_answer(document_of(_ENTRANCE))


@router.get("/", summary="Where there is what.", response_model=Entrance)
async def get_root() -> Response:
    """Where the API and its description are."""
    return json_answer(document_of(_ENTRANCE))


@about.get("/about", summary="What this service is.", response_model=About)
def get_about(asked: Viewer) -> Response:
    """The service, its catalog, and who asks."""
    service, caller = asked.context.service, asked.caller
    found = About(
        version=version("icepact"),
        catalog=service.catalog.name,
        namespace=".".join(service.namespace),
        currency=service.prices.currency,
        tenant=caller.tenant,
        role=caller.role,
    )
    return json_answer(document_of(found))


@router.get("/healthz", summary="Whether the process is alive.", response_model=Alive)
async def healthz() -> Response:
    """Answered as long as the process can."""
    return json_answer({"status": "ok"})


@router.get("/readyz", summary="Whether the process should be sent requests.", response_model=Alive)
async def readyz(request: Request) -> Response:
    """503 once the process is to end, and while the record store does not answer."""
    context: Context = request.app.state.context
    if context.service.draining.is_set():
        return answer(of_status(503, "this process is about to end", request_id_of(request)))
    try:
        with anyio.fail_after(_PATIENCE):
            await anyio.to_thread.run_sync(context.service.store.document, "ready", "ready", abandon_on_cancel=True)
    except (IcepactError, TimeoutError):
        return answer(of_status(503, "the record store does not answer", request_id_of(request)))
    return json_answer({"status": "ok"})


@router.get(
    "/metrics",
    summary="Metrics for Prometheus.",
    responses={200: {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
def metrics(asked: Viewer) -> Response:
    """Metrics of this process, its workers and the record store. They name tables: once there are keys, this takes one
    of the tenant `default`."""
    asked.need_all()
    found = asked.context.metrics
    return Response(found.text(), headers={"Content-Type": found.content_type})
