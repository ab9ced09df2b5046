"""Event time: when what a value of a column speaks of was over, at the latest.

Times are microseconds since 1970. A value stands for as long as it tells: a date for a whole day, `2026-01` for a
month. Where a column has no zone of its own, one is given.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from icepact.housekeeping.date_patterns import (
    EPOCH,
    MICROSECOND,
    DatePattern,
    following_start,
    micros_of,
    parse_pattern,
)
from icepact.model.errors import BadInput
from icepact.policy.windows import parse_zone

NUMBERS = {"epoch-ms": 1_000, "epoch-s": 1_000_000}
"""Patterns of columns of type long, with their microseconds."""
_TRANSFORMS = ("year", "month", "day", "hour")
_DAY = 86_400_000_000
_CALENDAR = ("date", "timestamp", "timestamptz")
_WIDTHS = {"date": (4,), "timestamp": (8,), "timestamptz": (8,), "long": (8, 4)}
"""Bytes of a bound; columns of type long may have been int."""


class Span(NamedTuple):
    """The times that values lie in, in the column's own zone."""

    start: int
    """Of the oldest value."""
    end: int
    """What the newest value stands for is over before that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventTime:
    """How the values of a column tell the time."""

    kind: str
    """Iceberg's type of the column: date, timestamp, timestamptz, string or long."""
    zone: tzinfo
    pattern: DatePattern | None = None
    """Of strings."""
    unit: int = 1
    """Microseconds in 1, of numbers."""

    @property
    def bounded(self) -> bool:
        """Whether the bounds of a file tell how old its values are: strings must sort as their times do."""
        return self.pattern is None or self.pattern.sortable

    def of_bounds(self, lower: bytes, upper: bytes) -> Span | None:
        """From the bounds of a file, as manifests have them; `None` if they cannot be read."""
        if self.kind == "string":
            start, end = self._of_texts(lower, upper)
        else:
            first, last = self._number(lower), self._number(upper)
            start, end = (None, None) if first is None or last is None else (first, self._after(last))
        return None if start is None or end is None or start >= end else Span(start, end)

    def of_partition(self, transform: str, value: Any) -> Span | None:
        """From the value of a partition, as Iceberg's JSON has it; `None` if it says nothing of the time."""
        if value is None:
            return None
        if transform == "identity":
            return self._of_value(value)
        if transform not in _TRANSFORMS or self.kind not in _CALENDAR:
            return None
        start = _transformed(transform, value)
        end = None if start is None else following_start(start, transform)
        return None if start is None or end is None else Span(start, end)

    def over(self, span: Span) -> int | None:
        """The moment at which the newest value is certainly over; `None` if that cannot be said."""
        if self.kind in ("timestamptz", "long"):
            return span.end
        return latest_moment(span.end, self.zone)

    def shown(self, local: int) -> str:
        """A value as people write it, from the start of what it stands for or any time within."""
        at = EPOCH + (local - local % self.unit) * MICROSECOND
        if self.pattern is not None:
            return self.pattern.format(at)
        if self.kind == "date":
            return at.date().isoformat()
        text = at.isoformat(timespec="auto" if at.microsecond else "seconds")
        return text if self.kind == "timestamp" else f"{text}+00:00"

    def start_of(self, local: int) -> int:
        """When the value begins that speaks of a local time."""
        if self.pattern is not None:
            start = self.pattern.start(self.pattern.format(EPOCH + local * MICROSECOND))
            assert start is not None  # every text that it writes follows it
            return start
        return local - local % (_DAY if self.kind == "date" else self.unit)

    def literal(self, moment: int) -> str | int | None:
        """A value in Iceberg's JSON that is younger than all that can be over at a moment; `None` if there is none."""
        local = moment + 2 * _DAY  # zones are less than a day away
        try:
            if self.kind == "long":
                return local // self.unit
            return self.shown(local) if self.bounded else None
        except OverflowError:
            return None

    def _of_texts(self, lower: bytes, upper: bytes) -> tuple[int | None, int | None]:
        assert self.pattern is not None
        try:
            return self.pattern.earliest(lower.decode()), self.pattern.latest_end(upper.decode())
        except UnicodeDecodeError:
            return None, None

    def _number(self, raw: bytes) -> int | None:
        """The start of a bound that is a number."""
        if len(raw) not in _WIDTHS[self.kind]:
            return None
        number = int.from_bytes(raw, "little", signed=True)
        return _known(number * (_DAY if self.kind == "date" else self.unit))

    def _after(self, start: int) -> int:
        return start + (_DAY if self.kind == "date" else self.unit)

    def _of_value(self, value: Any) -> Span | None:
        """The value of an identity partition."""
        if self.pattern is not None:
            start = self.pattern.start(value) if isinstance(value, str) else None
            end = self.pattern.end(value) if isinstance(value, str) else None
            return None if start is None or end is None else Span(start, end)
        if self.kind == "long":
            start = _known(value * self.unit) if isinstance(value, int) else None
        else:
            start = _from_iso(value)
        return None if start is None else Span(start, self._after(start))


def _transformed(transform: str, value: Any) -> int | None:
    """The start of a partition of a date or timestamp."""
    if transform == "day" and isinstance(value, str):
        return _from_iso(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    try:
        match transform:
            case "year":
                return micros_of(EPOCH.replace(year=1970 + value))
            case "month":
                return micros_of(EPOCH.replace(year=1970 + value // 12, month=value % 12 + 1))
    except (ValueError, OverflowError):
        return None
    return _known(value * (_DAY if transform == "day" else _DAY // 24))


def _from_iso(value: Any) -> int | None:
    """Of a date or timestamp in Iceberg's JSON."""
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d.*)?", value):
        return None
    try:
        if len(value) == 10:
            return (date.fromisoformat(value) - EPOCH.date()).days * _DAY
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return micros_of(at if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None))


def _known(micros: int) -> int | None:
    """The same, unless Python's calendar ends before that."""
    try:
        EPOCH + micros * MICROSECOND
    except OverflowError:
        return None
    return micros


def latest_moment(local: int, zone: tzinfo) -> int | None:
    """The latest moment that a local time up to this one can mean; `None` beyond the calendar.

    Where clocks were changed within a day, the smaller offset is taken: hours that came twice or never are then never
    taken for older than they are.
    """
    if zone is UTC:
        return local
    try:
        near = [EPOCH + local * MICROSECOND + timedelta(days=days) for days in (-1, 0, 1)]
    except OverflowError:
        return None
    offsets = [zone.utcoffset(at.replace(fold=fold)) for at in near for fold in (0, 1)]
    return local - min(offset // MICROSECOND for offset in offsets if offset is not None)


def event_time(column: str, kind: str, *, pattern: str | None, zone: str) -> EventTime:
    """How a column of a type tells the time, or one line that says why it does not."""
    known = parse_zone(zone)
    if kind in _CALENDAR:
        if pattern is not None:
            raise BadInput(f"column {column} is of type {kind}: leave the pattern out")
        return EventTime(kind=kind, zone=known)
    if kind == "long":
        if pattern not in NUMBERS:
            raise BadInput(f"column {column} is of type long: say with pattern={' or '.join(NUMBERS)} what it counts")
        return EventTime(kind=kind, zone=UTC, unit=NUMBERS[pattern])
    if kind == "string":
        if pattern is None:
            raise BadInput(f"column {column} is of type string: a pattern is needed, like yyyy-MM-dd")
        return EventTime(kind=kind, zone=known, pattern=parse_pattern(pattern))
    raise BadInput(
        f"column {column} is of type {kind}, which tells no time: it must be date, timestamp, timestamptz,"
        " string or long"
    )
