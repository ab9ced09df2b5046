"""The process of `icepact worker`: workers on this machine, for an API elsewhere."""

import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from icepact.entrypoints.service.supervisor import Supervisor
from icepact.entrypoints.serving import build_service


class Working:
    """Workers of this process, without an API."""

    def __init__(self, given: Mapping[str, Any], *, workers: int | None = None) -> None:
        """`given` is what `build_service` is given."""
        self.service = build_service(given)
        settings = self.service.config.service
        self.workers = max(settings.workers, 1) if workers is None else workers
        self._supervisor = Supervisor(given, workers=self.workers, grace=settings.grace)
        self._asked = threading.Semaphore(0)
        self._signals = 0

    def run(self) -> None:
        """Work until a signal says that it is to end: the first in order, the second now."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._supervisor.start()
        self._asked.acquire()
        self._supervisor.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._signals += 1
        stop = self._supervisor.stop if self._signals == 1 else self._supervisor.stop_now
        threading.Thread(target=self._stop, args=(stop,), daemon=True).start()

    def _stop(self, stop: Callable[[], None]) -> None:
        stop()
        self._asked.release()
