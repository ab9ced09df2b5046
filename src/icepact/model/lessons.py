"""What earlier runs taught about a table: how far reality is from the analytic model.

A lesson is a number with the weight of what it was learned from. It is never believed outright: the less weight it
has, the more it is drawn towards what other tables taught, and that towards the analytic model. Nothing learned is the
analytic model itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icepact.model.words import counted

TOWARDS_OTHERS = 3.0
"""A table's own measurements are weighed against so many that agree with the other tables."""
DOUBT = 2.0
"""Standard errors by which a lesson must be away from the analytic model to count."""
EXACT = 0.5
"""The same for what hardly differs from one measurement to the next."""
TOWARDS_MODEL = 1.0
"""And the voices of other tables against so many that agree with the analytic model."""


class Heat(StrEnum):
    """How often a place is written to."""

    QUIET = "quiet"
    """Less than once in ten hours."""
    SLOW = "slow"
    """Less than once an hour."""
    STEADY = "steady"
    """Less than six files an hour."""
    BUSY = "busy"
    """Less than thirty files an hour."""
    HOT = "hot"


class Span(StrEnum):
    """For how long a gain is predicted to last."""

    HOURS = "hours"
    """Less than half a day."""
    DAYS = "days"
    """Less than the horizon."""
    HORIZON = "horizon"
    """Nothing is expected to come before the horizon."""


def span_of(features: Mapping[str, float]) -> Span:
    """For how long the gain of a rewrite was predicted to last."""
    hours = features.get("lasting_hours", math.inf)
    if hours >= features.get("horizon_hours", math.inf):
        return Span.HORIZON
    return Span.DAYS if hours >= 12 else Span.HOURS


_BELOW = ((0.1, Heat.QUIET), (1.0, Heat.SLOW), (6.0, Heat.STEADY), (30.0, Heat.BUSY))
"""Files per hour."""


