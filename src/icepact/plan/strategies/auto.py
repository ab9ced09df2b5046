"""Rewrite what is due, if it is worth it after all that was learned from earlier runs."""

from datetime import datetime, timedelta

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.sizes import format_size
from icepact.model.words import counted
from icepact.plan.strategies.choice import Choice, Which

SMALL_FILES_DUE = 12
QUIET_DUE = timedelta(hours=1)


def auto(place: Place, policy: Policy, now: datetime) -> Choice:
    """What the tiers say is due."""
    return due(place, policy, now)


def due(place: Place, policy: Policy, now: datetime) -> Choice:
    """Major before minor: deletes over the limit; enough small files, or some of them for an hour."""
    facts = place.facts
    if facts.delete_ratio > policy.max_delete_ratio:
        records, rows = counted(facts.all_delete_records, "delete record"), counted(facts.rows, "row")
        return Choice(which=Which.SMALL_OR_TOUCHED, reason=f"{records} on {rows}")
    small = f"{counted(facts.small_files, 'file')} below {format_size(policy.min_file_size)}"
    if facts.small_files >= SMALL_FILES_DUE:
        return Choice(which=Which.SMALL, reason=small)
    last = max(place.compacted_at.values(), default=None)
    if facts.small_files > 1 and (last is None or now - last >= QUIET_DUE):
        return Choice(which=Which.SMALL, reason=f"{small} for an hour or more")
    if facts.small_files > 1:
        return Choice(which=Which.NONE, reason=f"only {small}, and compacted less than an hour ago")
    return Choice(which=Which.NONE, reason="nothing to merge, and few deletes or none")
