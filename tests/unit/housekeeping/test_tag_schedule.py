"""Automatic tags: which is due, for which snapshot, and never twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.housekeeping.tag_schedule import Commit, TagSchedule, due_tag, tag_schedule
from icepact.model.errors import BadInput
from icepact.model.tags import DueTag

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "America/Havana"]
MOMENTS = st.datetimes(datetime(2010, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001


def schedule(**wishes: Any) -> TagSchedule:
    known = {"period": "daily", "offset": timedelta(0), "max_delay": None, "pattern": None, "max_age": None}
    return tag_schedule(**{**known, "zone": "UTC", **wishes})


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def commits(*texts: str) -> list[Commit]:
    return [Commit(number, moment(text)) for number, text in enumerate(texts, start=1)]


def tag(known: TagSchedule, now: str, *history: str, refs: tuple[str, ...] = ()) -> DueTag | str:
    return due_tag(known, now=moment(now), history=commits(*history), refs=refs)


@pytest.mark.parametrize(
    ("period", "now", "name", "trigger"),
    [
        ("daily", "2026-08-09T00:00:00", "tag-20260808", "2026-08-09T00:00:00"),
        ("daily", "2026-08-08T23:59:59", "tag-20260807", "2026-08-08T00:00:00"),
        ("hourly", "2026-01-01T00:30:00", "tag-2025123123", "2026-01-01T00:00:00"),
        ("monthly", "2026-03-01T00:00:00", "tag-202602", "2026-03-01T00:00:00"),
        ("monthly", "2026-01-31T12:00:00", "tag-202512", "2026-01-01T00:00:00"),
    ],
)
def test_the_period_that_is_over_gets_a_tag(period: str, now: str, name: str, trigger: str) -> None:
    found = tag(schedule(period=period), now, trigger)
    assert isinstance(found, DueTag)
    assert (found.name, found.trigger, found.snapshot_id) == (name, moment(trigger), 1)


@pytest.mark.parametrize(
    ("now", "name"),
    [("2022-08-08T02:00:00", "tag-20220807"), ("2022-08-09T00:20:00", "tag-20220807")],
)
def test_the_offset_is_counted_from_the_end_of_the_period(now: str, name: str) -> None:
    """The example of Amoro's own documentation."""
    found = tag(schedule(offset=timedelta(minutes=30)), now, "2022-08-08T00:20:00", "2022-08-08T00:40:00")
    assert isinstance(found, DueTag)
    assert (found.name, found.trigger, found.snapshot_id) == (name, moment("2022-08-08T00:30:00"), 2)


def test_the_first_commit_from_then_on_gets_it() -> None:
    history = "2026-08-08T10:00:00", "2026-08-09T00:05:00", "2026-08-09T08:00:00"
    found = tag(schedule(max_age=timedelta(days=2)), "2026-08-09T09:00:00", *history)
    assert isinstance(found, DueTag)
    assert (found.snapshot_id, found.committed_at) == (2, moment("2026-08-09T00:05:00"))
    assert found.max_age_seconds == 2 * 86_400


@pytest.mark.parametrize(
    ("wishes", "history", "refs", "why"),
    [
        ({}, ["2026-08-08T10:00:00"], (), "nothing was committed since 2026-08-09T00:00:00"),
        ({}, [], (), "nothing was committed since"),
        ({}, ["2026-08-09T01:00:00"], ("tag-20260808",), "tag-20260808 is there already"),
        (
            {"max_delay": timedelta(minutes=60)},
            ["2026-08-09T01:00:01"],
            (),
            "came after 3601s, not 1h",
        ),
        ({"max_age": timedelta(hours=8)}, ["2026-08-09T01:00:00"], (), "would have expired already"),
    ],
)
def test_why_no_tag_is_made(wishes: dict[str, Any], history: list[str], refs: tuple[str, ...], why: str) -> None:
    found = tag(schedule(**wishes), "2026-08-09T09:00:00", *history, refs=refs)
    assert isinstance(found, str)
    assert why in found


def test_a_delay_that_is_just_long_enough() -> None:
    found = tag(schedule(max_delay=timedelta(minutes=60)), "2026-08-09T09:00:00", "2026-08-09T01:00:00")
    assert isinstance(found, DueTag)


def test_the_zone_is_that_of_midnight() -> None:
    found = tag(schedule(zone="Asia/Tokyo"), "2026-08-08T15:00:00", "2026-08-08T15:00:00")
    assert isinstance(found, DueTag)
    assert found.name == "tag-20260808"


@pytest.mark.parametrize(
    ("wishes", "complaint"),
    [
        ({"period": "weekly"}, "unknown period 'weekly' of tags; there is: hourly, daily, monthly"),
        ({"offset": timedelta(minutes=-1)}, "from 0 to 366 days"),
        ({"offset": timedelta(days=400)}, "from 0 to 366 days"),
        ({"max_delay": timedelta(0)}, "the longest delay of tags must be above zero"),
        ({"max_age": timedelta(seconds=-1)}, "the longest age of tags must be above zero"),
        ({"pattern": "'tag-'yyyyMM"}, "has no day: daily tags would have the same name"),
        ({"pattern": "tag-yyyyMMdd"}, "'t' is not known"),
        ({"zone": "Nowhere"}, "is not known"),
    ],
)
def test_a_bad_schedule_is_refused(wishes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        schedule(**wishes)


# -- whatever the schedule ------------------------------------------------------------------------


@st.composite
def schedules(draw: st.DrawFn) -> TagSchedule:
    return schedule(
        period=draw(st.sampled_from(["hourly", "daily", "monthly"])),
        offset=draw(st.timedeltas(timedelta(0), timedelta(days=3))),
        max_delay=draw(st.none() | st.timedeltas(timedelta(minutes=1), timedelta(days=40))),
        zone=draw(st.sampled_from(ZONES)),
    )


@given(schedules(), MOMENTS, st.timedeltas(timedelta(0), timedelta(days=40)))
def test_later_never_means_an_earlier_period(known: TagSchedule, now: datetime, more: timedelta) -> None:
    first, second = known.due(now), known.due(now + more)
    assert first[1] <= now
    assert first[1] <= second[1]
    assert known.name(first[0]) <= known.name(second[0])


@given(schedules(), MOMENTS)
def test_a_period_is_over_before_its_tag_is_due(known: TagSchedule, now: datetime) -> None:
    start, trigger = known.due(now)
    assert start < trigger <= now
    longest = {"hourly": timedelta(hours=1), "daily": timedelta(hours=49), "monthly": timedelta(days=33)}[known.period]
    assert now - trigger <= longest
    assert timedelta(0) < trigger - start <= longest + known.offset + timedelta(hours=1)


@given(schedules(), MOMENTS, st.lists(st.timedeltas(timedelta(0), timedelta(hours=30)), max_size=30))
def test_whoever_asks_again_and_again_gets_every_tag_once(
    known: TagSchedule, now: datetime, waits: list[timedelta]
) -> None:
    """Commits and questions take turns; tags are never moved, and their order is that of their snapshots."""
    refs: dict[str, int] = {}
    history: list[Commit] = []
    for number, wait in enumerate(waits):
        now += wait
        if number % 2:
            history.append(Commit(number, now))
        found = due_tag(known, now=now, history=history, refs=refs)
        if isinstance(found, DueTag):
            assert found.name not in refs
            assert found.trigger <= found.committed_at <= now
            refs[found.name] = found.snapshot_id
            assert isinstance(due_tag(known, now=now, history=history, refs=refs), str)
    assert sorted(refs.items()) == sorted(refs.items(), key=lambda entry: (entry[1], entry[0]))
