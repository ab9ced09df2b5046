"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.iceberg.lake import Lake
from icepact.iceberg.names import table_parts
from icepact.iceberg.table import IcebergTable
from icepact.model.census import census_of
from icepact.model.health import Health
from icepact.model.plan import Plan
from icepact.model.policies import Policies, TablePolicy
from icepact.model.policy import Options, Policy
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure
from icepact.plan.planner import make_plan
from icepact.record.store import RecordStore

_RUNS_REMEMBERED = 50
SET_ASIDE_AFTER = 3
"""Failures after which a group is left alone until its files change."""
_SECOND_CHANCE = timedelta(minutes=5)
"""After the second failure; the first is no reason to wait."""


def look(lake: Lake, name: str, request: Options, policies: Policies) -> Health:
    """Pin a table and assess it."""
    table, policy = _settle(lake, name, request, policies)
    return assess(census_of(table.pin(branch=policy.branch)), policy)


def plan(lake: Lake, name: str, request: Options, policies: Policies, store: RecordStore) -> Plan:
    """Pin a table and plan."""
    table, policy = _settle(lake, name, request, policies)
    state = table.pin(branch=policy.branch, where=policy.where)
    health = assess(census_of(state), policy)
    now = datetime.now(UTC)
    aside = set_aside(store.failures(table.uuid), now)
    return make_plan(health, state, policy, _rates(lake, store), now=now, set_aside=aside)


def _rates(lake: Lake, store: RecordStore) -> Rates:
    """How fast methods are, after what runs on this catalog took."""
    outcomes = [run.outcome for run in store.runs(catalog=lake.catalog, limit=_RUNS_REMEMBERED) if run.outcome]
    return Rates().corrected(measured for outcome in outcomes for measured in measurements(outcome))


def settled(lake: Lake, name: str, request: Options, policies: Policies) -> tuple[IcebergTable, TablePolicy]:
    """A table, and what holds for it."""
    table = lake.table(name)
    table.refresh()
    return table, policies.settle(request, table.properties, lake.catalog, table_parts(name, lake.catalog))


def _settle(lake: Lake, name: str, request: Options, policies: Policies) -> tuple[IcebergTable, Policy]:
    table, found = settled(lake, name, request, policies)
    return table, found.policy


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
