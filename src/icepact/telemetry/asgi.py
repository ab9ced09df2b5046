"""Requests to an ASGI application, counted and traced. It stands around all other layers, and changes nothing."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any, Protocol

from icepact.telemetry import trace

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE = "other"
_ASKED_OFTEN = frozenset({"/healthz", "/readyz", "/metrics"})
_log = logging.getLogger("icepact.api")
_FAILED = 500


class CountRequest(Protocol):
    """Counts a request."""

    def __call__(self, method: str, route: str, status: int, seconds: float) -> None:
        """`route` is the pattern of its path."""


class Observed:
    """The outermost layer."""

    def __init__(self, app: App, count: CountRequest) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, seconds = monotonic(), _FAILED, None
        method = scope["method"] if scope["method"] in _METHODS else _NO_ROUTE

        async def sent(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                # a stream of events goes on for long: what counts is when it begins
                status, seconds = message["status"], monotonic() - began
            await send(message)

        with (
            trace.continued(_header(scope, b"traceparent")),
            trace.span(method, kind=trace.Kind.SERVER, **{"http.request.method": method}) as span,
        ):
            try:
                await self._app(scope, receive, sent)
            finally:
                route = _route(scope)
                self._count(method, route, status, monotonic() - began if seconds is None else seconds)
                span.rename(f"{method} {route}")
                span.set(
                    **{
                        "http.route": route,
                        "http.response.status_code": status,
                        "request": scope.get("state", {}).get("request_id"),
                    }
                )
                if status >= _FAILED:
                    span.fail(f"answered {status}")
                _say(scope, method, route, status, monotonic() - began)


def _header(scope: MutableMapping[str, Any], name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _prefix(path: str, pattern: str) -> str:
    """What stands before a pattern that is that of a route in its own router: as many parts as the path has more. A
    pattern that stands for any number of parts says nothing of that."""
    parts = path.split("/")
    more = len(parts) - len(pattern.split("/"))
    return "/".join(parts[: more + 1]) if more > 0 and ":path}" not in pattern else ""


def _say(scope: MutableMapping[str, Any], method: str, route: str, status: int, seconds: float) -> None:
    """One line in the log; of machines that ask again and again only for those who want all."""
    level = logging.DEBUG if route in _ASKED_OFTEN else logging.INFO
    if not _log.isEnabledFor(level):
        return
    more = {"route": route, "status": status, "seconds": round(seconds, 4)}
    request = scope.get("state", {}).get("request_id")
    _log.log(
        level, "%s %s: %d", method, scope["path"], status, extra={**more, **({"request": request} if request else {})}
    )


def _route(scope: MutableMapping[str, Any]) -> str:
    """The pattern of its path; apart from others if somebody waits for a job, which takes as long as they like."""
    pattern = getattr(scope.get("route"), "path", None)
    if not isinstance(pattern, str):
        return _NO_ROUTE
    pattern = _prefix(scope["path"], pattern) + pattern
    waits = any(part.startswith(b"wait=") for part in scope.get("query_string", b"").split(b"&"))
    return f"{pattern}?wait" if waits else pattern
