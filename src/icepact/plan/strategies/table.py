"""All strategies, by name; users add theirs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from icepact.model.errors import BadInput
from icepact.model.health import Place
from icepact.model.outlook import Outlook
from icepact.model.policy import Policy, Strategy, add_strategy
from icepact.plan.prospect import Prospect
from icepact.plan.strategies.auto import auto
from icepact.plan.strategies.choice import Choice
from icepact.plan.strategies.cost_optimized import cost_optimized
from icepact.plan.strategies.deletes import deletes
from icepact.plan.strategies.small_files import small_files
from icepact.plan.strategies.time_series import time_series
from icepact.plan.worth import Verdict, worth

Choose = Callable[[Place, Policy, datetime], Choice]
Worth = Callable[[Prospect, Outlook, Policy], Verdict]


@dataclass(frozen=True, slots=True)
class Entry:
    """One strategy."""

    choose: Choose
    """Which files of a place are meant."""
    worth: Worth | None = None
    """Whether rewriting them is worth it; null if that is not asked. What is refused now may be worth it later."""
    timed: bool = False
    """Whether the clock alone can make work due."""

    @property
    def may_change(self) -> bool:
        """Whether what is left alone now can be chosen later, though nothing was written."""
        return self.timed or self.worth is not None


STRATEGIES: dict[str, Entry] = {
    Strategy.SMALL_FILES: Entry(small_files),
    Strategy.DELETES: Entry(deletes),
    Strategy.TIME_SERIES: Entry(time_series, timed=True),
    Strategy.COST_OPTIMIZED: Entry(cost_optimized, worth),
    Strategy.AUTO: Entry(auto, worth, timed=True),
}


def register(name: str, choose: Choose, worth: Worth | None = None) -> None:
    """Add a strategy of one's own, or put another one in its place; the names above are taken."""
    if name in set(Strategy):
        raise BadInput(f"strategy {name} is built in: choose another name")
    add_strategy(name)
    STRATEGIES[name] = Entry(choose, worth)
