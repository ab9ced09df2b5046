"""A simulator of tables, writers and outcomes, in which choices of `auto` have consequences.

A replay of recorded runs knows no outcome of choices that were not made; here every choice has one. Time passes by the
hour. Writers add small files to partitions. Every two hours `auto` looks at each partition with the code of the product
(tiers, worth, lessons); what it decides costs money, may be lost to a conflict, and leaves what the world says, not
what the model believes. Scans read the table all the time: what they spend less than on a table that nobody ever
compacted is the gain.

In some worlds the analytic model is right, on the average. In the others it is wrong about compression, conflicts or
the pattern of writes, from the beginning or after a change midway. Where it is wrong about the cost of work, little can
be won: seconds are a small part of the price.

    python -m tests.support.simulator        prints the comparison
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np

from icepact.economics.learning import learn
from icepact.economics.lessons import Lessons
from icepact.economics.scans import SECONDS_PER_FILE, SECONDS_PER_ROW_GROUP
from icepact.economics.speeds import CALIBRATED
from icepact.economics.valuation import START_PRICE, Valuation
from icepact.model.cost import Cost
from icepact.model.effort import Effort, Estimate
from icepact.model.health import Facts, PartitionGroup
from icepact.model.methods import Method
from icepact.model.outcome import GroupOutcome, Outcome
from icepact.model.policy import Policy
from icepact.plan.candidate import Candidate, features_of
from icepact.plan.gain import make_gain
from icepact.plan.profit import SCAN_BYTES_PER_SECOND, price_of, profitability
from icepact.plan.strategies.selection import FileSelector
from icepact.plan.tiers import due
from tests.support.records import run_outcome
from tests.support.states import MB, make_policy

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 28
HOURS = DAYS * 24
EVERY = 2
"""Hours between two looks at a table."""
LEARNS_EVERY = 12
"""Hours after which lessons are made anew though there is no new outcome; with one they are at once, as for a plan."""
SPEED = CALIBRATED[Method.ASSEMBLE]
COPIED_FROM = 8 * MB
"""Row groups from this size on are copied."""
PER_FILE = 1e-6
"""Money for requests."""
PER_BYTE = 0.023 / 1024**3 / 30 * 5
"""Money for storing what was replaced for five days, until it expires."""
REMEMBERED = 300
"""Outcomes with work in them that are kept."""

Arrivals = np.ndarray[Any, np.dtype[np.int64]]
"""Files by partition and hour."""
Teacher = Callable[[Sequence[Outcome], str, datetime], Lessons]


# -- worlds -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is really so, where the analytic model has an opinion of its own."""

    compression: Sequence[float] = (1.0,)
    """Bytes after merging over bytes before, of one table after the other."""
    conflict: float = 0.02
    """Probability that a rewrite of a place is lost while it is written to."""
    conflict_quiet: float = 0.02
    """The same of a place that nobody writes to."""
    cost: Sequence[float] = (1.0,)
    """Work over what is predicted, of one table after the other."""
    writers: str = "closing"


@dataclass(frozen=True, kw_only=True)
class World:
    """Some tables, and what is true about them: from the beginning, and from the middle on."""

    name: str
    wrong: bool
    """True if the analytic model is wrong about compression, conflicts or the pattern of writes."""
    first: Truth
    then: Truth | None = None
    scans_per_day: float = 24.0

    @property
    def bar(self) -> float:
        """What learning must bring at least: gain per money over that without."""
        return 1.10 if self.wrong else 0.98

    def truth(self, hour: int) -> Truth:
        """What is true at an hour."""
        return self.then if self.then is not None and hour >= HOURS // 2 else self.first


RIGHT = Truth()
SHRINKS = Truth(compression=(0.6, 1.25))
BLOCKED = Truth(conflict=0.8)
RETURNS = Truth(writers="returning")
DEAR = Truth(cost=(0.5, 4.0))

