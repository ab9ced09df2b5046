"""The process of `icepact worker`: workers on this machine, for an API elsewhere."""

import signal
import threading
from collections.abc import Mapping
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
        self._asked = threading.Event()

    def run(self) -> None:
        """Work until a signal says that it is to end: the first in order, the second now."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._supervisor.start()
        self._asked.wait()
        self._supervisor.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        threading.Thread(target=self._stop, daemon=True).start()

    def _stop(self) -> None:
        self._supervisor.stop()
        self._asked.set()
