"""Rewrite what deletes apply to, where they weigh too much; small files are left as they are."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.words import counted
from icepact.plan.strategies.choice import Choice, Which


def deletes(place: Place, policy: Policy, now: datetime) -> Choice:
    """By delete records first, whatever holds them; then by the files that must be opened for them; then by those that
    apply to nothing, which cost no scan anything, and so are worth no more than a small file."""
    del now
    facts = place.facts
    records, rows = counted(facts.all_delete_records, "delete record"), counted(facts.rows, "row")
    files, data = counted(facts.all_delete_files, "delete file"), counted(facts.data_files, "data file")
    if facts.delete_ratio > policy.max_delete_ratio:
        return Choice(which=Which.TOUCHED, reason=f"{records} on {rows}")
    if facts.fragment_ratio > policy.max_fragment_ratio:
        return Choice(which=Which.TOUCHED, reason=f"{files} on {data}")
    if place.dangling:
        idle = counted(place.dangling, "delete file")
        idle += " applies to nothing" if place.dangling == 1 else " apply to nothing"
        if facts.small_files:
            return Choice(which=Which.LIGHTEST, reason=f"{idle}; they go with the commit of its smallest file")
        return Choice(which=Which.NONE, reason=f"{idle}, but no file is small enough to be rewritten for that")
    if not facts.all_delete_files:
        return Choice(which=Which.NONE, reason="no deletes")
    return Choice(which=Which.NONE, reason=f"only {records} on {rows}, and {files} on {data}")
