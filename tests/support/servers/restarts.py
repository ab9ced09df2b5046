"""Servers that can be killed and started again with their data."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.support.servers.process import Server, serving


class Restartable:
    """A server process with its data in a folder."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        ready: Callable[[Server], bool | None],
        *,
        user: tuple[int, int] | None = None,
        polite: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._name = name
        self._command = command
        self._folder = folder
        self._ready = ready
        self._user = user
        self._polite = polite
        self._running = ExitStack()
        self._server: Server | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        running = serving(self._name, self._command, folder=self._folder, user=self._user, polite=self._polite)
        self._server = server = self._running.enter_context(running)
        server.wait_until(lambda: self._ready(server))

    def kill(self) -> None:
        """As a machine that loses its power would."""
        assert self._server is not None
        for process in psutil.Process(self._server.guard.pid).children(recursive=True):
            process.send_signal(signal.SIGKILL)
        self._server.guard.wait()
        self.stop()

    def restart(self) -> None:
        """Kill it, and start it with its data."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it in order, if it runs."""
        self._running.close()


@contextmanager
def started(server: Restartable) -> Iterator[Restartable]:
    """It runs now, and has ended after this block."""
    try:
        server.start()
        yield server
    finally:
        server.stop()
