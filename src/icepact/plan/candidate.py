"""Candidates: what would be rewritten in one partition group, what that gains and costs. Counts alone."""

from dataclasses import dataclass
from datetime import datetime

from icepact.model.cost import Cost, Gain
from icepact.model.health import PartitionGroup
from icepact.plan.strategies.selection import Selection

_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """Work that could be done in one partition group."""

    partition_group: PartitionGroup
    selection: Selection
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


def files_per_hour(partition_group: PartitionGroup, now: datetime) -> float:
    """How often a partition group is written to by now: silence counts against what is known from before."""
    known = partition_group.files_per_hour
    if partition_group.written_at is None:
        return known or 0.0
    quiet = max(0.0, (now - partition_group.written_at).total_seconds() / _HOUR)
    at_most = 1 / quiet if quiet else float("inf")
    if known is None:
        return 0.0 if quiet >= 1 else 1.0
    return min(known, at_most)


def features_of(candidate: Candidate, now: datetime, horizon: float) -> dict[str, float]:
    """What a later lesson needs to know about a rewrite; `horizon` in hours."""
    rate = files_per_hour(candidate.partition_group, now)
    merged = max(1, candidate.gain.files, candidate.gain.delete_files)
    # the gain lasts until as many small files, or deletes, have come again; no longer than the horizon
    lasting = min(horizon, merged / rate) if rate else horizon
    return {
        "files_per_hour": round(rate, 4),
        "lasting_hours": round(lasting, 3),
        "horizon_hours": horizon,
        "merged_files": float(merged),
    }
