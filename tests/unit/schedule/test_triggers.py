"""When a table is due: cron with zones, intervals, commits, windows, blackouts, jitter, backoff."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.schedule import Trigger
from icepact.policy.schedules import parse_schedule
from icepact.policy.windows import parse_windows
from icepact.schedule.triggers import CommitsSeen, Past, Timing, backoff, fired, next_due, share_of

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> datetime:
    """A moment by the clocks on the wall."""
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=zone, fold=fold).astimezone(UTC)


def fires(timing: Timing, since: datetime, until: datetime, step: timedelta = MINUTE) -> list[datetime]:
    """Planned moments of all jobs that are begun by somebody who looks so often."""
    found, past, now = [], Past(since=since), since
    while now <= until:
        due = next_due("db.t", timing, past, now)
        if due is not None and due.earliest <= now:
            found.append(due.planned)
            past = fired("db.t", timing, past, due, now)
        now += step
    return found


@pytest.mark.parametrize(
    ("cron", "day", "moments"),
    [
        pytest.param("30 2 * * *", "03-29", ["03-29T03:30"], id="an hour that is left out"),
        pytest.param("0 3 * * *", "03-29", ["03-29T03:00"], id="the moment at which it is over"),
        pytest.param("30 2 * * *", "10-25", ["10-25T02:30"], id="an hour that comes twice"),
        pytest.param("15,45 2 * * *", "10-25", ["10-25T02:15", "10-25T02:45"], id="two times in it"),
    ],
)
def test_a_cron_fires_once_when_clocks_are_changed(cron: str, day: str, moments: list[str]) -> None:
    timing = Timing(schedule=parse_schedule(cron), zone=BERLIN)
    found = fires(timing, at(f"{day}T00:00"), at(f"{day}T12:00"))
    if day == "03-29" and cron.startswith("30"):
        assert len(found) == 1
        assert at("03-29T01:59") < found[0] <= at("03-29T03:30")
    else:
        assert found == [at(moment) for moment in moments]


def test_every_hour_is_every_hour_when_clocks_are_changed() -> None:
    for day in ("03-29", "10-25"):
        timing = Timing(schedule=parse_schedule("0 * * * *"), zone=BERLIN)
        found = fires(timing, at(f"{day}T00:30"), at(f"{day}T06:30"))
        assert {later - earlier for earlier, later in pairwise(found)} == {HOUR}


@given(
    st.sampled_from(["0 3 * * *", "*/15 * * * *", "30 2 * * *", "5 1,2,3 * * *", "0 0 * * 0"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kolkata"]),
    st.integers(0, 365 * 24 * 60).map(lambda minutes: NEW_YEAR + minutes * MINUTE),
    st.lists(st.timedeltas(timedelta(seconds=1), timedelta(days=3)), max_size=30),
)
def test_no_planned_moment_comes_twice_or_is_left_out(
    cron: str, zone: str, since: datetime, steps: list[timedelta]
) -> None:
    """Whoever looks seldom catches up once; whoever looks always has them all."""
    timing = Timing(schedule=parse_schedule(cron), zone=ZoneInfo(zone))
    assert timing.schedule is not None
    past, now, found = Past(since=since), since, list[datetime]()
    for step in steps:
        now += step
        due = next_due("db.t", timing, past, now)
        assert due is not None
        if due.earliest <= now:
            found.append(due.planned)
            past = fired("db.t", timing, past, due, now)
            assert timing.schedule.after(due.planned, timing.zone) > now
    assert all(earlier < later for earlier, later in pairwise(found))
    moment, wanted = since, 0
    while (moment := timing.schedule.after(moment, timing.zone)) <= now and wanted < 500:
        wanted += 1
    assert bool(found) == bool(wanted)
    assert len(found) <= wanted


def test_an_interval_fires_at_the_same_times_whoever_counts_and_not_all_tables_at_once() -> None:
    timing = Timing(schedule=parse_schedule("6h"))
    first = [next_due(f"db.t{n}", timing, Past(since=NEW_YEAR), NEW_YEAR) for n in range(200)]
    later = [next_due(f"db.t{n}", timing, Past(since=NEW_YEAR + DAY), NEW_YEAR + DAY) for n in range(200)]
    moments = [due.planned for due in first if due]
    assert [due.planned - DAY for due in later if due] == moments
    assert all(NEW_YEAR < moment <= NEW_YEAR + 6 * HOUR for moment in moments)
    hours = [(moment - NEW_YEAR) // HOUR for moment in moments]
    assert all(20 <= hours.count(hour) <= 50 for hour in range(6))


def test_jitter_is_always_the_same_for_a_table_and_leaves_no_fire_out() -> None:
    timing = Timing(schedule=parse_schedule("*/5 * * * *"), jitter=20 * MINUTE)
    due = next_due("db.t", timing, Past(since=NEW_YEAR), NEW_YEAR)
    assert due is not None
    assert due.earliest - due.planned == 20 * MINUTE * share_of("db.t") > timedelta()
    assert len(fires(timing, NEW_YEAR, NEW_YEAR + 2 * HOUR, timedelta(seconds=30))) >= 20
    found = fires(timing, NEW_YEAR, NEW_YEAR + 2 * HOUR)
    assert {later - earlier for earlier, later in pairwise(found)} == {5 * MINUTE}


def test_what_is_missed_in_an_outage_is_caught_up_with_once() -> None:
    timing = Timing(schedule=parse_schedule("0 * * * *"))
    past, back = Past(since=NEW_YEAR), NEW_YEAR + 70 * HOUR + 30 * MINUTE
    due = next_due("db.t", timing, past, back)
    assert due is not None
    assert (due.planned, due.earliest <= back) == (NEW_YEAR + 70 * HOUR, True)
    past = fired("db.t", timing, past, due, back)
    due = next_due("db.t", timing, past, back)
    assert due is not None
    assert due.planned == due.earliest == NEW_YEAR + 71 * HOUR


def test_windows_go_across_midnight_and_blackouts_keep_things_off() -> None:
    timing = Timing(
        schedule=parse_schedule("0 * * * *"),
        zone=BERLIN,
        windows=parse_windows("MON-FRI 22:00-06:00"),
        blackouts=parse_windows(["23:00-01:00", "2026-06-03..2026-06-04"]),
    )
    begun, past, now = [], Past(since=at("06-01T12:00")), at("06-01T12:00")  # a Monday
    while now < at("06-06T12:00"):
        due = next_due("db.t", timing, past, now)
        if due is not None and due.earliest <= now:
            begun.append(now)
            past = fired("db.t", timing, past, due, now)
        now += 10 * MINUTE
    told = [f"{moment.astimezone(BERLIN):%d %H:%M}" for moment in begun]
    # the night to Wednesday ends with its first minute, and the two days with the night to Friday
    assert told == [
        *("01 22:00", "02 01:00", "02 02:00", "02 03:00", "02 04:00", "02 05:00"),
        *("02 22:00", "05 01:00", "05 02:00", "05 03:00", "05 04:00", "05 05:00"),
        *("05 22:00", "06 01:00", "06 02:00", "06 03:00", "06 04:00", "06 05:00"),
    ]


@pytest.mark.parametrize(
    ("text", "on", "begins", "ends"),
    [
        ("02:30-04:00", "03-29", "03-29T03:30", "03-29T04:00"),
        ("01:00-02:30", "03-29", "03-29T01:00", "03-29T03:30"),
        ("02:30-04:00", "10-25", "10-25T02:30", "10-25T04:00"),
    ],
)
def test_a_window_when_clocks_are_changed(text: str, on: str, begins: str, ends: str) -> None:
    spans = parse_windows(text).between(at(f"{on}T00:00"), at(f"{on}T12:00"), BERLIN)
    assert spans == [(at(begins), at(ends))]


def test_a_window_that_ends_in_an_hour_that_comes_twice_ends_with_the_second() -> None:
    spans = parse_windows("01:00-02:30").between(at("10-25T00:00"), at("10-25T12:00"), BERLIN)
    assert spans == [(at("10-25T01:00"), at("10-25T02:30", fold=1))]


def test_windows_that_blackouts_close_never_open() -> None:
    timing = Timing(
        schedule=parse_schedule("1h"), windows=parse_windows("22:00-23:00"), blackouts=parse_windows("21:00-02:00")
    )
    assert next_due("db.t", timing, Past(since=NEW_YEAR), NEW_YEAR + DAY) is None


def test_commits_make_a_table_due_once_writers_are_still() -> None:
    timing = Timing(check_interval=3, commit_delay=5 * MINUTE)
    seen = CommitsSeen(count=2, first_at=NEW_YEAR, last_at=NEW_YEAR + MINUTE)
    assert next_due("db.t", timing, Past(since=NEW_YEAR, commits=seen), NEW_YEAR + HOUR) is None
    enough = Past(since=NEW_YEAR, commits=CommitsSeen(count=3, first_at=NEW_YEAR, last_at=NEW_YEAR + 2 * MINUTE))
    due = next_due("db.t", timing, enough, NEW_YEAR + 3 * MINUTE)
    assert due is not None
    assert (due.trigger, due.planned) == (Trigger.COMMITS, NEW_YEAR + 7 * MINUTE)
    assert due.why == "3 commits since the last job"
    later = fired("db.t", timing, enough, due, NEW_YEAR + 7 * MINUTE)
    assert later.commits.count == 0


def test_writers_that_are_never_still_do_not_keep_a_table_waiting_for_ever() -> None:
    timing = Timing(check_interval=3, commit_delay=5 * MINUTE)
    seen = CommitsSeen(count=600, first_at=NEW_YEAR, last_at=NEW_YEAR + HOUR)
    due = next_due("db.t", timing, Past(since=NEW_YEAR, commits=seen), NEW_YEAR + HOUR)
    assert due is not None
    assert due.planned == NEW_YEAR + 50 * MINUTE


def test_commits_and_a_schedule_that_are_due_together_are_one_job() -> None:
    timing = Timing(schedule=parse_schedule("0 3 * * *"), check_interval=1)
    seen = CommitsSeen(count=1, first_at=NEW_YEAR, last_at=NEW_YEAR + HOUR)
    past, now = Past(since=NEW_YEAR, commits=seen), NEW_YEAR + 4 * HOUR
    due = next_due("db.t", timing, past, now)
    assert due is not None
    due = next_due("db.t", timing, fired("db.t", timing, past, due, now), now)
    assert due is not None
    assert due.earliest == NEW_YEAR + DAY + 3 * HOUR


def test_a_table_whose_jobs_fail_is_left_alone_for_longer_and_longer() -> None:
    assert [backoff(n) for n in (0, 1, 2, 3, 50)] == [timedelta(), 15 * MINUTE, 30 * MINUTE, HOUR, DAY]
    timing = Timing(schedule=parse_schedule("*/10 * * * *"))
    past = Past(since=NEW_YEAR, failures=3, failed_at=NEW_YEAR)
    due = next_due("db.t", timing, past, NEW_YEAR + 30 * MINUTE)
    assert due is not None
    assert due.earliest == NEW_YEAR + HOUR
    assert "left alone for 1h after a failure" in due.why
    due = next_due("db.t", timing, past, NEW_YEAR + HOUR)
    assert due is not None
    assert due.earliest <= NEW_YEAR + HOUR


def test_a_clock_that_was_far_ahead_does_not_silence_a_schedule() -> None:
    timing = Timing(schedule=parse_schedule("0 3 * * *"))
    ahead = Past(since=NEW_YEAR + 400 * DAY, failures=2, failed_at=NEW_YEAR + 400 * DAY)
    due = next_due("db.t", timing, ahead, NEW_YEAR)
    assert due is not None
    assert due.earliest == NEW_YEAR + 3 * HOUR
