"""Lengths of time as people write them: `45s`, `30m`, `2h`, `1d`."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

from icepact.model.errors import BadInput

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*", re.IGNORECASE)


def parse_duration(value: str) -> timedelta:
    """A length of time, or one line that says what would be right."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise BadInput(f"{value!r} is not a length of time: write it like 45s, 30m, 2h or 1d")
    return timedelta(**{_UNITS[match[2].lower()]: float(match[1])})


def _optional_seconds(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    try:
        return int(parse_duration(str(value)).total_seconds())
    except BadInput as error:
        raise ValueError(str(error)) from None


OptionalDuration = Annotated[int | None, BeforeValidator(_optional_seconds)]
"""A pydantic field in seconds that accepts lengths of time as people write them, or nothing."""
