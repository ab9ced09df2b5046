"""The plan: an immutable tuple of typed steps, and the reason for everything left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias

from pydantic import ConfigDict, TypeAdapter, with_config

from icepact.model.budget import Limit, Resource
from icepact.model.histogram import Histogram
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.sizes import format_size
from icepact.model.table import DataFile, DeleteFile
from icepact.model.tier import Tier
from icepact.model.words import counted, money, seconds


class Method(StrEnum):
    """How the files of a group are rewritten."""

    ASSEMBLE = "assemble"
    SPARK = "spark"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The work of one Spark task: inputs that become one output file."""

    files: tuple[DataFile, ...]
    predicted: int | None = None
    """Bytes of its output, if the table has taught that they are not as many as those of the inputs; deleted rows count
    as if they stayed."""

    @property
    def bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(f.size for f in self.files)

    @property
    def predicted_bytes(self) -> int:
        """Bytes of its output, deleted rows included."""
        return self.bytes if self.predicted is None else self.predicted


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a method is predicted to take for a group."""

    seconds: float
    """Of work on one core, corrected by what earlier runs took."""
    baseline_seconds: float
    """The same without corrections."""
    copied_bytes: int
    encoded_bytes: int
    requests: int
    """To an object store."""
    write_requests: int = 0
    """Those of them that write."""
    seconds_low: float = 0.0
    seconds_high: float = 0.0
    """Between these two the seconds are, nine times out of ten; wide as long as little is known."""
    compute_money: float = 0.0
    request_money: float = 0.0
    storage_money: float = 0.0
    """Of what is replaced, until it expires."""
    money: float = 0.0
    """All of it, in the currency of the prices."""
    money_low: float = 0.0
    money_high: float = 0.0

    @property
    def read_requests(self) -> int:
        """Requests that read."""
        return self.requests - self.write_requests

    def part(self, share: float) -> "Cost":
        """Of a part of the group, by its share of the bytes."""
        parts: dict[str, Any] = {name: _share_of(getattr(self, name), share) for name in self.__slots__}
        return replace(self, **parts)

    @staticmethod
    def sum(costs: Iterable["Cost"]) -> "Cost":
        """All of them together."""
        some = list(costs)
        return Cost(**{name: sum(getattr(cost, name) for cost in some) for name in Cost.__slots__})

    def to_dict(self) -> dict[str, int | float]:
        """The cost as it is printed with `--json`."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "read_requests": self.read_requests}


