"""The scheduler of this process: a thread, which leads if no other process does."""

import threading

from icepact.entrypoints.serving import Service, fleet_of
from icepact.schedule.scheduler import Scheduler

_TO_END = 5.0
"""Seconds that a tick may take to end."""


class Scheduling:
    """Schedules of a service, looked after in a thread of this process."""

    def __init__(self, service: Service) -> None:
        self.scheduler = Scheduler(service.store, service.jobs, fleet_of(service), catalog=service.catalog.recorded_as)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self.scheduler.run, args=(self._stop,), name="icepact-scheduler", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Let another process lead; nothing is submitted any more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_TO_END)
