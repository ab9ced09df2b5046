"""Keys and values in a dictionary: forgotten when the process ends."""

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from threading import Lock

from icepact.record.clock import utc_now
from icepact.record.hearing import Heard, tell
from icepact.record.kv.interface import Entry, Span


class Memory:
    """A dictionary, a sorted list of its keys, and a lock for all threads."""

    most_keys = 1_000_000
    most_bytes = 1 << 40
    cache_bytes = 1 << 30

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[str, Entry] = {}
        self._keys: list[str] = []
        self._version = 0
        self._watching: list[Heard] = []

    def now(self) -> datetime:
        """The time of this machine."""
        return utc_now()

    def read(self, spans: Sequence[Span]) -> Sequence[Sequence[Entry]]:
        """What is in each of some spans."""
        with self._lock:
            return [self._read(span) for span in spans]

    def _read(self, span: Span) -> list[Entry]:
        if span.single:
            found = self._entries.get(span.start)
            return [] if found is None else [found]
        first, last = bisect_left(self._keys, span.start), bisect_left(self._keys, span.end)
        if span.limit is not None:
            last = min(last, first + span.limit)
        return [self._entries[key] for key in self._keys[first:last]]

    def commit(
        self,
        compares: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        persists: Collection[str] = (),
        tells: str | None = None,
    ) -> bool:
        """Change keys, if all compared ones have these versions."""
        del persists  # nothing is ever parked: values may be of any size
        with self._lock:
            for key, version in compares.items():
                found = self._entries.get(key)
                if (0 if found is None else found.version) != version:
                    return False
            self._version += 1
            for key, value in puts.items():
                if key not in self._entries:
                    insort(self._keys, key)
                self._entries[key] = Entry(key, value, self._version)
            for key in deletes:
                if self._entries.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
        if tells is not None:
            for heard in list(self._watching):
                tell(heard, tells)
        return True

    def park(self, key: str, value: bytes, *, seconds: float) -> None:
        """Write a key; it stays, since nothing here can be lost between two calls."""
        del seconds
        self.commit({}, {key: value})

    def watch(self, heard: Heard) -> ExitStack:
        """Have a function called by whoever commits."""
        self._watching.append(heard)
        watching = ExitStack()
        watching.callback(self._watching.remove, heard)
        return watching

    def concerns(self) -> Sequence[str]:
        """That it forgets is what it is for."""
        return ()

    def close(self) -> None:
        """Nothing is open."""
