"""Whether a run was made in a Spark application before: the first one pays for what is loaded and started once."""

from typing import Any
from weakref import WeakSet

_ran: WeakSet[Any] = WeakSet()


def is_first(spark: Any) -> bool:
    """Whether this process has made no run in this Spark application yet."""
    return spark not in _ran


def runs_now(spark: Any) -> None:
    """Remember that a run has begun in this Spark application."""
    _ran.add(spark)
