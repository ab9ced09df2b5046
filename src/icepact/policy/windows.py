"""Windows and blackouts: spans of the week, and of the calendar, in which work may be begun, and in which it may not.

They go by the clocks on the wall of a zone. Where an hour is left out, what begins in it begins that much later; where
one comes twice, a span that begins in it begins with the first, and one that ends in it ends with the second.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from icepact.model.errors import BadInput

DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_TIMES = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_WEEKDAYS = re.compile(r"[A-Z]{3}(?:\s*-\s*[A-Z]{3})?", re.IGNORECASE)
_DATES = re.compile(r"(\d{4}-\d{2}-\d{2})(?:\s*\.\.\s*(\d{4}-\d{2}-\d{2}))?")
_DAY = 24 * 60
_AHEAD = 9
"""Days: whatever comes every week has come by then, whatever clocks are set to in between."""
_LONGEST = 5 * 366
"""Days that dates can keep everything closed for."""
_EXAMPLES = "write 22:00-06:00, MON-FRI 22:00-06:00, SAT or 2026-12-24..2027-01-02"


def parse_zone(name: str) -> tzinfo:
    """A zone, or one line that says that there is none of that name."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise BadInput(f"zone {name!r} is not known: write it like UTC or Europe/Berlin") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class DaySpan:
    """One span of some days."""

    weekdays: frozenset[int] = frozenset(range(7))
    """Days of the week on which it begins; 0 is Monday."""
    first: date | None = None
    """Of dates: the first one; `None` for a span that comes every week."""
    last: date | None = None
    start: int = 0
    """Minutes after midnight."""
    end: int = _DAY
    """Minutes after the same midnight: above a day if it ends on the next one."""

    def on(self, day: date, zone: tzinfo) -> tuple[datetime, datetime] | None:
        """When it begins and ends if it begins on that day; `None` if it does not."""
        if day.weekday() not in self.weekdays:
            return None
        if self.first is not None and self.last is not None and not self.first <= day <= self.last:
            return None
        return _at(day, self.start, zone, 0), max(_at(day, self.end, zone, fold) for fold in (0, 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Windows:
    """Spans as they were written, and what they mean."""

    text: str
    spans: tuple[DaySpan, ...]

    def between(self, since: datetime, until: datetime, zone: tzinfo) -> list[tuple[datetime, datetime]]:
        """The spans that reach into that time, in order, joined where they meet."""
        day, last = since.astimezone(zone).date() - timedelta(days=1), until.astimezone(zone).date()
        found: list[tuple[datetime, datetime]] = []
        while day <= last:
            found += [span for one in self.spans if (span := one.on(day, zone)) is not None and span[0] < span[1]]
            day += timedelta(days=1)
        return _joined([(start, end) for start, end in found if end > since and start < until])


def parse_windows(given: str | Sequence[str]) -> Windows:
    """Spans such as `22:00-06:00`, `MON-FRI 22:00-06:00, SAT, SUN` or `2026-12-24..2027-01-02`, or one line that says
    what is wrong with them."""
    parts = [str(part).strip() for part in (given.split(",") if isinstance(given, str) else given)]
    spans = [span for part in parts for span in _spans(part)]
    if not spans:
        raise BadInput(f"no span is given: {_EXAMPLES}")
    return Windows(text=", ".join(parts), spans=tuple(spans))


def open_spans(
    windows: Windows | None, blackouts: Windows | None, zone: tzinfo, since: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """When something may be begun in that time: inside the windows, if there are any, and outside the blackouts."""
    spans = [(since, until)] if windows is None else windows.between(since, until, zone)
    closed = [] if blackouts is None else blackouts.between(since, until, zone)
    for begin, end in spans:
        at, last = max(begin, since), min(end, until)
        for shut, opened in closed:
            if opened <= at or shut >= last:
                continue
            if shut > at:
                yield at, shut
            at = max(at, opened)
        if at < last:
            yield at, last


def next_open(windows: Windows | None, blackouts: Windows | None, zone: tzinfo, moment: datetime) -> datetime | None:
    """The first moment from this one on at which something may be begun; `None` if there is none in years."""
    if windows is None and blackouts is None:
        return moment
    days = _AHEAD
    since = moment
    while days <= _LONGEST:
        until = moment + timedelta(days=days)
        for start, _ in open_spans(windows, blackouts, zone, since, until):
            return start
        days *= 3
    return None


def _spans(part: str) -> Iterator[DaySpan]:
    rest, times = part, _TIMES.search(part)
    start, end = 0, _DAY
    if times is not None:
        hours, minutes, until_hours, until_minutes = map(int, times.groups())
        start, end = hours * 60 + minutes, until_hours * 60 + until_minutes
        if minutes > 59 or until_minutes > 59 or start >= _DAY or end > _DAY:
            raise BadInput(f"{part!r}: there is no such time of day: {_EXAMPLES}")
        if start == end:
            raise BadInput(f"{part!r} begins when it ends: {_EXAMPLES}")
        end += _DAY if end < start else 0
        rest = f"{part[: times.start()]} {part[times.end() :]}".strip()
    if not rest and times is not None:
        yield DaySpan(start=start, end=end)
    elif found := _DATES.fullmatch(rest):
        try:
            first, last = date.fromisoformat(found[1]), date.fromisoformat(found[2] or found[1])
        except ValueError:
            raise BadInput(f"{part!r}: there is no such day: {_EXAMPLES}") from None
        if last < first:
            raise BadInput(f"{part!r} ends before it begins: {_EXAMPLES}")
        yield DaySpan(first=first, last=last, start=start, end=end)
    elif _WEEKDAYS.fullmatch(rest):
        yield DaySpan(weekdays=_weekdays(rest, part), start=start, end=end)
    else:
        raise BadInput(f"{part!r} is no span: {_EXAMPLES}")


def _weekdays(text: str, part: str) -> frozenset[int]:
    names = [name.strip().upper() for name in text.split("-")]
    unknown = [name for name in names if name not in DAYS]
    if unknown:
        raise BadInput(f"{part!r}: {unknown[0]!r} is no day of the week: {', '.join(DAYS)}")
    first, last = DAYS.index(names[0]), DAYS.index(names[-1])
    return frozenset((first + n) % 7 for n in range((last - first) % 7 + 1))


def _at(day: date, minutes: int, zone: tzinfo, fold: int) -> datetime:
    on = datetime.combine(day + timedelta(days=minutes // _DAY), time(), zone)
    return on.replace(hour=minutes % _DAY // 60, minute=minutes % 60, fold=fold).astimezone(UTC)


def _joined(spans: Sequence[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    joined: list[tuple[datetime, datetime]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