WORLDS = (
    World(name="closing days", wrong=False, first=RIGHT),
    World(name="steady writers", wrong=False, first=Truth(writers="steady")),
    World(name="read often", wrong=False, first=RIGHT, scans_per_day=240),
    World(name="compression", wrong=True, first=SHRINKS),
    World(name="compression changes", wrong=True, first=RIGHT, then=SHRINKS),
    World(name="conflicts", wrong=True, first=BLOCKED),
    World(name="conflicts change", wrong=True, first=RIGHT, then=BLOCKED),
    World(name="conflicts end", wrong=True, first=BLOCKED, then=RIGHT),
    World(name="bursts return", wrong=True, first=RETURNS),
    World(name="bursts begin to return", wrong=True, first=RIGHT, then=RETURNS),
    World(name="cost of work", wrong=False, first=DEAR),
)
TABLES = 4
PARTITIONS = 8


@cache
def arrivals(writers: str, seed: int, table: int) -> Arrivals:
    """How many files each partition gets in each hour.

    - steady: each partition at a rate of its own, all the time;
    - closing: a partition is written to for some days, at most, and then never again;
    - returning: bursts of some hours, and silence; but the next burst comes within days.
    """
    chance = np.random.default_rng([seed, table, len(writers)])
    found = np.zeros((PARTITIONS, HOURS), np.int64)
    for partition in range(PARTITIONS):
        match writers:
            case "steady":
                rate = 10 ** chance.uniform(-0.7, 1.0)
                found[partition] = chance.poisson(rate, HOURS)
            case "closing":
                begin = partition * HOURS // PARTITIONS
                end = begin + HOURS // PARTITIONS
                found[partition, begin:end] = chance.poisson(10 ** chance.uniform(-0.3, 1.0), end - begin)
            case _:
                at = int(chance.integers(0, 30))
                while at < HOURS:
                    found[partition, at : at + 3] = chance.poisson(5, len(found[partition, at : at + 3]))
                    at += int(chance.integers(18, 36))
    return found


# -- tables -------------------------------------------------------------------------------------------


@dataclass
class Partition:
    """One partition, as counts."""

    name: str
    files: int = 0
    """Small files that writers left."""
    bytes: float = 0.0
    merged: float = 0.0
    """Bytes of the small file that earlier rewrites left; 0 if there is none."""
    large: float = 0.0
    """Bytes of files that are large enough."""
    large_files: int = 0
    raw_files: int = 0
    """Files, had nobody ever compacted."""
    raw_bytes: float = 0.0
    written_at: datetime | None = None
    compacted_at: datetime | None = None

    @property
    def now_files(self) -> int:
        """Data files."""
        return self.files + self.large_files + (self.merged > 0)

    @property
    def now_bytes(self) -> float:
        """Bytes of data files."""
        return self.bytes + self.merged + self.large


@dataclass
class Account:
    """What was gained, and what for."""

    gain: float = 0.0
    """Seconds that scans took less."""
    money: float = 0.0
    rewrites: int = 0
    lost: int = 0

    @property
    def gain_per_money(self) -> float:
        """What `auto` is judged by."""
        return self.gain / self.money if self.money else 0.0

    @property
    def left(self) -> float:
        """Money that is left of what scans save."""
        return self.gain * START_PRICE - self.money


