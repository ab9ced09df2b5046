"""Rewrite what deletes apply to, where they weigh too much; small files are left as they are."""

from datetime import datetime

from icepact.model.formatting import plural
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.carrying import fragment_ratio, fragments
from icepact.plan.strategies.selection import FileSelector, Selection, nothing


def deletes(partition_group: PartitionGroup, policy: Policy, now: datetime) -> Selection:
    """By delete records first, whatever holds them; then by the files that must be opened for them; then by those that
    apply to nothing, which cost no scan anything, and so are worth no more than a small file."""
    del now
    facts = partition_group.facts
    records, rows = plural(facts.all_delete_records, "delete record"), plural(facts.rows, "row")
    files, data = plural(facts.all_delete_files, "delete file"), plural(facts.data_files, "data file")
    if facts.delete_ratio > policy.max_delete_ratio:
        return Selection(which=FileSelector.TOUCHED, reason=f"{records} on {rows}")
    if fragment_ratio(facts, policy) > policy.max_fragment_ratio:
        files = plural(fragments(facts, policy), "delete file")
        return Selection(which=FileSelector.TOUCHED, reason=f"{files} on {data}")
    if partition_group.dangling:
        idle = plural(partition_group.dangling, "delete file")
        idle += " applies to nothing" if partition_group.dangling == 1 else " apply to nothing"
        if facts.small_files:
            return Selection(
                which=FileSelector.SMALLEST_ONE, reason=f"{idle}; they go with the commit of its smallest file"
            )
        return nothing(f"{idle}, but no file is small enough to be rewritten for that")
    if not facts.all_delete_files:
        return nothing("no deletes")
    return nothing(f"only {records} on {rows}, and {files} on {data}")
