"""How fast each method works and how large its outputs are: calibrated start values, corrected by what runs took.

What is learned about a method on a table starts from what is known of the method on the catalog, and that from the
calibration. A run counts three quarters of the one after it, so that three runs outweigh all before them: a machine
that got slower is noticed, a single bad run is not.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from icepact.model.plan import Method
from icepact.model.regression import Belief, center, learn, weighted_median

MIB = 1024**2
READS_PER_FILE = 2
"""Requests that read, for an input, until they are counted: its footer and its bytes."""
WRITES_PER_FILE = 1
"""Requests that write, for an output, until they are counted."""
_FORGETTING = 0.75
"""What a run counts for, next to the one after it on the same table."""
_FORGETTING_OTHERS = 0.95
"""The same, next to the one after it on any table."""
_SHARES = 6
"""A run is told in so many measurements at most: its groups by size, neighbours added up."""
_TABLE_MEMORY, _CATALOG_MEMORY = 48, 96
"""The newest measurements that are learned from."""
_RATIO_DOUBT = 0.1
"""How many runs the start value is worth, where sizes of outputs are concerned."""
_RATIO_LIMITS = (0.1, 4.0)

_ANY_MACHINE = {"common": 0.55, "each": 0.5}
"""How far a machine and a workload may be from the calibration, in logarithms; 0.7 is twice or half."""
_ANY_METHOD = 0.4
"""How far methods may be from each other."""
_ANY_TABLE = {"common": 0.3, "each": 0.25}
"""How far tables may be from each other."""
_NOISE = 0.2


class Effort(NamedTuple):
    """What a rewrite has to do, as it is counted before it is begun."""

    units: int
    files: int
    """Inputs."""
    copied: int
    """Bytes of inputs that are probably copied."""
    encoded: int
    """Bytes of inputs that are probably encoded anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """One method on one core, as it was calibrated."""

    copied_per_second: float
    """Bytes."""
    encoded_per_second: float
    """Bytes."""
    seconds_per_file: float
    seconds_per_unit: float

    def parts(self, effort: Effort) -> tuple[float, float, float, float]:
        """What seconds are made of."""
        return (
            effort.units * self.seconds_per_unit,
            effort.files * self.seconds_per_file,
            effort.copied / self.copied_per_second,
            effort.encoded / self.encoded_per_second,
        )


CALIBRATED: Mapping[Method, Speed] = {
    Method.ASSEMBLE: Speed(
        copied_per_second=700 * MIB, encoded_per_second=45 * MIB, seconds_per_file=0.004, seconds_per_unit=0.05
    ),
    Method.SPARK: Speed(
        copied_per_second=13 * MIB, encoded_per_second=13 * MIB, seconds_per_file=0.01, seconds_per_unit=0.4
    ),
}
"""From `make bench` on two cores of a cloud machine: a ratio between methods more than a promise of seconds."""

MOST_LANES = 4
"""Threads that encode in one task of method `assemble`, where cores would be idle: what they hold together still fits
into a task's memory."""

START = Belief.start(parts=4, noise=_NOISE, **_ANY_MACHINE)


def encoded_share(method: str, effort: Effort) -> float:
    """How much of a rewrite's work is encoding that the lanes of a task share, as it was calibrated."""
    if method != Method.ASSEMBLE:
        return 0.0
    parts = CALIBRATED[Method.ASSEMBLE].parts(effort)
    return parts[-1] / max(sum(parts), 1e-9)


def on_the_clock(work: float, *, units: int, cores: int, encoded: float) -> float:
    """Seconds that work takes which so many units share on so many cores; `encoded` is the part that lanes share."""
    alone, spread = max(1, min(units, cores)), max(1, min(MOST_LANES * units, cores))
    return work * ((1 - encoded) / alone + encoded / spread)