@dataclass
class Simulation:
    """One world, lived through once."""

    world: World
    seed: int
    teacher: Teacher | None
    """Where lessons come from; null for the analytic model alone."""
    account: Account = field(default_factory=Account)
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> Account:
        """From the first day to the last."""
        chance = np.random.default_rng([self.seed, 77])
        policy = make_policy(strategy="auto", scans_per_day=self.world.scans_per_day)
        tables = [[Partition(name=f"p={p}") for p in range(PARTITIONS)] for _ in range(TABLES)]
        lessons, known = [Lessons()] * TABLES, [0] * TABLES
        for hour in range(HOURS):
            now = BEGIN + timedelta(hours=hour)
            for number, partitions in enumerate(tables):
                self._write(number, partitions, hour, now)
                if hour % EVERY == 0:
                    news = known[number] != len(self.outcomes) or hour % LEARNS_EVERY == 0
                    if self.teacher is not None and self.outcomes and news:
                        lessons[number] = self.teacher(self.outcomes[-REMEMBERED:], f"t{number}", now)
                        known[number] = len(self.outcomes)
                    valuation = Valuation(now=now, lessons=lessons[number])
                    self._look(number, partitions, hour, valuation, policy, chance)
                self._scan(partitions)
        return self.account

    def _write(self, number: int, partitions: Sequence[Partition], hour: int, now: datetime) -> None:
        come = arrivals(self.world.truth(hour).writers, self.seed, number)[:, hour]
        size = (2 + 2 * number) * MB
        for partition, files in zip(partitions, come.tolist(), strict=True):
            if files:
                partition.files += files
                partition.bytes += files * size
                partition.raw_files += files
                partition.raw_bytes += files * size
                partition.written_at = now

    def _scan(self, partitions: Sequence[Partition]) -> None:
        files = sum(p.raw_files - p.now_files for p in partitions)
        size = sum(p.raw_bytes - p.now_bytes for p in partitions)
        seconds = files * (SECONDS_PER_FILE + SECONDS_PER_ROW_GROUP) + size / SCAN_BYTES_PER_SECOND
        self.account.gain += seconds * self.world.scans_per_day / 24

    def _rate(self, number: int, at: int, hour: int) -> float:
        """Files per hour of the last day, as a table's snapshots tell."""
        writers = {self.world.truth(h).writers for h in (max(0, hour - 23), hour)}
        if len(writers) == 1:
            some = arrivals(writers.pop(), self.seed, number)[at, max(0, hour - 23) : hour + 1]
            return float(some.sum()) / len(some)
        hours = range(max(0, hour - 23), hour + 1)
        return sum(int(arrivals(self.world.truth(h).writers, self.seed, number)[at, h]) for h in hours) / len(hours)

    def _look(
        self,
        number: int,
        partitions: Sequence[Partition],
        hour: int,
        valuation: Valuation,
        policy: Policy,
        chance: np.random.Generator,
    ) -> None:
        groups = []
        for at, partition in enumerate(partitions):
            if partition.files + (partition.merged > 0) < 2:
                continue
            partition_group = _partition_group(partition, self._rate(number, at, hour), policy)
            selection = due(partition_group, policy, valuation.now)
            if selection.which is FileSelector.NONE:
                continue
            candidate = _candidate(partition_group, partition, selection, policy)
            if profitability(candidate, valuation, policy).worth:
                groups.append(self._rewrite(number, partition, candidate, hour, valuation, policy, chance))
        if groups:
            self.outcomes.append(
                run_outcome("simulated", table=f"t{number}", started_at=valuation.now, groups=tuple(groups))
            )

    def _rewrite(
        self,
        number: int,
        partition: Partition,
        candidate: Candidate,
        hour: int,
        valuation: Valuation,
        policy: Policy,
        chance: np.random.Generator,
    ) -> GroupOutcome:
        """Do it, pay for it, and write down what a run would."""
        truth = self.world.truth(hour)
        factor = truth.cost[number % len(truth.cost)] * math.exp(chance.normal(0, 0.15))
        busy = (
            candidate.partition_group.written_at is not None
            and valuation.now - candidate.partition_group.written_at < timedelta(hours=6)
        )
        lost = bool(chance.random() < (truth.conflict if busy else truth.conflict_quiet))
        work = candidate.cost.seconds.likely * valuation.money_per_work_second
        self.account.money += price_of(candidate.cost, valuation) + work * (factor - 1)
        self.account.rewrites += 1
        self.account.lost += lost
        shrunk = truth.compression[number % len(truth.compression)] * math.exp(chance.normal(0, 0.03))
        made = partition.merged + partition.bytes * shrunk
        told = GroupOutcome(
            group_id=partition.name,
            partition=partition.name,
            committed=not lost,
            reason="superseded: 1 inputs are gone" if lost else "",
            method=Method.ASSEMBLE.value,
            input_files=candidate.files,
            output_files=0 if lost else candidate.outputs,
            predicted_files=candidate.outputs,
            rows_in=candidate.bytes,
            rows_out=0 if lost else candidate.bytes,
            bytes_in=candidate.bytes,
            bytes_out=0 if lost else int(made),
            effort=Effort(seconds=candidate.cost.seconds.likely * factor, copied_bytes=candidate.cost.copied_bytes),
            features=features_of(candidate, valuation.now, policy.horizon / 3600),
        )
        if not lost:
            partition.files, partition.bytes, partition.merged = 0, 0.0, made
            partition.compacted_at = valuation.now
            if made >= policy.min_file_size:
                partition.large, partition.merged = partition.large + made, 0.0
                partition.large_files += candidate.outputs
        return told


