"""Of groups that were planned before, those that a budget of now allows, each whole."""

from collections.abc import Sequence

from icepact.model.budget import Limit
from icepact.model.plan import RewriteFiles
from icepact.plan.budget import taken
from icepact.plan.knapsack import best_choice, fits, plus

_LEEWAY = 1 + 1e-9
"""For sums of many small amounts: a plan that was within its limits still is."""


def affordable(steps: Sequence[RewriteFiles], limits: Sequence[Limit]) -> tuple[list[RewriteFiles], dict[str, str]]:
    """The groups that bring the most within every limit, in their order; of the others by id, what forbids them."""
    amounts = tuple(limit.amount * _LEEWAY for limit in limits)
    weights = [tuple(taken(step, limit.resource) for limit in limits) for step in steps]
    used = (0.0,) * len(limits)
    for weight in weights:
        used = plus(used, weight)
    if fits(used, amounts):
        return list(steps), {}
    chosen = set(best_choice([step.gain.scan_seconds for step in steps], weights, amounts))
    used = (0.0,) * len(limits)
    for number in chosen:
        used = plus(used, weights[number])
    refused = {}
    for number, step in enumerate(steps):
        if number not in chosen:
            wanted = plus(used, weights[number])
            names = [limit.name for limit, want, most in zip(limits, wanted, amounts, strict=True) if want > most]
            refused[step.group_id] = f"over the budget ({', '.join(names or [limit.name for limit in limits])})"
    return [step for number, step in enumerate(steps) if number in chosen], refused
