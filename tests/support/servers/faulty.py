"""A proxy in front of an HTTP server that fails on purpose: it refuses, loses, cuts off and delays."""

import http.client
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.servers.process import LOOPBACK


class Fault(StrEnum):
    """What can happen to a request."""

    FAIL = "500"
    """Answered here with an error; the server never hears of it."""
    SLOW_DOWN = "503"
    """Told to slow down; the server never hears of it."""
    DROP = "dropped before"
    """The line is cut before the server hears of it."""
    LOSE = "dropped after"
    """It is carried out, but nothing comes back."""
    CUT = "truncated"
    """Half of the answer's body comes back, then the line is closed as if that were all."""
    RESET = "truncated by a reset"
    """Half of the answer's body comes back, then the line is dead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request, as far as rules need to know it."""

    method: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lie:
    """It is carried out, and then answered with something else, as a gateway does that has lost its patience."""

    status: int
    retry_after: int | None = None
    """Seconds, told in the answer's head."""
    late: float = 0.0
    """Seconds between this answer and the time when the server hears of the request."""

    @property
    def value(self) -> str:
        """In one word, as faults have it."""
        retry = "" if self.retry_after is None else f", retry in {self.retry_after} s"
        return f"{self.status} {'ahead' if self.late else 'after'}{retry}"


Rule = Callable[[Asked], Fault | Lie | None]


def unheard(asked: Asked, status: int) -> None:
    """Nobody listens to what the server says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """How often things go wrong, each as a part of all requests."""

    failed: float = 0.05
    """Half of them slow-downs."""
    dropped: float = 0.10
    """Half of them before the server hears of it, half after it has done it."""
    truncated: float = 0.02
    """In the middle of the answer: half of them closed, half of them reset."""
    delayed: float = 0.05
    longest_delay: float = 0.3
    """Seconds."""


def calm(asked: Asked) -> None:
    """Nothing goes wrong."""


class Weather:
    """A rule by rates and a seed."""

    def __init__(self, seed: str, rates: Rates | None = None) -> None:
        self.requests = 0
        """That it was asked about."""
        self.waits: list[float] = []
        """Seconds of all delays so far."""
        self._dice = random.Random(seed)
        self._rates = rates or Rates()
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Fault | None:
        """What happens to this one; it may take a while."""
        rates = self._rates
        with self._lock:
            self.requests += 1
            what, which = self._dice.random(), self._dice.random()
            wait = self._dice.uniform(0, rates.longest_delay) if self._dice.random() < rates.delayed else 0.0
        if wait:
            self.waits.append(wait)
            time.sleep(wait)
        if what < rates.failed:
            return Fault.FAIL if which < 0.5 else Fault.SLOW_DOWN
        if what < rates.failed + rates.dropped:
            return Fault.DROP if which < 0.5 else Fault.LOSE
        if what < rates.failed + rates.dropped + rates.truncated:
            return Fault.CUT if which < 0.5 else Fault.RESET
        return None


@dataclass(slots=True)
class Proxy:
    """A running proxy."""

    endpoint: str
    behind: str
    """The server's own address."""
    rule: Rule = calm
    """Asked for every request, from any thread; may be changed at any time."""
    answered: Callable[[Asked, int], object] = unheard
    """Hears of every request that the server has carried out, and of its status, before the client hears anything."""
    faults: Counter[Fault | Lie] = field(default_factory=Counter)
    """That were put in, by kind."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, asked: Asked) -> Fault | Lie | None:
        """What happens to a request, counted."""
        fault = self.rule(asked)
        if fault is not None:
            with self.lock:
                self.faults[fault] += 1
        return fault

    late: list[threading.Thread] = field(default_factory=list)
    """Requests that are still on their way although they have been answered."""

    def calm(self) -> None:
        """Nothing goes wrong any more, and nothing is on its way any more."""
        self.rule = calm
        while self.late:
            self.late.pop().join()
        self.answered = unheard


@contextmanager
def faulty(behind: str) -> Iterator[Proxy]:
    """A proxy that lets everything through, until it is given a rule."""
    server = _Server((LOOPBACK, 0), _Handler)
    proxy = Proxy(endpoint=f"http://{LOOPBACK}:{server.server_port}", behind=behind)
    server.proxy = proxy
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: Proxy

    def shutdown_request(self, request: Any) -> None:
        """Without a word before: a line that is to be reset must not be closed first."""
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away in the middle are what this is about."""


_OWN_HEADERS = {"content-length", "transfer-encoding", "connection", "date", "server"}


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"  # clients keep their connections

    def _serve(self) -> None:
        server: Any = self.server
        proxy: Proxy = server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(method=self.command, path=self.path)
        fault = proxy.judge(asked)
        if fault in (Fault.FAIL, Fault.SLOW_DOWN):
            self._refuse(fault)
            return
        if fault is Fault.DROP:
            self._reset()
            return
        if isinstance(fault, Lie) and fault.late:
            self._later(proxy, asked, body, fault.late)
            self._lie(fault)
            return
        status, headers, content = self._pass_on(proxy.behind, body)
        proxy.answered(asked, status)
        if isinstance(fault, Lie):
            self._lie(fault)
            return
        half = fault in (Fault.CUT, Fault.RESET)
        if fault is Fault.LOSE or (half and not content):
            self._reset()
            return
        self._answer(status, headers, content[: len(content) // 2] if half else content, length=len(content))
        self.close_connection = self.close_connection or half
        if fault is Fault.RESET:
            self._reset()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _later(self, proxy: Proxy, asked: Asked, body: bytes, seconds: float) -> None:
        """Pass it on when nobody waits for it any more."""

        def carry_out() -> None:
            time.sleep(seconds)
            proxy.answered(asked, self._pass_on(proxy.behind, body)[0])

        thread = threading.Thread(target=carry_out, daemon=True)
        proxy.late.append(thread)
        thread.start()

    def _pass_on(self, behind: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("expect", "connection")}
        with closing(http.client.HTTPConnection(urlsplit(behind).netloc, timeout=60)) as connection:
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()

    def _refuse(self, fault: Fault) -> None:
        status = int(fault.value)
        code = "SlowDown" if fault is Fault.SLOW_DOWN else "InternalError"
        content = f"<Error><Code>{code}</Code><Message>on purpose</Message></Error>".encode()
        self._answer(status, [("Content-Type", "application/xml")], content, length=len(content))

    def _lie(self, lie: Lie) -> None:
        told = {"message": "on purpose", "type": "OnPurpose", "code": lie.status}
        content = json.dumps({"error": told}).encode()
        headers = [("Content-Type", "application/json")]
        if lie.retry_after is not None:
            headers.append(("Retry-After", str(lie.retry_after)))
        self._answer(lie.status, headers, content, length=len(content))

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, *, length: int) -> None:
        """Send a body, which may be shorter than what is said of it."""
        self.send_response(status)
        told = [value for name, value in headers if name.lower() == "content-length"]
        for name, value in headers:
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", told[0] if told and self.command == "HEAD" else str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        """The line is dead when it is closed: what the client has not read yet is lost, too."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are counted."""
