"""What a benchmark answers."""

from typing import NamedTuple


class Result(NamedTuple):
    """One figure and the bar it should stay under."""

    what: str
    value: float
    unit: str
    bar: float
    detail: str
