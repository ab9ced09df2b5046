"""The clock of a server, known from its answers: all who share a store go by the same."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from time import monotonic

CHECK_SECONDS = 600.0
"""Seconds after which our clock is compared with the server's again."""


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


class ServerClock:
    """How far the clock of a server is ahead of ours, as narrowly as its answers say."""

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._lock = Lock()
        self._bounds: tuple[timedelta, timedelta] | None = None
        """Between which the difference is."""
        self._since = float("-inf")

    @property
    def is_stale(self) -> bool:
        """Whether it is time to ask the server."""
        return monotonic() - self._since > CHECK_SECONDS

    def now(self) -> datetime:
        """The server's time."""
        low, high = self._bounds or (timedelta(), timedelta())
        return self._clock() + (low + high) / 2

    def time(self) -> datetime:
        """Our own time, for `heard`."""
        return self._clock()

    def heard(self, asked: datetime, low: datetime, high: datetime) -> None:
        """An answer to what was asked at a moment of ours said that it was between two moments of the server's."""
        bounds = low - self._clock(), high - asked
        with self._lock:
            if self._bounds is not None and not self.is_stale:
                both = max(bounds[0], self._bounds[0]), min(bounds[1], self._bounds[1])
                if both[0] <= both[1]:
                    self._bounds = both
                    return
            self._bounds, self._since = bounds, monotonic()