def _partition_group(partition: Partition, rate: float, policy: Policy) -> PartitionGroup:
    small = partition.files + (partition.merged > 0)
    facts = Facts(
        data_files=partition.now_files,
        small_files=small,
        mergeable_files=small if small > 1 else 0,
        bytes=int(partition.now_bytes),
        rows=int(partition.raw_bytes),
        row_groups=partition.now_files,
        delete_files={},
        delete_records={},
    )
    return PartitionGroup(
        name=partition.name,
        keys=(),
        facts=facts,
        written_at=partition.written_at,
        files_per_hour=rate,
        compacted_at={} if partition.compacted_at is None else {"minor": partition.compacted_at},
    )


def _candidate(partition_group: PartitionGroup, partition: Partition, selection: Any, policy: Policy) -> Candidate:
    size = int(partition.bytes + partition.merged)
    outputs = max(1, math.ceil(size / policy.max_file_size))
    files = partition.files + (partition.merged > 0)
    copied = int(partition.merged) if partition.merged >= COPIED_FROM else 0
    seconds = (
        outputs * SPEED.seconds_per_unit
        + files * SPEED.seconds_per_file
        + copied / SPEED.copied_per_second
        + (size - copied) / SPEED.encoded_per_second
    )
    return Candidate(
        partition_group=partition_group,
        selection=selection,
        files=files,
        bytes=size,
        outputs=outputs,
        gain=make_gain(files=files - outputs, row_groups=files - outputs, delete_files=0, delete_records=0),
        cost=Cost(
            seconds=Estimate(likely=seconds),
            copied_bytes=copied,
            encoded_bytes=size - copied,
            money=Estimate(likely=seconds * START_PRICE + files * PER_FILE + size * PER_BYTE),
        ),
        other_tasks=policy.reader_parallelism,  # a table of many partitions
    )


# -- judging ------------------------------------------------------------------------------------------


def taught(outcomes: Sequence[Outcome], table: str, now: datetime) -> Lessons:
    """What the product learns."""
    return learn(outcomes, table, now=now)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Learning against the analytic model alone, on the average of some seeds."""

    world: World
    ratio: float
    """Gain per money, with over without."""
    before: Account
    after: Account


def compare(world: World, teacher: Teacher, seeds: Sequence[int]) -> Compared:
    """Both through the same histories."""
    plain, learned = Account(), Account()
    for seed in seeds:
        for total, how in ((plain, None), (learned, teacher)):
            one = Simulation(world, seed, how).run()
            total.gain += one.gain
            total.money += one.money
            total.rewrites += one.rewrites
            total.lost += one.lost
    return Compared(
        world=world,
        ratio=learned.gain_per_money / plain.gain_per_money,
        before=plain,
        after=learned,
    )


def seeds_of(words: Sequence[str]) -> range:
    """How many, and the first of them; without words those that nothing was tuned on."""
    count, first = [int(word) for word in words] or [12, 300]
    return range(first, first + count)


def main(seeds: Sequence[int]) -> None:
    """Print the comparison."""
    print("| world | at least | gain per money | money left | rewrites | lost |")
    print("|---|---|---|---|---|---|")
    for world in WORLDS:
        found = compare(world, taught, seeds)
        before, after = found.before, found.after
        print(
            f"| {world.name} | {world.bar:.2f} | {found.ratio:.2f} | "
            f"{before.left:.2f} -> {after.left:.2f} | {before.rewrites} -> {after.rewrites} | "
            f"{before.lost} -> {after.lost} |"
        )


if __name__ == "__main__":
    main(seeds_of(sys.argv[1:]))
