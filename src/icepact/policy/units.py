"""Numbers as people write them: sizes, lengths of time, money, weights.

Sizes are written `512MB`, `1.5 GiB`, `1048576`, or `512Mi` as in Kubernetes; units are powers of 1024, as in Spark.
Lengths of time are written `45s`, `30m`, `2h`, `1d`. Weights are four numbers, as `0.3,0.3,0.2,0.2` or as a list.
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from icepact.model.errors import BadInput
from icepact.model.policy import PriorityWeights

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:I?B|(?<=[KMGTP])I)?\s*", re.IGNORECASE)
_TIME_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=36525)
"""Whatever is counted with lengths of time stays within the calendar."""
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhd])\s*", re.IGNORECASE)


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
        size = int(Decimal(match[1]) * 1024 ** _POWERS[match[2].upper()])
    if size <= 0:
        raise ValueError(f"{value!r} is not a size: it must be above zero")
    return size


def parse_duration(value: str) -> timedelta:
    """A length of time, or one line that says what would be right."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise BadInput(f"{value!r} is not a length of time: write it like 45s, 30m, 2h or 1d")
    unit = timedelta(**{_TIME_UNITS[match[2].lower()]: 1})
    if float(match[1]) > _LONGEST / unit:
        raise BadInput(f"{value!r} is not a length of time: it is too long, 100 years are the most")
    return float(match[1]) * unit


def _optional_seconds(value: Any) -> Any:
    if value is None:
        return None
    try:
        seconds = (value if isinstance(value, timedelta) else parse_duration(str(value))).total_seconds()
    except BadInput as error:
        raise ValueError(str(error)) from None
    if seconds <= 0:
        raise ValueError(f"{value!r} is not a length of time: it must be above zero")
    return seconds


def _weights(value: Any) -> Any:
    if value is None:
        return None
    parts = value.split(",") if isinstance(value, str) else value
    try:
        weights = PriorityWeights(*(float(part) for part in parts))
    except (TypeError, ValueError):
        raise ValueError("four numbers are wanted, like 0.3,0.3,0.2,0.2") from None
    if not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
        raise ValueError("weights are numbers from 0 on, and one of them is above 0")
    return weights


OptionalSize = Annotated[int | None, BeforeValidator(lambda size: None if size is None else parse_size(size))]
"""A pydantic field that accepts sizes as people write them, or nothing; it holds bytes."""
OptionalSeconds = Annotated[float | None, BeforeValidator(_optional_seconds)]
"""A pydantic field that accepts lengths of time as people write them, or nothing; it holds seconds."""
Seconds = Annotated[float, BeforeValidator(_optional_seconds)]
"""A pydantic field that accepts lengths of time as people write them; it holds seconds."""
Money = Annotated[float | None, Field(gt=0, allow_inf_nan=False)]
"""An amount in the currency of the prices, or nothing."""
OptionalWeights = Annotated[PriorityWeights | None, BeforeValidator(_weights)]
"""A pydantic field that accepts weights as people write them, or nothing."""
