"""Names for the numbers of transactions, by which lost answers are found again."""

from collections.abc import Callable
from threading import Lock


class Slots:
    """Names under which a server keeps the number of the last transaction: one for each that is under way at once, so
    that whoever got no answer can ask whether it was heard."""

    def __init__(self, make: Callable[[], "Slot"]) -> None:
        self._make = make
        self._free: list[Slot] = []
        self._lock = Lock()

    def take(self) -> "Slot":
        """One that nobody else uses now."""
        with self._lock:
            return self._free.pop() if self._free else self._make()

    def give_back(self, slot: "Slot") -> None:
        """The transaction has ended, one way or the other."""
        with self._lock:
            self._free.append(slot)


class Slot:
    """Where one transaction after the other leaves its number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        """Of the last transaction."""
        self.version = 0
        """Of its key, if the server compares that."""
