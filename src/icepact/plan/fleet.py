"""Which tables come first, which of them a budget for all of them allows, and of which `auto` would think otherwise."""

from collections.abc import Callable, Mapping, Sequence

from icepact.economics.valuation import Valuation
from icepact.model.fleet import RankBy, RankedTable, TableSummary
from icepact.model.formatting import plural
from icepact.model.limits import Demand, Limit
from icepact.plan.decide import DecisionMemo
from icepact.plan.greedy import Budget, Item, choose
from icepact.plan.profit import profitability

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


def doubt(decided: DecisionMemo, valuation: Valuation) -> str:
    """How much of what is chosen `auto` would refuse, with what it has learned, and why the dearest part; empty if
    nothing."""
    policy, picked = decided.policy, decided.picked.values()
    dearest_first = sorted(picked, key=lambda one: (-one.cost.money.likely, one.partition_group.name))
    reasons = (profitability(candidate, valuation, policy).reason for candidate in dearest_first)
    refused = [reason for reason in reasons if reason]
    if not refused:
        return ""
    share = f"{len(refused)} of {plural(len(picked), 'partition')}" if len(picked) > 1 else "it"
    return f"{policy.strategy} asks for it, auto would leave {share} alone: {refused[0]}"
