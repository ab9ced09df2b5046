"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.assess.priority import prioritised
from icepact.iceberg.census import read_census
from icepact.iceberg.lake import Lake
from icepact.iceberg.names import table_parts
from icepact.iceberg.table import IcebergTable
from icepact.maintain.allowed import limits_of
from icepact.maintain.learned import lessons_of
from icepact.maintain.means import Means
from icepact.model.budget import Limit
from icepact.model.census import Census, census_of
from icepact.model.decision import Judgement
from icepact.model.health import Health
from icepact.model.lessons import Lessons
from icepact.model.looked import Looked
from icepact.model.outlook import Outlook
from icepact.model.plan import Plan
from icepact.model.policies import Policies, TablePolicy
from icepact.model.policy import Options, Policy, Strategy
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure, RunRecord
from icepact.model.table import Key, Pinned
from icepact.plan.decide import Decided, decide
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
    return look_at(means, table, policy, datetime.now(UTC))[1].judgement, policy


def health(means: Means, name: str, request: Options) -> Health:
    """Pin a table and assess it, with what came before."""
    table, policy = _settle(means, name, request)
    now = datetime.now(UTC)
    found = prioritised(look_at(means, table, policy, now)[0].health, policy.priority_weights, now)
    return replace(found, timeline=table.timeline(found.snapshot_id))


def plan(means: Means, name: str, request: Options, *, limits: Sequence[Limit] = ()) -> Plan:
    """Pin a table and plan, within further limits if there are any; files are listed only where there is something to
    do."""
    table, policy = _settle(means, name, request)
    now = datetime.now(UTC)
    if policy.where is not None:  # only a scan knows which files have rows that match
        state = table.pin(branch=policy.branch, where=policy.where, snapshot_id=policy.snapshot_id)
        found = assess(census_of(state), policy, clocks=means.store.clocks(table.uuid, policy.branch))
        rates = learned_rates(means.store, means.lake.catalog, table.name)
        unchosen: Mapping[str, str] = {}
    else:
        looked, decided = look_at(means, table, policy, now)
        found, rates = looked.health, decided.rates
        state = table.listed(looked.census, _to_be_listed(decided.judgement))
        judged = decided.judgement.decisions
        unchosen = {d.place.name: d.reason for d in judged if not d.chosen and not d.place.broken}
    listed = len(state.files)
    if policy.snapshot_id is not None:
        state = table.still_there(state)
    made = make_plan(
        found,
        state,
        policy,
        rates,
        now=now,
        prices=means.prices,
        set_aside=set_aside(means.store.failures(table.uuid), now),
        budget=(*limits_of(means, table.name, policy, now), *limits),
        outlook=_outlook(means, table, policy, now),
        unchosen=unchosen,
    )
    # what came in the place of files that are gone was not looked at: the table is not settled by such a plan
    return made if len(state.files) == listed else replace(made, complete=False)


def _to_be_listed(judgement: Judgement) -> frozenset[Key]:
    """Partitions whose files a plan names: those that are chosen, and those that are refused because of a file."""
    named = (d.place for d in judgement.decisions if d.chosen or d.place.broken)
    return frozenset(key for place in named for key in place.keys)


def counted(means: Means, table: IcebergTable, pin: Pinned) -> Census:
    """The census of a pinned table: only manifests that were not read before are read."""
    return read_census(
        table,
        pin,
        known=lambda paths: means.memory.sheets(paths, means.store),
        keep=lambda sheets, live: means.memory.keep(pin.uuid, sheets, live, means.store),
    )


def look_at(means: Means, table: IcebergTable, policy: Policy, now: datetime) -> tuple[Looked, Decided]:
    """All that a look at a table brings."""
    store, memory = means.store, means.memory
    pin = table.pinned(policy.branch, policy.snapshot_id)
    census = counted(means, table, pin)
    clocks = store.clocks(pin.uuid, policy.branch)
    before, said = memory.last(pin.uuid, policy.branch)
    looked = Looked(
        census=census,
        policy=policy,
        clocks=clocks,
        health=assess(census, policy, clocks=clocks, before=before),
    )
    decided = decide(
        looked.health,
        census,
        policy,
        learned_rates(store, means.lake.catalog, table.name),
        prices=means.prices,
        outlook=_outlook(means, table, policy, now),
        before=said,
    )
    memory.looked(pin.uuid, policy.branch, looked, decided)
    return looked, decided


def _outlook(means: Means, table: IcebergTable, policy: Policy, now: datetime) -> Outlook:
    """What a second of readers and of work costs, and what earlier runs taught, if the strategy listens."""
    second = means.prices.compute(1.0)
    learns = policy.strategy == Strategy.AUTO
    lessons = lessons_of(means.store, means.lake.catalog, table.name, now) if learns else Lessons()
    return Outlook(
        now=now,
        money_per_scan_second=second,
        money_per_read=means.prices.requests(reads=1, writes=0),
        money_per_work_second=second,
        lessons=lessons,
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
