"""Requests: counted by route, traced, logged, and let through as they are."""

import asyncio
import logging
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import StreamingResponse

from icepact.telemetry import trace
from icepact.telemetry.asgi import Observed
from icepact.telemetry.ids import about
from tests.support.collector import collecting

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
Counted = list[tuple[str, str, int, float]]


def api() -> FastAPI:
    """An application with some routes."""
    app = FastAPI()

    @app.get("/tables/{table}/health")
    def health(table: str, request: Request) -> dict[str, str | None]:
        request.state.request_id = f"id of {table}"
        return {"trace": trace.traceparent()}

    router = APIRouter()

    @router.get("/jobs/{job_id}")
    def job(job_id: str) -> str:
        return job_id

    app.include_router(router, prefix="/api/v1")

    @app.get("/files/{name:path}")
    def file(name: str) -> str:
        return name

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("it broke: token=hush")

    @app.get("/events")
    def events() -> StreamingResponse:
        async def stream() -> Any:
            yield b"a"
            await asyncio.sleep(0.3)
            yield b"b"

        return StreamingResponse(stream())

    return app


def ask(*requests: tuple[str, str], headers: dict[str, str] | None = None) -> tuple[Counted, list[httpx.Response]]:
    """What is counted of some requests, and their answers."""
    counted: Counted = []
    app = Observed(api(), lambda *what: counted.append(what))

    async def all_of_them() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return [await client.request(method, path, headers=headers) for method, path in requests]

    return counted, asyncio.run(all_of_them())


def test_requests_are_counted_by_the_pattern_of_their_path() -> None:
    counted, _ = ask(
        ("GET", "/tables/db.a/health"),
        ("GET", "/tables/db.b/health?fresh=1"),
        ("GET", "/tables/db.b/health?x=1&wait=30s"),
        ("GET", "/no/such/path?wait=1"),
        ("PATCH", "/tables/db.a/health"),
        ("BREW", "/coffee"),
        ("GET", "/broken"),
        ("GET", "/api/v1/jobs/j1"),
        ("GET", "/files/a/b/c"),
    )
    assert [one[:3] for one in counted] == [
        ("GET", "/tables/{table}/health", 200),
        ("GET", "/tables/{table}/health", 200),
        ("GET", "/tables/{table}/health?wait", 200),
        ("GET", "other", 404),
        ("PATCH", "/tables/{table}/health", 405),
        ("other", "other", 404),
        ("GET", "/broken", 500),
        ("GET", "/api/v1/jobs/{job_id}", 200),
        ("GET", "/files/{name:path}", 200),
    ]


def test_a_stream_counts_until_it_begins() -> None:
    [(_, _, _, seconds)], [answer] = ask(("GET", "/events"))
    assert answer.content == b"ab"
    assert seconds < 0.25


def test_a_request_is_part_of_the_trace_of_who_asks() -> None:
    with collecting() as collector:
        _, [answer, _] = ask(("GET", "/tables/db.a/health"), ("GET", "/broken"), headers={"traceparent": PARENT})
        trace.shutdown()
        span, broken = collector.one("GET /tables/{table}/health"), collector.one("GET /broken")
    _, trace_id, parent_id, _ = PARENT.split("-")
    assert (span.trace_id, span.parent_id, span.kind) == (trace_id, parent_id, "server")
    assert answer.json() == {"trace": f"00-{trace_id}-{span.span_id}-01"}
    assert span.attributes == {
        "http.request.method": "GET",
        "http.route": "/tables/{table}/health",
        "http.response.status_code": 200,
        "request": "id of db.a",
    }
    assert (span.failed, broken.failed) == (False, True)
    assert not any(b"hush" in body for body in collector.bodies)


def test_a_request_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "icepact.api"), about():
        ask(("GET", "/tables/db.a/health?token=hush"))
    [line] = [record for record in caplog.records if record.name == "icepact.api"]
    assert line.getMessage() == "GET /tables/db.a/health: 200"
    assert (line.__dict__["route"], line.__dict__["request"]) == ("/tables/{table}/health", "id of db.a")


def test_what_is_no_request_is_let_through() -> None:
    heard: list[str] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        heard.append(scope["type"])

    asyncio.run(Observed(app, lambda *_: None)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert heard == ["lifespan"]
