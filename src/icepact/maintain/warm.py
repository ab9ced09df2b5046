"""Whether a run was made in a Spark application before: the first one pays for what is loaded and started once."""

from typing import Any
from weakref import WeakSet

_ran: WeakSet[Any] = WeakSet()


def is_first(spark: Any) -> bool:
    """Whether the next run is the first that this process makes."""
    return spark not in _ran


def runs_now(spark: Any) -> None:
    """A run has begun."""
    _ran.add(spark)
