"""What limits a plan: what a run may take, and what is left of this hour for a table, its namespaces and the fleet."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from icepact.economics.limits import run_limits
from icepact.economics.speeds import Rates
from icepact.economics.spending import HOUR, HourlyBudget, hourly_limits, promised_by, spent_by_table
from icepact.iceberg.names import parse_levels, show_name
from icepact.model.limits import Limit
from icepact.model.policy import Policy
from icepact.policy.config import Allowance, Budgets

if TYPE_CHECKING:
    from icepact.maintain.context import Context  # brings Spark along


def limits_of(context: "Context", table: str, policy: Policy, rates: Rates, now: datetime) -> tuple[Limit, ...]:
    """All that limits a plan: what a run may take, and what is left of this hour."""
    currency = context.prices.currency
    of_the_run = run_limits(policy, cores=rates.cores, overhead=rates.overhead.likely, currency=currency)
    return (*of_the_run, *limits_of_the_hour(context, table, policy, now))


def limits_of_the_hour(context: "Context", table: str, policy: Policy, now: datetime) -> tuple[Limit, ...]:
    """What is left of this hour."""
    hourly = [budget for budget in hourly_budgets(table, policy, context.budgets) if budget.covers(table)]
    if not hourly:
        return ()
    runs = context.store.recent(catalog=context.spark_catalog.recorded_as, since=now - HOUR)
    promised = {run.run_id: promised_by(context.store.plan(run.run_id)) for run in runs if run.status.open}
    return tuple(hourly_limits(hourly, table, spent_by_table(runs, now, promised), context.prices.currency))


def hourly_budgets(table: str, policy: Policy, budgets: Budgets) -> Iterator[HourlyBudget]:
    """The hourly budgets of the table, of namespaces and of the fleet."""
    if policy.max_cost_per_hour is not None or policy.max_bytes_per_hour is not None:
        yield HourlyBudget(
            level=f"table {table}",
            table=table,
            max_cost=policy.max_cost_per_hour,
            max_bytes=policy.max_bytes_per_hour,
        )
    for namespace, allowed in budgets.namespaces.items():
        yield HourlyBudget(
            level=f"namespace {namespace}",
            namespace=show_name(parse_levels(namespace)),
            max_cost=allowed.max_cost_per_hour,
            max_bytes=allowed.max_bytes_per_hour,
        )
    if budgets.fleet != Allowance():
        yield HourlyBudget(
            level="the fleet", max_cost=budgets.fleet.max_cost_per_hour, max_bytes=budgets.fleet.max_bytes_per_hour
        )
