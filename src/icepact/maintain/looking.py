"""Pin a table and look at it, or plan; nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from icepact.assess.health import assess
from icepact.assess.priority import prioritised
from icepact.iceberg.census import list_files, read_census
from icepact.iceberg.lake import Lake
from icepact.iceberg.names import table_parts
from icepact.iceberg.scan import gc_paused
from icepact.iceberg.table import IcebergTable
from icepact.maintain.allowed import limits_of
from icepact.maintain.learned import lessons_of
from icepact.maintain.means import Means
from icepact.maintain.warm import is_first
from icepact.model.budget import Limit
from icepact.model.census import Census, census_of
from icepact.model.decision import Decision, Judgement
from icepact.model.fleet import TableSummary, summary_of
from icepact.model.health import Health
from icepact.model.lessons import Lessons
from icepact.model.looked import Looked
from icepact.model.outlook import Outlook
from icepact.model.overhead import learned_overhead
from icepact.model.plan import LeftOut, Plan
from icepact.model.policies import Policies, TablePolicy
from icepact.model.policy import Options, Policy, Strategy
from icepact.model.rates import Rates, measurements
from icepact.model.run import Failure, RunRecord
from icepact.model.table import Key, Pinned
from icepact.plan.decide import Decided, decide
from icepact.plan.doubt import doubt
from icepact.plan.offers import asks_for_worth
from icepact.plan.planner import make_plan
from icepact.plan.shortlist import shortlist
from icepact.record.store import RecordStore

_RUNS_REMEMBERED, _RUNS_OF_OTHERS = 12, 16
"""Older ones would count for next to nothing."""
SET_ASIDE_AFTER = 3
"""Failures after which a group is left alone until its files change."""
_SECOND_CHANCE = timedelta(minutes=5)
"""After the second failure; the first is no reason to wait."""


def look(means: Means, name: str, request: Options) -> Judgement:
    """Pin a table, assess it, and decide what is worth doing, from what its manifests count."""
    table, policy = _settle(means, name, request)
    return look_at(means, table, policy, datetime.now(UTC))[1].judgement


def summary(means: Means, name: str) -> TableSummary:
    """The same by the policy that holds for the table, in a few numbers."""
    table, policy = _settle(means, name, Options())
    decided = look_at(means, table, policy, datetime.now(UTC))[1]
    said = "" if asks_for_worth(policy) else doubt(decided.judgement, decided.outlook, policy)
    return summary_of(decided.judgement, policy, doubt=said)


def health(means: Means, name: str, request: Options) -> Health:
    """Pin a table and assess it, with what came before."""
    table, policy = _settle(means, name, request)
    now = datetime.now(UTC)
    found = prioritised(look_at(means, table, policy, now)[0].health, policy.priority_weights, now)
    return replace(found, timeline=table.timeline(found.snapshot_id))


def plan(
    means: Means, name: str, request: Options, *, limits: Sequence[Limit] = (), now: datetime | None = None
) -> Plan:
    """Pin a table and plan, within further limits if there are any; files are listed only where there is something to
    do. What is due is judged as of `now`, if it is given."""
    table, policy = _settle(means, name, request)
    now = now or datetime.now(UTC)
    aside = set_aside(means.store.failures(table.uuid), now)
    beyond: Sequence[LeftOut] = ()
    if policy.where is not None:  # only a scan knows which files have rows that match
        state = table.pin(branch=policy.branch, where=policy.where, snapshot_id=policy.snapshot_id)
        runs = _runs_of(means.store, means.lake.recorded_as, table.name)
        census = _with_expired(census_of(state), table, runs)
        state = replace(state, last_runs=census.pin.last_runs)
        found = assess(census, policy, clocks=means.store.clocks(table.uuid, policy.branch))
        rates = rates_of(means, table, policy, runs)
        budget = (*limits_of(means, table.name, policy, rates, now), *limits)
        outlook = _outlook(means, table, policy, now)
        unchosen: Mapping[str, str] = {}
    else:
        looked, decided = look_at(means, table, policy, now, named=True)
        found, rates, judged, outlook = looked.health, decided.rates, decided.judgement, decided.outlook
        budget = (*limits_of(means, table.name, policy, rates, now), *limits)
        # which groups are set aside is known only once they are listed: others may be tried in their place
        near, beyond = (judged.chosen, []) if aside else shortlist(judged.chosen, budget)
        state = list_files(table, looked.census, _to_be_listed(judged, near), means.memory)
        unchosen = {d.place.name: d.reason for d in judged.decisions if not d.chosen and not d.place.broken}
    listed = len(state.files)
    if policy.snapshot_id is not None:
        state = table.still_there(state)
    with gc_paused():
        made = make_plan(
            found,
            state,
            policy,
            rates,
            now=now,
            prices=means.prices,
            set_aside=aside,
            budget=budget,
            outlook=outlook,
            unchosen=unchosen,
            beyond=beyond,
        )
    # what came in the place of files that are gone was not looked at: the table is not settled by such a plan
    return made if len(state.files) == listed else replace(made, complete=False)


def _to_be_listed(judgement: Judgement, near: Sequence[Decision]) -> frozenset[Key]:
    """Partitions whose files a plan names: those within reach, and those that are refused because of a file."""
    named = (*(d.place for d in near), *(d.place for d in judgement.decisions if d.place.broken))
    return frozenset(key for place in named for key in place.keys)


def counted(means: Means, table: IcebergTable, pin: Pinned, *, named: bool = False) -> Census:
    """The census of a pinned table, of which only new manifests are read: with `named` for a list of files to come."""
    return read_census(
        table,
        pin,
        known=lambda paths: means.memory.sheets(paths, means.store),
        keep=lambda sheets, live: means.memory.keep(pin.uuid, sheets, live, means.store),
        book=means.memory if named else None,
    )


def _with_expired(census: Census, table: IcebergTable, runs: Sequence[RunRecord]) -> Census:
    """With those of some runs that were complete and whose snapshots have expired.

    A run that was taken back must not count. Of a snapshot that is gone nobody can say whether it was; but then no file
    is left that has one of its sequence numbers.
    """
    pin = census.pin
    told = [run.as_last_run for run in runs if (run.uuid, run.branch) == (pin.uuid, pin.branch)]
    gone = [run for run in told if run is not None and not table.has_snapshot(run.snapshot_id)]
    live = [run for run in gone if np.isin(census.number, [n for n in run.own_sequence_numbers if n]).any()]
    if not live:
        return census
    newest_first = sorted((*pin.last_runs, *live), key=lambda run: -max(run.own_sequence_numbers))
    return replace(census, pin=replace(pin, last_runs=tuple(newest_first)))


def look_at(
    means: Means, table: IcebergTable, policy: Policy, now: datetime, *, named: bool = False
) -> tuple[Looked, Decided]:
    """All that a look at a table brings."""
    store, memory = means.store, means.memory
    pin = table.pinned(policy.branch, policy.snapshot_id)
    runs = _runs_of(means.store, means.lake.recorded_as, table.name)
    census = _with_expired(counted(means, table, pin, named=named), table, runs)
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
        rates_of(means, table, policy, runs),
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
    lessons = lessons_of(means.store, means.lake.recorded_as, table.name, now) if learns else Lessons()
    return Outlook(
        now=now,
        money_per_scan_second=second,
        money_per_read=means.prices.requests(reads=1, writes=0),
        money_per_work_second=second,
        currency=means.prices.currency,
        lessons=lessons,
    )


def _runs_of(store: RecordStore, catalog: str, table: str) -> Sequence[RunRecord]:
    """The newest runs on a table that have ended."""
    return store.runs(catalog=catalog, table=table, limit=_RUNS_REMEMBERED, worked_only=True)


def rates_of(means: Means, table: IcebergTable, policy: Policy, mine: Sequence[RunRecord] | None = None) -> Rates:
    """How fast methods are on a table, and what the next run of this process takes besides its work; `mine` are the
    runs on the table, if they have been read."""
    spark = means.lake.session.sparkContext
    known = learned_rates(means.store, means.lake.recorded_as, table.name, mine, first=is_first(spark))
    return replace(known, cores=min(spark.defaultParallelism, policy.parallelism or spark.defaultParallelism))


def learned_rates(
    store: RecordStore, catalog: str, table: str, mine: Sequence[RunRecord] | None = None, *, first: bool = False
) -> Rates:
    """How fast methods are on a table, after what runs on it and on others of its catalog took; and what a run takes
    besides, be it the first of its process or a later one."""
    mine = _runs_of(store, catalog, table) if mine is None else mine
    known = {run.run_id for run in mine}
    others = store.runs(catalog=catalog, limit=_RUNS_OF_OTHERS, worked_only=True)
    runs = sorted([*mine, *(run for run in others if run.run_id not in known)], key=_age, reverse=True)
    outcomes = [run.outcome for run in runs if run.outcome]
    learned = Rates.learned((one for outcome in outcomes for one in measurements(outcome)), table)
    return replace(learned, overhead=learned_overhead(outcomes, first=first))


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
