"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.iceberg.lake import Lake
from icepact.iceberg.table import IcebergTable
from icepact.model.census import census_of
from icepact.model.health import Health
from icepact.model.plan import Plan
from icepact.model.policy import Options, Policy, resolve
from icepact.model.prices import Prices
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure, RunRecord
from icepact.plan.planner import make_plan
from icepact.record.store import RecordStore

_RUNS_REMEMBERED, _RUNS_OF_OTHERS = 12, 16
"""Older ones would count for next to nothing."""
SET_ASIDE_AFTER = 3
"""Failures after which a group is left alone until its files change."""
_SECOND_CHANCE = timedelta(minutes=5)
"""After the second failure; the first is no reason to wait."""


def look(lake: Lake, name: str, request: Options, configuration: Options) -> Health:
    """Pin a table and assess it."""
    table, policy = _settle(lake, name, request, configuration)
    return assess(census_of(table.pin(branch=policy.branch)), policy)


def plan(
    lake: Lake, name: str, request: Options, configuration: Options, store: RecordStore, prices: Prices | None = None
) -> Plan:
    """Pin a table and plan."""
    table, policy = _settle(lake, name, request, configuration)
    state = table.pin(branch=policy.branch, where=policy.where)
    health = assess(census_of(state), policy)
    now = datetime.now(UTC)
    aside = set_aside(store.failures(table.uuid), now)
    return make_plan(
        health, state, policy, learned_rates(store, lake.catalog, state.table), now=now, prices=prices, set_aside=aside
    )


def learned_rates(store: RecordStore, catalog: str, table: str) -> Rates:
    """How fast methods are on a table, after what runs on it and on others of its catalog took."""
    mine = store.runs(catalog=catalog, table=table, limit=_RUNS_REMEMBERED, worked_only=True)
    known = {run.run_id for run in mine}
    others = store.runs(catalog=catalog, limit=_RUNS_OF_OTHERS, worked_only=True)
    runs = sorted([*mine, *(run for run in others if run.run_id not in known)], key=_age, reverse=True)
    return Rates.learned((one for run in runs if run.outcome for one in measurements(run.outcome)), table)


def _age(run: RunRecord) -> tuple[datetime, str]:
    return run.started_at, run.run_id


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
