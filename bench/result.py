"""What a benchmark answers."""

from typing import NamedTuple


class Result(NamedTuple):
    """One figure and the bar it should stay under, if it has one."""

    what: str
    value: float
    unit: str
    bar: float | None
    detail: str
