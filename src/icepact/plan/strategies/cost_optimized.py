"""Rewrite whatever saves more than it costs, as deep as that pays."""

from datetime import datetime

from icepact.model.formatting import format_size, plural
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.strategies.selection import FileSelector, Selection, nothing


def cost_optimized(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection:
    """Every depth there is: the planner takes the one that leaves most of its saving, if any does."""
    del now
    facts = partition_group.facts
    small = f"{plural(facts.small_files, 'file')} below {format_size(policy.min_file_size)}"
    records = f"{plural(facts.all_delete_records, 'delete record')} on {plural(facts.rows, 'row')}"
    depths = []
    if facts.small_files > 1:
        depths.append(Selection(which=FileSelector.SMALL, reason=small))
    if facts.all_delete_files:
        depths.append(Selection(which=FileSelector.TOUCHED, reason=records))
    if len(depths) > 1:
        depths.append(Selection(which=FileSelector.SMALL_OR_TOUCHED, reason=f"{small}, {records}"))
    if not depths:
        return nothing("nothing to merge and no deletes")
    return Selection(which=depths[0].which, reason=depths[0].reason, others=tuple(depths[1:]))
