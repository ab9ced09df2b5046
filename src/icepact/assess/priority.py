"""Which partitions come first: a number from 0 to 1 for each, beside its score of 0 to 100."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from icepact.model.health import Facts, Health, Priority
from icepact.model.policy import PriorityWeights

MANY_FILES = 100
"""Data files from which on there cannot be more to do."""
LONG_AGO = timedelta(hours=24)
"""Time since the last compaction from which on it does not matter how long ago it was."""


def priority(facts: Facts, compacted_at: Mapping[str, datetime], weights: PriorityWeights, now: datetime) -> float:
    """The weighted sum of four shares, each between 0 and 1; `compacted_at` is by tier, empty for never."""
    files = min(1.0, facts.data_files / MANY_FILES)
    fragments = min(1.0, facts.fragment_ratio)
    age = min(1.0, max(0.0, (now - max(compacted_at.values())) / LONG_AGO)) if compacted_at else 1.0
    small = facts.small_files / facts.data_files if facts.data_files else 0.0
    value = weights.files * files + weights.fragments * fragments + weights.age * age + weights.small_files * small
    return round(value, 4)


def with_priorities(health: Health, weights: PriorityWeights, now: datetime) -> Health:
    """The same health with a priority for every partition; of those that have the same, the largest comes first."""
    compacted_at = {key: group.compacted_at for group in health.partition_groups for key in group.keys}
    values = [
        priority(p.facts, compacted_at.get((p.spec_id, p.partition), {}), weights, now) for p in health.partitions
    ]
    order = sorted(
        range(len(values)),
        key=lambda at: (-values[at], -health.partitions[at].facts.bytes, health.partitions[at].name),
    )
    rank = {at: number for number, at in enumerate(order, start=1)}
    partitions = [
        replace(partition, priority=Priority(value=value, rank=rank[at]))
        for at, (partition, value) in enumerate(zip(health.partitions, values, strict=True))
    ]
    return replace(health, partitions=partitions)
