"""Ctrl-C while work is under way is heard, and raised when the work has ended."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from icepact.maintain.interrupts import begin, busy, so_far, under_way, was_pressed


class Left(BaseException):
    """Raised by whoever listened before."""


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def listener() -> Iterator[None]:
    """Somebody who listens, as programs do."""

    def left(*_: object) -> None:
        raise Left

    begin()
    before = signal.signal(signal.SIGINT, left)
    yield
    signal.signal(signal.SIGINT, before)
    begin()


def test_work_goes_on_until_its_end_and_then_says_what_became_of_it() -> None:
    stopped: list[str] = []

    def work() -> None:
        with under_way() as under:
            press()  # before anybody can be asked to stop
            assert (busy(), was_pressed(), stopped) == (True, True, [])
            under.on_press(lambda: stopped.append("asked"))
            under.so_far = lambda: "half of it is done"
            assert (stopped, so_far()) == (["asked"], "half of it is done")

    with pytest.raises(KeyboardInterrupt, match="half of it is done"):
        work()
    assert (busy(), so_far()) == (False, "half of it is done")
    with pytest.raises(Left):  # heard as before
        press()


def test_a_second_press_is_for_whoever_listened_before() -> None:
    def work() -> None:
        with under_way():
            press()
            press()

    with pytest.raises(Left):
        work()
    with pytest.raises(Left):
        press()


def test_an_error_of_the_work_is_not_hidden() -> None:
    def work() -> None:
        with under_way():
            press()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        work()
    assert (was_pressed(), so_far()) == (True, "nothing was changed: run the same command again")


def test_nothing_is_heard_where_signals_do_not_come_or_are_ignored() -> None:
    heard: list[object] = []

    def work() -> None:
        with under_way():
            heard.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert heard == [before]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts jobs in the background
    with under_way():
        press()
    assert not was_pressed()
