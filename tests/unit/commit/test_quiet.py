"""Quiet moments: judged by when others changed rows, and waited for by a clock that the test holds."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.commit.quiet import COMMITS, quiet_moment
from icepact.commit.waiting import Waited, longest_wait, wait_for_quiet
from icepact.iceberg.table.row_changes import RowChange
from icepact.model.errors import Cancelled
from tests.support.states import make_policy

START = datetime(2026, 1, 1, tzinfo=UTC)
TAKES = timedelta(seconds=3)
HOUR = timedelta(hours=1)


def at(*seconds: float) -> list[datetime]:
    """Moments, in seconds after the start."""
    return [START + timedelta(seconds=each) for each in seconds]


def every(gap: float, count: int = 10) -> list[datetime]:
    """Changes that come regularly; the last one is at 0."""
    return at(*(-gap * number for number in range(count - 1, -1, -1)))


# -- the judgement --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "now", "why"),
    [
        ([], 0, "others changed rows too seldom to foresee when they do so next"),
        (at(-60, 0), 1, "others changed rows too seldom to foresee when they do so next"),
        (every(60), 0, "others change rows every 1m, and just did"),
        (every(60), 5, "others change rows every 1m, and just did"),
        (every(60), -2, "others change rows every 1m, and just did"),
        (every(60), 20, "others change rows every 1m, and next in 40 s"),
        (every(60), 27, "others change rows every 1m, and next in 33 s"),
        (every(60), 120, "others change rows every 1m, and did not for 2m"),
        (every(86400), 80000, "others change rows every 1d, and next in 6400s"),
        (every(86400), 85000, "others change rows every 1d, and next in 1400s"),
    ],
)
def test_a_commit_is_made_at_once(changes: Sequence[datetime], now: float, why: str) -> None:
    [moment] = at(now)
    judged = quiet_moment(changes, moment, takes=TAKES, longest=HOUR)
    assert (judged.until, judged.why) == (None, why)


@pytest.mark.parametrize(
    ("gap", "now", "until", "why"),
    [
        (60, 40, 120, "others change rows every 1m, and next in 20 s"),
        (60, 28, 120, "others change rows every 1m, and next in 32 s"),
        (60, 75, 120, "others change rows every 1m, and 15 s ago they should have"),
        (2, 0.5, 4, "others change rows every 2.0 s, and next in 1.5 s"),
        (86400, 85800, 85800 + 3600, "others change rows every 1d, and next in 10m"),
    ],
)
def test_a_writer_that_may_be_at_work_is_waited_for(gap: float, now: float, until: float, why: str) -> None:
    moment, end = at(now, until)
    judged = quiet_moment(every(gap), moment, takes=TAKES, longest=HOUR)
    assert (judged.until, judged.why) == (end, why)


def test_what_comes_later_than_may_be_waited_for_is_not_waited_for() -> None:
    [now] = at(40)
    judged = quiet_moment(every(60), now, takes=TAKES, longest=timedelta(seconds=10))
    assert judged.until is None
    assert judged.why == "others change rows every 1m, and next in 20 s: later than may be waited for"


def test_one_change_out_of_turn_does_not_count_for_much() -> None:
    [now] = at(58)
    judged = quiet_moment(at(-300, -240, -180, -175, -120, -60, 0), now, takes=TAKES, longest=HOUR)
    assert judged.why == "others change rows every 1m, and next in 2.0 s"


def test_a_rhythm_of_long_ago_does_not_count() -> None:
    old = at(*(-10_000 + number for number in range(50)))
    judged = quiet_moment([*old, *every(60, COMMITS)], START + timedelta(seconds=40), takes=TAKES, longest=HOUR)
    assert judged.why == "others change rows every 1m, and next in 20 s"


SPANS = st.floats(min_value=0, max_value=10**6, allow_nan=False)


@given(st.lists(SPANS, max_size=40), st.floats(min_value=-100, max_value=10**6), SPANS, SPANS)
def test_waits_have_an_end(gaps: list[float], since: float, takes: float, longest: float) -> None:
    """Whatever others do: never in the past, never longer than allowed; and later it is judged no worse."""
    changes = [START]
    for gap in gaps:
        changes.append(changes[-1] + timedelta(seconds=gap))
    now = changes[-1] + timedelta(seconds=since)
    bounds = {"takes": timedelta(seconds=takes), "longest": timedelta(seconds=longest)}
    judged = quiet_moment(changes, now, **bounds)
    assert judged.why
    if judged.until is not None:
        assert now < judged.until <= now + bounds["longest"]
        assert quiet_moment([*changes, now], now, **bounds).until is None, "others have just changed rows"
        gone = now + 3 * (now - changes[0]) + timedelta(seconds=1)
        assert quiet_moment(changes, gone, **bounds).until is None, "nobody changes rows any more"


# -- the wait -------------------------------------------------------------------------------------


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self, now: float) -> None:
        self.time = START + timedelta(seconds=now)

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.time += timedelta(seconds=seconds)


def wait(known: Sequence[datetime], clock: Clock, longest: float = 3600, *, stop: datetime | None = None) -> Waited:
    """Wait with a table whose changes are seen once their time has come."""

    def look() -> list[RowChange]:
        return [RowChange(number, moment) for number, moment in enumerate(known) if moment <= clock.time]

    def check() -> None:
        if stop is not None and clock.time >= stop:
            raise Cancelled("stopped")

    return wait_for_quiet(look, longest=timedelta(seconds=longest), check=check, clock=clock)


def test_the_wait_ends_with_the_change_that_was_expected() -> None:
    waited = wait([*every(60), *at(57)], Clock(40))
    assert 17 <= waited.seconds <= 19
    assert waited.why == "others change rows every 1m, and next in 20 s; that came"


def test_the_wait_ends_where_the_change_does_not_come() -> None:
    waited = wait(every(60), Clock(40))
    assert waited.seconds == pytest.approx(80)
    assert waited.why == "others change rows every 1m, and next in 20 s; that did not come"


def test_the_wait_is_no_longer_than_allowed() -> None:
    waited = wait([*every(60), *at(75)], Clock(40), longest=25)
    assert waited.seconds == pytest.approx(25)


def test_there_is_no_wait_at_a_quiet_moment() -> None:
    assert wait(every(60), Clock(10)) == Waited(seconds=0.0, why="others change rows every 1m, and next in 50 s")


def test_who_must_stop_does_not_wait_on() -> None:
    clock = Clock(40)
    with pytest.raises(Cancelled):
        wait(every(60), clock, stop=START + timedelta(seconds=45))
    assert clock.time < START + timedelta(seconds=50)


def test_a_branch_that_lost_its_history_is_not_waited_for() -> None:
    clock = Clock(40)

    def look() -> list[RowChange]:
        known = every(60) if clock.time < START + timedelta(seconds=44) else []
        return [RowChange(number, moment) for number, moment in enumerate(known)]

    waited = wait_for_quiet(look, longest=HOUR, check=lambda: None, clock=clock)
    assert waited.seconds < 10
    assert waited.why.endswith("the branch has no such history any more")


@pytest.mark.parametrize(
    ("given_", "waited", "elapsed", "left"),
    [
        ({}, 0, 0, 60),
        ({"max_commit_wait": "5m"}, 0, 1000, 300),
        ({"max_commit_wait": "5m"}, 200, 1000, 100),
        ({"max_commit_wait": "5m"}, 300.5, 1000, 0),
        ({"max_duration": "90s"}, 0, 20, 60),
        ({"max_duration": "90s"}, 0, 60, 27),
        ({"max_duration": "90s"}, 0, 89, 0),
        ({"max_duration": "90s"}, 55, 30, 5),
    ],
)
def test_a_run_has_so_long_to_wait(given_: dict[str, str], waited: float, elapsed: float, left: float) -> None:
    assert longest_wait(make_policy(**given_), waited=waited, elapsed=elapsed).total_seconds() == left


@given(st.lists(st.floats(min_value=0.01, max_value=500), min_size=3, max_size=60), st.floats(0.1, 300))
def test_no_wait_is_longer_than_its_limit(gaps: list[float], longest: float) -> None:
    moments = [START]
    for gap in gaps:
        moments.append(moments[-1] + timedelta(seconds=gap))
    clock = Clock((moments[len(moments) // 2] - START).total_seconds() + 0.005)
    before = clock.time
    waited = wait(moments, clock, longest)
    assert waited.seconds <= longest + 1e-6
    assert (clock.time - before).total_seconds() == pytest.approx(waited.seconds, abs=1e-3)
