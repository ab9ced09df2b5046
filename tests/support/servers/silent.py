"""A line to a server that goes dead without a word: what is asked arrives, and no answer ever comes back."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.servers.process import LOOPBACK

Rule = Callable[[bytes], bool]
"""Asked with what a client sends, from any thread: true if nothing comes back on this line from now on."""


def talkative(asked: bytes) -> bool:
    """Everything is answered."""
    return False


def mute(asked: bytes) -> bool:
    """Nothing is."""
    return True


@dataclass(slots=True)
class Line:
    """A running relay."""

    port: int
    behind: int | None
    """The server's own port; null if there is nobody."""
    rule: Rule = talkative
    """May be changed at any time; lines that are dead stay so."""
    swallowed: int = 0
    """Requests that were not answered."""
    deaths: list[threading.Event] = field(default_factory=list)
    """One for each line."""

    def die(self) -> None:
        """Nothing comes back any more on all lines that there are now."""
        for dead in list(self.deaths):
            dead.set()


@contextmanager
def line_to(behind: int | None) -> Iterator[Line]:
    """A line to a server on this machine; it carries everything, until it is given a rule."""
    with ExitStack() as ending, socket.create_server((LOOPBACK, 0), backlog=64) as listening:
        line = Line(port=listening.getsockname()[1], behind=behind, rule=mute if behind is None else talkative)
        thread = threading.Thread(target=_accept, args=(listening, line, ending), daemon=True)
        thread.start()
        try:
            yield line
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listening: socket.socket, line: Line, ending: ExitStack) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            ending.enter_context(closing(client))
            threading.Thread(target=_carry, args=(client, line), daemon=True).start()


def _carry(client: socket.socket, line: Line) -> None:
    """What a client sends goes to the server; what the server sends comes back, until the line is dead."""
    with suppress(OSError), ExitStack() as open_now:
        server = None
        if line.behind is not None:
            server = open_now.enter_context(socket.create_connection((LOOPBACK, line.behind)))
        dead = threading.Event()
        line.deaths.append(dead)
        if server is not None:
            threading.Thread(target=_answer, args=(server, client, dead), daemon=True).start()
        while asked := client.recv(1 << 16):
            if not dead.is_set() and line.rule(asked):
                dead.set()
                line.swallowed += 1
            if server is not None:
                server.sendall(asked)


def _answer(server: socket.socket, client: socket.socket, dead: threading.Event) -> None:
    with suppress(OSError):
        while answer := server.recv(1 << 16):
            if not dead.is_set():
                client.sendall(answer)
        if not dead.is_set():
            client.shutdown(socket.SHUT_RDWR)
