"""The process of `icepact worker`: workers on this machine, for an API elsewhere."""

import logging
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from icepact.entrypoints.service.counters import CounterFolder
from icepact.entrypoints.service.supervisor import Supervisor
from icepact.entrypoints.serving import build_service
from icepact.entrypoints.wiring import set_up_telemetry

if TYPE_CHECKING:
    from icepact.telemetry.prometheus import WorkerMetrics


class Working:
    """Workers of this process, without an API."""

    def __init__(
        self, given: Mapping[str, Any], *, workers: int | None = None, metrics_port: int | None = None
    ) -> None:
        """`given` is what `build_service` is given; the rest is as the configuration says if it is not."""
        self.service = build_service(given)
        set_up_telemetry(self.service.config, log_level=logging.INFO)
        settings = self.service.config.service
        self.workers = max(settings.workers, 1) if workers is None else workers
        self._counters = CounterFolder()
        self._supervisor = Supervisor(
            given,
            workers=self.workers,
            grace=settings.grace,
            bell=self.service.submitted,
            metrics=self._counters.path,
        )
        self.metrics = self._serve_metrics(self._counters.path, metrics_port)
        self._asked = threading.Event()

    def run(self) -> None:
        """Work until a signal says that it is to end: the first in order, the second now."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        with self._counters, self.service.store.watch(self.service.heard):
            self._supervisor.start()
            self._asked.wait()
            self._supervisor.wait()
        if self.metrics is not None:
            self.metrics.close()

    def _serve_metrics(self, counters: Path, port: int | None) -> "WorkerMetrics | None":
        """What the workers have counted, where somebody can ask for it, if that is wanted."""
        wanted = self.service.config.telemetry
        port = wanted.metrics_port if port is None else port
        if port is None:
            return None
        from icepact.telemetry.prometheus import WorkerMetrics

        return WorkerMetrics(counters, host=wanted.metrics_host, port=port)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        threading.Thread(target=self._stop, daemon=True).start()

    def _stop(self) -> None:
        self._supervisor.stop()
        self._asked.set()
