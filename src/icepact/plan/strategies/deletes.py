"""Rewrite what deletes apply to, where they weigh too much; small files are left as they are."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.words import counted
from icepact.plan.strategies.choice import Choice, Which


def deletes(place: Place, policy: Policy, now: datetime) -> Choice:
    """By delete records first, whatever holds them; then by the files that must be opened for them."""
    del now
    facts = place.facts
    records, rows = counted(facts.all_delete_records, "delete record"), counted(facts.rows, "row")
    files, data = counted(facts.all_delete_files, "delete file"), counted(facts.data_files, "data file")
    if facts.delete_ratio > policy.max_delete_ratio:
        return Choice(which=Which.TOUCHED, reason=f"{records} on {rows}")
    if facts.fragment_ratio > policy.max_fragment_ratio:
        return Choice(which=Which.TOUCHED, reason=f"{files} on {data}")
    if not facts.all_delete_files:
        return Choice(which=Which.NONE, reason="no deletes")
    return Choice(which=Which.NONE, reason=f"only {records} on {rows}, and {files} on {data}")
