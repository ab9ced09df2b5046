"""How fast each method works and how large its outputs are: calibrated start values, corrected by what runs took.

What is learned about a method on a table starts from what is known of the method on the catalog, and that from the
calibration. A run counts three quarters of the one after it, so that three runs outweigh all before them: a machine
that got slower is noticed, a single bad run is not.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from icepact.economics.regression import Belief, center, learn, weighted_median
from icepact.model.effort import NO_ESTIMATE, Estimate
from icepact.model.methods import METHODS, Method
from icepact.model.outcome import GroupOutcome, Outcome

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
"""A run counts as so many measurements at most: its groups by size, neighbours added up."""
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


class Workload(NamedTuple):
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

    def parts(self, workload: Workload) -> tuple[float, float, float, float]:
        """What seconds are made of."""
        return (
            workload.units * self.seconds_per_unit,
            workload.files * self.seconds_per_file,
            workload.copied / self.copied_per_second,
            workload.encoded / self.encoded_per_second,
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


def encoded_share(method: str, workload: Workload) -> float:
    """How much of a rewrite's work is encoding that the lanes of a task share, as it was calibrated."""
    if method not in set(Method) or not METHODS[Method(method)].needs_workers:
        return 0.0
    parts = CALIBRATED[Method(method)].parts(workload)
    return parts[-1] / max(sum(parts), 1e-9)


def on_the_clock(work: float, *, units: int, cores: int, encoded: float) -> float:
    """Seconds that work takes which so many units share on so many cores; `encoded` is the part that lanes share."""
    alone, spread = max(1, min(units, cores)), max(1, min(MOST_LANES * units, cores))
    return work * ((1 - encoded) / alone + encoded / spread)


class Measurement(NamedTuple):
    """One group of an earlier run."""

    table: str
    run: str
    method: Method
    workload: Workload
    """As it was planned: predictions are made from plans."""
    seconds: float
    bytes_out: int
    kept: float
    """Share of the rows that was expected to remain."""
    outputs: int
    reads: int | None
    """Requests that read; `None` if nobody counted them."""
    writes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodRates:
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

    methods: Mapping[Method, MethodRates] = field(default_factory=lambda: {method: MethodRates() for method in Method})
    overhead: Estimate = NO_ESTIMATE
    """What a run takes besides its work, in seconds on the clock."""
    cores: int = 1
    """That the work is shared by."""

    def seconds(self, method: Method, workload: Workload) -> Estimate:
        """How long it takes."""
        return self.methods[method].belief.predict(CALIBRATED[method].parts(workload))

    def requests(self, method: Method, *, files: int, outputs: int) -> tuple[int, int]:
        """Requests that read, and that write."""
        known = self.methods[method]
        return round(files * known.reads_per_file), round(outputs * known.writes_per_file)

    @staticmethod
    def learned(history: Iterable[Measurement], table: str | None = None) -> "Rates":
        """What runs teach about a table, newest first; about any table if none is named."""
        everywhere = list(history)
        beliefs = _of_catalog(everywhere)
        return Rates(methods={m: _of_table(m, beliefs[m], everywhere, table) for m in Method})


def measurements(outcome: Outcome) -> Iterator[Measurement]:
    """What an outcome tells about methods: groups that one method did alone."""
    for group in outcome.groups:
        if group.method not in set(Method) or not group.effort.seconds or not group.output_files:
            continue
        remaining = group.rows_out if group.predicted_rows is None else group.predicted_rows
        yield Measurement(
            table=outcome.table,
            run=outcome.run_id,
            method=Method(group.method),
            workload=_planned(group),
            seconds=group.effort.seconds,
            bytes_out=group.bytes_out,
            kept=remaining / group.rows_in if group.rows_in else 1.0,
            outputs=group.output_files,
            reads=group.effort.read_requests if group.requests_counted else None,
            writes=group.effort.write_requests if group.requests_counted else None,
        )


def _planned(group: GroupOutcome) -> Workload:
    """What there was to do, as it was planned. Groups of earlier versions do not tell that: then what was done stands
    for it."""
    copied, encoded = group.planned_copied_bytes, group.planned_encoded_bytes
    if not copied + encoded:
        copied = min(group.effort.copied_bytes, group.bytes_in)
        encoded = group.bytes_in - copied
    return Workload(units=group.units or group.output_files, files=group.input_files, copied=copied, encoded=encoded)


# -- learning -------------------------------------------------------------------------------------


class _WeightedMeasurements(NamedTuple):
    """Measurements with what each counts for."""

    measured: Sequence[Measurement]
    weights: Sequence[float]

    @property
    def runs(self) -> list[str]:
        return [one.run for one in self.measured]


def _weigh(history: Sequence[Measurement], memory: int) -> _WeightedMeasurements:
    """The newest measurements, as few for each run; a run counts less with every later one."""
    of_run: dict[str, list[Measurement]] = defaultdict(list)
    for one in history:
        of_run[one.run].append(one)
    later: dict[str, int] = defaultdict(int)
    measured: list[Measurement] = []
    weights: list[float] = []
    for number, groups in enumerate(of_run.values()):
        if len(measured) >= memory:
            break
        shares = _shares(groups)
        weight = _FORGETTING ** later[groups[0].table] * _FORGETTING_OTHERS**number
        later[groups[0].table] += 1
        measured += shares
        weights += [weight / len(shares)] * len(shares)
    return _WeightedMeasurements(measured, weights)


