"""The plan: an immutable tuple of typed steps, and the reason for everything left out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, TypeAlias, assert_never

from pydantic import ConfigDict, Discriminator, Tag, with_config

from icepact.model.cost import NO_GAIN, Cost, Gain
from icepact.model.delete_files import ConvertDeletes
from icepact.model.documents import Document, FlatEstimate, from_json, to_json
from icepact.model.effort import NO_ESTIMATE, Estimate
from icepact.model.expiry import ExpireSnapshots
from icepact.model.files import DataFile, DeleteFile
from icepact.model.formatting import format_money, format_seconds, format_size, plural
from icepact.model.histogram import Histogram
from icepact.model.key_join import KeyJoin
from icepact.model.limits import Demand, Limit, Resource
from icepact.model.manifests import RewriteManifests
from icepact.model.methods import Method
from icepact.model.orphans import RemoveOrphans
from icepact.model.policy import Policy, Tier
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.statistics import ComputeStatistics
from icepact.model.tags import CreateTags
from icepact.model.ttl import ExpireData

_SIZE = attrgetter("size")


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


OLD_SPECS = "(old specs)"
"""Name of the files of old specs where it is kept when they were last compacted: which partitions they are in changes
as they become fewer."""


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
    """Delete records that apply to the inputs."""
    tier: Tier = Tier.MINOR
    gain: Gain = NO_GAIN
    predicted_rows: int | None = None
    """Rows that are expected to remain; `None` if nobody asked."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What was known about the partition group when this was planned, for later lessons."""
    carries: bool = False
    """True if rows that deletes apply to are copied with the others, and their deletes are written anew; false if they
    are left out."""
    deletes_reason: str = ""
    """Why; empty if that was never asked."""
    joined: KeyJoin | None = None
    """The equality deletes that no task can look up; `None` if each can."""

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
    def demand(self) -> Demand:
        """What it takes of a budget."""
        seconds, money = self.cost.seconds.likely, self.cost.money.likely
        return Demand(files=self.input_files, bytes=self.bytes, seconds=seconds, money=money)

    @property
    def deletes_carried(self) -> int:
        """Delete records that apply to the inputs and will to the outputs."""
        return self.delete_records if self.carries else 0

    @property
    def last_compacted_key(self) -> str:
        """The name under which it is kept when its partition group was last compacted."""
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
            "deletes": "carry" if self.carries else "apply",
            "deletes_reason": self.deletes_reason,
            "deletes_carried": self.deletes_carried,
            "joined": None if self.joined is None else self.joined.to_dict(),
            "predicted_files": self.predicted_files,
            "predicted_bytes": self.predicted_bytes,
            "predicted_rows": self.predicted_rows,
            "units": [[f.path for f in unit.files] for unit in self.units],
        }


Chore: TypeAlias = (
    ConvertDeletes | ExpireSnapshots | RemoveOrphans | RewriteManifests | ExpireData | CreateTags | ComputeStatistics
)
"""A step of housekeeping; new kinds are added here."""


def _kind(step: Any) -> str:
    """Which kind of step this is, or its document: the oldest documents do not say."""
    kind = step.get("kind") if isinstance(step, dict) else getattr(step, "kind", None)
    return str(kind or "rewrite-files")


