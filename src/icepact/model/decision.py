"""Decisions: what is to be done with each partition group of a table, before its files are listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import computed_field, model_serializer

from icepact.model.cost import NO_COST, NO_GAIN, Cost, Gain
from icepact.model.documents import HIDDEN, Document, key
from icepact.model.health import Health, PartitionGroup
from icepact.model.limits import Demand
from icepact.model.policy import Tier


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision(Document):
    """What is to be done with one partition group."""

    partition_group: Annotated[PartitionGroup, HIDDEN]
    chosen: bool
    reason: str
    """Why it is chosen, or why not."""
    tier: Tier = Tier.MINOR
    files: Annotated[int, key("input_files")] = 0
    """Inputs."""
    bytes: Annotated[int, key("input_bytes")] = 0
    """Of the inputs."""
    outputs: Annotated[int, key("predicted_files")] = 0
    """Files that they become."""
    gain: Gain = NO_GAIN
    cost: Cost = NO_COST

    @computed_field
    @property
    def partition(self) -> str:
        """Name of the partition group."""
        return self.partition_group.name

    @property
    def demand(self) -> Demand:
        """What it takes of a budget."""
        seconds, money = self.cost.seconds.likely, self.cost.money.likely
        return Demand(files=self.files, bytes=self.bytes, seconds=seconds, money=money)


@dataclass(frozen=True, kw_only=True)
class TableDecisions(Document):
    """Health of a table, and what is worth doing about it: partitions with gain and price, without their files."""

    health: Health
    partitions: Sequence[Decision]
    """One for each of the health's partition groups, in their order."""

    @cached_property
    def chosen(self) -> Sequence[Decision]:
        """What is worth compacting."""
        return [decision for decision in self.partitions if decision.chosen]

    @property
    def gain_seconds(self) -> float:
        """What one scan of the table takes less once all is done."""
        return round(sum(decision.gain.scan_seconds for decision in self.chosen), 6)

    @property
    def seconds(self) -> float:
        """What all of it takes, on one core."""
        return round(sum(decision.cost.seconds.likely for decision in self.chosen), 3)

    @property
    def money(self) -> float:
        """What all of it costs."""
        return round(sum(decision.cost.money.likely for decision in self.chosen), 9)

    @model_serializer
    def _document(self) -> dict[str, Any]:
        return {
            "table": self.health.table,
            "snapshot_id": self.health.snapshot_id,
            "score": self.health.score.value,
            "chosen": len(self.chosen),
            "input_files": sum(d.files for d in self.chosen),
            "input_bytes": sum(d.bytes for d in self.chosen),
            "predicted_files": sum(d.outputs for d in self.chosen),
            "gain_seconds": self.gain_seconds,
            "seconds": self.seconds,
            "money": self.money,
            "decisions": [decision.to_dict() for decision in self.partitions],
        }
