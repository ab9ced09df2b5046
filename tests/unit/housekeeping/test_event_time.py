"""What a value of a column says of the time of its row, at the latest."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icepact.housekeeping.date_patterns import EPOCH, MICROSECOND, micros_of, parse_pattern
from icepact.housekeeping.event_time import EventTime, event_time, latest_moment
from icepact.model.errors import BadInput
from icepact.policy.windows import parse_zone

DAY = 86_400_000_000
PATTERNS = ["yyyy", "yyyyMM", "yyyy-MM-dd", "yyyyMMddHH", "yyyy-MM-dd'T'HH:mm:ss", "yyyy/MM/dd HH:mm:ss.SSS"]
LOCAL = st.datetimes(datetime(1971, 1, 3), datetime(2100, 12, 31))  # noqa: DTZ001
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Casablanca"]


def local(text: str) -> int:
    return micros_of(datetime.fromisoformat(text))


def of(kind: str, pattern: str | None = None, zone: str = "UTC") -> EventTime:
    return event_time("at", kind, pattern=pattern, zone=zone)


# -- patterns -------------------------------------------------------------------------------------


@given(st.sampled_from(PATTERNS), LOCAL)
def test_a_text_says_when_it_was_written_down_to_its_smallest_part(text: str, at: datetime) -> None:
    pattern = parse_pattern(text)
    written = pattern.format(at)
    start, end = pattern.start(written), pattern.end(written)
    assert start is not None
    assert end is not None
    assert start <= micros_of(at) < end
    assert pattern.format(EPOCH + start * MICROSECOND) == written == pattern.format(EPOCH + (end - 1) * MICROSECOND)
    assert pattern.start(pattern.format(EPOCH + end * MICROSECOND)) == end


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2026-02-30"),
        ("yyyy-MM-dd", "2026-2-3"),
        ("yyyy-MM-dd", "2026-02-03 "),
        ("yyyy-MM-dd", "٢٠٢٦-02-03"),
        ("yyyyMMdd", "+2026203"),
        ("yyyyMMdd", ""),
        ("yyyyMMddHH", "2026020324"),
    ],
)
def test_a_text_that_does_not_follow_the_pattern_says_nothing(pattern: str, text: str) -> None:
    assert parse_pattern(pattern).start(text) is None
    assert parse_pattern(pattern).end(text) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("'tag-'yyyyMMdd", "tag-20260809"),
        ("uuuu.MM", "2026.08"),
        ("dd/MM/yyyy", "09/08/2026"),
        ("'o''clock 'yyyyMMddHH", "o'clock 2026080907"),
        ("''yyyy''", "'2026'"),
        ("yyyy-MM-dd HH:mm:ss.SS", "2026-08-09 07:05:03.12"),
    ],
)
def test_patterns_are_those_of_java(text: str, written: str) -> None:
    pattern = parse_pattern(text)
    assert pattern.format(datetime(2026, 8, 9, 7, 5, 3, 123456)) == written  # noqa: DTZ001
    assert pattern.start(written) is not None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no year"),
        ("MM-dd", "has no year"),
        ("yyyy-dd", "has no month"),
        ("yyyyMMddmm", "has no hour"),
        ("yyyy-MM-dd'T", "the quote is never closed"),
        ("yyyy-MM-ddTHH", "'T' is not known"),
        ("yy-MM-dd", "'yy' is not known"),
        ("yyyy-M-d", "'M' is not known"),
        ("yyyyMMdd[HH]", "wants quotes"),
        ("yyyyMMdd yyyy", "twice"),
        ("EEE yyyy-MM-dd", "'EEE' is not known"),
        ("yyyyMMddHHmmssSSSSSSSSS", "'SSSSSSSSS' is not known"),
    ],
)
def test_a_pattern_that_does_not_parse_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint) as refused:
        parse_pattern(text)
    assert "\n" not in str(refused.value)


def truncated(texts: list[str], width: int) -> tuple[str, str]:
    """Bounds as Iceberg cuts them off: the last character of an upper one is raised."""
    lower, upper = min(texts), max(texts)
    cut = upper[:width]
    return lower[:width], cut if len(upper) <= width else f"{cut[:-1]}{chr(ord(cut[-1]) + 1)}"


@given(st.sampled_from(PATTERNS), st.lists(LOCAL, min_size=1, max_size=5), st.integers(1, 25))
def test_bounds_that_were_cut_off_never_make_a_text_older(text: str, times: list[datetime], width: int) -> None:
    pattern = parse_pattern(text)
    texts = [pattern.format(at) for at in times]
    lower, upper = truncated(texts, width)
    span = of("string", text).of_bounds(lower.encode(), upper.encode())
    if span is None:
        assert width < 4  # less than the year
        return
    assert all(span.start <= (pattern.start(each) or 0) and (pattern.end(each) or 0) <= span.end for each in texts)
    if width >= len(texts[0]):
        assert span.end == pattern.end(max(texts))


@pytest.mark.parametrize(
    ("upper", "end"),
    [
        ("2026-01-31", "2026-02-01"),
        ("2026-01", "2026-01-01"),  # whatever begins with that sorts behind it
        ("2026-0:", "2026-10-01"),
        ("2026-1", "2026-10-01"),
        ("2026-13", "2027-01-01"),
        ("2026-02-39", "2026-03-01"),
        ("2026-00-10", "2026-01-01"),
        ("2026.", "2027-01-01"),
        ("2026-01-31 and more", "2026-02-01"),
        ("", None),
        ("n/a", None),
        ("9999-12-31", None),
    ],
)
def test_the_latest_text_that_sorts_up_to_a_bound(upper: str, end: str | None) -> None:
    found = parse_pattern("yyyy-MM-dd").latest_end(upper)
    assert found == (None if end is None else local(end))


@given(st.text(alphabet="0123456789-:/.n ", max_size=12), LOCAL)
def test_whatever_the_bound_is_no_text_up_to_it_ends_later(bound: str, at: datetime) -> None:
    pattern = parse_pattern("yyyy-MM-dd")
    text = pattern.format(at)
    found = pattern.latest_end(bound)
    if text <= bound and found is not None:
        assert (pattern.end(text) or 0) <= found
    earliest = pattern.earliest(bound)
    if text >= bound and earliest is not None:
        assert earliest <= (pattern.start(text) or 0)


# -- columns --------------------------------------------------------------------------------------


def test_a_date_is_over_when_its_day_is() -> None:
    clock = of("date", zone="America/New_York")
    days = (date(2026, 1, 5) - date(1970, 1, 1)).days
    span = clock.of_bounds(days.to_bytes(4, "little"), days.to_bytes(4, "little"))
    assert span == (local("2026-01-05"), local("2026-01-06"))
    assert clock.over(span) == local("2026-01-06T05:00:00")
    assert (clock.shown(span.start), clock.shown(span.end - 1)) == ("2026-01-05", "2026-01-05")


@pytest.mark.parametrize(
    ("kind", "zone", "over"),
    [("timestamp", "UTC", 1), ("timestamptz", "Asia/Tokyo", 1), ("timestamp", "Asia/Tokyo", 1 - 9 * 3_600_000_000)],
)
def test_a_timestamp_is_in_the_zone_unless_it_has_its_own(kind: str, zone: str, over: int) -> None:
    clock = of(kind, zone=zone)
    at = local("2026-01-05T12:00:00")
    span = clock.of_bounds(at.to_bytes(8, "little"), at.to_bytes(8, "little"))
    assert span is not None
    assert clock.over(span) == at + over
    assert clock.shown(at) == "2026-01-05T12:00:00" + ("+00:00" if kind == "timestamptz" else "")


@pytest.mark.parametrize(("pattern", "unit"), [("epoch-ms", 1_000), ("epoch-s", 1_000_000)])
def test_numbers_count_from_1970(pattern: str, unit: int) -> None:
    clock = of("long", pattern)
    span = clock.of_bounds((5).to_bytes(4, "little"), (7).to_bytes(8, "little"))  # the former of a file from before
    assert span == (5 * unit, 8 * unit)
    assert clock.of_partition("identity", 7) == (7 * unit, 8 * unit)


@pytest.mark.parametrize(
    ("kind", "pattern", "lower", "upper"),
    [
        ("date", None, b"", b""),
        ("date", None, b"\0" * 8, b"\0" * 8),
        ("timestamp", None, b"\0" * 8, b"\xff" * 7 + b"\x7f"),
        ("timestamp", None, b"\0" * 4, b"\0" * 8),
        ("timestamp", None, b"\1" + b"\0" * 7, b"\0" * 8),  # the lower is above the upper
        ("string", "yyyyMMdd", b"20260101", b"\xff\xfe"),
        ("string", "yyyyMMdd", b"", b"20260101"),
        ("string", "yyyyMMdd", b"n/a", b"n/a"),
        ("long", "epoch-ms", b"\0" * 8, b"\xff" * 7 + b"\x7f"),
    ],
)
def test_odd_bounds_say_nothing(kind: str, pattern: str | None, lower: bytes, upper: bytes) -> None:
    assert of(kind, pattern).of_bounds(lower, upper) is None


def test_a_value_beyond_the_calendar_is_never_over() -> None:
    for zone in ("UTC", "Europe/Berlin"):
        clock = of("date", zone=zone)
        far = (date(9999, 12, 31) - date(1970, 1, 1)).days.to_bytes(4, "little")
        span = clock.of_bounds(far, far)
        assert span is None or (clock.over(span) or local("9999-12-31")) >= local("9999-12-30")


@pytest.mark.parametrize(
    ("kind", "transform", "value", "start", "end"),
    [
        ("timestamp", "year", 56, "2026-01-01", "2027-01-01"),
        ("date", "month", 56 * 12 + 11, "2026-12-01", "2027-01-01"),
        ("date", "month", -1, "1969-12-01", "1970-01-01"),
        ("timestamptz", "day", "2026-03-01", "2026-03-01", "2026-03-02"),
        ("timestamp", "day", 20_000, "2024-10-04", "2024-10-05"),
        ("timestamp", "hour", 24 * 20_000 + 5, "2024-10-04T05:00:00", "2024-10-04T06:00:00"),
        ("date", "identity", "2026-03-01", "2026-03-01", "2026-03-02"),
        ("timestamptz", "identity", "2026-03-01T01:00:00+01:00", "2026-03-01", "2026-03-01T00:00:00.000001"),
        ("timestamp", "identity", "2026-03-01T00:00:00.5", "2026-03-01T00:00:00.5", "2026-03-01T00:00:00.500001"),
    ],
)
def test_a_partition_tells_from_when_to_when_its_rows_are(
    kind: str, transform: str, value: Any, start: str, end: str
) -> None:
    assert of(kind).of_partition(transform, value) == (local(start), local(end))


@pytest.mark.parametrize(
    ("transform", "value"),
    [
        *(("identity", None), ("identity", "+12026-01-01"), ("identity", "soon"), ("identity", 5)),
        *(("bucket[16]", 3), ("truncate[4]", "2026"), ("void", None), ("year", 100_000), ("day", "x"), ("hour", True)),
    ],
)
def test_other_partitions_tell_nothing(transform: str, value: Any) -> None:
    assert of("date").of_partition(transform, value) is None


def test_partitions_of_texts_and_numbers_are_exact() -> None:
    clock = of("string", "dd.MM.yyyy")
    assert not clock.bounded
    assert clock.of_partition("identity", "31.12.2026") == (local("2026-12-31"), local("2027-01-01"))
    assert clock.of_partition("identity", "31.12.26") is None
    assert clock.of_partition("year", 56) is None


# -- zones ----------------------------------------------------------------------------------------


CHANGES = [
    ("Europe/Berlin", "2026-03-29T02:00"),
    ("Europe/Berlin", "2026-10-25T02:00"),
    ("America/St_Johns", "2026-03-08T02:00"),
    ("America/St_Johns", "2026-11-01T02:00"),
    ("Australia/Lord_Howe", "2026-04-05T02:00"),
    ("Pacific/Apia", "2011-12-30T00:00"),  # a day that never was
    ("America/Havana", "2026-03-08T00:00"),
]
"""Zones, and when their clocks are changed."""


@example(CHANGES[0], timedelta(minutes=70), timedelta(minutes=30))
@example(CHANGES[5], timedelta(hours=26), timedelta(hours=10))
@given(st.sampled_from(CHANGES), *[st.timedeltas(timedelta(hours=-30), timedelta(hours=30))] * 2)
def test_no_time_up_to_a_local_one_is_later_than_said(
    change: tuple[str, str], one: timedelta, other: timedelta
) -> None:
    """Whichever offset is taken for hours that came twice or never."""
    zone, text = change
    known, around = parse_zone(zone), datetime.fromisoformat(text)
    at, before = around + max(one, other), abs(one - other)
    said = latest_moment(micros_of(at), known)
    earlier = at - before
    assert said is not None
    for fold in (0, 1):
        moment = earlier.replace(tzinfo=known, fold=fold).astimezone(UTC).replace(tzinfo=None)
        assert micros_of(moment) <= said


def test_far_from_any_change_of_clocks_the_moment_is_exact() -> None:
    for text, zone, moment in (
        ("2026-07-01T12:00:00", "Europe/Berlin", "2026-07-01T10:00:00"),
        ("2026-01-01T12:00:00", "Europe/Berlin", "2026-01-01T11:00:00"),
        ("2026-01-01T12:00:00", "UTC", "2026-01-01T12:00:00"),
    ):
        assert latest_moment(local(text), parse_zone(zone)) == local(moment)
    assert parse_zone("utc") is UTC
    assert parse_zone("Asia/Tokyo") == ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "Europe", "UTC+25", "/UTC"])
def test_a_zone_that_there_is_not_is_refused(zone: str) -> None:
    with pytest.raises(BadInput, match="is not known: write it like UTC or Europe/Berlin"):
        parse_zone(zone)


@given(st.sampled_from(["date", "timestamp", "timestamptz", "epoch-s", *PATTERNS]), st.sampled_from(ZONES), LOCAL)
def test_the_literal_is_younger_than_what_is_over(kind: str, zone: str, at: datetime) -> None:
    """So that a scan for what is below it misses no file that goes."""
    clock = (
        of(kind, zone=zone)
        if kind in ("date", "timestamp", "timestamptz")
        else of("long", kind)
        if kind == "epoch-s"
        else of("string", kind, zone)
    )
    moment = micros_of(at)
    newest = moment + DAY
    limit = clock.literal(moment)
    for back in (0, 1, DAY // 24, DAY, 40 * DAY):
        start = newest - back
        if clock.kind == "long":
            assert isinstance(limit, int)
            assert start // clock.unit < limit or (start // clock.unit + 1) * clock.unit > moment
        else:
            value = clock.shown(start)
            end = clock.pattern.end(value) if clock.pattern else start + (DAY if kind == "date" else 1)
            over = latest_moment(end or 0, clock.zone) if clock.kind != "timestamptz" else end
            assert isinstance(limit, str)
            assert value < limit or (over or 0) > moment


@pytest.mark.parametrize(
    ("kind", "pattern", "complaint"),
    [
        ("double", None, "is of type double, which tells no time"),
        ("struct", None, "tells no time"),
        ("int", "epoch-s", "tells no time"),
        ("string", None, "a pattern is needed"),
        ("long", None, "say with pattern=epoch-ms or epoch-s"),
        ("long", "yyyy", "say with pattern=epoch-ms or epoch-s"),
        ("date", "yyyy-MM-dd", "leave the pattern out"),
    ],
)
def test_a_column_that_is_no_time_is_refused(kind: str, pattern: str | None, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        of(kind, pattern)
