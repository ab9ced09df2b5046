"""Hearing from a server that something about a job has changed: a thread of its own with a line of its own.

All of it is a hint. Whoever waits looks into the store now and then all the same: what is not heard is seen later.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

TICK = 0.5
"""Seconds after which a line says that it has heard nothing, so that its end can be asked for."""
SILENCE = 60.0
"""Seconds without a word after which a line may be dead, and another one is opened."""
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
"""Seconds between two lines that could not be opened, or were cut."""
_TO_END = 2.0
"""Seconds for which the end of the thread is waited for: a server that is away may keep it a little longer."""
_log = logging.getLogger("icepact")

Heard = Callable[[str], object]
"""Called with the id of a job about which something may be new; with nothing for all."""


class Hearing:
    """A line to a server, as long as somebody wants to hear; one that is cut is opened again."""

    def __init__(self, listen: Callable[["Hearing"], Generator[str | None]], heard: Heard) -> None:
        """`listen` opens a line and says what comes over it: nothing for all once it can hear, then ids of jobs, and
        `None` in between. It raises whatever it likes if there is no line, or if it is lost."""
        self._listen = listen
        self._heard = heard
        self._ended = threading.Event()
        self._wake: Callable[[], object] = lambda: None
        self._since = float("inf")
        """When this line said something for the first time, by the monotonic clock."""
        self._thread = threading.Thread(target=self._run, name="icepact-hearing", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Hear nothing any more."""
        del kind, error, at
        self._ended.set()
        with suppress(OSError):
            self._wake()
        self._thread.join(_TO_END)

    @property
    def over(self) -> bool:
        """Whether nobody wants to hear any more."""
        return self._ended.is_set()

    def wakes(self, wake: Callable[[], object]) -> None:
        """How a line is woken that sleeps for longer than a tick, so that it sees that it is over."""
        self._wake = wake
        if self.over:
            wake()

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self.over:
            self._since = float("inf")
            try:
                self._hear_out()
            except Exception as error:  # whatever it is, jobs are found without it
                if time.monotonic() - self._since > _LONGEST_WAIT:
                    wait = _FIRST_WAIT
                if wait == _FIRST_WAIT and not self.over:  # by its kind alone: some drivers repeat the address
                    _log.info("the record store does not tell of jobs now (%s): it is asked", type(error).__name__)
                self._ended.wait(random.uniform(wait / 2, wait))
                wait = min(2 * wait, _LONGEST_WAIT)

    def _hear_out(self) -> None:
        """Pass on what one line says, until it is silent for long; it raises if the line is lost."""
        with closing(self._listen(self)) as line:
            last = time.monotonic()
            for job_id in line:
                if self.over:
                    return
                if job_id is not None:
                    last = time.monotonic()
                    self._since = min(self._since, last)
                    tell(self._heard, job_id)
                elif time.monotonic() - last >= SILENCE:
                    return
        raise ConnectionError("the line was closed")


def tell(heard: Heard, job_id: str) -> None:
    """Say that something about a job has changed; whoever says so has nothing to do with what that leads to."""
    try:
        heard(job_id)
    except Exception:
        _log.exception("whoever heard of job %s failed", job_id)
