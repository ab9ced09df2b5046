"""A bell between those who wait for something in the record store and those who put it there.

Whoever waits looks into the store now and then all the same: a bell that rings only saves the wait.
"""

import threading
from collections import OrderedDict

_MOST_KEPT = 10_000
"""Things about which it is remembered that it has rung."""


class Bell:
    """Rings for all who wait."""

    def __init__(self) -> None:
        self._rung = 0
        self._about: OrderedDict[str, int] = OrderedDict()
        """How often it had rung when it rang last, by what it was about."""
        self._changed = threading.Condition()

    @property
    def rung(self) -> int:
        """How often it has rung."""
        return self._rung

    def ring(self, about: str = "") -> None:
        """Wake all who wait; nothing that it is `about` is all that there is."""
        with self._changed:
            self._rung += 1
            self._about[about] = self._rung
            self._about.move_to_end(about)
            if len(self._about) > _MOST_KEPT:
                self._about.popitem(last=False)
            self._changed.notify_all()

    def has_rung(self, about: str, *, since: int) -> bool:
        """Whether it has rung about something since it had rung so often."""
        return max(self._about.get(about, 0), self._about.get("", 0)) > since

    def wait(self, seconds: float, *, since: int) -> bool:
        """Wait until it has rung more often than `since`; false if it has not."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rung > since, seconds)
