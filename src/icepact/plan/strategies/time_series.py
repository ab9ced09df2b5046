"""Tables that grow with time: light work where data still comes in, everything once where it has stopped."""

from datetime import datetime, timedelta

from icepact.model.errors import BadInput
from icepact.model.formatting import format_duration
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.strategies.selection import FileSelector, Selection, nothing
from icepact.plan.tiers import full_is_owed, major_due, minor_due


def time_series(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection:
    """A partition is open until nothing was committed to it for a while; then it is closed: rewritten fully, once."""
    if partition_group.time is None and not partition_group.target_partitions:
        raise BadInput(
            "time-series: no partition field is over a time; name the column whose partitions follow each other "
            "in time with time_column"
        )
    if partition_group.time is None:  # of an old spec, on its way into the current one
        due = major_due(partition_group, policy) or minor_due(partition_group, policy, now)
        return due or nothing("of an old spec, and nothing to merge")
    quiet = timedelta(seconds=policy.closed_after)
    if partition_group.written_at is not None and now - partition_group.written_at < quiet:
        return minor_due(partition_group, policy, now) or nothing(_still_open(partition_group, policy))
    if full_is_owed(partition_group):
        return Selection(which=FileSelector.ALL, reason=f"closed: no commit for {format_duration(policy.closed_after)}")
    late = major_due(partition_group, policy) or minor_due(partition_group, policy, now)
    return late or nothing("closed, and rewritten fully since the last commit")


def _still_open(partition_group: PartitionGroup, policy: Policy) -> str:
    few = f"{partition_group.facts.small_files} small files, {policy.minor_trigger_files} are wanted"
    return f"still open: last commit on {partition_group.written_at:%Y-%m-%d %H:%M} UTC; {few}"
