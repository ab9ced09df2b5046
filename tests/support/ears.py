"""What somebody who watches a record store has heard."""

from queue import Queue

_PATIENCE = 30.0
"""Seconds until a test fails; what is heard is heard at once."""


class Ear:
    """Keeps what it hears."""

    def __init__(self, *, fails: bool = False) -> None:
        self._heard: Queue[str] = Queue()
        self._fails = fails

    def __call__(self, job_id: str) -> None:
        self._heard.put(job_id)
        if self._fails:
            raise ValueError("out of order")

    def until(self, job_id: str) -> None:
        """Wait until this is heard, whatever is heard before."""
        while self._heard.get(timeout=_PATIENCE) != job_id:
            pass

    def next(self, count: int) -> list[str]:
        """What is heard next, so many times."""
        return [self._heard.get(timeout=_PATIENCE) for _ in range(count)]

    def clear(self) -> None:
        """Forget what was heard."""
        while not self._heard.empty():
            self._heard.get()

    def empty(self) -> bool:
        """Whether there is nothing that was not asked for."""
        return self._heard.empty()
