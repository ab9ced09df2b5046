"""A plan for a table whose files are all known, as a run makes it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from icepact.assess.health import assess
from icepact.economics.speeds import Rates
from icepact.model.limits import Limit
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.prices import Prices
from icepact.model.snapshot import PinnedFiles
from icepact.plan import planner
from icepact.stats.table import file_stats_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_plan(
    state: PinnedFiles,
    policy: Policy,
    rates: Rates | None = None,
    *,
    prices: Prices | None = None,
    set_aside: Mapping[str, str] | None = None,
    budget: Sequence[Limit] | None = None,
) -> Plan:
    """Assessed and planned."""
    health = assess(file_stats_of(state), policy)
    return planner.make_plan(health, state, policy, rates, now=NOW, prices=prices, set_aside=set_aside, budget=budget)
