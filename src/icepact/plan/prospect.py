"""A prospect: what would be rewritten in one place, what that gains and costs. Counts alone."""

from dataclasses import dataclass
from datetime import datetime

from icepact.model.health import Place
from icepact.model.plan import Cost, Gain
from icepact.plan.strategies.choice import Choice

_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Prospect:
    """Work that could be done in one place."""

    place: Place
    choice: Choice
    files: int
    """Inputs."""
    bytes: int
    """Of the inputs."""
    outputs: int
    """Files that they become."""
    gain: Gain
    cost: Cost
    other_tasks: int = 0
    """Tasks that a scan of the rest of the table has, once it is compact."""


def files_per_hour(place: Place, now: datetime) -> float:
    """How often a place is written to by now: silence counts against what is known from before."""
    known = place.files_per_hour
    if place.written_at is None:
        return known or 0.0
    quiet = max(0.0, (now - place.written_at).total_seconds() / _HOUR)
    at_most = 1 / quiet if quiet else float("inf")
    if known is None:
        return 0.0 if quiet >= 1 else 1.0
    return min(known, at_most)


def lasting_hours(prospect: Prospect, rate: float, horizon: float) -> float:
    """How long the gain lasts: until as many small files, or deletes, have come again; no longer than the horizon."""
    merged = max(1, prospect.gain.files, prospect.gain.delete_files)
    return min(horizon, merged / rate) if rate else horizon


def features_of(prospect: Prospect, now: datetime, horizon: float) -> dict[str, float]:
    """What a later lesson needs to know about a rewrite; `horizon` in hours."""
    rate = files_per_hour(prospect.place, now)
    found = {
        "files_per_hour": round(rate, 4),
        "lasting_hours": round(lasting_hours(prospect, rate, horizon), 3),
        "horizon_hours": horizon,
        "merged_files": float(max(1, prospect.gain.files, prospect.gain.delete_files)),
    }
    if prospect.cost.baseline_seconds and prospect.cost.seconds:
        found["correction"] = round(prospect.cost.seconds / prospect.cost.baseline_seconds, 4)
    return found
