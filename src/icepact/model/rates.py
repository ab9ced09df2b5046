"""How fast each method works: measured start values, corrected by what runs really took."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

from icepact.model.plan import Method

MIB = 1024**2
_FEWEST = 3
"""Measurements below which the start values stand."""
_LONGEST_MEMORY = 50
_LEAST_BYTES = 8 * MIB
"""Smaller groups tell more about noise than about speed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """One method on one core."""

    copied_per_second: float
    """Bytes."""
    encoded_per_second: float
    """Bytes."""
    seconds_per_file: float
    seconds_per_unit: float
    correction: float = 1.0
    """What measured runs took over what was predicted."""


MEASURED: Mapping[Method, Speed] = {
    Method.ASSEMBLE: Speed(
        copied_per_second=700 * MIB, encoded_per_second=45 * MIB, seconds_per_file=0.004, seconds_per_unit=0.05
    ),
    Method.SPARK: Speed(
        copied_per_second=13 * MIB, encoded_per_second=13 * MIB, seconds_per_file=0.01, seconds_per_unit=0.4
    ),
}
"""From `make bench` on two cores of a cloud machine: a ratio between methods more than a promise of seconds."""


class Measured(NamedTuple):
    """One group of an earlier run."""

    method: Method
    baseline_seconds: float
    """Predicted from the start values."""
    seconds: float
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """The speed of every method."""

    speeds: Mapping[Method, Speed] = field(default_factory=lambda: MEASURED)

    def of(self, method: Method) -> Speed:
        """The speed of one method."""
        return self.speeds[method]

    def corrected(self, history: Iterable[Measured]) -> "Rates":
        """The rates after what earlier runs took, newest first: the median of real over predicted seconds."""
        ratios: dict[Method, list[float]] = {}
        for one in history:
            known = ratios.setdefault(one.method, [])
            if one.bytes >= _LEAST_BYTES and one.baseline_seconds > 0 and len(known) < _LONGEST_MEMORY:
                known.append(one.seconds / one.baseline_seconds)
        return Rates(
            speeds={
                method: replace(speed, correction=median(ratios[method]))
                if len(ratios.get(method, ())) >= _FEWEST
                else speed
                for method, speed in self.speeds.items()
            }
        )


def measurements(outcome: Mapping[str, Any]) -> Iterator[Measured]:
    """What an outcome's document tells about methods: groups that one method did alone."""
    for group in outcome.get("groups", ()):
        if group.get("method") in set(Method) and group.get("seconds"):
            yield Measured(
                method=Method(group["method"]),
                baseline_seconds=group.get("baseline_seconds", 0.0),
                seconds=group["seconds"],
                bytes=group["bytes_in"],
            )