class Measured(NamedTuple):
    """One group of an earlier run."""

    table: str
    run: str
    method: Method
    effort: Effort
    """As it was planned: predictions are made from plans."""
    seconds: float
    bytes_out: int
    kept: float
    """Share of the rows that was expected to remain."""
    outputs: int
    reads: int | None
    """Requests; null if nobody counted them."""
    writes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Seconds of work on one core."""

    seconds: float
    """Likely."""
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What is believed about one method on one table."""

    belief: Belief = field(default_factory=lambda: START.widened(**_ANY_TABLE))
    ratio: float = 1.0
    """Bytes of outputs over bytes of inputs, of what is encoded anew."""
    reads_per_file: float = READS_PER_FILE
    writes_per_file: float = WRITES_PER_FILE
    runs: int = 0
    """On this table, that it was learned from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What is believed about every method, and about runs."""

    methods: Mapping[Method, Learned] = field(default_factory=lambda: {method: Learned() for method in Method})
    overhead: Estimate = Estimate(seconds=0.0, low=0.0, high=0.0)
    """What a run takes besides its work, in seconds on the clock."""
    cores: int = 1
    """That the work is shared by."""

    def seconds(self, method: Method, effort: Effort) -> Estimate:
        """How long it takes."""
        likely, low, high = self.methods[method].belief.predict(CALIBRATED[method].parts(effort))
        return Estimate(seconds=likely, low=low, high=high)

    @staticmethod
    def baseline(method: Method, effort: Effort) -> float:
        """The seconds that the calibration alone tells."""
        return sum(CALIBRATED[method].parts(effort))

    def ratio(self, method: Method) -> float:
        """How large outputs are, next to inputs that are encoded anew."""
        return self.methods[method].ratio

    def requests(self, method: Method, *, files: int, outputs: int) -> tuple[int, int]:
        """Requests that read, and that write."""
        known = self.methods[method]
        return round(files * known.reads_per_file), round(outputs * known.writes_per_file)

    @staticmethod
    def learned(history: Iterable[Measured], table: str | None = None) -> "Rates":
        """What runs teach about a table, newest first; about any table if none is named."""
        everywhere = list(history)
        beliefs = _of_catalog(everywhere)
        return Rates(methods={m: _of_table(m, beliefs[m], everywhere, table) for m in Method})


def measurements(outcome: Mapping[str, Any]) -> Iterator[Measured]:
    """What an outcome's document tells about methods: groups that one method did alone.

    Documents of earlier versions do not tell what was planned: then what was done stands for it.
    """
    for group in outcome.get("groups", ()):
        if group.get("method") not in set(Method) or not group.get("seconds") or not group.get("output_files"):
            continue
        size, copied = group["bytes_in"], group.get("copied_bytes", 0)
        rows, remaining = group.get("rows_in", 0), group.get("predicted_rows")
        kept = (group.get("rows_out", 0) if remaining is None else remaining) / rows if rows else 1.0
        counted = group.get("requests_counted", False)
        yield Measured(
            table=outcome.get("table", ""),
            run=outcome.get("run_id", ""),
            method=Method(group["method"]),
            effort=Effort(
                units=group.get("units") or group["output_files"],
                files=group["input_files"],
                copied=group.get("planned_copied_bytes", min(copied, size)),
                encoded=group.get("planned_encoded_bytes", max(0, size - copied)),
            ),
            seconds=group["seconds"],
            bytes_out=group["bytes_out"],
            kept=kept,
            outputs=group["output_files"],
            reads=group["requests"] - group["write_requests"] if counted else None,
            writes=group["write_requests"] if counted else None,
        )


# -- learning -------------------------------------------------------------------------------------


class _Weighed(NamedTuple):
    """Measurements with what each counts for."""

    measured: Sequence[Measured]
    weights: Sequence[float]

    @property
    def runs(self) -> list[str]:
        return [one.run for one in self.measured]


def _weighed(history: Sequence[Measured], memory: int) -> _Weighed:
    """The newest measurements, as few for each run; a run counts less with every later one."""
    of_run: dict[str, list[Measured]] = defaultdict(list)
    for one in history:
        of_run[one.run].append(one)
    later: dict[str, int] = defaultdict(int)
    told: list[Measured] = []
    weights: list[float] = []
    for number, groups in enumerate(of_run.values()):
        if len(told) >= memory:
            break
        shares = _shares(groups)
        weight = _FORGETTING ** later[groups[0].table] * _FORGETTING_OTHERS**number
        later[groups[0].table] += 1
        told += shares
        weights += [weight / len(shares)] * len(shares)
    return _Weighed(told, weights)


