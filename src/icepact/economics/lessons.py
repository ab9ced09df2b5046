"""Lessons: what earlier runs taught about a table, as how far reality is from the analytic model.

A lesson is a number with the weight of what it was learned from. It is never believed outright: the less weight it
has, the more it is drawn towards what other tables taught, and that towards the analytic model. Nothing learned is the
analytic model itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import computed_field

from icepact.model.documents import HIDDEN, Document, digits
from icepact.model.formatting import plural

TOWARDS_OTHERS = 3.0
"""A table's own measurements are weighed against so many that agree with the other tables."""
DOUBT = 2.0
"""Standard errors by which a lesson must be away from the analytic model to count."""
EXACT = 0.5
"""The same for what hardly differs from one measurement to the next."""
TOWARDS_MODEL = 1.0
"""And the voices of other tables against so many that agree with the analytic model."""


class WriteRate(StrEnum):
    """How often a partition group is written to."""

    QUIET = "quiet"
    """Less than once in ten hours."""
    SLOW = "slow"
    """Less than once an hour."""
    STEADY = "steady"
    """Less than six files an hour."""
    BUSY = "busy"
    """Less than thirty files an hour."""
    HOT = "hot"


class GainHorizon(StrEnum):
    """For how long a gain is predicted to last."""

    HOURS = "hours"
    """Less than half a day."""
    DAYS = "days"
    """Less than the horizon."""
    HORIZON = "horizon"
    """Nothing is expected to come before the horizon."""


def gain_horizon_of(features: Mapping[str, float]) -> GainHorizon:
    """For how long the gain of a rewrite was predicted to last."""
    hours = features.get("lasting_hours", math.inf)
    if hours >= features.get("horizon_hours", math.inf):
        return GainHorizon.HORIZON
    return GainHorizon.DAYS if hours >= 12 else GainHorizon.HOURS


_BELOW = ((0.1, WriteRate.QUIET), (1.0, WriteRate.SLOW), (6.0, WriteRate.STEADY), (30.0, WriteRate.BUSY))
"""Files per hour."""


