"""Cost report: what runs cost next to what was predicted, for each table and method, or kind of housekeeping."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from icepact.model.costs import Amounts, Costs, PredictionErrors
from icepact.model.effort import Estimate
from icepact.model.outcome import GroupOutcome, Outcome, StepCost
from icepact.model.prices import TB


class _Run(NamedTuple):
    """All groups of one run that one method wrote, or one step of housekeeping."""

    predicted: Amounts
    actual: Amounts
    seconds: Estimate
    """Predicted."""
    input_bytes: int

    @staticmethod
    def of(groups: Sequence[GroupOutcome]) -> "_Run":
        return _Run(
            predicted=Amounts.sum(map(predicted_amounts, groups)),
            actual=Amounts.sum(map(actual_amounts, groups)),
            seconds=Estimate.sum(g.predicted_seconds for g in groups),
            input_bytes=sum(g.bytes_in for g in groups),
        )

    @staticmethod
    def of_step(step: StepCost) -> "_Run":
        predicted = Amounts(seconds=step.predicted_seconds.likely, money=step.predicted_money)
        actual = Amounts(seconds=step.effort.seconds, money=step.money)
        return _Run(predicted=predicted, actual=actual, seconds=step.predicted_seconds, input_bytes=0)

    @property
    def covered(self) -> bool | None:
        if not self.seconds.high or not self.actual.seconds:
            return None
        return self.seconds.low <= self.actual.seconds <= self.seconds.high


def predicted_amounts(g: GroupOutcome) -> Amounts:
    """What was predicted of a group."""
    seconds, money = g.predicted_seconds.likely, g.predicted_money
    return Amounts(files=g.predicted_files, bytes=g.predicted_bytes, seconds=seconds, money=money)


def actual_amounts(g: GroupOutcome) -> Amounts:
    """What was measured of a group."""
    return Amounts(files=g.output_files, bytes=g.bytes_out, seconds=g.effort.seconds, money=g.money)


def costs_of(outcomes: Iterable[Outcome]) -> tuple[Costs, ...]:
    """Costs by outcomes, for each table, method or kind of housekeeping, and currency. Those of earlier versions tell
    less, and count for what they tell."""
    by_key: dict[tuple[str, str, str], list[_Run]] = defaultdict(list)
    for outcome in outcomes:
        by_method: dict[str, list[GroupOutcome]] = defaultdict(list)
        for group in outcome.groups:
            if group.output_files or group.effort.seconds:
                by_method[group.method].append(group)
        for method, groups in by_method.items():
            by_key[outcome.table, method, outcome.currency].append(_Run.of(groups))
        for step in outcome.step_costs:
            by_key[outcome.table, step.kind, outcome.currency].append(_Run.of_step(step))
    return tuple(_costs(*key, by_key[key]) for key in sorted(by_key))


def _costs(table: str, method: str, currency: str, runs: Sequence[_Run]) -> Costs:
    covered = [run.covered for run in runs if run.covered is not None]
    paid = [run for run in runs if run.actual.money]
    money, size = sum(run.actual.money for run in paid), sum(run.input_bytes for run in paid)
    return Costs(
        table=table,
        method=method,
        runs=len(runs),
        predicted=_rounded(Amounts.sum(run.predicted for run in runs)),
        actual=_rounded(Amounts.sum(run.actual for run in runs)),
        error=PredictionErrors(
            files=_error((run.predicted.files, run.actual.files) for run in runs),
            bytes=_error((run.predicted.bytes, run.actual.bytes) for run in runs),
            seconds=_error((run.predicted.seconds, run.actual.seconds) for run in runs),
        ),
        coverage=round(sum(covered) / len(covered), 4) if covered else None,
        input_bytes=sum(run.input_bytes for run in runs),
        money_per_tb=round(money / size * TB, 6) if size else None,
        currency=currency,
    )


def _rounded(amounts: Amounts) -> Amounts:
    return replace(amounts, seconds=round(amounts.seconds, 3), money=round(amounts.money, 9))


def _error(pairs: Iterable[tuple[float, float]]) -> float | None:
    """How far predictions were off; `None` if no run predicted this, or nothing was measured."""
    known = [abs(predicted - actual) / actual for predicted, actual in pairs if predicted and actual]
    return round(median(known), 4) if known else None
