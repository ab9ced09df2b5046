"""Which tier is due for a partition group, by its facts and by the clock: major, then minor, then full, else none.

The clock is an argument, and what it is compared with is kept beside the table, not in it: so that time alone can make
work due on a table that nobody writes to.
"""

from datetime import datetime, timedelta

from icepact.model.formatting import format_duration, format_size, plural
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy, Tier
from icepact.plan.carrying import fragment_ratio, fragments
from icepact.plan.strategies.selection import FileSelector, Selection, nothing

FEWEST = 2
"""Small files below which there is nothing to merge, however long they wait."""


def due(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection:
    """Selection that the triggers ask for."""
    light = major_due(partition_group, policy) or minor_due(partition_group, policy, now)
    if light is not None:
        return light
    if policy.full_trigger_interval is not None and full_is_owed(partition_group):
        last = partition_group.compacted_at.get(Tier.FULL)
        # what another tier has just rewritten waits as long, and then needs no news
        since = max(partition_group.compacted_at.values(), default=None) if partition_group.compacted_last else last
        if since is None or now - since >= timedelta(seconds=policy.full_trigger_interval):
            when = "never" if last is None else f"last on {last:%Y-%m-%d %H:%M} UTC"
            reason = f"full every {format_duration(policy.full_trigger_interval)}, {when}"
            return Selection(which=FileSelector.ALL, reason=reason)
    return nothing(_not_due(partition_group, policy))


def major_due(partition_group: PartitionGroup, policy: Policy) -> Selection | None:
    """Deletes weigh too much, by their records or by the files that must be opened for them."""
    facts = partition_group.facts
    if facts.delete_ratio > policy.max_delete_ratio:
        records, rows = plural(facts.all_delete_records, "delete record"), plural(facts.rows, "row")
        return Selection(which=FileSelector.SMALL_OR_TOUCHED, reason=f"{records} on {rows}")
    if fragment_ratio(facts, policy) > policy.max_fragment_ratio:
        files, data = plural(fragments(facts, policy), "delete file"), plural(facts.data_files, "data file")
        return Selection(which=FileSelector.SMALL_OR_TOUCHED, reason=f"{files} on {data}")
    return None


def minor_due(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection | None:
    """Enough small files, or a few of them for some time."""
    small = partition_group.facts.small_files
    what = f"{plural(small, 'file')} below {format_size(policy.min_file_size)}"
    if small >= policy.minor_trigger_files:
        return Selection(which=FileSelector.SMALL, reason=what)
    if small < FEWEST:
        return None
    moments = (*partition_group.compacted_at.values(), partition_group.small_since)
    since = max((moment for moment in moments if moment is not None), default=None)
    if since is not None and now - since < timedelta(seconds=policy.minor_trigger_interval):
        return None
    return Selection(
        which=FileSelector.SMALL, reason=f"{what} for {format_duration(policy.minor_trigger_interval)} or more"
    )


def full_is_owed(partition_group: PartitionGroup) -> bool:
    """Whether something was written since the last full rewrite, or there was none."""
    last = partition_group.compacted_at.get(Tier.FULL)
    return last is None or (partition_group.written_at is not None and partition_group.written_at > last)


def _not_due(partition_group: PartitionGroup, policy: Policy) -> str:
    small = partition_group.facts.small_files
    if small < FEWEST:
        return "nothing to merge, and few deletes or none"
    what = f"{plural(small, 'file')} below {format_size(policy.min_file_size)}"
    wait = format_duration(policy.minor_trigger_interval)
    return f"only {what}, for less than {wait}; {policy.minor_trigger_files} are due at once"