def _share_of(value: float, share: float) -> float:
    return int(value * share) if isinstance(value, int) else round(value * share, 9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain:
    """What a rewrite saves every later reader."""

    files: int = 0
    """Data files fewer."""
    row_groups: int = 0
    """Places fewer where readers begin."""
    delete_records: int = 0
    """Delete records that need not be applied any more."""
    delete_files: int = 0
    """Delete files that need not be opened any more."""
    scan_seconds: float = 0.0
    """What one scan of these files takes less, on one core."""

    @staticmethod
    def sum(gains: Iterable["Gain"]) -> "Gain":
        """All of them together."""
        some = list(gains)
        return Gain(**{name: sum(getattr(gain, name) for gain in some) for name in Gain.__slots__})

    def to_dict(self) -> dict[str, int | float]:
        """The gain as it is printed with `--json`."""
        return {name: getattr(self, name) for name in self.__slots__}


NO_GAIN = Gain()


OLD_SPECS = "(old specs)"
"""Stands in clocks for the files of old specs: which partitions they are in changes as they become fewer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteFiles:
    """Rewrite one file group: inputs of one partition, or of old specs, replaced together or not at all."""

    group_id: str
    """Unique within the plan."""
    partition: str
    """The inputs' partition as people name it."""
    output_spec_id: int
    regroup: bool
    """True if the inputs are of old specs: their rows are sorted into the partitions of the output spec."""
    units: tuple[Unit, ...]
    method: Method
    method_reason: str
    """Why this method."""
    cost: Cost
    reason: str
    """Why these files."""
    predicted_files: int
    predicted_bytes: int
    delete_records: int
    """Delete records that apply to the inputs and are applied on the way."""
    tier: Tier = Tier.MINOR
    gain: Gain = NO_GAIN
    predicted_rows: int | None = None
    """Rows that are expected to remain; null if nobody asked."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What was known about the place when this was planned, for later lessons."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All inputs, in order."""
        return tuple(f for unit in self.units for f in unit.files)

    @property
    def bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(unit.bytes for unit in self.units)

    @property
    def clock(self) -> str:
        """The name under which it is noted when its place was compacted."""
        return OLD_SPECS if self.regroup else self.partition

    def to_dict(self) -> dict[str, Any]:
        """The step as it is printed with `--json`."""
        return {
            "kind": "rewrite-files",
            "group_id": self.group_id,
            "partition": self.partition,
            "output_spec_id": self.output_spec_id,
            "regroup": self.regroup,
            "method": self.method.value,
            "method_reason": self.method_reason,
            "cost": self.cost.to_dict(),
            "gain": self.gain.to_dict(),
            "tier": self.tier.value,
            "features": dict(self.features),
            "reason": self.reason,
            "input_files": len(self.files),
            "input_bytes": self.bytes,
            "delete_records": self.delete_records,
            "predicted_files": self.predicted_files,
            "predicted_bytes": self.predicted_bytes,
            "predicted_rows": self.predicted_rows,
            "units": [[f.path for f in unit.files] for unit in self.units],
        }


Step: TypeAlias = RewriteFiles
"""What a plan is made of. Executor and explainer match on it; new kinds of work are added here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Files of one partition that the plan does not touch, and why."""

    partition: str
    files: int
    bytes: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The entry as it is printed with `--json`."""
        return {"partition": self.partition, "files": self.files, "bytes": self.bytes, "reason": self.reason}


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What the table will look like once the plan is carried out."""

    files_before: int
    files_after: int
    input_files: int
    input_bytes: int
    output_files: int
    output_bytes: int
    delete_records: int
    seconds: float = 0.0
    """Of work on one core."""
    seconds_low: float = 0.0
    seconds_high: float = 0.0
    money: float = 0.0
    """In the currency of the plan's prices."""
    money_low: float = 0.0
    money_high: float = 0.0

    def to_dict(self) -> dict[str, int | float]:
        """The prediction as it is printed with `--json`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """What the branch held when it was pinned; the part that the row filter selects, if there is one."""

    files: int
    rows: int
    bytes: int


@with_config(ConfigDict(ser_json_inf_nan="constants", extra="forbid"))
@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What would be done to one pinned table state."""

    table: str
    uuid: str
    branch: str
    snapshot_id: int | None
    sequence_number: int
    format_version: int
    policy: Policy
    steps: tuple[Step, ...]
    deletes: Sequence[DeleteFile]
    """The deletes that the inputs' `deletes` point into."""
    left_out: Sequence[LeftOut]
    predicted: Prediction
    before: Before
    complete: bool
    """True if no budget held anything back: once committed, the same policy plans nothing."""
    held_back: tuple[str, ...] = ()
    """Partitions of which something was left for another time."""
    sizes_before: Histogram = field(default_factory=Histogram)
    """Of the data files that `before` counts."""
    sizes_after: Histogram = field(default_factory=Histogram)
    """The same as predicted."""
    budget: tuple[Limit, ...] = ()
    """What limited it."""
    prices: Prices = field(default_factory=lambda: Prices.of(DEFAULT_PRESET))
    """By which money was counted, and will be when the run ends."""
    planned_at: datetime | None = None
    """When it was judged what is due; null in documents of earlier versions."""

    @property
    def paced(self) -> bool:
        """True if money or time is limited: groups are begun one after the other, as long as the budget lasts."""
        return any(limit.resource in (Resource.MONEY, Resource.SECONDS) for limit in self.budget)

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact plan --json` prints."""
        return {
            "table": self.table,
            "branch": self.branch,
            "snapshot_id": self.snapshot_id,
            "policy": self.policy.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "left_out": [entry.to_dict() for entry in self.left_out],
            "predicted": self.predicted.to_dict(),
            "histogram": {"before": self.sizes_before.to_list(), "after": self.sizes_after.to_list()},
            "complete": self.complete,
            "budget": [limit.to_dict() for limit in self.budget],
            "prices": self.prices.model_dump(),
        }

    def to_json(self) -> bytes:
        """Everything there is to know about the plan, for `from_json`."""
        return _documents().dump_json(self)

    @staticmethod
    def from_json(document: bytes) -> "Plan":
        """A plan as it was."""
        return _documents().validate_json(document)

    def explain(self) -> str:
        """The plan in words: each group with its reason, then what is left out and why."""
        p = self.predicted
        lines = [f"{self.table} on {self.branch}, snapshot {self.snapshot_id}: strategy {self.policy.strategy}"]
        if self.steps:
            lines.append(
                f"{p.files_before:,} -> {p.files_after:,} data files: {counted(p.input_files, 'file')} "
                f"({format_size(p.input_bytes)}) become {p.output_files:,} in {counted(len(self.steps), 'group')}"
                + (f", {counted(p.delete_records, 'delete record')} applied" if p.delete_records else "")
            )
            lines.append(
                f"about {seconds(p.seconds)} of work ({seconds(p.seconds_low)} to {seconds(p.seconds_high)}), "
                f"{money(p.money, self.prices.currency)}"
            )
        else:
            lines.append("nothing to do")
        for step in self.steps:
            lines.append(
                f"  {step.group_id}  {step.partition}: {counted(len(step.files), 'file')} "
                f"({format_size(step.bytes)}) -> {step.predicted_files}; {step.reason}"
            )
            lines.append(f"         by {step.method}: {step.method_reason}")
        if self.left_out:
            lines.append("left out:")
        for entry in self.left_out:
            lines.append(
                f"  {entry.partition}: {counted(entry.files, 'file')} ({format_size(entry.bytes)}); {entry.reason}"
            )
        return "\n".join(lines)


@cache
def _documents() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)
