"""Rewrite whatever saves more than it costs, as deep as that pays."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.sizes import format_size
from icepact.model.words import counted
from icepact.plan.strategies.choice import Choice, Which


def cost_optimized(place: Place, policy: Policy, now: datetime) -> Choice:
    """Every depth there is: the planner takes the one that leaves most of its saving, if any does."""
    del now
    facts = place.facts
    small = f"{counted(facts.small_files, 'file')} below {format_size(policy.min_file_size)}"
    records = f"{counted(facts.all_delete_records, 'delete record')} on {counted(facts.rows, 'row')}"
    depths = []
    if facts.small_files > 1:
        depths.append(Choice(which=Which.SMALL, reason=small))
    if facts.all_delete_files:
        depths.append(Choice(which=Which.TOUCHED, reason=records))
    if len(depths) > 1:
        depths.append(Choice(which=Which.SMALL_OR_TOUCHED, reason=f"{small}, {records}"))
    if not depths:
        return Choice(which=Which.NONE, reason="nothing to merge and no deletes")
    return Choice(which=depths[0].which, reason=depths[0].reason, others=tuple(depths[1:]))
