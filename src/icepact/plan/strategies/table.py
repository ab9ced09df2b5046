"""All strategies, by name; an application adds its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from icepact.economics.valuation import Valuation
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy, Strategy
from icepact.plan.candidate import Candidate
from icepact.plan.profit import Profitability, profitability
from icepact.plan.strategies.cost_optimized import cost_optimized
from icepact.plan.strategies.deletes import deletes
from icepact.plan.strategies.selection import Selection
from icepact.plan.strategies.small_files import small_files
from icepact.plan.strategies.time_series import time_series
from icepact.plan.tiers import due
from icepact.policy.options import strategy_names

SelectFiles = Callable[[PartitionGroup, Policy, datetime], Selection]
Worth = Callable[[Candidate, Valuation, Policy], Profitability]


@dataclass(frozen=True, slots=True)
class Entry:
    """A strategy: how it selects files, and by what it is judged whether they are worth it."""

    select: SelectFiles
    """Which files of a partition group are meant."""
    worth: Worth | None = None
    """Whether rewriting them is worth it; `None` if that is not asked. What is refused now may be worth it later."""
    timed: bool = False
    """Whether the clock alone can make work due."""

    @property
    def may_change(self) -> bool:
        """Whether what is left alone now can be chosen later, though nothing was written."""
        return self.timed or self.worth is not None


Strategies = Mapping[str, Entry]
STRATEGIES: Strategies = MappingProxyType(
    {
        Strategy.SMALL_FILES: Entry(small_files),
        Strategy.DELETES: Entry(deletes),
        Strategy.TIME_SERIES: Entry(time_series, timed=True),
        Strategy.COST_OPTIMIZED: Entry(cost_optimized, profitability),
        Strategy.AUTO: Entry(due, profitability, timed=True),
    }
)
"""The built-in ones."""


def with_own(own: Mapping[str, SelectFiles]) -> Strategies:
    """The built-in strategies and one's own; the names above are taken."""
    strategy_names(own)
    return {**STRATEGIES, **{name: Entry(select) for name, select in own.items()}}
