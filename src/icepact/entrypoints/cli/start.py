"""Where our programs begin and end. Ctrl-C is heard before anything else is loaded, and until Python has ended.

The first press stops what is under way; the second, or a press after the answer, leaves at once. Either way one line
says what became of the run, and the exit code is 130. Java does not hear Ctrl-C: it ends when this process ends it.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from icepact.maintain.interrupts import INTERRUPTED, busy, heard_a_press, so_far, was_pressed

_PATIENCE = 5.0
"""Seconds for Python to unwind after a press; libraries may swallow the exception."""


class _Listener:
    """Hears Ctrl-C for the program, except while work is under way that must end in order."""

    answered = False
    """True when the command has ended."""
    announced = False
    """True when the command has said itself what Ctrl-C came to."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if was_pressed() or busy() or self.answered:
            self.leave()
        heard_a_press()
        logging.disable()  # what the exception breaks on its way is of no interest
        sys.unraisablehook = lambda _: None
        threading.excepthook = lambda _: None
        late = threading.Timer(_PATIENCE, self.leave)
        late.daemon = True
        late.start()
        raise KeyboardInterrupt

    def leave(self) -> NoReturn:
        """Leave now: nothing of this process goes on, and nothing is tidied up."""
        _end_java(at_once=True)
        shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # whoever drew a bar has hidden the cursor
        if not self.announced:
            line = "the command had ended before" if self.answered else so_far()
            os.write(2, f"{shown}icepact: interrupted: {line}\n".encode())
        os._exit(INTERRUPTED)


def _end_java(*, at_once: bool) -> None:
    session = sys.modules.get("icepact.iceberg.spark.session")
    if session is not None and hasattr(session, "end_java"):  # it may just be loading
        session.end_java(at_once=at_once)


def run() -> None:
    """Entry point of `icepact`."""
    _begin(sys.argv[1:])


def run_alias() -> None:
    """Entry point of `iceberg-compact`: the compact command under its other name."""
    _begin(["compact", *sys.argv[1:]])


def _begin(arguments: Sequence[str]) -> NoReturn:
    listener = _Listener()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a shell starts background jobs so
        signal.signal(signal.SIGINT, listener)
    try:
        from icepact.entrypoints.cli.main import run

        code = run(arguments)
        listener.answered, listener.announced = True, was_pressed()
        if listener.announced:
            _end_java(at_once=False)
    except BaseException:
        if not was_pressed():
            raise
    if was_pressed():
        with suppress(OSError):
            sys.stdout.flush()
        listener.leave()  # before Python takes its ear off
    sys.exit(code)
