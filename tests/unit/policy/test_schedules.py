"""Schedules: what they mean, and that one which never fires is refused."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput
from icepact.policy.schedules import Cron, parse_schedule

EVERY_DAY = [date(2024, 1, 1) + timedelta(days=n) for n in range(4 * 366)]
"""With a leap year among them."""


def days_of(cron: Cron) -> list[date]:
    """The days on which it fires, looked for day by day."""
    found = []
    for day in EVERY_DAY:
        by_date = cron.days is None or day.day in cron.days
        by_week = cron.weekdays is None or day.isoweekday() % 7 in cron.weekdays
        limited = cron.days is not None and cron.weekdays is not None
        if day.month in cron.months and (by_date or by_week if limited else by_date and by_week):
            found.append(day)
    return found


@pytest.mark.parametrize(
    ("text", "minutes", "hours", "days", "months", "weekdays"),
    [
        ("0 3 * * *", {0}, {3}, None, set(range(1, 13)), None),
        ("*/20 0-6/3,12 1,15 JAN-mar *", {0, 20, 40}, {0, 3, 6, 12}, {1, 15}, {1, 2, 3}, None),
        ("5/25 * * * MON-FRI", {5, 30, 55}, set(range(24)), None, set(range(1, 13)), {1, 2, 3, 4, 5}),
        ("0 0 * * sun", {0}, {0}, None, set(range(1, 13)), {0}),
        ("0 0 * * 7", {0}, {0}, None, set(range(1, 13)), {0}),
        ("0 0 */10 * 0,6", {0}, {0}, {1, 11, 21, 31}, set(range(1, 13)), {0, 6}),
        ("@weekly", {0}, {0}, None, set(range(1, 13)), {0}),
        (" @Daily ", {0}, {0}, None, set(range(1, 13)), None),
    ],
)
def test_a_cron_expression_is_taken_apart(
    text: str,
    minutes: set[int],
    hours: set[int],
    days: set[int] | None,
    months: set[int],
    weekdays: set[int] | None,
) -> None:
    found = parse_schedule(text).cron
    assert found is not None
    assert (found.minutes, found.hours, found.months) == (minutes, hours, months)
    assert (found.days, found.weekdays) == (days, weekdays)


@pytest.mark.parametrize(
    ("text", "interval"),
    [("6h", timedelta(hours=6)), ("every 30m", timedelta(minutes=30)), ("1.5d", timedelta(hours=36))],
)
def test_a_time_between_two_looks(text: str, interval: timedelta) -> None:
    found = parse_schedule(text)
    assert (found.interval, found.cron, found.text) == (interval, None, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 0 30 2 *", "schedule '0 0 30 2 *' never fires: there is no such day in these months"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("0 3 * *", "write five fields (minute, hour, day of month, month, day of week) as in '0 3 * * *'"),
        ("", "write five fields"),
        ("@sometimes", "one of @hourly, @daily"),
        ("60 * * * *", "'60' is no minute: it is 0 to 59"),
        ("0 24 * * *", "'24' is no hour: it is 0 to 23"),
        ("0 0 0 * *", "'0' is no day of month: it is 1 to 31"),
        ("0 0 * FEBRUARY *", "'FEBRUARY' is no month: it is 1 to 12"),
        ("0 0 * * 8", "'8' is no day of week: it is 0 to 7"),
        ("30-10 * * * *", "'30-10' ends before it begins"),
        ("*/0 * * * *", "/0 is no step of the minute"),
        ("*-5 * * * *", "'*-5' is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
        ("-1 * * * *", "'-1' is no minute"),
        ("0h", "the time between two looks must be above zero"),
        ("6 parsec", "'6 parsec' is not a length of time"),
    ],
)
def test_what_is_no_schedule_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_schedule(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@given(
    st.none() | st.frozensets(st.integers(28, 31), min_size=1, max_size=2),
    st.frozensets(st.integers(1, 12), min_size=1, max_size=3),
    st.none() | st.frozensets(st.integers(0, 6), min_size=1, max_size=1),
)
def test_it_fires_if_there_is_a_day_for_it(
    days: frozenset[int] | None, months: frozenset[int], weekdays: frozenset[int] | None
) -> None:
    cron = Cron(minutes=frozenset({0}), hours=frozenset({0}), days=days, months=months, weekdays=weekdays)
    assert cron.fires == bool(days_of(cron))
