"""How much each share counts in the priority of a partition: four numbers, as `0.3,0.3,0.2,0.2` or as a list."""

from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator


class PriorityWeights(NamedTuple):
    """Weights of the four shares, in the order in which they are written."""

    files: float
    """Of the number of data files."""
    fragments: float
    """Of delete files over data files."""
    age: float
    """Of the time since the last compaction."""
    small_files: float
    """Of small files over data files."""


def _weights(value: Any) -> Any:
    if value is None:
        return None
    parts = value.split(",") if isinstance(value, str) else value
    try:
        found = PriorityWeights(*(float(part) for part in parts))
    except (TypeError, ValueError):
        raise ValueError("four numbers are wanted, like 0.3,0.3,0.2,0.2") from None
    if not all(0 <= weight < float("inf") for weight in found) or not any(found):
        raise ValueError("weights are numbers from 0 on, and one of them is above 0")
    return found


OptionalWeights = Annotated[PriorityWeights | None, BeforeValidator(_weights)]
"""A pydantic field that accepts weights as people write them, or nothing."""
