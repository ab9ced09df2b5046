"""Lengths of time as people write them: `45s`, `30m`, `2h`, `1d`."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

from icepact.model.errors import BadInput

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*", re.IGNORECASE)


def parse_duration(value: str) -> timedelta:
    """A length of time, or one line that says what would be right."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise BadInput(f"{value!r} is not a length of time: write it like 45s, 30m, 2h or 1d")
    return timedelta(**{_UNITS[match[2].lower()]: float(match[1])})


def format_duration(seconds: float) -> str:
    """A length of time in the largest unit that leaves no rest."""
    unit = next((u for u, size in _SECONDS.items() if seconds >= size and seconds % size == 0), "s")
    return f"{seconds / _SECONDS[unit]:g}{unit}"


def _optional_seconds(value: Any) -> Any:
    if value is None:
        return None
    try:
        seconds = (value if isinstance(value, timedelta) else parse_duration(str(value))).total_seconds()
    except (BadInput, OverflowError) as error:
        raise ValueError(str(error)) from None
    if seconds <= 0:
        raise ValueError(f"{value!r} is not a length of time: it must be above zero")
    return seconds


READS_SECONDS = BeforeValidator(_optional_seconds)
OptionalSeconds = Annotated[float | None, READS_SECONDS]
"""A pydantic field that accepts lengths of time as people write them, or nothing; it holds seconds."""
