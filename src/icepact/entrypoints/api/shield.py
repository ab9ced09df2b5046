"""What every request passes before anything looks at it: its host, its origin, its size, and how long it takes.

Every answer gets an id and headers that keep browsers from doing more with it than show it.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from icepact.entrypoints.api.problems import answer, of_status
from icepact.entrypoints.api.settings import LOOPBACK, ApiSettings
from icepact.telemetry.ids import about

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_log = logging.getLogger("icepact.api")
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"interest-cohort=()"),
)
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEARD_OUT = 8
"""So many times what a body may have is read of one that is too large."""
_LARGE = "/api/v1/plans/apply"
"""Where a body may be a saved plan."""


class _Refused(HTTPException):
    """The rest of the request is not wanted, or did not come; what was not read of it is not taken for another one."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail, {"Connection": "close"})


class Shield:
    """The outermost layer of the application."""

    def __init__(self, app: App, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = {*settings.allowed_hosts, *(LOOPBACK if settings.on_loopback else ())}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get(b"x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                known = {name for name, _ in message["headers"]}
                more = [*_HEADERS, (b"x-request-id", request_id.encode())]
                if b"cache-control" not in known:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        try:
            with about(request=request_id):
                self._check(scope, headers)
                await self._app(scope, self._limited(scope, headers, receive), sent)
        except _Refused as refused:
            if not begun:
                problem = of_status(refused.status_code, refused.detail, request_id)
                await answer(problem, refused.headers)(scope, receive, sent)
        except Exception as error:
            _log.error("%s: %s", request_id, type(error).__name__, exc_info=error)
            if begun:
                raise
            detail = f"something went wrong here; the log has it under {request_id}"
            await answer(of_status(500, detail, request_id))(scope, receive, sent)

    def _check(self, scope: MutableMapping[str, Any], headers: MutableMapping[bytes, str]) -> None:
        """Refuse what was not meant for this service, or comes from a page of somebody else's."""
        if self._hosts and host_of(headers.get(b"host", "")) not in self._hosts:
            raise _Refused(421, "this host name is not one of this service")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise _Refused(400, "no name has a null character in it")
        if scope["method"] in _SAFE:
            return
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._settings.cors_origins:
            if urlsplit(origin).netloc.lower() != headers.get(b"host", "").lower():
                raise _Refused(403, "pages of other origins may not change anything here")
        elif origin is None and headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            raise _Refused(403, "pages of other origins may not change anything here")

    def _limited(
        self, scope: MutableMapping[str, Any], headers: MutableMapping[bytes, str], receive: Receive
    ) -> Receive:
        """The same request, cut off where it becomes too large or too slow."""
        most = self._settings.most_plan if scope["path"] == _LARGE else self._settings.most_body
        length = headers.get(b"content-length", "")
        said_too_large = length.isdigit() and int(length) > most
        read, whole, until = 0, False, float("inf")

        async def more() -> Message:
            nonlocal read, whole, until
            until = min(until, monotonic() + self._settings.body_seconds)  # from when somebody begins to read
            try:
                message = await asyncio.wait_for(receive(), until - monotonic())
            except TimeoutError:
                raise _Refused(408, "the rest of the body did not come") from None
            read += len(message.get("body", b""))
            whole = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def received() -> Message:
            if whole:
                return await receive()  # whoever waits here waits for the other side to go away
            message = await more()
            if said_too_large or read > most:
                while not whole and read < _HEARD_OUT * most:  # who is still sending would not hear the answer
                    await more()
                raise _Refused(413, f"a body may have {most:,} bytes at most")
            return message

        return received


def host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()
