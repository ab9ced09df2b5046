"""Schedules: what they mean, and that one which never fires is refused."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput
from icepact.policy.schedules import parse_schedule

EVERY_DAY = [date(2024, 1, 1) + timedelta(days=n) for n in range(4 * 366)]
"""With a leap year among them."""


@pytest.mark.parametrize(
    ("text", "cron", "first"),
    [
        ("0 3 * * *", "0 3 * * *", ["01-01 03:00", "01-02 03:00"]),
        ("*/20 0-6/3,12 1,15 JAN-mar *", "*/20 0-6/3,12 1,15 JAN-mar *", ["01-01 00:20", "01-01 00:40", "01-01 03:00"]),
        ("5/25 * * * MON-FRI", "5/25 * * * MON-FRI", ["01-01 00:05", "01-01 00:30", "01-01 00:55", "01-01 01:05"]),
        ("0 0 * * sun", "0 0 * * sun", ["01-07 00:00", "01-14 00:00"]),
        ("0 0 * * 7", "0 0 * * 7", ["01-07 00:00", "01-14 00:00"]),
        ("0 0 1,11 * 6", "0 0 1,11 * 6", ["01-06 00:00", "01-11 00:00", "01-13 00:00"]),
        ("@weekly", "0 0 * * 0", ["01-07 00:00", "01-14 00:00"]),
        (" @Daily ", "0 0 * * *", ["01-02 00:00", "01-03 00:00"]),
    ],
)
def test_a_cron_expression_fires_as_cron_has_it(text: str, cron: str, first: list[str]) -> None:
    found = parse_schedule(text)
    assert (found.cron, found.interval, found.text) == (cron, None, text)
    assert found.cron is not None
    moments = islice(CronSim(found.cron, datetime(2024, 1, 1, tzinfo=UTC)), len(first))
    assert [f"{moment:%m-%d %H:%M}" for moment in moments] == first


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
        ("0 0 3 * * *", "write five fields"),
        ("@sometimes", "one of @hourly, @daily"),
        ("60 * * * *", "'60' is no minute: it is 0 to 59"),
        ("0 24 * * *", "'24' is no hour: it is 0 to 23"),
        ("0 0 0 * *", "'0' is no day of month: it is 1 to 31"),
        ("0 0 * FEBRUARY *", "'FEBRUARY' is no month: it is 1 to 12"),
        ("0 0 * * 8", "'8' is no day of week: it is 0 to 7"),
        ("30-10 * * * *", "'30-10' is no minute"),
        ("*/0 * * * *", "'*/0' is no minute: it is 0 to 59, as in 5, 1-5, 1,3 or */2"),
        ("*-5 * * * *", "'*-5' is no minute"),
        ("1,,2 * * * *", "'1,,2' is no minute"),
        ("-1 * * * *", "'-1' is no minute"),
        ("0h", "the time between two looks must be above zero"),
        ("6 parsec", "'6 parsec' is not a length of time"),
        ("36526d", "'36526d' is not a length of time: it is too long"),
        ("every 99999999999999d", "it is too long"),
        ("9" * 400 + "d", "it is too long"),
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
def test_it_is_refused_unless_there_is_a_day_for_it(
    days: frozenset[int] | None, months: frozenset[int], weekdays: frozenset[int] | None
) -> None:
    def fires(day: date) -> bool:
        by_date = days is not None and day.day in days
        by_week = weekdays is not None and day.isoweekday() % 7 in weekdays
        return day.month in months and (by_date or by_week or (days is None and weekdays is None))

    fields = ["0 0", *("*" if some is None else ",".join(map(str, some)) for some in (days, months, weekdays))]
    if any(fires(day) for day in EVERY_DAY):
        assert parse_schedule(" ".join(fields)).cron == " ".join(fields)
    else:
        with pytest.raises(BadInput, match="never fires: there is no such day in these months"):
            parse_schedule(" ".join(fields))


@pytest.mark.parametrize("text", ["0.000001s", "1s", "7m", "36525d"])
def test_what_an_interval_missed_is_not_counted_one_by_one(text: str) -> None:
    schedule = parse_schedule(text)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    until = since + timedelta(days=400)
    last = schedule.latest(since, until, UTC, 0.3)
    if schedule.interval is not None and schedule.interval > until - since:
        assert last is None
    else:
        assert last is not None
        assert since < last <= until < schedule.after(last, UTC, 0.3)
