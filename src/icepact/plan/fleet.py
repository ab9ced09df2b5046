"""Which tables come first, and which of them a budget for all of them allows."""

from collections.abc import Callable, Sequence
from typing import assert_never

from icepact.model.fleet import RankBy, RankedTable, TableSummary
from icepact.model.limits import NO_DEMAND, Limit
from icepact.plan.greedy import Budget, Item, choose

WITHIN = "worth doing"
NOTHING = "nothing to do"


def rank(
    tables: Sequence[TableSummary], *, by: RankBy = RankBy.WORTH, limits: Sequence[Limit] = ()
) -> list[RankedTable]:
    """Tables in their order, and whether the budget allows to do it whole. Chosen is what brings most for its share of
    the limits, whatever the ranking is by. The order in which tables are given does not matter."""
    ordered, budget = sorted(tables, key=_order(tables, by)), Budget(limits)
    doable = [table for table in ordered if _worth_doing(table)]
    taken = choose([Item(gain=table.gain_seconds, demand=table.demand) for table in doable], budget)
    used = sum((item.demand for item in taken.values()), NO_DEMAND)
    reasons = {
        table.table: (table.doubt or WITHIN) if number in taken else budget.reason(used + table.demand)
        for number, table in enumerate(doable)
    }
    chosen = {doable[number].table for number in taken}
    return [
        RankedTable(
            rank=number,
            summary=table,
            chosen=table.table in chosen,
            reason=reasons.get(table.table) or table.off or NOTHING,
        )
        for number, table in enumerate(ordered, start=1)
    ]


def _worth_doing(table: TableSummary) -> bool:
    return table.off is None and table.input_files > 0


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
