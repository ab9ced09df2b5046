"""Machines that never ran: how long a rewrite takes on them, and how large its outputs are, with noise."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from icepact.economics.speeds import CALIBRATED, MIB, Measurement, Rates, Workload
from icepact.model.effort import Estimate
from icepact.model.methods import Method


@dataclass(kw_only=True)
class Machine:
    """Slower or faster than the calibrated one, in all or in parts."""

    seed: int
    slow: float = 1.0
    units: float = 1.0
    files: float = 1.0
    copied: float = 1.0
    encoded: float = 1.0
    noise: float = 0.1
    """Of seconds, in logarithms."""
    ratio: float = 1.0
    """Bytes of outputs over bytes of inputs that are encoded anew."""
    outliers: float = 0.0
    """Share of the runs that take five to ten times as long as they should."""
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def exactly(self, method: Method, workload: Workload) -> float:
        """Seconds without noise."""
        parts = CALIBRATED[method].parts(workload)
        factors = (self.units, self.files, self.copied, self.encoded)
        return self.slow * sum(part * factor for part, factor in zip(parts, factors, strict=True))

    def workload(self) -> Workload:
        """Something to do: from a few to hundreds of files."""
        copied = self.chance.choice([0, 1, 1]) * self.chance.randint(1, 2000) * MIB
        units, files = self.chance.randint(1, 8), self.chance.randint(10, 400)
        return Workload(units=units, files=files, copied=copied, encoded=self.chance.randint(1, 800) * MIB)

    def measure(
        self, workload: Workload, run: str, *, method: Method = Method.ASSEMBLE, table: str = "t"
    ) -> Measurement:
        """One group of a run."""
        seconds = self.exactly(method, workload) * math.exp(self.chance.gauss(0, self.noise))
        if self.chance.random() < self.outliers:
            seconds *= self.chance.uniform(5, 10)
        size = workload.copied + workload.encoded * self.ratio * math.exp(self.chance.gauss(0, self.noise / 5))
        return Measurement(
            table=table,
            run=run,
            method=method,
            workload=workload,
            seconds=seconds,
            bytes_out=round(size),
            kept=1.0,
            outputs=workload.units,
            reads=None,
            writes=None,
        )


def history(machine: Machine, runs: int, *, method: Method = Method.ASSEMBLE, table: str = "t") -> list[Measurement]:
    """Runs of one group each, newest first."""
    made = [
        machine.measure(machine.workload(), f"{table}-{method}-{n}", method=method, table=table) for n in range(runs)
    ]
    return made[::-1]


def foreseen(machine: Machine, runs: int) -> Iterator[tuple[Estimate, float]]:
    """One run after the other: what was predicted from those before it, and what it took."""
    known: Sequence[Measurement] = ()
    for number in range(runs):
        workload = machine.workload()
        told = Rates.learned(known, "t").seconds(Method.ASSEMBLE, workload)
        done = machine.measure(workload, f"run-{number}")
        known = [done, *known]
        yield told, done.seconds
