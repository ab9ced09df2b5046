"""Tables that grow with time: light work where data still comes in, everything once where it has stopped."""

from datetime import datetime, timedelta

from icepact.model.durations import format_duration
from icepact.model.errors import BadInput
from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.tiers import full_is_owed, major_due, minor_due


def time_series(place: Place, policy: Policy, now: datetime) -> Choice:
    """A partition is open until nothing was committed to it for a while; then it is closed: rewritten fully, once."""
    if place.time is None and place.spread:  # of an old spec, on its way into the current one
        due = major_due(place, policy) or minor_due(place, policy, now)
        return due or Choice(which=Which.NONE, reason="of an old spec, and nothing to merge")
    if place.time is None:
        raise BadInput(
            "time-series: no partition field is over a time; name the column whose partitions follow each other "
            "in time with time_column"
        )
    quiet = timedelta(seconds=policy.closed_after)
    if place.written_at is not None and now - place.written_at < quiet:
        return minor_due(place, policy, now) or Choice(which=Which.NONE, reason=_still_open(place, policy))
    if full_is_owed(place):
        return Choice(which=Which.ALL, reason=f"closed: no commit for {format_duration(policy.closed_after)}")
    late = major_due(place, policy) or minor_due(place, policy, now)
    return late or Choice(which=Which.NONE, reason="closed, and rewritten fully since the last commit")


def _still_open(place: Place, policy: Policy) -> str:
    few = f"{place.facts.small_files} small files, {policy.minor_trigger_files} are wanted"
    return f"still open: last commit on {place.written_at:%Y-%m-%d %H:%M} UTC; {few}"