def _shares(groups: Sequence[Measured]) -> list[Measured]:
    """Groups of one run by one method; if there are many, those of about the same size added up."""
    if len(groups) <= _SHARES:
        return list(groups)
    ordered = sorted(groups, key=lambda g: (g.effort.copied + g.effort.encoded, g.effort.files, g.seconds))
    cuts = [round(n * len(ordered) / _SHARES) for n in range(_SHARES + 1)]
    return [_added_up(ordered[a:b]) for a, b in pairwise(cuts)]


def _added_up(groups: Sequence[Measured]) -> Measured:
    sizes = [max(1, g.effort.copied + g.effort.encoded) for g in groups]
    counted = all(g.reads is not None for g in groups)
    return groups[0]._replace(
        effort=Effort(*(sum(values) for values in zip(*(g.effort for g in groups), strict=True))),
        seconds=sum(g.seconds for g in groups),
        bytes_out=sum(g.bytes_out for g in groups),
        kept=sum(g.kept * size for g, size in zip(groups, sizes, strict=True)) / sum(sizes),
        outputs=sum(g.outputs for g in groups),
        reads=sum(g.reads or 0 for g in groups) if counted else None,
        writes=sum(g.writes or 0 for g in groups) if counted else None,
    )


def _belief(prior: Belief, method: Method, some: _Weighed) -> Belief:
    speed = CALIBRATED[method]
    return learn(
        prior,
        np.array([speed.parts(one.effort) for one in some.measured], dtype=float),
        np.array([one.seconds for one in some.measured]),
        np.array(some.weights),
        np.array(some.runs),
    )


def _of_catalog(history: Sequence[Measured]) -> dict[Method, Belief]:
    """Every method on any table. One that was never measured is believed to be off as the others are, in part: this
    machine may be a slow one."""
    found: dict[Method, Belief] = {}
    off: list[float] = []
    for method in Method:
        mine = _weighed([one for one in history if one.method is method], _CATALOG_MEMORY)
        if mine.measured:
            found[method] = _belief(START, method, mine)
            ratios = [one.seconds / sum(CALIBRATED[method].parts(one.effort)) for one in mine.measured]
            off.append(weighted_median(np.log(ratios), np.array(mine.weights)))
    doubt, differing = START.spread[0][0], _ANY_METHOD**2
    borrowed = replace(START, mean=(sum(off) * doubt / (differing + len(off) * doubt), *START.mean[1:]))
    return {method: found.get(method, borrowed) for method in Method}


def _of_table(method: Method, catalog: Belief, history: Sequence[Measured], table: str | None) -> Learned:
    """A method on a table; requests are as on the catalog's other tables as long as none were counted here."""
    prior = catalog.widened(**_ANY_TABLE)
    everywhere = [one for one in history if one.method is method]
    mine = [one for one in everywhere if one.table == table]
    counted = [one for one in mine if one.reads is not None] or [one for one in everywhere if one.reads is not None]
    requests = _weighed(counted, _TABLE_MEMORY)
    some = _weighed(mine, _TABLE_MEMORY)
    return Learned(
        # noise on the catalog is also what sets its tables apart
        belief=_belief(replace(prior, noise=_NOISE), method, some) if some.measured else prior,
        ratio=_ratio(some),
        reads_per_file=_middle([(m.reads or 0) / m.effort.files for m in requests.measured], requests, READS_PER_FILE),
        writes_per_file=_middle([(m.writes or 0) / m.outputs for m in requests.measured], requests, WRITES_PER_FILE),
        runs=len(set(some.runs)),
    )


def _ratio(some: _Weighed) -> float:
    """Outputs over inputs of what is encoded anew, to the nearest hundredth: a little more or less changes no plan."""
    values: list[float] = []
    weights: list[float] = []
    for one, weight in zip(some.measured, some.weights, strict=True):
        effort = one.effort
        if effort.encoded and one.bytes_out and one.kept > 0:
            found = (one.bytes_out / one.kept - effort.copied) / effort.encoded
            values.append(float(np.log(min(max(found, _RATIO_LIMITS[0]), _RATIO_LIMITS[1]))))
            weights.append(weight * effort.encoded / (effort.copied + effort.encoded))
    if not values:
        return 1.0
    middle = center(np.array(values), np.array(weights), least_spread=0.02)
    return round(float(np.exp(middle * sum(weights) / (sum(weights) + _RATIO_DOUBT))), 2)


def _middle(values: Sequence[float], some: _Weighed, start: float) -> float:
    return weighted_median(np.array(values), np.array(some.weights)) if values else start
