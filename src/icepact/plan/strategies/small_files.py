"""Merge small files; where deletes weigh too much, rewrite what they apply to as well."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.sizes import format_size
from icepact.model.words import counted
from icepact.plan.strategies.choice import Choice, Which


def small_files(place: Place, policy: Policy, now: datetime) -> Choice:
    """Enough small files, too many files at all, or too many deletes."""
    del now
    facts = place.facts
    threshold = format_size(policy.min_file_size)
    if facts.delete_ratio > policy.max_delete_ratio:
        records, rows = counted(facts.all_delete_records, "delete record"), counted(facts.rows, "row")
        return Choice(which=Which.SMALL_OR_TOUCHED, reason=f"{records} on {rows}")
    if not facts.small_files:
        return Choice(which=Which.NONE, reason=f"no file below {threshold}")
    if facts.data_files > policy.max_file_count_per_partition:
        reason = f"{counted(facts.data_files, 'file')}, more than {policy.max_file_count_per_partition:,}"
    elif facts.small_files >= policy.min_input_files:
        reason = f"{counted(facts.small_files, 'file')} below {threshold}"
    elif facts.data_files > 1 and facts.average_size < policy.min_file_size:
        reason = f"{facts.data_files} files of {format_size(facts.average_size)} on average, below {threshold}"
    else:
        few = counted(facts.small_files, "file")
        return Choice(which=Which.NONE, reason=f"only {few} below {threshold}, {policy.min_input_files} are wanted")
    return Choice(which=Which.SMALL, reason=reason)
