"""Which values are old: for every one of them what a file with nothing else in it would be judged."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from icepact.housekeeping.date_patterns import EPOCH, FIRST, LAST, MICROSECOND, micros_of
from icepact.housekeeping.event_time import EventTime, Span, event_time
from icepact.housekeeping.old_rows import in_sql, old_values, refuse_rows
from icepact.model.errors import BadInput

HOUR = 3_600_000_000
DAY = 24 * HOUR
ZONES = ("UTC", "Europe/Berlin", "Pacific/Apia", "Pacific/Honolulu", "America/St_Johns", "Australia/Lord_Howe")
KINDS: dict[str, dict[str, Any]] = {
    "date": {},
    "timestamp": {},
    "timestamptz": {},
    "long": {"pattern": "epoch-ms"},
    "string": {"pattern": "yyyy-MM-dd'T'HH"},
}


def at(text: str) -> int:
    """A local time, or a moment in UTC."""
    return micros_of(datetime.fromisoformat(text))


def clock(kind: str, zone: str = "UTC", **given: Any) -> EventTime:
    """How a column tells the time."""
    return event_time("c", kind, **{"pattern": None, "zone": zone, **KINDS[kind], **given})


def value(time: EventTime, local: int) -> Span:
    """What the value that speaks of a local time stands for."""
    start = time.start_of(local)
    if time.pattern is not None:
        end = time.pattern.end(time.pattern.format(EPOCH + local * MICROSECOND))
        assert end is not None
        return Span(start, end)
    return Span(start, start + (DAY if time.kind == "date" else time.unit))


def is_old(time: EventTime, span: Span, cutoff: int) -> bool:
    """As a file of this value alone would be judged."""
    over = time.over(span)
    return over is not None and over <= cutoff


@given(
    kind=some.sampled_from(sorted(KINDS)),
    zone=some.sampled_from(ZONES),
    near=some.sampled_from(("2026-03-29", "2025-10-26", "2011-12-30", "2026-01-15", "0001-01-02", "2026-04-05")),
    offset=some.integers(-3 * 96, 3 * 96),
    odd=some.sampled_from((0, 1, -1, 999, 123_456_789)),
    away=some.lists(some.integers(-5 * 96, 5 * 96), min_size=20, max_size=20),
)
def test_values_are_old_as_files_of_them_are(
    kind: str, zone: str, near: str, offset: int, odd: int, away: list[int]
) -> None:
    """Also around changes of clocks, days that a zone left out, and the beginning of the calendar."""
    time, cutoff = clock(kind, zone), at(near) + offset * HOUR // 4 + odd
    spans = old_values(time, cutoff)
    assert list(spans) == sorted(spans)
    edges = [edge + step for span in spans for edge in span for step in (-1, 0, 1, -HOUR, HOUR, -DAY)]
    for local in (*(cutoff + step * HOUR // 4 for step in away), *edges, FIRST, FIRST + DAY):
        if local < FIRST:
            continue
        start, said = value(time, local).start, is_old(time, value(time, local), cutoff)
        assert said == any(span.start <= start < span.end for span in spans), EPOCH + local * MICROSECOND


def test_a_zone_may_have_two_spans() -> None:
    """Clocks went forward in Berlin at 2:00 on the 29th of March; a day later two hours are taken off, not one."""
    [early, late] = old_values(clock("timestamp", "Europe/Berlin"), at("2026-03-30T01:30"))
    assert early == Span(at("0001-01-02T00:00") - 1, at("2026-03-30T02:30"))
    assert late == Span(at("2026-03-30T03:00") - 1, at("2026-03-30T03:30"))
    assert len(old_values(clock("timestamp", "Europe/Berlin"), at("2026-06-01"))) == 1


@pytest.mark.parametrize(
    ("time", "cutoff", "said"),
    [
        (clock("date"), "2026-02-01T12:00", "(`c` >= DATE'0001-01-01' AND `c` < DATE'2026-02-01')"),
        (
            clock("timestamptz"),
            "2026-02-01",
            "(`c` >= TIMESTAMP_LTZ'0001-01-01T00:00:00+00:00' AND `c` < TIMESTAMP_LTZ'2026-02-01T00:00:00+00:00')",
        ),
        (
            clock("timestamp", "Pacific/Honolulu"),
            "2026-02-01",
            "(`c` >= TIMESTAMP_NTZ'0001-01-01T23:59:59.999999' AND `c` < TIMESTAMP_NTZ'2026-01-31T14:00:00')",
        ),
        (clock("long"), "2026-02-01", "(`c` >= -62135596800000 AND `c` < 1769904000000)"),
        (clock("long", pattern="epoch-s"), "2026-02-01", "(`c` >= -62135596800 AND `c` < 1769904000)"),
        (
            clock("string", pattern="yyyyMMdd"),
            "2026-02-01",
            "(`c` >= '00010101' AND `c` < '20260201') AND length(`c`) = 8 AND `c` RLIKE"
            " '^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$' AND"
            " try_cast(concat_ws('-', substr(`c`, 1, 4), substr(`c`, 5, 2), substr(`c`, 7, 2)) AS DATE) IS NOT NULL",
        ),
        (
            clock("string", pattern="'d='yyyy.MM"),
            "2026-02-01",
            "(`c` >= 'd=0001.01' AND `c` < 'd=2026.02') AND length(`c`) = 9 AND `c` RLIKE"
            " '^d[=][0-9]{4}[.](0[1-9]|1[0-2])$'",
        ),
    ],
)
def test_what_spark_is_told(time: EventTime, cutoff: str, said: str) -> None:
    assert in_sql(time, "`c`", old_values(time, at(cutoff))) == said


def test_patterns_that_sql_cannot_say_are_refused() -> None:
    for pattern, complaint in (("dd.MM.yyyy", "do not sort as their times do"), ("yyyy'^'MM", "cannot be said in SQL")):
        with pytest.raises(BadInput, match=complaint) as refused:
            refuse_rows(clock("string", pattern=pattern), "c")
        assert "\n" not in str(refused.value)
    for kind in KINDS:
        refuse_rows(clock(kind), "c")


def test_nothing_is_old_before_the_calendar() -> None:
    for kind in KINDS:
        assert old_values(clock(kind), FIRST) == ()
        [span] = old_values(clock(kind), LAST - 2 * DAY)
        assert span.end > at("9999-12-29T00:00") - timedelta(hours=1) // MICROSECOND
