"""Somebody else, in the middle of a run."""

from collections.abc import Callable

from icepact.model.progress import UnitDone


class Meanwhile:
    """Does something once, at a step of the run."""

    def __init__(self, step: str, action: Callable[[], object], times: int = 1) -> None:
        self._step = step
        self._action = action
        self._times = times

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Act, if it is time."""
        if name == self._step and self._times:
            self._times -= 1
            self._action()
