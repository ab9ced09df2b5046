"""Merge small files; where deletes weigh too much, rewrite what they apply to as well."""

from datetime import datetime

from icepact.model.formatting import format_size, plural
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.strategies.selection import FileSelector, Selection, nothing


def small_files(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection:
    """Enough small files, too many files at all, or too many deletes."""
    del now
    facts = partition_group.facts
    threshold = format_size(policy.min_file_size)
    if facts.delete_ratio > policy.max_delete_ratio:
        records, rows = plural(facts.all_delete_records, "delete record"), plural(facts.rows, "row")
        return Selection(which=FileSelector.SMALL_OR_TOUCHED, reason=f"{records} on {rows}")
    if not facts.small_files:
        return nothing(f"no file below {threshold}")
    if facts.data_files > policy.max_file_count_per_partition:
        reason = f"{plural(facts.data_files, 'file')}, more than {policy.max_file_count_per_partition:,}"
    elif facts.small_files >= policy.min_input_files:
        reason = f"{plural(facts.small_files, 'file')} below {threshold}"
    elif facts.data_files > 1 and facts.average_size < policy.min_file_size:
        reason = f"{facts.data_files} files of {format_size(facts.average_size)} on average, below {threshold}"
    else:
        few = plural(facts.small_files, "file")
        return nothing(f"only {few} below {threshold}, {policy.min_input_files} are wanted")
    return Selection(which=FileSelector.SMALL, reason=reason)
