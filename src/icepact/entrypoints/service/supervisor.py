"""Workers as children of this process: started, told of new jobs, started again when they end, and stopped."""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from icepact.entrypoints.service.worker import RENEWED
from icepact.schedule.bell import Bell

_PROGRAM = "icepact.entrypoints.service.worker"
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_LIVED_WELL = 60.0
"""Seconds after which a worker that dies is not taken for one that cannot start."""
_TO_LEAVE = 5.0
"""Seconds beyond its grace that a worker may take to end."""
_BETWEEN_RINGS = 0.05
"""Seconds between two times that workers are told: each then looks for a job, however many of them are idle."""
_log = logging.getLogger("icepact")


class Supervisor:
    """Keeps a number of workers alive."""

    def __init__(
        self,
        given: Mapping[str, Any],
        *,
        workers: int,
        grace: float,
        bell: Bell,
        metrics: Path | None = None,
        ended: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`given` is what `build_service` is given, `metrics` the folder into which workers write what they count;
        `bell` rings when there may be a new job, and `ended` is called with the id of a job of which a worker says that
        it has ended."""
        counted = None if metrics is None else str(metrics)
        self._settings = json.dumps({"given": dict(given), "workers": workers, "metrics": counted})
        self._grace = grace
        self._bell = bell
        self._said_ended = ended
        self._stopping = threading.Event()
        self._children: dict[int, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        self._keepers = [
            threading.Thread(target=self._keep, args=(at,), name=f"icepact-worker-{at}", daemon=True)
            for at in range(workers)
        ]

    @property
    def alive(self) -> int:
        """How many workers live."""
        return sum(child.poll() is None for child in list(self._children.values()))

    def start(self) -> None:
        """Start all workers."""
        threading.Thread(target=self._pass_on, name="icepact-bell", daemon=True).start()
        for keeper in self._keepers:
            keeper.start()

    def stop(self) -> None:
        """Start no workers any more, and ask all to end: the first time in order, the second time now."""
        self._stopping.set()
        self._bell.ring()
        with self._lock:
            for child in self._children.values():
                child.terminate()

    def wait(self) -> None:
        """Wait until all workers have ended; those that take much too long are killed."""
        until = time.monotonic() + self._grace + _TO_LEAVE
        for keeper in self._keepers:
            keeper.join(max(0.0, until - time.monotonic()))
        for child in list(self._children.values()):
            child.kill()  # no harm if it is gone

    def _pass_on(self) -> None:
        """Tell the workers when the bell rings; however often it does meanwhile, they are told once."""
        rung = self._bell.rung
        while not self._stopping.wait(_BETWEEN_RINGS):
            if self._bell.wait(3600.0, since=rung):
                rung = self._bell.rung
                for child in list(self._children.values()):
                    self._write(child, "job\n")

    def _keep(self, at: int) -> None:
        wait = _FIRST_WAIT
        while not self._stopping.is_set():
            began = time.monotonic()
            code = self._one(at)
            if self._stopping.is_set() or code is None:
                return
            if code == RENEWED:
                wait = _FIRST_WAIT
                continue
            wait = _FIRST_WAIT if time.monotonic() - began > _LIVED_WELL else wait
            _log.warning("worker %d ended (exit code %d); another begins in %.1f s", at, code, wait)
            self._stopping.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _one(self, at: int) -> int | None:
        """One worker from its start to its end; its exit code, `None` if none is started any more."""
        with self._lock:
            if self._stopping.is_set():
                return None
            child = self._children[at] = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        self._write(child, f"{self._settings}\n")
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                self._said_ended(line.strip())
        code = child.wait()
        with suppress(OSError, ValueError):
            assert child.stdin is not None
            child.stdin.close()
        return code

    def _write(self, child: subprocess.Popen[str], line: str) -> None:
        with suppress(OSError, ValueError), self._lock:  # it has just ended
            assert child.stdin is not None
            child.stdin.write(line)
            child.stdin.flush()
