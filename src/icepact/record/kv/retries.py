"""Trying again what a server did not answer, within bounds."""

import random
import time
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from icepact.model.errors import StoreUnusable

Result = TypeVar("Result")

PATIENCE = 20.0
"""Seconds for which a server that has answered before may be away."""
FIRST_PATIENCE = 3.0
"""Seconds for one that never has: its address may be wrong."""
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0


class Patience:
    """Tries again as long as a server may come back. Not for transactions that do not know whether they were heard."""

    def __init__(self, describe: Callable[[BaseException], str], passing: Callable[[BaseException], bool]) -> None:
        self._describe = describe
        self._passing = passing
        self._answered = False

    def __call__(self, ask: Callable[[], Result], kinds: tuple[type[Exception], ...]) -> Result:
        """The answer; StoreUnusable with what the last error was."""
        deadline = time.monotonic() + (PATIENCE if self._answered else FIRST_PATIENCE)
        wait = _FIRST_WAIT
        while True:
            try:
                answer = ask()
            except kinds as error:
                if not self._passing(error) or time.monotonic() > deadline:
                    raise StoreUnusable(self._describe(error)) from None
                time.sleep(random.uniform(wait / 2, wait))
                wait = min(2 * wait, _LONGEST_WAIT)
            else:
                self._answered = True
                return answer


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
