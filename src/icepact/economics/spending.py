"""Spending of the last hour, and what is left of the hourly budgets of a table, its namespaces and the fleet."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from icepact.model.effort import Additive
from icepact.model.formatting import format_money, format_size
from icepact.model.limits import Limit, Resource
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.run import RunRecord

HOUR = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending(Additive):
    """Money and bytes that work on tables took."""

    money: float = 0.0
    bytes: int = 0
    """Of inputs of rewrites."""


NOTHING = Spending()


@dataclass(frozen=True, kw_only=True, slots=True)
class HourlyBudget:
    """What may be spent in an hour on one table, one namespace or the fleet."""

    level: str
    """Its name in messages: `table db.events`, `namespace db` or `the fleet`."""
    table: str | None = None
    """The one that it is for."""
    namespace: str | None = None
    """The one whose tables it is for, and those of namespaces inside it; without table and namespace it is for all."""
    max_cost: float | None = None
    max_bytes: int | None = None

    def covers(self, table: str) -> bool:
        """Whether a table's spending counts here."""
        if self.table is not None:
            return table == self.table
        return self.namespace is None or table.startswith(f"{self.namespace}.")


def spent_by(outcome: Outcome) -> Spending:
    """What a run took: groups that were worked on, whether or not they were committed, and steps of housekeeping."""
    worked_on = (group for group in outcome.groups if group.effort.seconds or group.committed)
    steps = Spending(money=sum(step.money for step in outcome.step_costs))
    return Spending.sum(Spending(money=group.money, bytes=group.bytes_in) for group in worked_on) + steps


def planned_spending(plan: Plan) -> Spending:
    """What a run that is under way will have taken by its plan."""
    steps = Spending(money=sum(step.cost.money.likely for step in plan.chores))
    return Spending.sum(Spending(money=step.cost.money.likely, bytes=step.bytes) for step in plan.rewrites) + steps


def promised_by(plan: bytes) -> Spending:
    """What a run that began with this will have taken; nothing if that is a plan of another version."""
    try:
        return planned_spending(Plan.from_json(plan))
    except ValueError:
        return NOTHING


def spent_by_table(
    runs: Iterable[RunRecord], now: datetime, promised: Mapping[str, Spending] | None = None
) -> dict[str, Spending]:
    """What was spent in the hour before a moment, by table.

    A run counts whole when it ends; until then it counts with what is `promised` for it, by its id, for an hour from
    its start: after that it has probably died.
    """
    by_table: dict[str, Spending] = {}
    for run in runs:
        if (run.finished_at or run.started_at) <= now - HOUR:
            continue
        if run.outcome is not None:
            spent = spent_by(run.outcome)
        else:
            spent = (promised or {}).get(run.run_id, NOTHING) if run.status.open else NOTHING
        by_table[run.table] = by_table.get(run.table, NOTHING) + spent
    return by_table


def hourly_limits(
    budgets: Iterable[HourlyBudget], table: str, spent: Mapping[str, Spending], currency: str = ""
) -> Iterator[Limit]:
    """What a plan for a table may still spend in this hour: one limit for every budget that covers the table."""
    for budget in budgets:
        if not budget.covers(table):
            continue
        so_far = Spending.sum(amount for name, amount in spent.items() if budget.covers(name))
        if budget.max_cost is not None:
            limit, gone = format_money(budget.max_cost, currency), format_money(so_far.money, currency)
            described = f"{limit} of {budget.level}: {gone} spent"
            left = max(0.0, budget.max_cost - so_far.money)
            yield Limit(resource=Resource.MONEY, amount=left, name=f"max_cost_per_hour {described}")
        if budget.max_bytes is not None:
            described = f"{format_size(budget.max_bytes)} of {budget.level}: {format_size(so_far.bytes)} spent"
            left = max(0, budget.max_bytes - so_far.bytes)
            yield Limit(resource=Resource.BYTES, amount=left, name=f"max_bytes_per_hour {described}")
