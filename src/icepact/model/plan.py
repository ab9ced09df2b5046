"""The plan: an immutable tuple of typed steps, and the reason for everything left out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from operator import attrgetter
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

_SIZE = attrgetter("size")


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
        return sum(map(_SIZE, self.files))

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
    def input_files(self) -> int:
        """How many inputs there are."""
        return sum(len(unit.files) for unit in self.units)

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
            "input_files": self.input_files,
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
    overhead: float = 0.0
    """Seconds on the clock that the run takes besides its work."""
    duration: float = 0.0
    """Seconds on the clock, from the start of the run to its end."""
    duration_low: float = 0.0
    duration_high: float = 0.0
    cores: int = 1
    """That the work is shared by."""
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
    note: str = ""
    """What is to be known about all of it; empty as a rule."""
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
            "note": self.note,
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

    @property
    def why_nothing(self) -> str | None:
        """Why there is nothing to do, in one line; null if there is something."""
        if self.steps:
            return None
        if self.note or not self.left_out:
            return self.note or "there are no data files"
        counts = Counter(entry.reason for entry in self.left_out)
        few = counts.most_common(_FEW)
        told = [reason if n == len(self.left_out) else f"{reason} ({counted(n, 'partition')})" for reason, n in few]
        more = len(counts) - len(few)
        return "; ".join([*told, *([f"and {counted(more, 'reason')} more"] if more else [])])

    def explain(self, most: int | None = None) -> str:
        """The plan in words: each group with its reason, then what is left out and why.

        With `most`, only so many groups are told, those that gain most; and what is left out, by reason.
        """
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
            if p.overhead:
                between = f"{seconds(p.duration_low)} to {seconds(p.duration_high)}"
                lines.append(
                    f"about {seconds(p.duration)} on the clock ({between}), {seconds(p.overhead)} besides the work"
                )
        else:
            lines.append(f"nothing to do: {self.note}" if self.note else "nothing to do")
        shown = self.steps if most is None else _most_gain(self.steps, most)
        for step in shown:
            lines += _step_lines(step)
        if len(shown) < len(self.steps):
            lines.append(f"  and {_more(self.steps, shown)} more like these; --all lists them")
        entries = self.left_out if most is None else folded(self.left_out, most)
        lines += ["left out:"] if entries else []
        for entry in entries:
            what = f"{counted(entry.files, 'file')} ({format_size(entry.bytes)})"
            lines.append(f"  {entry.partition}: {what}; {entry.reason}")
        return "\n".join(lines)


_FEW = 3
"""Reasons that one line tells."""


def _step_lines(step: Step) -> list[str]:
    what = f"{counted(step.input_files, 'file')} ({format_size(step.bytes)}) -> {step.predicted_files}"
    return [
        f"  {step.group_id}  {step.partition}: {what}; {step.reason}",
        f"         by {step.method}: {step.method_reason}",
    ]


def _most_gain(steps: Sequence[Step], most: int) -> Sequence[Step]:
    """Those that gain most, in the order of the plan."""
    best = {step.group_id for step in sorted(steps, key=lambda step: -step.gain.scan_seconds)[:most]}
    return [step for step in steps if step.group_id in best]


def _more(steps: Sequence[Step], shown: Sequence[Step]) -> str:
    told = {step.group_id for step in shown}
    rest = [step for step in steps if step.group_id not in told]
    size = format_size(sum(step.bytes for step in rest))
    files = counted(sum(step.input_files for step in rest), "file")
    return f"{counted(len(rest), 'group')} ({files}, {size} -> {sum(step.predicted_files for step in rest):,})"


def folded(entries: Sequence[LeftOut], most: int) -> Sequence[LeftOut]:
    """What is left out by reason: one entry for all partitions that have the same, the largest first."""
    by_reason: dict[str, list[LeftOut]] = {}
    for entry in entries:
        by_reason.setdefault(entry.reason, []).append(entry)
    found = sorted((_as_one(some) for some in by_reason.values()), key=lambda entry: -entry.files)
    if len(found) <= most:
        return found
    rest = _as_one(found[most:])
    return [*found[:most], replace(rest, reason="for other reasons; --all lists them")]


def _as_one(some: Sequence[LeftOut]) -> LeftOut:
    names = list(dict.fromkeys(entry.partition for entry in some))
    name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({counted(len(names), 'partition')})"
    return LeftOut(
        partition=name,
        files=sum(entry.files for entry in some),
        bytes=sum(entry.bytes for entry in some),
        reason=some[0].reason,
    )


@cache
def _documents() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)
