"""Sizes as people write them: `512MB`, `1.5 GiB`, `1048576`, `512Mi` as in Kubernetes. Units are powers of 1024, as in
Spark."""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:I?B|(?<=[KMGTP])I)?\s*", re.IGNORECASE)


def parse_size(value: Any) -> int:
    """Bytes of a size such as `512MB`; raises ValueError with what would be right."""
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a size: write it like 512MB")
    if isinstance(value, int):
        size = value
    else:
        match = _SIZE.fullmatch(str(value))
        if match is None:
            raise ValueError(f"{value!r} is not a size: write it like 512MB, 1.5GB or 1048576")
        size = int(Decimal(match[1]) * 1024 ** _UNITS[match[2].upper()])
    if size <= 0:
        raise ValueError(f"{value!r} is not a size: it must be above zero")
    return size


def format_size(size: float) -> str:
    """A size for people: three digits and a unit."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PB"


def _optional_size(value: Any) -> Any:
    return None if value is None else parse_size(value)


READS_SIZES = BeforeValidator(_optional_size)
OptionalSize = Annotated[int | None, READS_SIZES]
"""A pydantic field that accepts sizes as people write them, or nothing."""
