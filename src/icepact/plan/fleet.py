"""Which tables come first, and which of them a budget for all of them allows."""

from collections.abc import Callable, Mapping, Sequence

from icepact.model.fleet import RankBy, RankedTable, TableSummary
from icepact.model.limits import Demand, Limit
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
    used = Demand.sum(item.demand for item in taken.values())
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
        idle = not _worth_doing(table) and by not in (RankBy.HEALTH, RankBy.DEBT)
        return idle, _FIRST[by](table, price), table.score, -table.debt, table.table

    return key


_FIRST: Mapping[RankBy, Callable[[TableSummary, float], float]] = {
    RankBy.WORTH: lambda table, price: -table.gain_seconds / price if price > 0 else -table.gain_seconds,
    RankBy.HEALTH: lambda table, _: table.score,
    RankBy.DEBT: lambda table, _: -table.debt,
    RankBy.GAIN: lambda table, _: -table.gain_seconds,
    RankBy.PRICE: lambda _, price: price,
}
"""By what a table and its price are ranked; the least comes first."""
