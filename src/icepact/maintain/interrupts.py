"""Ctrl-C: work that must end in order is asked to stop, instead of being broken off wherever it is.

Python raises KeyboardInterrupt between any two instructions: in the middle of a call to Java, whose answer is lost, or
of a commit. While work is `under_way`, the first press is only heard; the second is for whoever listened before.
`so_far` always says what is true if the process ends now. Nothing but the standard library is imported: programs
listen from their first moment.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
INTERRUPTED = 130
"""Exit code of programs that Ctrl-C ended."""


class UnderWay:
    """Work that the first press asks to stop."""

    def __init__(self) -> None:
        self.pressed = False
        self.so_far: Callable[[], str] = lambda: "nothing was changed: run the same command again"
        """Says what has become of it up to now, and how to go on."""
        self._stop: Callable[[], None] | None = None

    def on_press(self, stop: Callable[[], None]) -> None:
        """Have `stop` called at the first press, or now if it has come already."""
        self._stop = stop
        if self.pressed:
            stop()

    def press(self) -> None:
        """Remember the first press, and ask the work to stop."""
        self.pressed = True
        if self._stop is not None:
            self._stop()


class _Process:
    """What this process does, and has done last."""

    working = False
    pressed = False
    last: UnderWay | None = None


def busy() -> bool:
    """Whether work is under way that must end in order."""
    return _Process.working


def was_pressed() -> bool:
    """Whether there was a press that this process has heard."""
    return _Process.pressed


def begin() -> None:
    """Forget presses and work of commands before this one."""
    _Process.pressed, _Process.last = False, None


def heard_a_press() -> None:
    """Remember a press while no work is under way."""
    _Process.pressed = True


def so_far() -> str:
    """What has become of the work of this process up to now, and how to go on."""
    return (_Process.last or UnderWay()).so_far()


@contextmanager
def under_way() -> Iterator[UnderWay]:
    """Work that must end in order: a press is heard, and KeyboardInterrupt is raised when the work has ended."""
    work = UnderWay()
    before = signal.getsignal(signal.SIGINT)
    # signals come to the main thread; where nobody listens, or nobody may, they are not ours to hear
    if threading.current_thread() is not threading.main_thread() or busy() or not callable(before):
        yield work
        return

    def heard(number: int, frame: FrameType | None) -> None:
        if work.pressed:
            before(number, frame)
        else:
            _Process.pressed = True
            work.press()

    _Process.working, _Process.last = True, work
    signal.signal(signal.SIGINT, heard)
    try:
        yield work
    finally:
        _Process.working = False
        signal.signal(signal.SIGINT, before)
    if work.pressed:
        raise KeyboardInterrupt(work.so_far())


def stopped_in_order(work: Callable[Concatenate[UnderWay, P], R]) -> Callable[P, R]:
    """Decorator for work that is `under_way` as long as it goes on, and is given that as its first argument."""

    @wraps(work)
    def heard(*args: P.args, **kwargs: P.kwargs) -> R:
        with under_way() as under:
            return work(under, *args, **kwargs)

    return heard
