"""Of all places that are worth it, those that a budget can reach: the others need not be listed file by file."""

from collections.abc import Sequence
from typing import assert_never

from icepact.model.budget import Limit, Resource
from icepact.model.decision import Decision
from icepact.model.plan import LeftOut

_LEEWAY = 1.125
"""More than the budget is listed, so that there is something to choose from."""


def shortlist(decisions: Sequence[Decision], limits: Sequence[Limit]) -> tuple[list[Decision], list[LeftOut]]:
    """Places by what they save for what they take, until a limit is passed; and what is left out without a look."""
    if all(sum(_taken(d, limit.resource) for d in decisions) <= limit.amount for limit in limits):
        return list(decisions), []
    used = dict.fromkeys(limits, 0.0)
    listed: list[Decision] = []
    left_out: list[LeftOut] = []
    for decision in sorted(decisions, key=lambda d: (-_density(d, limits), d.place.name)):
        over = [limit.name for limit in limits if used[limit] >= limit.amount * _LEEWAY]
        if over:
            reason = f"over the budget ({', '.join(over)})"
            name, files, size = decision.place.name, decision.files, decision.bytes
            left_out.append(LeftOut(partition=name, files=files, bytes=size, reason=reason))
            continue
        listed.append(decision)
        for limit in limits:
            used[limit] += _taken(decision, limit.resource)
    return listed, left_out


def _density(decision: Decision, limits: Sequence[Limit]) -> float:
    """What scans save for each part of the limits."""
    share = sum(_taken(decision, limit.resource) / limit.amount for limit in limits if limit.amount > 0)
    return decision.gain.scan_seconds / share if share else float("inf")


def _taken(decision: Decision, resource: Resource) -> float:
    match resource:
        case Resource.FILES:
            return decision.files
        case Resource.BYTES:
            return decision.bytes
        case Resource.SECONDS:
            return decision.cost.seconds
        case Resource.MONEY:
            return decision.cost.money
        case _:
            assert_never(resource)
