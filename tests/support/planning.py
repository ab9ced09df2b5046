"""A plan for a table whose files are all known, as a run makes it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from icepact.assess.health import assess
from icepact.economics.speeds import Rates
from icepact.economics.valuation import Valuation
from icepact.model.limits import Limit
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.snapshot import PinnedFiles
from icepact.plan import planner
from icepact.plan.decide import DecisionMemo, decide
from icepact.plan.strategies.table import STRATEGIES, Strategies
from icepact.stats.table import file_stats_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def decided(
    state: PinnedFiles,
    policy: Policy,
    rates: Rates | None = None,
    *,
    prices: Prices | None = None,
    valuation: Valuation | None = None,
    last_compacted: Mapping[str, Mapping[str, datetime]] | None = None,
    strategies: Strategies = STRATEGIES,
) -> DecisionMemo:
    """Assessed and decided about."""
    stats = file_stats_of(state)
    health = assess(stats, policy, last_compacted=last_compacted or {})
    valuation = valuation or Valuation(now=NOW, currency=(prices or Prices.of(DEFAULT_PRESET)).currency)
    return decide(health, stats, policy, rates, prices=prices, valuation=valuation, strategies=strategies)


def make_plan(
    state: PinnedFiles,
    policy: Policy,
    rates: Rates | None = None,
    *,
    set_aside: Mapping[str, str] | None = None,
    budget: Sequence[Limit] | None = None,
    **given: Any,
) -> Plan:
    """Assessed, decided about and planned."""
    return planner.make_plan(decided(state, policy, rates, **given), state, set_aside=set_aside, budget=budget)
