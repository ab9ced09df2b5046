"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.assess.priority import prioritised
from icepact.iceberg.census import read_census
from icepact.iceberg.lake import Lake
from icepact.iceberg.names import table_parts
from icepact.iceberg.table import IcebergTable
from icepact.maintain.allowed import limits_of
from icepact.maintain.means import Means
from icepact.model.budget import Limit
from icepact.model.census import census_of
from icepact.model.decision import Judgement
from icepact.model.health import Health
from icepact.model.looked import Looked
from icepact.model.plan import Plan
from icepact.model.policies import Policies, TablePolicy
from icepact.model.policy import Options, Policy
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure, RunRecord
from icepact.plan.decide import decide
from icepact.plan.planner import make_plan
from icepact.record.store import RecordStore

_RUNS_REMEMBERED, _RUNS_OF_OTHERS = 12, 16
"""Older ones would count for next to nothing."""
SET_ASIDE_AFTER = 3
"""Failures after which a group is left alone until its files change."""
_SECOND_CHANCE = timedelta(minutes=5)
"""After the second failure; the first is no reason to wait."""


def look(means: Means, name: str, request: Options) -> Judgement:
    """Pin a table, assess it, and decide what is worth doing, from what its manifests count."""
    return judged(means, name, request)[0]


def judged(means: Means, name: str, request: Options) -> tuple[Judgement, Policy]:
    """The same, with the policy it was judged by."""
    table, policy = _settle(means, name, request)
    return look_at(means, table, policy, datetime.now(UTC)).judgement, policy


def health(means: Means, name: str, request: Options) -> Health:
    """Pin a table and assess it, with what came before."""
    table, policy = _settle(means, name, request)
    now = datetime.now(UTC)
    found = prioritised(look_at(means, table, policy, now).health, policy.priority_weights, now)
    return replace(found, timeline=table.timeline(found.snapshot_id))


def plan(means: Means, name: str, request: Options, *, limits: Sequence[Limit] = ()) -> Plan:
    """Pin a table and plan, within further limits if there are any; files are listed only where there is something to
    do."""
    table, policy = _settle(means, name, request)
    now = datetime.now(UTC)
    if policy.where is not None:  # only a scan knows which files have rows that match
        state = table.pin(branch=policy.branch, where=policy.where)
        found = assess(census_of(state), policy, clocks=means.store.clocks(table.uuid, policy.branch))
        rates = learned_rates(means.store, means.lake.catalog, table.name)
    else:
        looked = look_at(means, table, policy, now)
        found, rates = looked.health, looked.rates
        chosen = frozenset(key for decision in looked.judgement.chosen for key in decision.place.keys)
        state = table.listed(looked.census, chosen)
    return make_plan(
        found,
        state,
        policy,
        rates,
        now=now,
        prices=means.prices,
        set_aside=set_aside(means.store.failures(table.uuid), now),
        budget=(*limits_of(means, table.name, policy, now), *limits),
    )


def look_at(means: Means, table: IcebergTable, policy: Policy, now: datetime) -> Looked:
    """All that a look at a table brings."""
    store, memory = means.store, means.memory
    pin = table.pinned(policy.branch)
    census = read_census(
        table,
        pin,
        known=lambda paths: memory.sheets(paths, store),
        keep=lambda sheets, live: memory.keep(pin.uuid, sheets, live, store),
    )
    clocks = store.clocks(pin.uuid, policy.branch)
    before = memory.last(pin.uuid, policy.branch)
    rates = learned_rates(store, means.lake.catalog, table.name)
    health = assess(census, policy, clocks=clocks, before=before)
    same = before is not None and (before.policy, before.rates) == (policy, rates)
    said = before.judgement if before is not None and same else None
    judgement = decide(health, census, policy, rates, now=now, prices=means.prices, before=said)
    looked = Looked(census=census, policy=policy, clocks=clocks, health=health, rates=rates, judgement=judgement)
    memory.looked(pin.uuid, policy.branch, looked)
    return looked


def learned_rates(store: RecordStore, catalog: str, table: str) -> Rates:
    """How fast methods are on a table, after what runs on it and on others of its catalog took."""
    mine = store.runs(catalog=catalog, table=table, limit=_RUNS_REMEMBERED, worked_only=True)
    known = {run.run_id for run in mine}
    others = store.runs(catalog=catalog, limit=_RUNS_OF_OTHERS, worked_only=True)
    runs = sorted([*mine, *(run for run in others if run.run_id not in known)], key=_age, reverse=True)
    return Rates.learned((one for run in runs if run.outcome for one in measurements(run.outcome)), table)


def _age(run: RunRecord) -> tuple[datetime, str]:
    return run.started_at, run.run_id


def settled(lake: Lake, name: str, request: Options, policies: Policies) -> tuple[IcebergTable, TablePolicy]:
    """A table, and what holds for it."""
    table = lake.table(name)
    table.refresh()
    return table, policies.settle(request, table.properties, lake.catalog, table_parts(name, lake.catalog))


def _settle(means: Means, name: str, request: Options) -> tuple[IcebergTable, Policy]:
    table, found = settled(means.lake, name, request, means.policies)
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
