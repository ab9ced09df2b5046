"""A proxy in front of PostgreSQL that cuts lines on purpose.

It understands as much of the protocol as it needs: where a request ends, which statements it runs, and where its
answer ends. The server says that it is ready for the next request only after it has committed.
"""

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import BinaryIO

from tests.support.servers.process import LOOPBACK

LATE = 2.5
"""Seconds after which a request arrives whose line is cut ahead of it."""
_PLAIN = 196608
"""The version of the protocol, in the first message of every line that is neither encrypted nor there to cancel."""
_ASKS_BACK = {3, 5, 10, 11}
"""Kinds of authentication messages that the client must answer: passwords, and the steps of SASL."""


class Cut(StrEnum):
    """What can happen to a request."""

    BEFORE = "cut before"
    """The server never hears of it."""
    AFTER = "cut after"
    """It is carried out, but nothing comes back."""
    MIDDLE = "cut in the middle"
    """It is carried out, and half of the answer comes back."""
    AHEAD = "cut ahead"
    """The line is cut, and the server hears of the request some seconds later."""


Rule = Callable[[str], Cut | None]
"""Asked with the statement of every request, from any thread."""


def calm(statement: str) -> None:
    """Nothing goes wrong."""


@dataclass(slots=True)
class Wire:
    """A running proxy."""

    port: int
    behind: int
    """The server's own port."""
    rule: Rule = calm
    """May be changed at any time."""
    answered: Callable[[str], object] = calm
    """Hears of every statement that the server has carried out, before the client hears anything."""
    faults: Counter[Cut] = field(default_factory=Counter)
    """That were put in, by kind."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    late: set[threading.Thread] = field(default_factory=set)
    """Those that carry out what nobody waits for any more."""

    def judge(self, statement: str) -> Cut | None:
        """What happens to a request, counted."""
        cut = self.rule(statement)
        if cut is not None:
            with self.lock:
                self.faults[cut] += 1
        return cut

    def calm(self) -> None:
        """Nothing goes wrong any more, and nothing is on its way any more."""
        self.rule = calm
        while self.late:
            self.late.pop().join()
        self.answered = calm


@contextmanager
def wire(behind: int) -> Iterator[Wire]:
    """A proxy that lets everything through, until it is given a rule."""
    with socket.create_server((LOOPBACK, 0), backlog=64) as listening:
        found = Wire(port=listening.getsockname()[1], behind=behind)
        thread = threading.Thread(target=_accept, args=(listening, found), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listening: socket.socket, proxy: Wire) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, proxy), daemon=True).start()


def _serve(client: socket.socket, proxy: Wire) -> None:
    with ExitStack() as open_now, suppress(OSError, EOFError):
        open_now.enter_context(closing(client))
        server = open_now.enter_context(socket.create_connection((LOOPBACK, proxy.behind)))
        for line in (client, server):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = open_now.enter_context(client.makefile("rb"))
        answers = open_now.enter_context(server.makefile("rb"))
        _Line(client, server, asked, answers, proxy).serve()


@dataclass(slots=True)
class _Line:
    """One connection of a client, and one to the server for it."""

    client: socket.socket
    server: socket.socket
    asked: BinaryIO
    answers: BinaryIO
    proxy: Wire
    statements: dict[bytes, str] = field(default_factory=dict)
    """Prepared ones, by name."""

    def serve(self) -> None:
        self._greet()
        while True:
            request, statement = self._request()
            cut = self.proxy.judge(statement) if statement else None
            if cut is Cut.BEFORE:
                return self._reset()
            if cut is Cut.AHEAD:
                return self._later(request, statement)
            self.server.sendall(request)
            answer = self._answer()
            if statement:
                self.proxy.answered(statement)
            if cut is Cut.AFTER:
                return self._reset()
            if cut is Cut.MIDDLE:
                self.client.sendall(answer[: len(answer) // 2])
                return self._reset()
            self.client.sendall(answer)

    def _later(self, request: bytes, statement: str) -> None:
        self.proxy.late.add(threading.current_thread())
        self._reset()
        self.asked.close()
        self.client.close()
        time.sleep(LATE)
        self.server.sendall(request)
        self._answer()
        self.proxy.answered(statement)

    def _greet(self) -> None:
        """Until the server is ready for the first request."""
        length = self.asked.read(4)
        first = self.asked.read(struct.unpack("!i", _whole(length, 4))[0] - 4)
        if struct.unpack("!i", first[:4])[0] != _PLAIN:
            raise EOFError("asked for something else than a plain connection")
        self.server.sendall(length + first)
        while True:
            kind, message = _message(self.answers)
            self.client.sendall(message)
            if kind == b"Z":
                return
            if kind == b"R" and struct.unpack("!i", message[5:9])[0] in _ASKS_BACK:
                self.server.sendall(_message(self.asked)[1])

    def _request(self) -> tuple[bytes, str]:
        """Messages up to the one that wants an answer, and the last statement that they run."""
        whole, statement = b"", ""
        while True:
            kind, message = _message(self.asked)
            whole += message
            body = message[5:]
            if kind == b"P":
                name, text, *_ = body.split(b"\0")
                self.statements[name] = text.decode()
            elif kind == b"B":
                statement = self.statements.get(body.split(b"\0")[1], "")
            elif kind == b"Q":
                statement = body.rstrip(b"\0").decode()
            if kind in (b"S", b"Q"):
                return whole, statement

    def _answer(self) -> bytes:
        whole = b""
        while True:
            kind, message = _message(self.answers)
            whole += message
            if kind == b"Z":
                return whole

    def _reset(self) -> None:
        """The client's line is dead when it is closed; the server sees that its client has gone."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _message(stream: BinaryIO) -> tuple[bytes, bytes]:
    """Its kind, and all of it."""
    kind = _whole(stream.read(1), 1)
    length = _whole(stream.read(4), 4)
    size = struct.unpack("!i", length)[0] - 4
    return kind, kind + length + _whole(stream.read(size), size)


def _whole(content: bytes, length: int) -> bytes:
    if len(content) != length:
        raise EOFError("the line is closed")
    return content
