"""Whether the deletes that no group of a plan takes along are converted beside it, while their data files stay."""

from collections.abc import Sequence

from icepact.economics.valuation import Valuation
from icepact.model.delete_files import ConvertDeletes
from icepact.model.formatting import format_duration, format_money
from icepact.model.health import Facts
from icepact.model.limits import Demand, Limit
from icepact.model.policy import DeletesOption, Policy, Strategy
from icepact.plan.carrying import may_carry
from icepact.plan.profit import price_of

_STRATEGIES = frozenset({Strategy.DELETES, Strategy.COST_OPTIMIZED, Strategy.AUTO})
"""Those that care for deletes."""
_VECTORS = "dv"


def may_convert(policy: Policy, facts: Facts) -> bool:
    """Whether a plan by this policy looks for deletes to convert: of the whole head, if deletes may stay."""
    part = policy.where is not None or policy.partition is not None or policy.snapshot_id is not None
    if part or not may_carry(policy) or policy.rewrite_all or policy.strategy not in _STRATEGIES:
        return False
    return any(count for kind, count in facts.delete_files.items() if kind != _VECTORS)  # a vector is as it should be


def why_not_converted(
    step: ConvertDeletes, policy: Policy, valuation: Valuation, limits: Sequence[Limit], used: Demand
) -> str:
    """Why the step is left out; empty if it is not. `used` is what the groups of the plan use up."""
    demand = used + Demand(seconds=step.cost.seconds.likely, money=step.cost.money.likely)
    over = [limit.name for limit in limits if demand.of(limit.resource) > limit.amount]
    if over:
        return f"over the budget ({', '.join(over)})"
    if policy.strategy == Strategy.DELETES and policy.deletes is DeletesOption.CARRY:
        return ""
    price = price_of(step.cost, valuation)
    saving = step.scan_seconds * valuation.money_per_scan_second * policy.scans_per_day * policy.horizon / (24 * 3600)
    if saving >= price:
        return ""
    saved, cost = format_money(saving, valuation.currency), format_money(price, valuation.currency)
    return f"not worth it: scans would save {saved} in {format_duration(policy.horizon)}, and it costs {cost}"
