"""`icepact`, with somebody at the terminal who presses Ctrl-C at a named moment, once or twice.

python -m tests.support.pressing MOMENT TIMES icepact's own words

A terminal sends SIGINT to all processes of the group: whoever starts this must give it a session of its own.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any


def _press() -> None:
    os.killpg(0, signal.SIGINT)


def _with_a_press(call: Callable[..., Any], moment: str | None, times: list[int]) -> Callable[..., Any]:
    """The same call, after which Ctrl-C is pressed; with a moment, only if that is its last argument."""

    def pressing(*args: Any, **kwargs: Any) -> Any:
        answer = call(*args, **kwargs)
        if moment is None or args[-1] == moment:
            for _ in range(times.pop() if times else 0):
                _press()
        return answer

    return pressing


class _WhenLoaded(MetaPathFinder):
    """Presses when a package is looked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, *_: object) -> None:
        """Found by others."""
        if name == self._name:
            sys.meta_path.remove(self)
            _press()


def main(moment: str, times: int, words: list[str]) -> None:
    """Arrange for the press, and be `icepact`."""
    sys.argv = ["icepact", *words]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests in the background ignores it
    if moment == "loading":
        sys.meta_path.insert(0, _WhenLoaded("typer"))
    elif moment == "java":
        subprocess.Popen.__init__ = _with_a_press(subprocess.Popen.__init__, None, [times])  # type: ignore[method-assign]
    else:
        from icepact.entrypoints.cli.render import BarProgress

        BarProgress.step = _with_a_press(BarProgress.step, moment, [times])  # type: ignore[method-assign]
    from icepact.entrypoints.cli.start import run

    run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
