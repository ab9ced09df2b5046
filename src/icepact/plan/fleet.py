"""Which tables come first, and which of them a budget for all of them allows."""

from collections.abc import Callable, Sequence
from typing import assert_never

from icepact.model.budget import Limit, Resource
from icepact.model.fleet import RankBy, Ranked, TableSummary
from icepact.plan.knapsack import Weights, best_choice, fits, plus

WITHIN = "worth doing"
NOTHING = "nothing to do"


def rank(tables: Sequence[TableSummary], *, by: RankBy = RankBy.WORTH, limits: Sequence[Limit] = ()) -> list[Ranked]:
    """Every table in its place, and whether the budget allows to do it whole. Chosen is what brings the most within
    every limit, whatever the ranking is by. The order in which tables are given does not matter."""
    ordered = sorted(tables, key=_order(tables, by))
    taken = [number for number, table in enumerate(ordered) if _worth_doing(table)]
    weights = [_weight(ordered[number], limits) for number in taken]
    chosen = _choose([ordered[number] for number in taken], weights, limits)
    used: Weights = (0.0,) * len(limits)
    for at in chosen:
        used = plus(used, weights[at])
    reasons = {
        number: (ordered[number].doubt or WITHIN) if at in chosen else _over(plus(used, weights[at]), limits)
        for at, number in enumerate(taken)
    }
    allowed = {taken[at] for at in chosen}
    return [
        Ranked(
            rank=number + 1,
            summary=table,
            chosen=number in allowed,
            reason=reasons.get(number) or table.off or NOTHING,
        )
        for number, table in enumerate(ordered)
    ]


def _worth_doing(table: TableSummary) -> bool:
    return table.off is None and table.input_files > 0


def _choose(tables: Sequence[TableSummary], weights: Sequence[Weights], limits: Sequence[Limit]) -> frozenset[int]:
    amounts = tuple(limit.amount for limit in limits)
    total: Weights = (0.0,) * len(limits)
    for weight in weights:
        total = plus(total, weight)
    if fits(total, amounts):
        return frozenset(range(len(tables)))
    return frozenset(best_choice([table.gain_seconds for table in tables], weights, amounts))


def _weight(table: TableSummary, limits: Sequence[Limit]) -> Weights:
    return tuple(_taken(table, limit.resource) for limit in limits)


def _taken(table: TableSummary, resource: Resource) -> float:
    """What a table takes of a resource."""
    match resource:
        case Resource.FILES:
            return table.input_files
        case Resource.BYTES:
            return table.input_bytes
        case Resource.SECONDS:
            return table.seconds
        case Resource.MONEY:
            return table.money
        case _:
            assert_never(resource)


def _over(wanted: Weights, limits: Sequence[Limit]) -> str:
    names = [limit.name for limit, want in zip(limits, wanted, strict=True) if want > limit.amount]
    return f"over the budget ({', '.join(names or [limit.name for limit in limits])})"


def _order(tables: Sequence[TableSummary], by: RankBy) -> Callable[[TableSummary], tuple[float | str, ...]]:
    """What has something to do comes first; of equal ones the sicker, the deeper in debt, and then by name."""
    priced = all(table.money > 0 for table in tables if _worth_doing(table))

    def key(table: TableSummary) -> tuple[float | str, ...]:
        price = table.money if priced else table.seconds
        first: float
        match by:
            case RankBy.WORTH:
                first = -table.gain_seconds / price if price > 0 else -table.gain_seconds
            case RankBy.HEALTH:
                first = table.score
            case RankBy.DEBT:
                first = -table.debt
            case RankBy.GAIN:
                first = -table.gain_seconds
            case RankBy.PRICE:
                first = price
            case _:
                assert_never(by)
        idle = not _worth_doing(table) and by not in (RankBy.HEALTH, RankBy.DEBT)
        return idle, first, table.score, -table.debt, table.table

    return key