def _shares(groups: Sequence[Measurement]) -> list[Measurement]:
    """Groups of one run by one method; if there are many, those of about the same size added up."""
    if len(groups) <= _SHARES:
        return list(groups)
    ordered = sorted(groups, key=lambda g: (g.workload.copied + g.workload.encoded, g.workload.files, g.seconds))
    cuts = [round(n * len(ordered) / _SHARES) for n in range(_SHARES + 1)]
    return [_add_up(ordered[a:b]) for a, b in pairwise(cuts)]


def _add_up(groups: Sequence[Measurement]) -> Measurement:
    sizes = [max(1, g.workload.copied + g.workload.encoded) for g in groups]
    counted = all(g.reads is not None for g in groups)
    return groups[0]._replace(
        workload=Workload(*(sum(values) for values in zip(*(g.workload for g in groups), strict=True))),
        seconds=sum(g.seconds for g in groups),
        bytes_out=sum(g.bytes_out for g in groups),
        kept=sum(g.kept * size for g, size in zip(groups, sizes, strict=True)) / sum(sizes),
        outputs=sum(g.outputs for g in groups),
        reads=sum(g.reads or 0 for g in groups) if counted else None,
        writes=sum(g.writes or 0 for g in groups) if counted else None,
    )


def _belief(prior: Belief, method: Method, some: _WeightedMeasurements) -> Belief:
    speed = CALIBRATED[method]
    return learn(
        prior,
        np.array([speed.parts(one.workload) for one in some.measured], dtype=float),
        np.array([one.seconds for one in some.measured]),
        np.array(some.weights),
        np.array(some.runs),
    )


def _of_catalog(history: Sequence[Measurement]) -> dict[Method, Belief]:
    """Every method on any table. One that was never measured is believed to be off as the others are, in part: this
    machine may be a slow one."""
    beliefs: dict[Method, Belief] = {}
    off: list[float] = []
    for method in Method:
        mine = _weigh([one for one in history if one.method is method], _CATALOG_MEMORY)
        if mine.measured:
            beliefs[method] = _belief(START, method, mine)
            ratios = [one.seconds / sum(CALIBRATED[method].parts(one.workload)) for one in mine.measured]
            off.append(weighted_median(np.log(ratios), np.array(mine.weights)))
    doubt, differing = START.spread[0][0], _ANY_METHOD**2
    borrowed = replace(START, mean=(sum(off) * doubt / (differing + len(off) * doubt), *START.mean[1:]))
    return {method: beliefs.get(method, borrowed) for method in Method}


def _of_table(method: Method, catalog: Belief, history: Sequence[Measurement], table: str | None) -> MethodRates:
    """A method on a table; requests are as on the catalog's other tables as long as none were counted here."""
    prior = catalog.widened(**_ANY_TABLE)
    everywhere = [one for one in history if one.method is method]
    mine = [one for one in everywhere if one.table == table]
    counted = [one for one in mine if one.reads is not None] or [one for one in everywhere if one.reads is not None]
    requests = _weigh(counted, _TABLE_MEMORY)
    some = _weigh(mine, _TABLE_MEMORY)
    return MethodRates(
        # noise on the catalog is also what sets its tables apart
        belief=_belief(replace(prior, noise=_NOISE), method, some) if some.measured else prior,
        ratio=_ratio(some),
        reads_per_file=_middle(
            [(m.reads or 0) / m.workload.files for m in requests.measured], requests, READS_PER_FILE
        ),
        writes_per_file=_middle([(m.writes or 0) / m.outputs for m in requests.measured], requests, WRITES_PER_FILE),
        runs=len(set(some.runs)),
    )


def _ratio(some: _WeightedMeasurements) -> float:
    """Outputs over inputs of what is encoded anew, to the nearest hundredth: a little more or less changes no plan."""
    values: list[float] = []
    weights: list[float] = []
    for one, weight in zip(some.measured, some.weights, strict=True):
        workload = one.workload
        if workload.encoded and one.bytes_out and one.kept > 0:
            ratio = (one.bytes_out / one.kept - workload.copied) / workload.encoded
            values.append(float(np.log(min(max(ratio, _RATIO_LIMITS[0]), _RATIO_LIMITS[1]))))
            weights.append(weight * workload.encoded / (workload.copied + workload.encoded))
    if not values:
        return 1.0
    middle = center(np.array(values), np.array(weights), least_spread=0.02)
    return round(float(np.exp(middle * sum(weights) / (sum(weights) + _RATIO_DOUBT))), 2)


def _middle(values: Sequence[float], some: _WeightedMeasurements, start: float) -> float:
    return weighted_median(np.array(values), np.array(some.weights)) if values else start
