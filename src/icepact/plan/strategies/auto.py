"""Rewrite what is due, if it is worth it after all that was learned from earlier runs."""

from datetime import datetime

from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.strategies.selection import Selection
from icepact.plan.tiers import due


def auto(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection:
    """What the tiers say is due."""
    return due(partition_group, policy, now)
