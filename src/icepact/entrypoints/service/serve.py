"""The process of the API, with its workers: how it starts, and in which order it ends.

First it is not ready any more and takes no new jobs, and no schedule fires here any more; then its workers end, or hand
over what they do; then the API.
"""

import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import uvicorn

from icepact.entrypoints.service.counters import CounterFolder
from icepact.entrypoints.service.scheduling import Scheduling
from icepact.entrypoints.service.supervisor import Supervisor
from icepact.entrypoints.serving import Service, build_service
from icepact.entrypoints.wiring import set_up_telemetry
from icepact.model.errors import BadInput
from icepact.record.store import DocumentStore

KEY = "key"
"""Kind of the documents of keys."""
_log = logging.getLogger("icepact")


class MakeServer(Protocol):
    """Makes the server of the API."""

    def __call__(self, service: Service, host: str, port: int, *, workers: Path) -> uvicorn.Server:
        """For an address and a port; it does not listen yet. `workers` is the folder of what workers have counted."""


class Serving:
    """The API, its workers and its schedules in this process."""

    def __init__(
        self,
        given: Mapping[str, Any],
        make_server: MakeServer,
        *,
        host: str | None = None,
        port: int | None = None,
        workers: int | None = None,
    ) -> None:
        """`given` is what `build_service` is given; the rest is as the configuration says if it is not."""
        self.service = build_service(given)
        set_up_telemetry(self.service.config, log_level=logging.INFO)
        settings = self.service.config.service
        host = settings.host if host is None else host
        if not settings.unprotected:
            refuse_open(host, self.service.store)
        self.workers = settings.workers if workers is None else workers
        self._socket = listening(host, settings.port if port is None else port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._counters = CounterFolder()
        self._supervisor = Supervisor(
            given,
            workers=self.workers,
            grace=settings.grace,
            bell=self.service.submitted,
            metrics=self._counters.path,
            ended=self.service.ended.ring,
        )
        self._server = make_server(self.service, host, self.port, workers=self._counters.path)
        self._scheduling = Scheduling(self.service)
        vars(self._server)["capture_signals"] = nullcontext  # they are heard here
        self._asked = False

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def run(self) -> None:
        """Serve until a signal says that it is to end: the first in order, the second now."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        with self._counters, self.service.store.watch(self.service.heard):
            self._supervisor.start()
            self._scheduling.start()
            try:
                self._server.run(sockets=[self._socket])
            finally:
                self.service.draining.set()
                self._scheduling.stop()
                self._supervisor.stop()
                self._supervisor.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        threading.Thread(target=self._end_now if self._asked else self._end, daemon=True).start()
        self._asked = True

    def _end(self) -> None:
        self.service.draining.set()
        self._scheduling.stop()
        self._supervisor.stop()
        self._supervisor.wait()
        self.service.ending.set()
        self._server.should_exit = True

    def _end_now(self) -> None:
        self._supervisor.stop()
        self._server.should_exit = self._server.force_exit = True


def refuse_open(host: str, store: DocumentStore) -> None:
    """Refuse to listen where others than this machine's own processes may ask, as long as nobody needs a key."""
    if is_loopback(host) or store.documents(KEY, limit=1):
        return
    raise BadInput(
        f"host: {host} can be reached from elsewhere, and there are no keys: make one first, or set "
        "`service: {unprotected: true}` if something in front keeps strangers out"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or one line that says why not."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    return listener
