"""What was spent in the last hour, and what is left of the budgets of a table, its namespaces and the fleet."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from icepact.model.budget import Limit, Resource
from icepact.model.plan import Plan
from icepact.model.run import RunRecord
from icepact.model.sizes import format_size
from icepact.model.words import money

HOUR = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What rewriting took."""

    money: float = 0.0
    bytes: int = 0
    """Of inputs."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(money=self.money + other.money, bytes=self.bytes + other.bytes)


NOTHING = Spent()


@dataclass(frozen=True, kw_only=True, slots=True)
class HourlyBudget:
    """What may be spent in an hour on one table, one namespace or the fleet."""

    level: str
    """As people are told of it: `table db.events`, `namespace db` or `the fleet`."""
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


def spent_by(outcome: Mapping[str, Any]) -> Spent:
    """What a run took by its outcome's document: groups that were worked on, whether or not they were committed.

    Money that nobody measured is taken as it was predicted; as nothing, where nobody did that either.
    """
    total = NOTHING
    for group in outcome.get("groups", ()):
        if group.get("seconds") or group.get("committed"):
            money = next((group[key] for key in ("money", "predicted_money") if group.get(key) is not None), 0.0)
            total += Spent(money=money, bytes=group.get("bytes_in", 0))
    return total


def promised_by(plan: Plan) -> Spent:
    """What a run that is under way will have taken by its plan."""
    return Spent(money=sum(step.cost.money for step in plan.steps), bytes=sum(step.bytes for step in plan.steps))


def spent_by_table(
    runs: Iterable[RunRecord], now: datetime, promised: Mapping[str, Spent] | None = None
) -> dict[str, Spent]:
    """What was spent in the hour before a moment, by table.

    A run counts whole when it ends; until then it counts with what is `promised` for it, by its id, for an hour from
    its start: after that it has probably died.
    """
    found: dict[str, Spent] = {}
    for run in runs:
        if (run.finished_at or run.started_at) <= now - HOUR:
            continue
        if run.outcome is not None:
            spent = spent_by(run.outcome)
        else:
            spent = (promised or {}).get(run.run_id, NOTHING) if run.status.open else NOTHING
        found[run.table] = found.get(run.table, NOTHING) + spent
    return found


def hourly_limits(
    budgets: Iterable[HourlyBudget], table: str, spent: Mapping[str, Spent], currency: str = ""
) -> Iterator[Limit]:
    """What a plan for a table may still spend in this hour: one limit for every budget that covers the table."""
    for budget in budgets:
        if not budget.covers(table):
            continue
        so_far = sum((amount for name, amount in spent.items() if budget.covers(name)), NOTHING)
        if budget.max_cost is not None:
            limit, gone = money(budget.max_cost, currency), money(so_far.money, currency)
            told = f"{limit} of {budget.level}: {gone} spent"
            left = max(0.0, budget.max_cost - so_far.money)
            yield Limit(resource=Resource.MONEY, amount=left, name=f"max_cost_per_hour {told}")
        if budget.max_bytes is not None:
            told = f"{format_size(budget.max_bytes)} of {budget.level}: {format_size(so_far.bytes)} spent"
            left = max(0, budget.max_bytes - so_far.bytes)
            yield Limit(resource=Resource.BYTES, amount=left, name=f"max_bytes_per_hour {told}")
