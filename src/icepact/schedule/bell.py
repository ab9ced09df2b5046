"""A bell between those who wait for something in the record store and those who put it there.

Whoever waits looks into the store now and then all the same: a bell that rings only saves the wait.
"""

import threading


class Bell:
    """Rings for all who wait."""

    def __init__(self) -> None:
        self._rung = 0
        self._changed = threading.Condition()

    @property
    def rung(self) -> int:
        """How often it has rung."""
        return self._rung

    def ring(self) -> None:
        """Wake all who wait."""
        with self._changed:
            self._rung += 1
            self._changed.notify_all()

    def wait(self, seconds: float, *, since: int) -> bool:
        """Wait until it has rung more often than `since`; false if it has not."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rung > since, seconds)
