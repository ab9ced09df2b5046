"""The application: routes, limits and problems put together, and the OpenAPI document of it all."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from icepact.entrypoints.api import (
    costs,
    fleet,
    jobs,
    ops,
    plans,
    policies,
    runs,
    schedules,
    signals,
    tables,
    tenants,
)
from icepact.entrypoints.api.context import context_of
from icepact.entrypoints.api.problems import RESPONSES, install
from icepact.entrypoints.api.server import server_of
from icepact.entrypoints.api.settings import ApiSettings
from icepact.entrypoints.api.shield import Shield
from icepact.entrypoints.serving import Service
from icepact.model.answers import Problem
from icepact.model.documents import schema_of
from icepact.telemetry.asgi import Observed

PREFIX = "/api/v1"
_ROUTERS = (
    jobs.router,
    tables.router,
    fleet.router,
    runs.router,
    plans.router,
    policies.router,
    costs.router,
    schedules.router,
    signals.router,
    tenants.router,
)
_ABOUT = """Jobs on the tables of one Iceberg catalog, and what is known of these tables.

What needs a table is a job: the answer is 202 with the job, unless `wait` asks to wait for its end. Errors are problems
as RFC 9457 has them."""


def create_api(service: Service, settings: ApiSettings | None = None, *, workers: Path | None = None) -> FastAPI:
    """The application over a service. Nothing is opened or read before the first request. `workers` is the folder in
    which workers of this machine write their metrics."""
    chosen = settings or settings_of(service)
    app = _bare()
    app.state.context = context_of(service, chosen, workers)
    if chosen.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=chosen.cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "X-Request-ID"],
            expose_headers=["Location", "Retry-After", "ETag", "X-Request-ID"],
            max_age=600,
        )
    app.add_middleware(Shield, settings=chosen)
    app.add_middleware(Observed, count=app.state.context.metrics.request)
    return app


def make_server(service: Service, host: str, port: int, *, workers: Path | None = None) -> uvicorn.Server:
    """The server of the API; it does not listen yet. `workers` is as for `create_api`."""
    settings = settings_of(service, host)
    return server_of(create_api(service, settings, workers=workers), settings, port=port)


def settings_of(service: Service, host: str | None = None) -> ApiSettings:
    """Limits as the configuration of a service has them, on this address or the one that it names."""
    said = service.config.service
    return ApiSettings(
        host=said.host if host is None else host,
        unprotected=said.unprotected,
        allowed_hosts=tuple(said.allowed_hosts),
        cors_origins=tuple(said.cors_origins),
        requests_per_second=said.requests_per_second,
        burst=max(10, round(4 * said.requests_per_second)),
    )


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document; it is the same for every service."""
    document: dict[str, Any] = _bare().openapi()
    return document


def _bare() -> FastAPI:
    """All routes, and nobody who answers yet."""
    app = FastAPI(
        title="icepact",
        version=version("icepact"),
        description=_ABOUT,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        separate_input_output_schemas=False,
    )
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX, responses=RESPONSES)
    app.include_router(ops.about, prefix=PREFIX, responses=RESPONSES)
    app.include_router(ops.router, responses=RESPONSES)
    install(app)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _described(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, openapi_version="3.1.0", description=app.description, routes=app.routes
    )
    problem = schema_of(Problem)
    schemas = document["components"]["schemas"]
    schemas.update({name: _moved(part) for name, part in problem.pop("$defs", {}).items()})
    schemas["Problem"] = _moved(problem)
    document["servers"] = [{"url": "/"}]
    return document


def _moved(schema: Any) -> Any:
    """A schema whose parts are components now."""
    if isinstance(schema, dict):
        return {
            name: part.replace("#/$defs/", "#/components/schemas/") if name == "$ref" else _moved(part)
            for name, part in schema.items()
        }
    return [_moved(part) for part in schema] if isinstance(schema, list) else schema
