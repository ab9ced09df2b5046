"""Which tier is due for a place, by what there is in it and by the clock: major, then minor, then full, else none.

The clock is an argument, and what it is compared with is kept beside the table, not in it: so that time alone can make
work due on a table that nobody writes to.
"""

from datetime import datetime, timedelta

from icepact.model.durations import format_duration
from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.sizes import format_size
from icepact.model.tier import Tier
from icepact.model.words import counted
from icepact.plan.strategies.choice import Choice, Which

FEWEST = 2
"""Small files below which there is nothing to merge, however long they wait."""


def due(place: Place, policy: Policy, now: datetime) -> Choice:
    """What the triggers say."""
    major = major_due(place, policy)
    if major is not None:
        return major
    minor = minor_due(place, policy, now)
    if minor is not None:
        return minor
    if policy.full_trigger_interval is not None and full_is_owed(place):
        last = place.compacted_at.get(Tier.FULL)
        # what another tier has just rewritten waits as long, and then needs no news
        since = max(place.compacted_at.values(), default=None) if place.compacted_last else last
        if since is None or now - since >= timedelta(seconds=policy.full_trigger_interval):
            when = "never" if last is None else f"last on {last:%Y-%m-%d %H:%M} UTC"
            reason = f"full every {format_duration(policy.full_trigger_interval)}, {when}"
            return Choice(which=Which.ALL, reason=reason)
    return Choice(which=Which.NONE, reason=_not_due(place, policy))


def major_due(place: Place, policy: Policy) -> Choice | None:
    """Deletes weigh too much, by their records or by the files that must be opened for them."""
    facts = place.facts
    if facts.delete_ratio > policy.max_delete_ratio:
        records, rows = counted(facts.all_delete_records, "delete record"), counted(facts.rows, "row")
        return Choice(which=Which.SMALL_OR_TOUCHED, reason=f"{records} on {rows}")
    if facts.fragment_ratio > policy.max_fragment_ratio:
        files, data = counted(facts.all_delete_files, "delete file"), counted(facts.data_files, "data file")
        return Choice(which=Which.SMALL_OR_TOUCHED, reason=f"{files} on {data}")
    return None


def minor_due(place: Place, policy: Policy, now: datetime) -> Choice | None:
    """Enough small files, or a few of them for some time."""
    small = place.facts.small_files
    what = f"{counted(small, 'file')} below {format_size(policy.min_file_size)}"
    if small >= policy.minor_trigger_files:
        return Choice(which=Which.SMALL, reason=what)
    if small < FEWEST:
        return None
    since = max((*place.compacted_at.values(), *([place.small_since] if place.small_since else [])), default=None)
    if since is not None and now - since < timedelta(seconds=policy.minor_trigger_interval):
        return None
    return Choice(which=Which.SMALL, reason=f"{what} for {format_duration(policy.minor_trigger_interval)} or more")


def full_is_owed(place: Place) -> bool:
    """Whether something was written since the last full rewrite, or there was none."""
    last = place.compacted_at.get(Tier.FULL)
    return last is None or (place.written_at is not None and place.written_at > last)


def _not_due(place: Place, policy: Policy) -> str:
    small = place.facts.small_files
    if small < FEWEST:
        return "nothing to merge, and few deletes or none"
    what = f"{counted(small, 'file')} below {format_size(policy.min_file_size)}"
    wait = format_duration(policy.minor_trigger_interval)
    return f"only {what}, for less than {wait}; {policy.minor_trigger_files} are due at once"
