"""Shortlist: of all decisions those that a budget can reach. The files of the others need not be listed."""

from collections.abc import Sequence

from icepact.model.decision import Decision
from icepact.model.limits import Demand, Limit
from icepact.model.plan import LeftOut
from icepact.plan.greedy import Budget, over_budget

_LEEWAY = 1.125
"""More than the budget is listed, so that there is something to choose from."""


def shortlist(decisions: Sequence[Decision], limits: Sequence[Limit]) -> tuple[list[Decision], list[LeftOut]]:
    """Decisions by what they save for what they take, until a limit is passed; and what is left out unlisted."""
    budget = Budget(limits)
    if budget.allows(Demand.sum(decision.demand for decision in decisions)):
        return list(decisions), []
    used = Demand()
    listed: list[Decision] = []
    left_out: list[LeftOut] = []
    by_name = sorted(decisions, key=lambda d: d.partition_group.name)
    for decision in sorted(by_name, key=lambda d: -budget.density(d.gain.scan_seconds, d.demand)):
        over = [limit.name for limit in limits if used.of(limit.resource) >= limit.amount * _LEEWAY]
        if over:
            name, files, size = decision.partition_group.name, decision.files, decision.bytes
            left_out.append(LeftOut(partition=name, files=files, bytes=size, reason=over_budget(over)))
            continue
        listed.append(decision)
        if budget.allows(decision.demand) or not decision.partition_group.target_partitions:
            used += decision.demand  # files of old specs that do not fit whole may be left out: others take their place
    return listed, left_out
