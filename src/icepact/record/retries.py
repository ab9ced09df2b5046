"""Trying again what a server did not answer, within bounds."""

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from icepact.model.errors import StoreUnusable
from icepact.record.store import RecordStore

Result = TypeVar("Result")
Store = TypeVar("Store")

PATIENCE = 20.0
"""Seconds for which a server that has answered before may be away."""
FIRST_PATIENCE = 3.0
"""Seconds for one that never has: its address may be wrong."""
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0


class Away(StoreUnusable):
    """The server of a record store does not answer now, and has certainly not done what it was asked to."""


class Patience:
    """Tries again as long as a server may come back: what does no harm when it is done twice."""

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


def tried_again(cls: type[Store]) -> type[Store]:
    """Decorator for stores that raise `Away`: what a record store can be asked is asked again as long as that is so."""
    for protocol in RecordStore.__mro__:
        for name in vars(protocol):
            if not name.startswith("_") and name not in _NOT_ASKED and hasattr(cls, name):
                setattr(cls, name, _patient(getattr(cls, name)))
    return cls


_NOT_ASKED = ("rows", "close", "concerns", "watch")


def _patient(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.patience(lambda: method(self, *args, **kwargs), (Away,))

    return ask
