"""Patterns of dates as Java's DateTimeFormatter writes them, as far as they are numbers of a fixed width."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from icepact.model.errors import BadInput

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # of local times: no zone is meant
MICROSECOND = timedelta(microseconds=1)
_FIELDS = {"yyyy": "year", "uuuu": "year", "MM": "month", "dd": "day", "HH": "hour", "mm": "minute", "ss": "second"}
"""By the letters that are known; a run of S is a fraction of a second."""
_ORDER = ("year", "month", "day", "hour", "minute", "second", "fraction")
_LOWEST = {"year": 1, "month": 1, "day": 1}
_HIGHEST = {"year": 9999, "month": 12, "hour": 23, "minute": 59, "second": 59}
_TOKENS = re.compile(r"'((?:[^']|'')+)'|''|([A-Za-z])\2*|([^A-Za-z'\[\]{}#])")
_MOST_DIGITS = 6
"""Of a fraction of a second."""


class _Part(NamedTuple):
    """One part of a pattern."""

    field: str
    """One of `_ORDER`; empty for a literal."""
    text: str
    """As it stands in the pattern, without quotes."""

    @property
    def width(self) -> int:
        """Characters in a text."""
        return len(self.text)


def micros_of(local: datetime) -> int:
    """A local time as microseconds since 1970."""
    return (local - EPOCH) // MICROSECOND


FIRST, LAST = (micros_of(local) for local in (datetime.min, datetime.max))  # noqa: DTZ901  # local times
"""Between these, there is a calendar."""


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A pattern that texts with a time follow."""

    text: str
    """As it was given."""
    parts: tuple[_Part, ...]
    fields: tuple[str, ...]
    """From the year to the smallest that it has."""

    @property
    def sortable(self) -> bool:
        """Whether texts sort as their times do."""
        return tuple(part.field for part in self.parts if part.field) == self.fields

    @property
    def smallest(self) -> str:
        """The smallest field: what is below it, a text does not tell."""
        return self.fields[-1]

    def format(self, local: datetime) -> str:
        """The text of a local time."""
        return "".join(_shown(part, local) if part.field else part.text for part in self.parts)

    def start(self, text: str) -> int | None:
        """When what a text says begins, in local microseconds; `None` if it does not follow the pattern."""
        values = self._values(text)
        return None if values is None else self._start(values)

    def end(self, text: str) -> int | None:
        """When what a text says is over."""
        values = self._values(text)
        return None if values is None else self._end(values, inclusive=True)

    def earliest(self, text: str) -> int | None:
        """When the earliest of the texts that sort at or after this one begins, which may have been cut off; `None` if
        it cannot be the beginning of one that follows the pattern."""
        filled, rest = text, len(text)
        for part in self.parts:
            if part.width > rest:
                filled += ("0" * part.width if part.field else part.text)[rest:]
            rest = max(0, rest - part.width)
        values = self._values(filled, whole=False)
        if values is None or (values and values[0] < 1):
            return None
        return self._start([max(value, _LOWEST.get(f, 0)) for f, value in zip(self.fields, values, strict=True)])

    def latest_end(self, text: str) -> int | None:
        """When whatever sorts at or before a text, and follows the pattern, is over; `None` if that cannot be said.

        The text may be an upper bound: cut off, and its last character raised.
        """
        values: list[int] = []
        at = 0
        for part in self.parts:
            cut, at = text[at : at + part.width], at + part.width
            if not part.field:
                if cut != part.text:
                    return self._end(values, inclusive=cut > part.text)
                continue
            digits = re.match("[0-9]*", cut)
            known = digits[0] if digits else ""
            if len(known) < part.width:
                above = len(cut) > len(known) and cut[len(known)] > "9"
                values.append(int(known.ljust(part.width, "9" if above else "0")))
                return self._end(values, inclusive=above)
            values.append(int(known))
        return self._end(values, inclusive=True)

    def _values(self, text: str, *, whole: bool = True) -> list[int] | None:
        """The numbers in a text, from the year on; `whole` wants every one of them to be possible."""
        found: dict[str, int] = {}
        at = 0
        for part in self.parts:
            cut, at = text[at : at + part.width], at + part.width
            if not part.field:
                if cut != part.text:
                    return None
            elif not re.fullmatch("[0-9]+", cut) or len(cut) < part.width:
                return None
            else:
                found[part.field] = int(cut)
        if len(text) != at:
            return None
        values = [found[name] for name in self.fields]
        return None if whole and self._start(values) is None else values

    def _start(self, values: Sequence[int]) -> int | None:
        known = dict(zip(self.fields, values, strict=False))
        fraction = known.pop("fraction", 0) * self._fraction
        given = [known.get(name, 1 if name in _LOWEST else 0) for name in _ORDER[:-1]]
        try:
            year, month, day, hour, minute, second = given
            return micros_of(datetime(year, month, day, hour, minute, second, fraction))  # noqa: DTZ001
        except ValueError:
            return None

    @property
    def _fraction(self) -> int:
        """Microseconds in the last digit of a fraction."""
        width = next((part.width for part in self.parts if part.field == "fraction"), _MOST_DIGITS)
        return int(10 ** (_MOST_DIGITS - width))

    def _end(self, values: Sequence[int], *, inclusive: bool) -> int | None:
        """When the last of the times is over whose numbers are below these, or begin with them if `inclusive`; `None`
        if there is none, or no last one."""
        for count, (name, value) in enumerate(zip(self.fields, values, strict=False)):
            before = values[:count]
            if value < _LOWEST.get(name, 0):
                return self._end(before, inclusive=False)
            highest = self._days(before) if name == "day" else _HIGHEST.get(name, value)
            if value > highest:
                return self._end(before, inclusive=True)
        if not values:
            return None
        return self._after(values) if inclusive else self._start(values)

    def _days(self, before: Sequence[int]) -> int:
        year, month = before
        following = datetime(year + month // 12, month % 12 + 1, 1) if year < 9999 else None  # noqa: DTZ001
        return 31 if following is None else (following - timedelta(days=1)).day

    def _after(self, values: Sequence[int]) -> int | None:
        """The beginning of what follows these numbers."""
        start, name = self._start(values), self.fields[len(values) - 1]
        if start is None:
            return None
        if name == "fraction":
            return start + self._fraction
        return following_start(start, name)


def following_start(start: int, name: str) -> int | None:
    """The beginning of the year, month, day, hour, minute or second after the one that begins at `start`; `None` if
    there is none before the year 10000."""
    try:
        local = EPOCH + start * MICROSECOND
        match name:
            case "year":
                return micros_of(local.replace(year=local.year + 1))
            case "month":
                return micros_of(local.replace(year=local.year + local.month // 12, month=local.month % 12 + 1))
        return micros_of(local + timedelta(**{f"{name}s": 1}))
    except (ValueError, OverflowError):
        return None


def _shown(part: _Part, local: datetime) -> str:
    if part.field == "fraction":
        return f"{local.microsecond:06d}"[: part.width]
    return f"{getattr(local, part.field):0{part.width}d}"


def parse_pattern(text: str) -> DatePattern:
    """A pattern, or one line that says what is wrong with it."""
    parts: list[_Part] = []
    at = 0
    while at < len(text):
        token = _TOKENS.match(text, at)
        if token is None:
            raise BadInput(f"pattern {text!r} does not parse at {text[at:]!r}: {_hint(text[at])}")
        parts.append(_part(text, token))
        at = token.end()
    found = [part.field for part in parts if part.field]
    fields = _ORDER[: len(found)]
    if len(set(found)) < len(found):
        raise BadInput(f"pattern {text!r}: the same part of a time stands there twice")
    if set(found) != set(fields) or not fields:
        wanted = next((name for name in _ORDER if name not in found), "year")
        raise BadInput(f"pattern {text!r} has no {wanted}: write it like yyyy-MM-dd or yyyyMMddHH")
    return DatePattern(text, tuple(parts), fields)


def _part(text: str, token: re.Match[str]) -> _Part:
    if token[2] is None:
        return _Part("", (token[1] or token[3] or "'").replace("''", "'"))
    letters = token[0]
    if set(letters) == {"S"} and len(letters) <= _MOST_DIGITS:
        return _Part("fraction", letters)
    if letters not in _FIELDS:
        raise BadInput(
            f"pattern {text!r}: {letters!r} is not known; there is: {', '.join(_FIELDS)}, S to SSSSSS,"
            f" and other text in quotes, as in 'T'"
        )
    return _Part(_FIELDS[letters], letters)


def _hint(character: str) -> str:
    return "the quote is never closed" if character == "'" else f"{character!r} wants quotes around it"
