"""What runs cost, next to what was predicted: for each table and method."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from icepact.model.prices import TB


@dataclass(frozen=True, kw_only=True, slots=True)
class Amounts:
    """Predicted, or measured."""

    files: int
    """Outputs."""
    bytes: int
    """Of outputs."""
    seconds: float
    """Of work on one core."""
    money: float

    def to_dict(self) -> dict[str, int | float]:
        """The amounts as they are printed with `--json`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """By how much the predictions of a run were off, next to what was measured: medians; null if no run tells."""

    files: float | None
    bytes: float | None
    seconds: float | None

    def to_dict(self) -> dict[str, float | None]:
        """The errors as they are printed with `--json`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """One method on one table."""

    table: str
    method: str
    runs: int
    predicted: Amounts
    actual: Amounts
    """Groups that were written and not committed included: they were paid for."""
    error: Errors
    coverage: float | None
    """Share of the runs whose seconds were within the predicted interval; null if no run tells."""
    input_bytes: int
    money_per_tb: float | None
    """Of inputs; null if no run tells its money."""
    currency: str

    def to_dict(self) -> dict[str, Any]:
        """The entry as it is printed with `--json`."""
        told = {"predicted", "actual", "error"}
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in told}
        return {**plain, **{name: getattr(self, name).to_dict() for name in sorted(told)}}


class _Run(NamedTuple):
    """All groups of one run that one method wrote."""

    groups: Sequence[Mapping[str, Any]]

    def total(self, name: str) -> float:
        return float(sum(group.get(name, 0) for group in self.groups))

    def error(self, predicted: str, actual: str) -> float | None:
        """Null if it is of a version that did not predict this, or nothing was measured."""
        if not self.total(predicted) or not self.total(actual):
            return None
        return abs(self.total(predicted) - self.total(actual)) / self.total(actual)

    @property
    def covered(self) -> bool | None:
        if not self.total("predicted_seconds_high") or not self.total("seconds"):
            return None
        return self.total("predicted_seconds_low") <= self.total("seconds") <= self.total("predicted_seconds_high")


def costs_of(outcomes: Iterable[Mapping[str, Any]]) -> tuple[Costs, ...]:
    """What the documents of outcomes tell, by table, method and currency. Older documents tell less, and count for what
    they tell."""
    found: dict[tuple[str, str, str], list[_Run]] = defaultdict(list)
    for outcome in outcomes:
        by_method: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for group in outcome.get("groups", ()):
            if group.get("output_files") or group.get("seconds"):
                by_method[group["method"]].append(group)
        for method, groups in by_method.items():
            found[outcome.get("table", ""), method, outcome.get("currency", "")].append(_Run(groups))
    return tuple(_costs(*key, found[key]) for key in sorted(found))


def _costs(table: str, method: str, currency: str, runs: Sequence[_Run]) -> Costs:
    covered = [run.covered for run in runs if run.covered is not None]
    paid = [run for run in runs if run.total("money")]
    money, size = sum(run.total("money") for run in paid), sum(run.total("bytes_in") for run in paid)
    return Costs(
        table=table,
        method=method,
        runs=len(runs),
        predicted=_amounts(runs, "predicted_files", "predicted_bytes", "predicted_seconds", "predicted_money"),
        actual=_amounts(runs, "output_files", "bytes_out", "seconds", "money"),
        error=Errors(
            files=_median(run.error("predicted_files", "output_files") for run in runs),
            bytes=_median(run.error("predicted_bytes", "bytes_out") for run in runs),
            seconds=_median(run.error("predicted_seconds", "seconds") for run in runs),
        ),
        coverage=round(sum(covered) / len(covered), 4) if covered else None,
        input_bytes=int(sum(run.total("bytes_in") for run in runs)),
        money_per_tb=round(money / size * TB, 6) if size else None,
        currency=currency,
    )


def _amounts(runs: Sequence[_Run], files: str, size: str, seconds: str, money: str) -> Amounts:
    return Amounts(
        files=int(sum(run.total(files) for run in runs)),
        bytes=int(sum(run.total(size) for run in runs)),
        seconds=round(sum(run.total(seconds) for run in runs), 3),
        money=round(sum(run.total(money) for run in runs), 9),
    )


def _median(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return round(median(told), 4) if told else None
