"""The process of a worker, a child of `icepact serve` or `icepact worker`.

It reads its settings from stdin, as one line of JSON; every line after that says that there may be a new job, and the
end of stdin that the parent is gone. On stdout it writes the id of each job that has ended.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from icepact.entrypoints.service.memory import held_bytes, usual_limit
from icepact.entrypoints.serving import Service, build_service
from icepact.entrypoints.wiring import application_of, set_up_telemetry
from icepact.model.errors import IcepactError
from icepact.schedule.bell import Bell
from icepact.schedule.worker import Ended, Worker, WorkerSettings
from icepact.telemetry import metrics

RENEWED = 75
"""Exit code of a worker that makes room for a new one."""
HANDED_OVER = 76
"""Exit code of a worker that gave its job back."""
_log = logging.getLogger("icepact")


class WorkerProcess:
    """A worker, and what this process hears: signals, and its parent."""

    def __init__(self, service: Service, *, workers: int, bell: Bell, ended: Callable[[str], object]) -> None:
        given = service.config.service
        self._grace = given.grace
        application = application_of(service.config, service.catalog, service.policies, service.store)
        self._worker = Worker(
            application,
            service.store,
            settings=WorkerSettings(
                lease=given.lease,
                max_jobs=given.max_jobs,
                memory_limit=given.memory_limit or usual_limit(workers),
                keep_jobs=given.keep_jobs,
                keep_plans=given.keep_plans,
            ),
            bell=bell,
            ended=ended,
            memory=held_bytes,
        )
        self._asked = False
        self._lock = threading.Lock()

    def run(self) -> int:
        """Work until it is to end; returns the exit code."""
        ended = self._worker.run()
        if ended is not Ended.STOPPED:
            _log.warning("this worker makes room for a new one: it is %s", ended)
        return 0 if ended is Ended.STOPPED else RENEWED

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """The first asks to end in order, the second to end now."""
        del number, frame
        # not in the handler itself: what it breaks into may hold a lock that is needed here
        threading.Thread(target=self.end, kwargs={"at_once": self._asked}, daemon=True).start()
        self._asked = True

    def end(self, *, at_once: bool = False) -> None:
        """Take no more jobs; what is under way may go on for the time of grace, and is handed over then."""
        self._worker.stop()
        if not at_once:
            late = threading.Timer(self._grace, self._leave)
            late.daemon = True
            late.start()
            return
        self._leave()

    def _leave(self) -> NoReturn:
        """End now; whoever takes the job carries on with its run."""
        with self._lock:  # only once
            holding = self._worker.holding
            if holding is not None:
                _log.warning("job %s is handed over", holding.job.job_id)
            self._worker.hand_over()
            os._exit(HANDED_OVER if holding is not None else 0)


def work_for_parent() -> int:
    """Work until the parent says that it is to end, or is gone; returns the exit code."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is nothing for the parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent hears it, and says what is to be done
    lines = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    settings: Mapping[str, Any] = json.loads(lines.readline())
    bell = Bell()

    def said_ended(job_id: str) -> None:
        with suppress(OSError):  # nobody may listen any more
            answers.write(f"{job_id}\n")

    service = build_service(settings["given"])
    set_up_telemetry(service.config, log_level=logging.INFO)
    if settings["metrics"] is not None:
        metrics.setup(Path(settings["metrics"]))
    process = WorkerProcess(service, workers=settings["workers"], bell=bell, ended=said_ended)
    signal.signal(signal.SIGTERM, process.on_signal)

    def listen() -> None:
        for _ in lines:
            bell.ring()
        process.end()

    threading.Thread(target=listen, name="icepact-parent", daemon=True).start()
    return process.run()


def run() -> NoReturn:
    """Entry point of a child."""
    try:
        code = work_for_parent()
    except IcepactError as error:
        print(f"icepact: worker: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    run()