def heat_of(files_per_hour: float) -> Heat:
    """How hot a place is."""
    return next((heat for limit, heat in _BELOW if files_per_hour < limit), Heat.HOT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """One number that was learned."""

    value: float = 0.0
    weight: float = 0.0
    """How many recent measurements it stands for; old ones count less."""
    error: float = 0.0
    """How far off it may well be: its standard error."""

    def drawn(self, towards: "Lesson", strength: float) -> "Lesson":
        """The number, drawn towards another one as if that had been measured so often."""
        whole = self.weight + strength
        return Lesson(
            value=(self.value * self.weight + towards.value * strength) / whole,
            weight=whole,
            error=math.hypot(self.error * self.weight, towards.error * strength) / whole,
        )

    def beyond(self, model: float = 0.0) -> float:
        """By how much it is beyond what the analytic model says; nothing if that may be chance."""
        away = self.value - model
        return away if abs(away) > DOUBT * self.error else 0.0

    def to_dict(self) -> dict[str, float]:
        """The lesson as it is printed with `--json`."""
        return {"value": round(self.value, 4), "weight": round(self.weight, 2), "error": round(self.error, 4)}


NOTHING = Lesson()


@dataclass(frozen=True, kw_only=True, slots=True)
class Taught:
    """What some runs taught. Ratios are logarithms of real over predicted."""

    cost: Lesson = NOTHING
    """Seconds of work."""
    files: Lesson = NOTHING
    """Files saved."""
    compression: Lesson = NOTHING
    """Bytes of rows that were encoded anew, after over before."""
    lasting: Mapping[Span, Lesson] = field(default_factory=dict)
    """Time until as many small files had come again as were merged, by what was predicted."""
    lasting_in: Mapping[str, Lesson] = field(default_factory=dict)
    """The same by partition."""
    conflicts: Mapping[Heat, Lesson] = field(default_factory=dict)
    """Share of rewrites that were lost to somebody else's commit, by heat."""
    groups: int = 0
    """File groups that were looked at."""

    def to_dict(self) -> dict[str, Any]:
        """What was taught, as it is printed with `--json`."""
        return {
            "groups": self.groups,
            "cost": self.cost.to_dict(),
            "files": self.files.to_dict(),
            "compression": self.compression.to_dict(),
            "lasting": {span.value: lesson.to_dict() for span, lesson in self.lasting.items()},
            "conflicts": {heat.value: lesson.to_dict() for heat, lesson in self.conflicts.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What is expected of one rewrite, over what the analytic model says of it."""

    cost: float = 1.0
    """Factor on the predicted cost."""
    files: float = 1.0
    """Factor on the predicted gain from fewer files."""
    compression: float = 1.0
    """Bytes after over bytes before, of rows that are encoded anew."""
    lasting: float = 1.0
    """Factor on how long the gain lasts, 1 at most."""
    conflict: float = 0.0
    """Probability that the rewrite is lost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lessons:
    """What is known about one table."""

    own: Taught = field(default_factory=Taught)
    others: Taught = field(default_factory=Taught)
    """What the other tables of the catalog agree about."""

    def expect(self, features: Mapping[str, float], partition: str = "") -> Expected:
        """What to expect of a rewrite with these features."""
        heat = heat_of(features.get("files_per_hour", 0.0))
        corrected = math.log(features.get("correction", 1.0))  # that much the predicted cost knows already
        span = span_of(features)
        lasting = _chain(self.own.lasting.get(span, NOTHING), self.others.lasting.get(span, NOTHING))
        lasting = self.own.lasting_in.get(partition, NOTHING).drawn(lasting, TOWARDS_OTHERS)
        conflict = _chain(self.own.conflicts.get(heat, NOTHING), self.others.conflicts.get(heat, NOTHING))
        # that other tables shrink is no reason to expect it of this one; that they grow is one to beware of it
        others = self.others.compression.drawn(NOTHING, TOWARDS_MODEL)
        compression = self.own.compression.drawn(others if others.value > 0 else NOTHING, EXACT)
        return Expected(
            cost=math.exp(_chain(self.own.cost, self.others.cost, Lesson(value=corrected)).beyond(corrected)),
            files=math.exp(_chain(self.own.files, self.others.files).beyond()),
            compression=math.exp(compression.beyond()),
            # waiting costs little, and rewriting too often much: only that files come sooner counts, and at once
            lasting=math.exp(min(0.0, lasting.value)),
            conflict=max(0.0, conflict.beyond()),
        )

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact plan --learned --json` prints."""
        some = self.expect({})
        return {
            "own": self.own.to_dict(),
            "others": self.others.to_dict(),
            "expected": {
                "cost": round(some.cost, 4),
                "files": round(some.files, 4),
                "compression": round(some.compression, 4),
                "lasting": {span.value: round(factor, 4) for span, factor in self._lasting().items()},
                "conflict": {heat.value: round(share, 4) for heat, share in self._conflicts().items()},
            },
        }

    def explain(self) -> str:
        """What was learned, in words."""
        if not self.own.groups + self.others.groups:
            return "nothing was learned yet: `auto` judges by the analytic model alone"
        own, others = counted(self.own.groups, "file group"), counted(self.others.groups, "file group")
        some = self.expect({})
        lines = [
            f"learned from {own} of this table and {others} of others",
            f"work takes {some.cost:.2f} times what is predicted from start values",
            f"rewrites save {some.files:.2f} times the files that are predicted",
            f"rows that are encoded anew take {some.compression:.2f} times the bytes they took before",
        ]
        for span, factor in self._lasting().items():
            lines.append(f"gains that are predicted to last {_SAID[span]} last {factor:.2f} times as long")
        for heat, share in self._conflicts().items():
            lines.append(f"of rewrites in {heat} partitions {share:.0%} are lost to other commits")
        return "\n".join(lines)

    def _lasting(self) -> dict[Span, float]:
        """Factors, where something is known."""
        known = [span for span in Span if span in self.own.lasting or span in self.others.lasting]
        return {span: self.expect(_SPANS[span]).lasting for span in known}

    def _conflicts(self) -> dict[Heat, float]:
        """Probabilities, where something is known."""
        known = [heat for heat in Heat if heat in self.own.conflicts or heat in self.others.conflicts]
        return {heat: self.expect({"files_per_hour": _RATES[heat]}).conflict for heat in known}


_RATES = {Heat.QUIET: 0.0, Heat.SLOW: 0.5, Heat.STEADY: 3.0, Heat.BUSY: 15.0, Heat.HOT: 60.0}
_SPANS: Mapping[Span, Mapping[str, float]] = {
    Span.HOURS: {"lasting_hours": 1.0, "horizon_hours": 100.0},
    Span.DAYS: {"lasting_hours": 50.0, "horizon_hours": 100.0},
    Span.HORIZON: {"lasting_hours": 100.0, "horizon_hours": 100.0},
}
_SAID = {Span.HOURS: "some hours", Span.DAYS: "some days", Span.HORIZON: "until the horizon"}


def _chain(own: Lesson, others: Lesson, model: Lesson = NOTHING) -> Lesson:
    return own.drawn(others.drawn(model, TOWARDS_MODEL), TOWARDS_OTHERS)
