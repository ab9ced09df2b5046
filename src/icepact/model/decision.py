"""What is to be done with each place of a table, before its files are listed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from icepact.model.health import Health, Place
from icepact.model.plan import NO_GAIN, Cost, Gain
from icepact.model.tier import Tier

_FREE = Cost(seconds=0.0, baseline_seconds=0.0, copied_bytes=0, encoded_bytes=0, requests=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is to be done with one place."""

    place: Place
    chosen: bool
    reason: str
    """Why it is chosen, or why not."""
    tier: Tier = Tier.MINOR
    files: int = 0
    """Inputs."""
    bytes: int = 0
    """Of the inputs."""
    outputs: int = 0
    """Files that they become."""
    gain: Gain = NO_GAIN
    cost: Cost = _FREE

    def to_dict(self) -> dict[str, Any]:
        """The decision as it is printed with `--json`."""
        return {
            "partition": self.place.name,
            "chosen": self.chosen,
            "reason": self.reason,
            "tier": self.tier.value,
            "input_files": self.files,
            "input_bytes": self.bytes,
            "predicted_files": self.outputs,
            "gain": self.gain.to_dict(),
            "cost": self.cost.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How a table is doing, and what is worth doing about it: partitions with gain and price, without their files."""

    health: Health
    decisions: Sequence[Decision]
    """One for each of the health's places, in their order."""

    @cached_property
    def chosen(self) -> Sequence[Decision]:
        """What is worth compacting."""
        return [decision for decision in self.decisions if decision.chosen]

    @property
    def gain_seconds(self) -> float:
        """What one scan of the table takes less once all is done."""
        return round(sum(decision.gain.scan_seconds for decision in self.chosen), 6)

    @property
    def seconds(self) -> float:
        """What all of it takes, on one core."""
        return round(sum(decision.cost.seconds for decision in self.chosen), 3)

    @property
    def money(self) -> float:
        """What all of it costs."""
        return round(sum(decision.cost.money for decision in self.chosen), 6)

    def to_dict(self) -> dict[str, Any]:
        """The judgement as it is printed with `--json`."""
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
            "decisions": [decision.to_dict() for decision in self.decisions],
        }
