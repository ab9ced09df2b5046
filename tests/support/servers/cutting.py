"""A proxy in front of Redis or etcd that cuts lines on purpose, at requests that it chooses."""

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.servers.process import LOOPBACK
from tests.support.servers.wire import Cut

LATE = 0.3
"""Seconds after which a request arrives whose line is cut ahead of it."""
_PATIENCE = 10.0
"""Seconds until an answer that does not come is not waited for any more: a server may be ended in front of it."""
_PAUSE = 0.004
"""Seconds without more of it after which a request is taken for whole."""

Rule = Callable[[bytes], Cut | None]
"""Asked with every request, from any thread."""


def unaltered(answer: bytes) -> bytes:
    """An answer as it is."""
    return answer


def calm(request: bytes) -> Cut | None:
    """Nothing goes wrong."""
    return None


@dataclass(slots=True)
class Door:
    """A running proxy."""

    port: int
    behind: int
    """The server's own port."""
    rule: Rule = calm
    """May be changed at any time."""
    alter: Callable[[bytes], bytes] = unaltered
    """Asked with every answer for what is passed on; may be changed at any time, too."""
    lines: list[socket.socket] = field(default_factory=list)
    """Of all clients, those that have gone included."""
    faults: Counter[Cut] = field(default_factory=Counter)
    """That were put in, by kind."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cut(self) -> None:
        """Cut all lines that there are now."""
        for line in list(self.lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def judge(self, request: bytes) -> Cut | None:
        """What happens to a request, counted."""
        cut = self.rule(request)
        if cut is not None:
            with self.lock:
                self.faults[cut] += 1
        return cut


@contextmanager
def door_to(behind: int) -> Iterator[Door]:
    """A proxy to a server on this machine; it cuts nothing until it is given a rule."""
    with closing(socket.create_server((LOOPBACK, 0))) as listening:
        door = Door(port=listening.getsockname()[1], behind=behind)
        stop = threading.Event()
        threads: list[threading.Thread] = []

        def accept() -> None:
            while not stop.is_set():
                if select.select([listening], [], [], 0.05)[0]:
                    client, _ = listening.accept()
                    threads.append(threading.Thread(target=_carry, args=(door, client, stop)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield door
        finally:
            stop.set()
            accepting.join()
            for thread in threads:
                thread.join()


def _carry(door: Door, client: socket.socket, stop: threading.Event) -> None:
    client.settimeout(_PATIENCE)
    door.lines.append(client)
    address = LOOPBACK, door.behind
    with closing(client), suppress(OSError), closing(socket.create_connection(address, _PATIENCE)) as server:
        while not stop.is_set():
            ready = select.select([client, server], [], [], 0.05)[0]
            if server in ready:
                answer = server.recv(1 << 16)
                if not answer:
                    return
                client.sendall(door.alter(answer))
            if client in ready:
                request = _whole(client)
                if not request or not _passed_on(door, request, client, server):
                    return


def _whole(client: socket.socket) -> bytes:
    request = client.recv(1 << 16)
    while request and select.select([client], [], [], _PAUSE)[0]:
        more = client.recv(1 << 16)
        if not more:
            break
        request += more
    return request


def _passed_on(door: Door, request: bytes, client: socket.socket, server: socket.socket) -> bool:
    """Whether the line is still good."""
    cut = door.judge(request)
    if cut is Cut.BEFORE:
        return False
    if cut is Cut.AHEAD:
        client.close()
        time.sleep(LATE)
    server.sendall(request)
    if cut is None:
        return True
    answer = server.recv(1 << 16)
    if cut is Cut.MIDDLE:
        client.sendall(answer[: len(answer) // 2])
    return False
