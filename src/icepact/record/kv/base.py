"""What all parts of a store over keys and values share."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from icepact.record.clock import utc_now
from icepact.record.hearing import Heard
from icepact.record.kv.interface import KeyValue
from icepact.record.kv.space import Space


class KvBase:
    """A backend, and the clock that all who share it go by."""

    def __init__(self, backend: KeyValue, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._backend = backend
        self._space = Space(backend)
        self._clock = clock

    def now(self) -> datetime:
        """The time, by the clock of the server."""
        return self._backend.now() if self._clock is utc_now else self._clock()

    def watch(self, heard: Heard) -> AbstractContextManager[object]:
        """Have a function called when something about jobs may be new, until the answer is left."""
        return self._backend.watch(heard)

    def concerns(self) -> Sequence[str]:
        """What of the server's settings endangers what is kept there, in one line each."""
        return self._backend.concerns()

    def close(self) -> None:
        """Close all connections; the store can be used again."""
        self._backend.close()
