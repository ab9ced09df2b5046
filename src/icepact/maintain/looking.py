"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.iceberg.lake import Lake
from icepact.iceberg.names import parse_levels, show_name
from icepact.iceberg.table import IcebergTable
from icepact.model.budget import Limit, run_limits
from icepact.model.census import census_of
from icepact.model.config import Allowance, Budgets
from icepact.model.health import Health
from icepact.model.plan import Plan
from icepact.model.policy import Options, Policy, resolve
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure
from icepact.model.spending import HOUR, HourlyBudget, Spent, hourly_limits, promised_by, spent_by_table
from icepact.plan.planner import make_plan
from icepact.record.store import RecordStore

_RUNS_REMEMBERED = 50
SET_ASIDE_AFTER = 3
"""Failures after which a group is left alone until its files change."""
_SECOND_CHANCE = timedelta(minutes=5)
"""After the second failure; the first is no reason to wait."""


def look(lake: Lake, name: str, request: Options, configuration: Options) -> Health:
    """Pin a table and assess it."""
    table, policy = _settle(lake, name, request, configuration)
    return assess(census_of(table.pin(branch=policy.branch)), policy)


def plan(
    lake: Lake, name: str, request: Options, configuration: Options, store: RecordStore, budgets: Budgets | None = None
) -> Plan:
    """Pin a table and plan, within what its policy and the budgets of its namespaces and of the fleet still allow."""
    table, policy = _settle(lake, name, request, configuration)
    state = table.pin(branch=policy.branch, where=policy.where)
    health = assess(census_of(state), policy)
    now = datetime.now(UTC)
    aside = set_aside(store.failures(table.uuid), now)
    budget = _budget(lake, table.name, policy, budgets or Budgets(), store, now)
    return make_plan(health, state, policy, _rates(lake, store), now=now, set_aside=aside, budget=budget)


def _budget(
    lake: Lake, table: str, policy: Policy, budgets: Budgets, store: RecordStore, now: datetime
) -> tuple[Limit, ...]:
    """All that limits a plan: what a run may take, and what is left of this hour."""
    limits = [*run_limits(policy, cores=lake.session.sparkContext.defaultParallelism)]
    hourly = [budget for budget in hourly_budgets(table, policy, budgets) if budget.covers(table)]
    if hourly:
        runs = store.recent(catalog=lake.catalog, since=now - HOUR)
        promised = {run.run_id: _promised(store, run.run_id) for run in runs if run.status.open}
        limits += hourly_limits(hourly, table, spent_by_table(runs, now, promised))
    return tuple(limits)


def hourly_budgets(table: str, policy: Policy, budgets: Budgets) -> Iterator[HourlyBudget]:
    """Those of the table, of namespaces and of the fleet."""
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


def _promised(store: RecordStore, run_id: str) -> Spent:
    """What a run that is under way will take; nothing if its plan is of another version."""
    try:
        return promised_by(Plan.from_json(store.plan(run_id)))
    except ValueError:
        return Spent()


def _rates(lake: Lake, store: RecordStore) -> Rates:
    """How fast methods are, after what runs on this catalog took."""
    outcomes = [run.outcome for run in store.runs(catalog=lake.catalog, limit=_RUNS_REMEMBERED) if run.outcome]
    return Rates().corrected(measured for outcome in outcomes for measured in measurements(outcome))


def _settle(lake: Lake, name: str, request: Options, configuration: Options) -> tuple[IcebergTable, Policy]:
    table = lake.table(name)
    table.refresh()
    return table, resolve(request, table.properties, configuration)


def set_aside(failures: Sequence[Failure], now: datetime | None = None) -> dict[str, str]:
    """By signature of the group: why it is not tried now."""
    now = now or datetime.now(UTC)
    found = {}
    for failure in failures:
        when = f"{failure.last_at:%Y-%m-%d %H:%M} UTC"
        if failure.count >= SET_ASIDE_AFTER:
            found[failure.signature] = (
                f"set aside: failed {failure.count} times, last on {when}: {failure.reason}; "
                "tried again when its files change, or after `icepact forgive`"
            )
        elif failure.count > 1 and now < failure.last_at + _SECOND_CHANCE:
            found[failure.signature] = (
                f"failed {failure.count} times, last on {when}: {failure.reason}; tried again later"
            )
    return found