def write_rate_of(features: Mapping[str, float]) -> WriteRate:
    """How often the partition group of a rewrite was written to."""
    files_per_hour = features.get("files_per_hour", 0.0)
    return next((write_rate for limit, write_rate in _BELOW if files_per_hour < limit), WriteRate.HOT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """One number that was learned."""

    value: Annotated[float, digits(4)] = 0.0
    weight: Annotated[float, digits(2)] = 0.0
    """How many recent measurements it stands for; old ones count less."""
    error: Annotated[float, digits(4)] = 0.0
    """How far off it may well be: its standard error."""

    def shrunk_towards(self, towards: "Lesson", strength: float) -> "Lesson":
        """The number, drawn towards another one as if that had been measured so often."""
        whole = self.weight + strength
        return Lesson(
            value=(self.value * self.weight + towards.value * strength) / whole,
            weight=whole,
            error=math.hypot(self.error * self.weight, towards.error * strength) / whole,
        )

    @property
    def significant(self) -> float:
        """How far it is from the analytic model; 0 if that may be chance."""
        return self.value if abs(self.value) > DOUBT * self.error else 0.0


NOTHING = Lesson()


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """Lessons of some runs, by what they are about. Ratios are logarithms of real over predicted."""

    files: Lesson = NOTHING
    """Files saved."""
    compression: Lesson = NOTHING
    """Bytes of rows that were encoded anew, after over before."""
    lasting: Mapping[GainHorizon, Lesson] = field(default_factory=dict)
    """Time until as many small files had come again as were merged, by what was predicted."""
    lasting_in: Annotated[Mapping[str, Lesson], HIDDEN] = field(default_factory=dict)
    """The same by partition."""
    conflicts: Mapping[WriteRate, Lesson] = field(default_factory=dict)
    """Share of rewrites that were lost to somebody else's commit, by how often the partition is written to."""
    groups: int = 0
    """File groups that it was learned from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedGain:
    """What is expected of one rewrite, over what the analytic model says of it."""

    files: float = 1.0
    """Factor on the predicted gain from fewer files."""
    compression: float = 1.0
    """Bytes after over bytes before, of rows that are encoded anew."""
    lasting: float = 1.0
    """Factor on how long the gain lasts, 1 at most."""
    conflict: float = 0.0
    """Probability that the rewrite is lost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lessons(Document):
    """What is known about one table."""

    own: Evidence = field(default_factory=Evidence)
    others: Evidence = field(default_factory=Evidence)
    """What the other tables of the catalog agree about."""

    def expect(self, features: Mapping[str, float], partition: str = "") -> ExpectedGain:
        """What to expect of a rewrite with these features."""
        # that other tables shrink is no reason to expect it of this one; that they grow is one to beware of it
        others = self.others.compression.shrunk_towards(NOTHING, TOWARDS_MODEL)
        compression = self.own.compression.shrunk_towards(others if others.value > 0 else NOTHING, EXACT)
        return ExpectedGain(
            files=math.exp(_chain(self.own.files, self.others.files).significant),
            compression=math.exp(compression.significant),
            lasting=self._lasting_for(gain_horizon_of(features), partition),
            conflict=self._conflict_at(write_rate_of(features)),
        )

    def _lasting_for(self, kind: GainHorizon, partition: str = "") -> float:
        """Factor on how long a gain lasts."""
        lasting = _chain(self.own.lasting.get(kind, NOTHING), self.others.lasting.get(kind, NOTHING))
        lasting = self.own.lasting_in.get(partition, NOTHING).shrunk_towards(lasting, TOWARDS_OTHERS)
        # waiting costs little, and rewriting too often much: only that files come sooner counts, and at once
        return math.exp(min(0.0, lasting.value))

    def _conflict_at(self, kind: WriteRate) -> float:
        """Probability that a rewrite is lost."""
        conflict = _chain(self.own.conflicts.get(kind, NOTHING), self.others.conflicts.get(kind, NOTHING))
        return max(0.0, conflict.significant)

    @computed_field
    @property
    def expected(self) -> Mapping[str, float | Mapping[str, float]]:
        """What to expect of a rewrite of which nothing else is known; and by what is known, where something is."""
        some = self.expect({})
        return {
            "files": round(some.files, 4),
            "compression": round(some.compression, 4),
            "lasting": {gain_horizon.value: round(factor, 4) for gain_horizon, factor in self._lasting().items()},
            "conflict": {write_rate.value: round(share, 4) for write_rate, share in self._conflicts().items()},
        }

    def explain(self) -> str:
        """What was learned, in words."""
        if not self.own.groups + self.others.groups:
            return "nothing was learned yet: `auto` judges by the analytic model alone"
        own, others = plural(self.own.groups, "file group"), plural(self.others.groups, "file group")
        some = self.expect({})
        lines = [
            f"learned from {own} of this table and {others} of others",
            f"rewrites save {some.files:.2f} times the files that are predicted",
            f"rows that are encoded anew take {some.compression:.2f} times the bytes they took before",
        ]
        for gain_horizon, factor in self._lasting().items():
            lines.append(f"gains that are predicted to last {_IN_WORDS[gain_horizon]} last {factor:.2f} times as long")
        for write_rate, share in self._conflicts().items():
            lines.append(f"of rewrites in {write_rate} partitions {share:.0%} are lost to other commits")
        return "\n".join(lines)

    def _lasting(self) -> dict[GainHorizon, float]:
        """Factors, where something is known."""
        known = {**self.own.lasting, **self.others.lasting}
        return {kind: self._lasting_for(kind) for kind in GainHorizon if kind in known}

    def _conflicts(self) -> dict[WriteRate, float]:
        """Probabilities, where something is known."""
        known = {**self.own.conflicts, **self.others.conflicts}
        return {kind: self._conflict_at(kind) for kind in WriteRate if kind in known}


_IN_WORDS = {GainHorizon.HOURS: "some hours", GainHorizon.DAYS: "some days", GainHorizon.HORIZON: "until the horizon"}


def _chain(own: Lesson, others: Lesson) -> Lesson:
    return own.shrunk_towards(others.shrunk_towards(NOTHING, TOWARDS_MODEL), TOWARDS_OTHERS)
