"""Machines that never ran: how long a rewrite takes on them, and how large its outputs are, with noise."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from icepact.model.plan import Method
from icepact.model.rates import CALIBRATED, MIB, Effort, Estimate, Measured, Rates


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

    def exactly(self, method: Method, effort: Effort) -> float:
        """Seconds without noise."""
        parts = CALIBRATED[method].parts(effort)
        factors = (self.units, self.files, self.copied, self.encoded)
        return self.slow * sum(part * factor for part, factor in zip(parts, factors, strict=True))

    def effort(self) -> Effort:
        """Something to do: from a few to hundreds of files."""
        copied = self.chance.choice([0, 1, 1]) * self.chance.randint(1, 2000) * MIB
        units, files = self.chance.randint(1, 8), self.chance.randint(10, 400)
        return Effort(units=units, files=files, copied=copied, encoded=self.chance.randint(1, 800) * MIB)

    def measure(self, effort: Effort, run: str, *, method: Method = Method.ASSEMBLE, table: str = "t") -> Measured:
        """One group of a run."""
        seconds = self.exactly(method, effort) * math.exp(self.chance.gauss(0, self.noise))
        if self.chance.random() < self.outliers:
            seconds *= self.chance.uniform(5, 10)
        size = effort.copied + effort.encoded * self.ratio * math.exp(self.chance.gauss(0, self.noise / 5))
        return Measured(
            table=table,
            run=run,
            method=method,
            effort=effort,
            seconds=seconds,
            bytes_out=round(size),
            kept=1.0,
            outputs=effort.units,
            reads=None,
            writes=None,
        )


def history(machine: Machine, runs: int, *, method: Method = Method.ASSEMBLE, table: str = "t") -> list[Measured]:
    """Runs of one group each, newest first."""
    made = [machine.measure(machine.effort(), f"{table}-{method}-{n}", method=method, table=table) for n in range(runs)]
    return made[::-1]


def foreseen(machine: Machine, runs: int) -> Iterator[tuple[Estimate, float]]:
    """One run after the other: what was predicted from those before it, and what it took."""
    known: Sequence[Measured] = ()
    for number in range(runs):
        effort = machine.effort()
        told = Rates.learned(known, "t").seconds(Method.ASSEMBLE, effort)
        done = machine.measure(effort, f"run-{number}")
        known = [done, *known]
        yield told, done.seconds
