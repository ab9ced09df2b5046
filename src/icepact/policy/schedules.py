"""Schedules: when a table is inspected again: a cron expression, or a length of time between two looks."""

import re
from dataclasses import dataclass
from datetime import timedelta

from icepact.model.errors import BadInput
from icepact.policy.units import parse_duration

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
"""Days of a month, in a leap year."""
_INTERVAL = re.compile(r"\s*(?:every\s+)?(\d+(?:\.\d+)?\s*[a-z]+)\s*", re.IGNORECASE)
_RANGE = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\w+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Field:
    """One of the five parts of a cron expression."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    """Names that stand for numbers, from `least` on."""


_FIELDS = (
    _Field(name="minute", least=0, most=59),
    _Field(name="hour", least=0, most=23),
    _Field(name="day of month", least=1, most=31),
    _Field(name="month", least=1, most=12, words=_MONTHS),
    _Field(name="day of week", least=0, most=7, words=_DAYS),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cron:
    """A cron expression, taken apart. If both kinds of days are limited, either of them is enough, as cron has it."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    """Of the month, from 1; `None` for any."""
    months: frozenset[int]
    weekdays: frozenset[int] | None
    """0 is Sunday; `None` for any."""

    @property
    def fires(self) -> bool:
        """Whether there is any day on which it does."""
        if self.days is None or self.weekdays is not None:
            return True
        return any(day <= _LONGEST[month] for day in self.days for month in self.months)


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """A schedule as it was written, and what it means: a cron expression or an interval."""

    text: str
    cron: Cron | None = None
    interval: timedelta | None = None


def parse_schedule(text: str) -> Schedule:
    """A schedule such as `0 3 * * *`, `@daily` or `6h`, or one line that says what is wrong with it."""
    if match := _INTERVAL.fullmatch(text):
        interval = parse_duration(match[1])
        if not interval:
            raise BadInput(f"schedule {text!r}: the time between two looks must be above zero")
        return Schedule(text=text, interval=interval)
    return Schedule(text=text, cron=parse_cron(text))


def parse_cron(text: str) -> Cron:
    """A cron expression with five fields, or one of the `@` words."""
    parts = _MACROS.get(text.strip().lower(), text).split()
    if len(parts) != len(_FIELDS):
        raise BadInput(
            f"schedule {text!r}: write five fields (minute, hour, day of month, month, day of week) as in"
            f" '0 3 * * *', a time between two looks as in 6h, or one of {', '.join(_MACROS)}"
        )
    minutes, hours, days, months, weekdays = (
        _numbers(part, field, text) for part, field in zip(parts, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes=minutes,
        hours=hours,
        days=None if parts[2].startswith("*") and days == set(range(1, 32)) else days,
        months=months,
        weekdays=None if parts[4].startswith("*") and len(weekdays) == 8 else frozenset(day % 7 for day in weekdays),
    )
    if not cron.fires:
        raise BadInput(f"schedule {text!r} never fires: there is no such day in these months")
    return cron


def _numbers(part: str, field: _Field, text: str) -> frozenset[int]:
    """All numbers that one field stands for."""
    numbers: set[int] = set()
    for piece in part.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None or (match[1] == "*" and match[2]):
            raise BadInput(f"schedule {text!r}: {piece!r} is no {field.name}")
        step = _step(match[3], field, text)
        if match[1] == "*":
            first, last = field.least, field.most
        else:
            first = _number(match[1], field, text)
            # as cron has it: 5/15 begins at 5 and has no end of its own
            last = _number(match[2], field, text) if match[2] else field.most if match[3] else first
        if last < first:
            raise BadInput(f"schedule {text!r}: {piece!r} ends before it begins")
        numbers.update(range(first, last + 1, step))
    return frozenset(numbers)


def _step(word: str | None, field: _Field, text: str) -> int:
    if word is None:
        return 1
    if not word.isdigit() or int(word) == 0:
        raise BadInput(f"schedule {text!r}: /{word} is no step of the {field.name}")
    return int(word)


def _number(word: str, field: _Field, text: str) -> int:
    if word.upper() in field.words:
        return field.words.index(word.upper()) + field.least
    if not word.isdigit() or not field.least <= int(word) <= field.most:
        raise BadInput(f"schedule {text!r}: {word!r} is no {field.name}: it is {field.least} to {field.most}")
    return int(word)
