"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.iceberg.lake import Lake
from icepact.iceberg.table import IcebergTable
from icepact.maintain.learned import lessons_of
from icepact.model.census import census_of
from icepact.model.health import Health
from icepact.model.lessons import Lessons
from icepact.model.outlook import Outlook
from icepact.model.plan import Plan
from icepact.model.policy import Options, Policy, Strategy, resolve
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure
from icepact.model.table import TableState
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


def plan(lake: Lake, name: str, request: Options, configuration: Options, store: RecordStore) -> Plan:
    """Pin a table and plan."""
    table, policy = _settle(lake, name, request, configuration)
    state = table.pin(branch=policy.branch, where=policy.where)
    health = assess(census_of(state), policy)
    now = datetime.now(UTC)
    aside = set_aside(store.failures(table.uuid), now)
    outlook = Outlook(now=now, lessons=_lessons(lake, store, state, policy, now))
    return make_plan(health, state, policy, _rates(lake, store), now=now, set_aside=aside, outlook=outlook)


def _lessons(lake: Lake, store: RecordStore, state: TableState, policy: Policy, now: datetime) -> Lessons:
    """What earlier runs taught, if the strategy listens."""
    return lessons_of(store, lake.catalog, state.table, now) if policy.strategy == Strategy.AUTO else Lessons()


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
