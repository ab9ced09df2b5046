"""Selection of files: what stands against any rewrite of a partition group comes before its strategy."""

from dataclasses import replace
from datetime import datetime

from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy, Tier
from icepact.plan.strategies.selection import FileSelector, Selection, nothing
from icepact.plan.strategies.table import Entry, Strategies
from icepact.plan.tiers import FEWEST, full_is_owed


def select_files(partition_group: PartitionGroup, policy: Policy, now: datetime, strategies: Strategies) -> Selection:
    """Which files of a partition group are worth rewriting, and why, or why none are."""
    if policy.off is not None:
        return nothing(policy.off)
    if partition_group.filtered_out:
        return nothing(f"not asked for: only partitions like {policy.partition}")
    if partition_group.has_duplicate_paths:
        return nothing("refused: a file is live more than once in this snapshot")
    if policy.rewrite_all:
        return Selection(which=FileSelector.ALL, reason="rewrite-all was asked for")
    entry = strategies[policy.strategy]
    selection = _as_deep_as_asked(entry.select(partition_group, policy, now), partition_group, policy)
    if policy.erase and partition_group.facts.all_delete_files:
        selection = _with_touched(selection)
    deeper = (
        selection.which is FileSelector.ALL
        and full_is_owed(partition_group)
        and not _was_due(partition_group, policy, entry)
    )
    may_change = entry.may_change and policy.tier is not Tier.FULL
    if (
        partition_group.unchanged_since is not None
        and (partition_group.compacted_last or not may_change)
        and not deeper
    ):
        reason = f"nothing was written since the run that made snapshot {partition_group.unchanged_since}"
        return nothing(reason)
    return selection


def _was_due(partition_group: PartitionGroup, policy: Policy, entry: Entry) -> bool:
    """Whether the run that last judged it could have rewritten all of it, had there been anything to gain."""
    if partition_group.judged_at is None:
        return False
    then = entry.select(partition_group, policy, partition_group.judged_at)
    return _as_deep_as_asked(then, partition_group, policy).which is FileSelector.ALL


def _with_touched(selection: Selection) -> Selection:
    """What is to be rewritten so that no deleted value stays."""
    match selection.which:
        case FileSelector.NONE:
            return Selection(which=FileSelector.TOUCHED, reason="deleted values are to be erased")
        case FileSelector.SMALL | FileSelector.SMALLEST_ONE:
            reason = f"{selection.reason}; deleted values are to be erased"
            return Selection(which=FileSelector.SMALL_OR_TOUCHED, reason=reason)
        case _:
            return replace(selection, others=())


def _as_deep_as_asked(selection: Selection, partition_group: PartitionGroup, policy: Policy) -> Selection:
    match policy.tier:
        case Tier.FULL if full_is_owed(partition_group) or selection.which is not FileSelector.NONE:
            return Selection(which=FileSelector.ALL, reason="a full rewrite was asked for")
        case Tier.MINOR if selection.which not in (FileSelector.NONE, FileSelector.SMALL, FileSelector.SMALLEST_ONE):
            if partition_group.facts.small_files >= FEWEST:
                return Selection(
                    which=FileSelector.SMALL, reason=f"{selection.reason}; only small files were asked for"
                )
            return nothing(f"{selection.reason}, but only small files were asked for")
        case _:
            return selection
