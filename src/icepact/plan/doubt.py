"""Doubt: what a strategy asks for although `auto` would refuse it. For rankings of tables."""

from icepact.economics.valuation import Valuation
from icepact.model.formatting import plural
from icepact.plan.decide import DecisionMemo
from icepact.plan.profit import profitability


def doubt(decided: DecisionMemo, valuation: Valuation) -> str:
    """How much of what is chosen `auto` would refuse, with what it has learned, and why the dearest part; empty if
    nothing."""
    policy, picked = decided.policy, decided.picked.values()
    dearest_first = sorted(picked, key=lambda one: (-one.cost.money.likely, one.partition_group.name))
    reasons = (profitability(candidate, valuation, policy).reason for candidate in dearest_first)
    refused = [reason for reason in reasons if reason]
    if not refused:
        return ""
    share = f"{len(refused)} of {plural(len(picked), 'partition')}" if len(picked) > 1 else "it"
    return f"{policy.strategy} asks for it, auto would leave {share} alone: {refused[0]}"