Step: TypeAlias = Annotated[
    Annotated[RewriteFiles, Tag("rewrite-files")]
    | Annotated[ConvertDeletes, Tag("convert-deletes")]
    | Annotated[ExpireSnapshots, Tag("expire-snapshots")]
    | Annotated[RemoveOrphans, Tag("remove-orphans")]
    | Annotated[RewriteManifests, Tag("rewrite-manifests")]
    | Annotated[ExpireData, Tag("expire-data")]
    | Annotated[CreateTags, Tag("create-tags")]
    | Annotated[ComputeStatistics, Tag("compute-statistics")],
    Discriminator(_kind),
]
"""What a plan is made of. Executor and explainer match on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut(Document):
    """Files of one partition that the plan does not touch, and why."""

    partition: str
    files: int
    bytes: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction(Document):
    """What the table will look like once the plan is carried out."""

    files_before: int
    files_after: int
    input_files: int
    input_bytes: int
    output_files: int
    output_bytes: int
    delete_records: int
    """That apply to the inputs."""
    deletes_carried: int = 0
    """Those of them that will apply to the outputs."""
    seconds: FlatEstimate = NO_ESTIMATE
    """Of work on one core."""
    overhead: float = 0.0
    """Seconds on the clock that the run takes besides its work."""
    duration: FlatEstimate = NO_ESTIMATE
    """Seconds on the clock, from the start of the run to its end."""
    cores: int = 1
    """That the work is shared by."""
    money: FlatEstimate = NO_ESTIMATE
    """In the currency of the plan's prices."""


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
    """When it was judged what is due; `None` in documents of earlier versions."""
    operation: str = "compact"
    """What was asked for."""

    @property
    def rewrites(self) -> tuple[RewriteFiles, ...]:
        """The groups that are rewritten."""
        return tuple(step for step in self.steps if isinstance(step, RewriteFiles))

    @property
    def chores(self) -> tuple[Chore, ...]:
        """The steps of housekeeping."""
        return tuple(step for step in self.steps if not isinstance(step, RewriteFiles))

    @property
    def files_at_work(self) -> int:
        """Files that are rewritten or deleted, or whose deletes are converted."""
        count = sum(step.input_files for step in self.rewrites)
        for step in self.chores:
            match step:
                case ExpireSnapshots() | RemoveOrphans():
                    count += step.files.files
                case ExpireData():
                    count += step.files + step.mixed_files
                case ConvertDeletes():
                    count += step.data_files
                case RewriteManifests() | CreateTags() | ComputeStatistics():
                    pass
                case _:
                    assert_never(step)
        return count

    @property
    def takes_away(self) -> bool:
        """True if files, snapshots or rows are not there any more afterwards."""
        return any(isinstance(step, ExpireSnapshots | RemoveOrphans | ExpireData) for step in self.chores)

    @property
    def paced(self) -> bool:
        """True if money or time is limited: groups are begun one after the other, as long as the budget lasts."""
        return any(limit.resource in (Resource.MONEY, Resource.SECONDS) for limit in self.budget)

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact plan --json` prints."""
        return {
            "table": self.table,
            "operation": self.operation,
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
            "prices": self.prices.to_dict(),
        }

    def to_json(self) -> bytes:
        """Everything there is to know about the plan, for `from_json`."""
        return to_json(self)

    @staticmethod
    def from_json(document: bytes) -> "Plan":
        """A plan as it was."""
        return from_json(Plan, document)

    @property
    def why_nothing(self) -> str | None:
        """Why there is nothing to do, in one line; `None` if there is something."""
        if self.steps:
            return None
        if self.note or not self.left_out:
            return self.note or "there are no data files"
        counts = Counter(entry.reason for entry in self.left_out)
        few = counts.most_common(_FEW)
        reasons = [reason if n == len(self.left_out) else f"{reason} ({plural(n, 'partition')})" for reason, n in few]
        more = len(counts) - len(few)
        return "; ".join([*reasons, *([f"and {plural(more, 'reason')} more"] if more else [])])

    def explain(self, most: int | None = None) -> str:
        """The plan in words: each step with its reason, then what is left out and why.

        With `most`, only so many groups are shown, those that gain most; and what is left out, by reason.
        """
        lines = [f"{self.table} on {self.branch}, snapshot {self.snapshot_id}: strategy {self.policy.strategy}"]
        if self.operation != "compact":
            lines[0] = f"{self.table}: {self.operation}"
        if self.rewrites:
            lines += self._summary()
        elif not self.steps:
            lines.append(f"nothing to do: {self.note}" if self.note else "nothing to do")
        shown = self.rewrites if most is None else _most_gain(self.rewrites, most)
        steps: list[Step] = [*shown, *self.chores]
        for step in steps:
            lines += _step_lines(step, most)
        if len(shown) < len(self.rewrites):
            lines.append(f"  and {_more(self.rewrites, shown)} more like these; --all lists them")
        entries = self.left_out if most is None else by_reason(self.left_out, most)
        lines += ["left out:"] if entries else []
        for entry in entries:
            what = f"{plural(entry.files, 'file')} ({format_size(entry.bytes)})"
            lines.append(f"  {entry.partition}: {what}; {entry.reason}")
        return "\n".join(lines)

    def _summary(self) -> list[str]:
        """What is rewritten, and what that takes."""
        p = self.predicted
        lines = [
            f"{p.files_before:,} -> {p.files_after:,} data files: {plural(p.input_files, 'file')} "
            f"({format_size(p.input_bytes)}) become {p.output_files:,} in {plural(len(self.rewrites), 'group')}"
            + _deletes(p),
            f"about {_interval(p.seconds, 'of work')}, {format_money(p.money.likely, self.prices.currency)}",
        ]
        if p.overhead:
            besides = f"{format_seconds(p.overhead)} besides the work"
            lines.append(f"about {_interval(p.duration, 'on the clock')}, {besides}")
        return lines


_FEW = 3
"""Reasons that one line shows."""


def _interval(seconds: Estimate, what: str) -> str:
    between = f"{format_seconds(seconds.low)} to {format_seconds(seconds.high)}"
    return f"{format_seconds(seconds.likely)} {what} ({between})"


def _deletes(predicted: Prediction) -> str:
    """What becomes of deletes; empty if there are none."""
    applied, carried = predicted.delete_records - predicted.deletes_carried, predicted.deletes_carried
    text = f", {plural(applied, 'delete record')} applied" if applied else ""
    return text + (f", {plural(carried, 'delete record')} carried" if carried else "")


def _step_lines(step: Step, most: int | None) -> list[str]:
    match step:
        case RewriteFiles():
            what = f"{plural(step.input_files, 'file')} ({format_size(step.bytes)}) -> {step.predicted_files}"
            lines = [
                f"  {step.group_id}  {step.partition}: {what}; {step.reason}",
                f"         by {step.method}: {step.method_reason}",
            ]
            if step.carries or step.deletes_reason:
                how = "carried" if step.carries else "applied"
                lines.append(f"         {plural(step.delete_records, 'delete record')} {how}: {step.deletes_reason}")
            if step.joined is not None:
                lines.append(f"         {step.joined}")
            return lines
        case (
            ConvertDeletes()
            | ExpireSnapshots()
            | RemoveOrphans()
            | RewriteManifests()
            | ExpireData()
            | CreateTags()
            | ComputeStatistics()
        ):
            return [f"  {line}" for line in step.explain(most)]
        case _:
            assert_never(step)


def _most_gain(steps: Sequence[RewriteFiles], most: int) -> Sequence[RewriteFiles]:
    """Those that gain most, in the order of the plan."""
    best = {step.group_id for step in sorted(steps, key=lambda step: -step.gain.scan_seconds)[:most]}
    return [step for step in steps if step.group_id in best]


def _more(steps: Sequence[RewriteFiles], shown: Sequence[RewriteFiles]) -> str:
    shown_ids = {step.group_id for step in shown}
    rest = [step for step in steps if step.group_id not in shown_ids]
    size = format_size(sum(step.bytes for step in rest))
    files = plural(sum(step.input_files for step in rest), "file")
    return f"{plural(len(rest), 'group')} ({files}, {size} -> {sum(step.predicted_files for step in rest):,})"


def by_reason(entries: Sequence[LeftOut], most: int) -> Sequence[LeftOut]:
    """What is left out by reason: one entry for all partitions that have the same, the largest first."""
    same: dict[str, list[LeftOut]] = {}
    for entry in entries:
        same.setdefault(entry.reason, []).append(entry)
    merged = sorted((_as_one(some) for some in same.values()), key=lambda entry: -entry.files)
    if len(merged) <= most:
        return merged
    rest = _as_one(merged[most:])
    return [*merged[:most], replace(rest, reason="for other reasons; --all lists them")]


def _as_one(some: Sequence[LeftOut]) -> LeftOut:
    names = list(dict.fromkeys(entry.partition for entry in some))
    name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({plural(len(names), 'partition')})"
    return LeftOut(
        partition=name,
        files=sum(entry.files for entry in some),
        bytes=sum(entry.bytes for entry in some),
        reason=some[0].reason,
    )
