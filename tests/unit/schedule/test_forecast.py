"""Forecasts of writers are better than the mean wherever there is something to foretell, and not worse elsewhere."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.activity import Activity
from icepact.model.schedule import Forecast
from icepact.policy.windows import open_spans, parse_windows
from icepact.schedule.forecast import choose_time, forecast, gap_chance, quiet_chance

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 4, 20, 13, 7, tzinfo=UTC)
"""Three weeks after clocks were changed, on a Monday."""
SINCE = NOW - timedelta(weeks=6)
HOUR = timedelta(hours=1)

Likely = Callable[[datetime], float]


def stream(likely: Likely, seed: int, *, minutes: float = 10) -> list[datetime]:
    """Commits every ten minutes or so, of which each is made as likely as the clock on the wall says."""
    dice, at, found = random.Random(seed), SINCE, list[datetime]()
    while (at := at + timedelta(minutes=dice.expovariate(1 / minutes))) < NOW:
        if dice.random() < likely(at.astimezone(BERLIN)):
            found.append(at)
    return found


def bursts(seed: int) -> list[datetime]:
    """Hundreds at once, then nothing for a day or so."""
    dice, at, found = random.Random(seed), SINCE, list[datetime]()
    while (at := at + timedelta(hours=dice.expovariate(1 / 30))) < NOW:
        found += [at + timedelta(seconds=20 * number) for number in range(dice.randint(20, 200))]
    return sorted(moment for moment in found if moment < NOW)


def activity(commits: Sequence[datetime]) -> Activity:
    """Of a table that is six weeks old."""
    return Activity(table="db.t", since=SINCE, until=NOW, commits=commits)


def foretold(commits: Sequence[datetime], hours: int = 24) -> Forecast:
    """What is expected of a table that was written to then."""
    return forecast(activity(commits), BERLIN, hours=hours)


def office(at: datetime) -> float:
    """From nine to five on working days."""
    return 0.9 if 9 <= at.hour < 17 and at.weekday() < 5 else 0.02


def nightly(at: datetime) -> float:
    """From two to four."""
    return 1.0 if at.hour in (2, 3) else 0.0


def weekends(at: datetime) -> float:
    """Mostly on two days."""
    return 0.8 if at.weekday() > 4 else 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("likely", "better"), [(office, 0.55), (nightly, 0.4), (weekends, 0.75)])
def test_habits_are_foretold(likely: Likely, better: float, seed: int) -> None:
    error = foretold(stream(likely, seed)).error
    assert error is not None
    assert error.hours == 7 * 24
    assert error.commits < better * error.naive
    assert error.quiet < 0.9 * error.quiet_naive


@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_can_be_foretold_it_is_no_worse_than_the_mean(seed: int) -> None:
    error = foretold(stream(lambda _: 0.3, seed)).error
    assert error is not None
    assert error.commits < 1.03 * error.naive
    assert error.quiet < 1.03 * error.quiet_naive


@pytest.mark.parametrize("seed", range(3))
def test_a_burst_is_not_expected_again_each_hour(seed: int) -> None:
    found = foretold(bursts(seed))
    assert found.error is not None
    assert found.error.commits < 0.8 * found.error.naive
    assert found.error.quiet < 1.1 * found.error.quiet_naive
    assert {hour.commits for hour in found.hours} == {0.0}


def test_nothing_is_foretold_of_nothing() -> None:
    found = foretold([])
    assert {hour.commits for hour in found.hours} == {hour.high for hour in found.hours} == {0.0}
    assert all(hour.quiet > 0.99 for hour in found.hours)
    young = forecast(Activity(table="db.t", since=NOW, until=NOW), BERLIN)
    assert (young.hours, young.error, young.commits, young.history_hours) == ((), None, 0, 0.0)


def test_one_commit_is_no_habit() -> None:
    found = foretold([NOW - timedelta(days=3)])
    assert {hour.commits for hour in found.hours} == {0.0}
    assert all(hour.quiet > 0.95 for hour in found.hours)


def test_writers_that_begin_at_nine_do_so_in_summer_and_in_winter() -> None:
    """All but three weeks of what is known was before clocks were changed."""
    found = foretold(stream(office, 1))
    by_hour = {hour.start.astimezone(BERLIN).hour: hour for hour in found.hours}
    assert by_hour[9].commits > 3 > 1 > by_hour[8].commits
    assert by_hour[16].commits > 3 > 1 > by_hour[17].commits
    assert by_hour[12].quiet < 0.85 < 0.9 < by_hour[20].quiet


def test_a_new_habit_takes_the_place_of_an_old_one() -> None:
    moved = NOW - timedelta(weeks=2)

    def likely(at: datetime) -> float:
        return nightly(at) if at >= moved else nightly(at - 8 * HOUR)

    by_hour = {hour.start.astimezone(BERLIN).hour: hour for hour in foretold(stream(likely, 2, minutes=5)).hours}
    assert by_hour[2].high > 5
    assert by_hour[2].quiet < by_hour[6].quiet


@given(
    st.lists(st.integers(0, 6 * 7 * 24 * 3600 - 1), max_size=200),
    st.integers(1, 3 * 24 * 60),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_probabilities_are_probabilities(seconds: list[int], minutes: int, zone: str) -> None:
    commits = sorted(SINCE + timedelta(seconds=number) for number in seconds)
    run = timedelta(minutes=minutes)
    chance = quiet_chance(activity(commits), ZoneInfo(zone), run)
    assert all(0 <= chance(NOW + ahead * HOUR) <= 1 for ahead in range(0, 200, 7))
    assert 0 <= gap_chance(commits, NOW, run) <= 1
    longer = quiet_chance(activity(commits), ZoneInfo(zone), run * 2)
    assert longer(NOW) <= chance(NOW) + 0.25


def test_a_partition_that_has_gone_quiet_is_told_from_one_that_is_written_to() -> None:
    every = [NOW - timedelta(minutes=10 * number + 3) for number in range(100)][::-1]
    closed = [NOW - timedelta(days=2, minutes=10 * number) for number in range(100)][::-1]
    found = forecast(
        Activity(table="db.t", since=SINCE, until=NOW, commits=every, partitions={"day=1": closed, "day=2": every}),
        BERLIN,
        run=timedelta(minutes=8),
    )
    open_one, quiet_one = found.partitions
    assert (open_one.partition, quiet_one.partition) == ("day=2", "day=1")
    assert open_one.quiet < 0.1 < 0.98 < quiet_one.quiet
    assert (open_one.every, quiet_one.quiet_since) == (600.0, closed[-1])


def test_a_regular_writer_that_has_just_committed_is_quiet_until_it_is_not() -> None:
    moments = [NOW - timedelta(minutes=10 * number) for number in range(50)][::-1]
    assert gap_chance(moments, NOW + timedelta(seconds=5), timedelta(minutes=5)) > 0.9
    assert gap_chance(moments, NOW + timedelta(minutes=8), timedelta(minutes=5)) < 0.1


def test_the_time_is_chosen_at_which_writers_are_quiet() -> None:
    chance = quiet_chance(activity(stream(office, 3)), BERLIN, timedelta(minutes=20))
    found = choose_time([(NOW, NOW + timedelta(days=1))], NOW, NOW + 8 * HOUR, chance)
    assert found is not None
    assert found.at.astimezone(BERLIN).hour == 17
    assert found.quiet > 0.8 > 0.5 > found.quiet_at_once
    assert found.why.startswith(f"quiet with {found.quiet:.0%} instead of {found.quiet_at_once:.0%} at once: waits for")


def test_it_is_chosen_inside_windows_and_before_the_deadline() -> None:
    chance = quiet_chance(activity(stream(office, 3)), BERLIN, timedelta(minutes=20))
    windows = parse_windows("13:00-16:30")
    spans = open_spans(windows, None, BERLIN, NOW, NOW + 8 * HOUR)
    found = choose_time(spans, NOW, NOW + 8 * HOUR, chance)
    assert found is not None
    assert windows.between(found.at, found.at + HOUR, BERLIN)
    assert choose_time([], NOW, NOW + HOUR, chance) is None


def test_nobody_waits_for_nothing_and_not_all_at_the_same_time() -> None:
    even = choose_time([(NOW, NOW + 8 * HOUR)], NOW, NOW + 8 * HOUR, lambda _: 0.6)
    assert even is not None
    assert even.at == NOW

    def better_later(at: datetime) -> float:
        return 0.9 if at >= NOW + 2 * HOUR else 0.2

    busy: dict[datetime, int] = {}
    chosen = []
    for _ in range(4):
        found = choose_time([(NOW, NOW + 4 * HOUR)], NOW, NOW + 4 * HOUR, better_later, busy=busy)
        assert found is not None
        busy[found.at] = busy.get(found.at, 0) + 1
        chosen.append(found.at)
    assert len(set(chosen)) == 4
    assert min(chosen) >= NOW + 2 * HOUR
