"""Servers as processes: free ports, waiting until they answer, their logs, their certain end."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
_PORTS = range(20000, 30000)
"""Below what systems give to outgoing connections, so that nobody takes a port by chance before its server does."""
_TAIL = 40
_logs: dict[Path, str] = {}
"""Logs of the servers that run now, and a pattern for more files beside each."""


class ServerFailed(Exception):
    """A server did not start; the message ends with what it said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """One server process."""

    name: str
    log: Path
    """All it printed."""
    guard: subprocess.Popen[bytes]
    """Runs the server, and ends it when its standard input closes."""

    def wait_until(self, ready: Callable[[], T | None], *, seconds: float = 60) -> T:
        """The first answer that is not None; an error with the server's log if it ends or takes too long."""
        deadline = time.monotonic() + seconds
        while self.guard.poll() is None and time.monotonic() < deadline:
            answer = ready()
            if answer is not None:
                return answer
            time.sleep(0.03)
        why = "takes too long to start" if self.guard.poll() is None else f"ended with {self.guard.returncode}"
        raise ServerFailed(f"{self.name} {why}:\n{tail(self.log)}")


@contextmanager
def serving(
    name: str,
    command: Sequence[str],
    *,
    folder: Path,
    env: Mapping[str, str] | None = None,
    user: tuple[int, int] | None = None,
    polite: signal.Signals = signal.SIGTERM,
    more_logs: str = "",
) -> Iterator[Server]:
    """A server process with its log in a folder; it has ended when this block has.

    `user` is a user id and a group id to run as, `polite` the signal that asks it to end, `more_logs` a pattern of
    files in the folder that its children log to. What the list of processes must not show belongs into `env`.
    """
    log = folder / f"{name}.log"
    task = {
        "command": list(command),
        "user": user and user[0],
        "user_group": user and user[1],
        "polite": int(polite),
    }
    with log.open("wb") as sink:
        guard = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("guard.py")), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C is for the tests, which then end their servers in order
        )
    assert guard.stdin is not None
    _logs[log] = more_logs
    try:
        yield Server(name=name, log=log, guard=guard)
    finally:
        del _logs[log]
        guard.stdin.close()
        guard.wait()


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if _is_free(port):
            found.append(port)
        if len(found) == number:
            return found
    raise ServerFailed(f"no {number} free ports in {_PORTS}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def running_logs() -> list[Path]:
    """The logs of all servers that run now."""
    return [file for log, more in _logs.items() for file in (log, *(log.parent.glob(more) if more else ()))]


def tail(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])
