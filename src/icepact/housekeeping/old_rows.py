"""Which values of a column are old: the rule by which files are judged, said of single rows, and in Spark's SQL. Pure.

A value is old if a file would be that has nothing but this value. Whatever is not said here stays: rows without a
value, texts that do not follow the pattern, and times before the year 1.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from icepact.housekeeping.date_patterns import FIRST, LAST, DatePattern
from icepact.housekeeping.event_time import EventTime, Span
from icepact.model.errors import BadInput

_DAY = 86_400_000_000
_STEP = 900_000_000
"""A quarter of an hour: no clock is changed twice within it."""
_NEAR = 3
"""Days around the cutoff in which zones matter: they are less than one away, and a change of clocks one more."""
_IN_SQL = re.compile(r"[A-Za-z0-9 ,./:;_+=@~-]*")
"""What a pattern may have besides numbers, so that Spark's SQL and its regular expressions mean it literally."""
_DIGITS = {
    "year": "[0-9]{4}",
    "month": "(0[1-9]|1[0-2])",
    "day": "(0[1-9]|[12][0-9]|3[01])",
    "hour": "([01][0-9]|2[0-3])",
    "minute": "[0-5][0-9]",
    "second": "[0-5][0-9]",
}


def old_values(time: EventTime, cutoff: int) -> tuple[Span, ...]:
    """The values that are over by a cutoff, as local times at which what they stand for begins; in order, and nearly
    always one span. Where clocks are changed shortly before the cutoff there may be two, since a zone's smallest offset
    of the days around is what counts."""
    ends = list(_old_ends(time, cutoff))
    spans = [Span(time.start_of(first - 1), time.start_of(last - 1)) for first, last in ends]
    return tuple(span for span in spans if span.start < span.end)


def _old_ends(time: EventTime, cutoff: int) -> Iterator[tuple[int, int]]:
    """From when and before when values must be over to be old."""

    def old(end: int) -> bool:
        over = time.over(Span(end - 1, end))
        return over is not None and over <= cutoff

    points = sorted({point for point in _points(cutoff) if FIRST < point <= LAST})
    begun = points[0] if points and old(points[0]) else None
    for before, after in pairwise(points):
        if old(before) == old(after):
            continue
        change = _change(before, after, old)
        if begun is None:
            begun = change
        else:
            yield begun, change
            begun = None
    if begun is not None:
        yield begun, points[-1] + 1


def _points(cutoff: int) -> Iterator[int]:
    """Moments between which a value that is over goes from old to young once at most, or back."""
    yield from (FIRST + 1, FIRST + _DAY - 1, FIRST + _DAY, FIRST + 2 * _DAY)
    start = cutoff - cutoff % _STEP
    yield from range(start - _NEAR * _DAY, start + _NEAR * _DAY, _STEP)


def _change(before: int, after: int, old: Callable[[int], bool]) -> int:
    """The first moment after `before` at which it is not as it was there any more."""
    first = old(before)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if old(middle) == first else (before, middle)
    return after


def refuse_rows(time: EventTime, column: str) -> None:
    """Raise BadInput if Spark cannot be told exactly which values of a column are old."""
    if time.pattern is None:
        return
    if not time.pattern.sortable:
        raise BadInput(
            f"texts of column {column} do not sort as their times do, so that rows cannot be selected by them:"
            " leave rows out, or use a column whose pattern has year, month and day in this order"
        )
    if not all(part.field or _IN_SQL.fullmatch(part.text) for part in time.pattern.parts):
        raise BadInput(
            f"pattern {time.pattern.text!r} has letters that cannot be said in SQL, so that rows cannot be selected by"
            " it: leave rows out"
        )


def in_sql(time: EventTime, column: str, values: Sequence[Span]) -> str:
    """The condition of Spark's SQL that holds for rows with one of these values; `column` is its name, quoted."""
    between = " OR ".join(
        f"({column} >= {_literal(time, span.start)} AND {column} < {_literal(time, span.end)})" for span in values
    )
    shape = [] if time.pattern is None else _follows(time.pattern, column)
    return " AND ".join([between if len(values) == 1 else f"({between})", *shape])


def _literal(time: EventTime, local: int) -> str:
    if time.kind == "long":
        return str(local // time.unit)
    return f"{_TYPES[time.kind]}'{time.shown(local)}'"


_TYPES = {"date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP_LTZ", "string": ""}
"""Of literals, by Iceberg's name of the column's type."""


def _follows(pattern: DatePattern, column: str) -> Iterator[str]:
    """Conditions on a text: that it has the letters of a pattern, and speaks of a day that there is."""
    shape = "".join(
        _DIGITS.get(part.field, f"[0-9]{{{part.width}}}") if part.field else _literally(part.text)
        for part in pattern.parts
    )
    yield f"length({column}) = {sum(part.width for part in pattern.parts)}"
    yield f"{column} RLIKE '^{shape}$'"
    if "day" in pattern.fields:
        yield f"try_cast(concat_ws('-', {', '.join(_cut(pattern, column))}) AS DATE) IS NOT NULL"


def _literally(text: str) -> str:
    return "".join(letter if letter.isalnum() else f"[{letter}]" for letter in text)


def _cut(pattern: DatePattern, column: str) -> Iterator[str]:
    """Year, month and day out of a text."""
    at = 1
    for part in pattern.parts:
        if part.field in ("year", "month", "day"):
            yield f"substr({column}, {at}, {part.width})"
        at += part.width
