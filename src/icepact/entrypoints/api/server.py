"""The server under the API: uvicorn, with limits of what a connection may take before there is a request."""

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from icepact.entrypoints.api.problems import PROBLEM_JSON, plain_problem
from icepact.entrypoints.api.settings import ApiSettings

_BACKLOG = 1024


def server_of(app: FastAPI, settings: ApiSettings, *, port: int, **more: Any) -> uvicorn.Server:
    """A server that is not running yet; `more` goes to uvicorn."""

    class Timed(_Timed):
        header_seconds = settings.header_seconds

    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=port,
            http=Timed,
            ws="none",
            lifespan="off",
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=settings.most_headers,
            timeout_keep_alive=30,
            backlog=_BACKLOG,
            **{"log_config": None, **more},
        )
    )


class _Timed(H11Protocol):
    """HTTP/1.1 that does not wait for ever for the first lines of a request, and refuses with a problem."""

    header_seconds: float
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        opened = transport.get_extra_info("socket")
        if opened is not None and opened.family in (socket.AF_INET, socket.AF_INET6):
            # an answer is several packets, and asyncio sees to that only for some sockets
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._late = self.loop.call_later(self.header_seconds, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Begin to wait anew with the first bytes of the next request; stop once one is whole."""
        if self._late is None and self.conn.their_state is h11.IDLE:
            self._late = self.loop.call_later(self.header_seconds, self._give_up)
        super().data_received(data)
        if self._late is not None and self.conn.their_state is not h11.IDLE:
            self._late.cancel()
            self._late = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self._refuse(408, "the request did not come")

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        del msg
        self._refuse(400, "this is no HTTP request, or its headers are too large")

    def _refuse(self, status: int, detail: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE, h11.ERROR):
            self.transport.close()  # an answer is under way
            return
        body = plain_problem(status, detail, None)
        head = f"HTTP/1.1 {status} {'Request Timeout' if status == 408 else 'Bad Request'}\r\n"
        head += f"content-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
