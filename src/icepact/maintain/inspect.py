"""Pin a table and assess it, decide about it, or plan; nothing is written to it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from icepact.assess.health import assess
from icepact.assess.inspection import Inspection, LastCompacted
from icepact.assess.priority import with_priorities
from icepact.assess.recovered import clocks_of_snapshots
from icepact.economics.learning import learn
from icepact.economics.lessons import Lessons
from icepact.economics.overhead import learned_overhead
from icepact.economics.speeds import Rates, measurements
from icepact.economics.steps import priced
from icepact.economics.valuation import Valuation
from icepact.housekeeping.deletes import plan_deletes
from icepact.iceberg.names import table_parts
from icepact.iceberg.spark.catalog import SparkCatalog
from icepact.iceberg.table.scan import gc_paused
from icepact.iceberg.table.stats_reader import list_files, read_file_stats
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.context import Context
from icepact.maintain.first_run import is_first
from icepact.maintain.limits import limits_of
from icepact.maintain.rolled_back import with_rolled_back
from icepact.model.decision import Decision, TableDecisions
from icepact.model.files import PartitionKey
from icepact.model.fleet import TableSummary, summary_of
from icepact.model.health import Health
from icepact.model.limits import Demand, Limit
from icepact.model.plan import LeftOut, Plan
from icepact.model.policy import Policy, Strategy
from icepact.model.run import Failure, RunRecord
from icepact.model.snapshot import PinnedSnapshot
from icepact.model.status import Status
from icepact.plan.conversion import may_convert, why_not_converted
from icepact.plan.decide import DecisionMemo, decide
from icepact.plan.fleet import doubt
from icepact.plan.pick import asks_for_worth
from icepact.plan.planner import make_plan
from icepact.plan.shortlist import shortlist
from icepact.policy.layers import Policies, TablePolicy
from icepact.policy.managed import ManagedBy, leaves_alone, managed_by
from icepact.policy.options import Options
from icepact.record.store import RecordStore, RunStore
from icepact.stats.table import FileStats, file_stats_of
from icepact.telemetry import trace

_RUNS_REMEMBERED, _RUNS_OF_OTHERS = 12, 16
"""Of which speeds are learned: older ones would count for next to nothing."""
_KINDS_OF_RUNS = 5
"""For each that rewrote files, there may be so many of housekeeping."""
_RUNS_WITH_LESSONS = 200
"""Of which lessons are learned: those on the table, and as many of the whole catalog."""
SET_ASIDE_AFTER = 3
"""Failures after which a group is left alone until its files change."""
_SECOND_CHANCE = timedelta(minutes=5)
"""After the second failure; the first is no reason to wait."""


def decide_table(context: Context, name: str, request: Options) -> TableDecisions:
    """Pin a table, assess it, and decide what is worth doing, from what its manifests count."""
    table, policy = _table_and_policy(context, name, request)
    return inspect_table(context, table, policy, datetime.now(UTC))[1].decisions


def summary(context: Context, name: str) -> TableSummary:
    """Decide about a table by the policy that holds for it, and sum the decisions up for a ranking of tables."""
    table, policy = _table_and_policy(context, name, Options())
    now = datetime.now(UTC)
    decided = inspect_table(context, table, policy, now)[1]
    doubts = ""
    if decided.picked and not asks_for_worth(policy, context.strategies):
        doubts = doubt(decided, _valuation(context, table, now, learns=True))
    return summary_of(decided.decisions, policy, doubt=doubts)


def health(context: Context, name: str, request: Options) -> tuple[Health, IcebergTable, Policy]:
    """Pin a table and assess it, with its priorities and the timeline of its snapshots; the table and its policy, too.
    Nothing is decided: what was decided before stays in the cache for the next plan."""
    table, policy = _table_and_policy(context, name, request)
    inspection, runs, memo = _assess_table(context, table, policy)
    context.cache.keep_inspection(table.uuid, policy.branch, inspection, memo)
    found = with_priorities(inspection.health, policy.priority_weights, datetime.now(UTC))
    notes = (*(str(service) for service in services_of(table, context.spark_catalog)), *_rolled_back(runs))
    return replace(found, timeline=table.timeline(found.snapshot_id), notes=notes), table, policy


def _rolled_back(runs: Sequence[RunRecord]) -> Sequence[str]:
    """What to say of the newest run, if it was rolled back."""
    if not runs or runs[0].status is not Status.ROLLED_BACK:
        return ()
    return (f"run {runs[0].run_id} was rolled back: the next one does its work anew",)


def plan(
    context: Context, name: str, request: Options, *, limits: Sequence[Limit] = (), now: datetime | None = None
) -> Plan:
    """Pin a table and plan, within further limits if there are any; files are listed only where there is something to
    do. What is due is judged as of `now`, if it is given."""
    with trace.span("planning", table=name):
        return _planned(context, name, request, limits, now or datetime.now(UTC))


def _planned(context: Context, name: str, request: Options, limits: Sequence[Limit], now: datetime) -> Plan:
    table, policy = _table_and_policy(context, name, request)
    aside = set_aside(context.store.failures(table.uuid), now)
    if policy.where is not None:  # only a scan knows which files have rows that match
        state = table.pin(branch=policy.branch, where=policy.where, snapshot_id=policy.snapshot_id)
        runs = _runs_of(context.store, context.spark_catalog.recorded_as, table, policy.branch)
        stats = _with_expired(file_stats_of(state), table, runs)
        state = replace(state, last_runs=stats.pin.last_runs)
        decided = _decide(context, table, _assess(context, stats, policy), runs, now)
    else:
        inspection, decided = inspect_table(context, table, policy, now, named=True)
        stats = inspection.stats
    budget = (*limits_of(context, table.name, policy, decided.rates, now), *limits)
    over_budget: Sequence[LeftOut] = ()
    if policy.where is None:
        # which groups are set aside is known only once they are listed: others may be tried in their place
        near, over_budget = (decided.decisions.chosen, ()) if aside else shortlist(decided.decisions.chosen, budget)
        state = list_files(table, stats, _to_be_listed(decided.decisions, near), context.cache)
    listed = len(state.files)
    if policy.snapshot_id is not None:
        state = table.still_there(state)
    with gc_paused():
        made = make_plan(decided, state, set_aside=aside, budget=budget, over_budget=over_budget)
    made = _with_conversion(context, table, made, decided, now)
    # what came in the place of files that are gone was not assessed: such a plan is not complete
    return made if len(state.files) == listed else replace(made, complete=False)


def _with_conversion(context: Context, table: IcebergTable, made: Plan, decided: DecisionMemo, now: datetime) -> Plan:
    """A plan with the step that converts deletes which no group takes along, where deletes may stay."""
    policy = made.policy
    if not may_convert(policy, decided.decisions.health.facts):
        return made
    rewritten = frozenset(file.path for step in made.rewrites for file in step.files)
    step = plan_deletes(table, branch=policy.branch, task_memory=policy.task_memory, now=now, but=rewritten)
    if isinstance(step, str):
        return made
    cost = priced(context.prices, step, local=table.is_local).cost
    step = replace(step, cost=cost)
    used = Demand.sum(one.demand for one in made.rewrites)
    reason = why_not_converted(step, policy, decided.valuation, made.budget, used)
    if not reason:
        return replace(made, steps=(*made.steps, step))
    aside = LeftOut(partition=f"deletes of {made.branch}", files=step.data_files, bytes=step.data_bytes, reason=reason)
    return replace(made, left_out=(*made.left_out, aside))


def _to_be_listed(decisions: TableDecisions, near: Sequence[Decision]) -> frozenset[PartitionKey]:
    """Partitions whose files a plan names: those within reach, and those that are refused because of a file."""
    named = (
        *(d.partition_group for d in near),
        *(d.partition_group for d in decisions.partitions if d.partition_group.has_duplicate_paths),
    )
    return frozenset(key for partition_group in named for key in partition_group.keys)


def read_stats(context: Context, table: IcebergTable, pin: PinnedSnapshot, *, named: bool = False) -> FileStats:
    """The file statistics of a pinned table; only manifests that the cache does not know are read. With `named` their
    paths are kept, too, because a list of files is to come."""
    return read_file_stats(
        table,
        pin,
        known=lambda paths: context.cache.stats_by_manifest(paths, context.store),
        keep=lambda stats_by_manifest, live: context.cache.keep(pin.uuid, stats_by_manifest, live, context.store),
        path_cache=context.cache if named else None,
    )


def _with_expired(stats: FileStats, table: IcebergTable, runs: Sequence[RunRecord]) -> FileStats:
    """File statistics whose pin also names complete runs of the record whose snapshots have expired.

    A run that was taken back must not count. Of a snapshot that is gone nobody can say whether it was; but then no file
    is left that has one of its sequence numbers.
    """
    pin = stats.pin
    recorded = [run.as_last_run for run in runs if (run.uuid, run.branch) == (pin.uuid, pin.branch)]
    gone = [run for run in recorded if run is not None and not table.has_snapshot(run.snapshot_id)]
    live = [run for run in gone if np.isin(stats.number, [n for n in run.own_sequence_numbers if n]).any()]
    if not live:
        return stats
    newest_first = sorted((*pin.last_runs, *live), key=lambda run: -max(run.own_sequence_numbers))
    return replace(stats, pin=replace(pin, last_runs=tuple(newest_first)))


def inspect_table(
    context: Context, table: IcebergTable, policy: Policy, now: datetime, *, named: bool = False
) -> tuple[Inspection, DecisionMemo]:
    """Read the statistics of a table, assess it and decide about it; both are remembered for the next inspection."""
    inspection, runs, memo = _assess_table(context, table, policy, named=named)
    decided = _decide(context, table, inspection, runs, now, memo)
    context.cache.keep_inspection(table.uuid, policy.branch, inspection, decided)
    return inspection, decided


def _assess_table(
    context: Context, table: IcebergTable, policy: Policy, *, named: bool = False
) -> tuple[Inspection, Sequence[RunRecord], DecisionMemo | None]:
    """Read the statistics of a table and assess it; with the newest runs on it, and what was decided about it last."""
    pin = table.pinned(policy.branch, policy.snapshot_id)
    runs = _runs_of(context.store, context.spark_catalog.recorded_as, table, policy.branch)
    stats = _with_expired(read_stats(context, table, pin, named=named), table, runs)
    before, memo = context.cache.last(pin.uuid, policy.branch)
    return _assess(context, stats, policy, before), runs, memo


def _assess(context: Context, stats: FileStats, policy: Policy, before: Inspection | None = None) -> Inspection:
    """Assess a table by its statistics; what has not changed since the inspection `before` stands."""
    last_compacted = context.store.last_compacted(stats.pin.uuid, policy.branch) or _recovered(
        context, stats, policy.branch
    )
    found = assess(stats, policy, last_compacted=last_compacted, before=before)
    return Inspection(stats=stats, policy=policy, last_compacted=last_compacted, health=found)


def _recovered(context: Context, stats: FileStats, branch: str) -> LastCompacted:
    """When partition groups were last compacted, if the store has lost it and snapshots tell; the store has it then."""
    found = clocks_of_snapshots(stats)
    by_mark: dict[tuple[datetime, str], list[str]] = {}
    for group, tiers in found.items():
        for tier, at in tiers.items():
            by_mark.setdefault((at, tier), []).append(group)
    for (at, tier), groups in by_mark.items():
        context.store.mark_compacted(stats.pin.uuid, branch, dict.fromkeys(groups, tier), at)
    return found


def _decide(
    context: Context,
    table: IcebergTable,
    inspection: Inspection,
    runs: Sequence[RunRecord],
    now: datetime,
    before: DecisionMemo | None = None,
) -> DecisionMemo:
    """Decide about a table as it was assessed; what has not changed since the decisions `before` stands."""
    policy = inspection.policy
    return decide(
        inspection.health,
        inspection.stats,
        policy,
        rates_of(context, table, policy, runs),
        prices=context.prices,
        valuation=_valuation(context, table, now, learns=policy.strategy == Strategy.AUTO),
        before=before,
        strategies=context.strategies,
    )


def _valuation(context: Context, table: IcebergTable, now: datetime, *, learns: bool) -> Valuation:
    """What a second of readers and of work costs; and what earlier runs taught, for whoever `learns`."""
    second = context.prices.compute(1.0)
    lessons = lessons_of(context.store, context.spark_catalog.recorded_as, table.name, now) if learns else Lessons()
    return Valuation(
        now=now,
        money_per_scan_second=second,
        money_per_read=context.prices.requests(reads=1, writes=0),
        money_per_work_second=second,
        currency=context.prices.currency,
        lessons=lessons,
    )


def lessons_of(store: RecordStore, catalog: str, table: str, now: datetime) -> Lessons:
    """What the newest runs on a table, and on the other tables of its catalog, teach about it; from the record store
    alone."""
    runs = [
        *store.runs(catalog=catalog, table=table, limit=_RUNS_WITH_LESSONS),
        *store.runs(catalog=catalog, limit=_RUNS_WITH_LESSONS),
    ]
    outcomes = {
        run.run_id: replace(run.outcome, table=run.table, started_at=run.started_at) for run in runs if run.outcome
    }
    return learn(outcomes.values(), table, now=now, since=store.lessons_since(catalog, table))


def _runs_of(store: RecordStore, catalog: str, table: IcebergTable, branch: str) -> Sequence[RunRecord]:
    """The newest runs on a table that have ended; those on the branch that somebody else has rolled back are marked as
    such."""
    return with_rolled_back(table, store, _recorded_runs(store, catalog, table.name), branch)


def _recorded_runs(store: RunStore, catalog: str, table: str) -> Sequence[RunRecord]:
    """The newest runs on a table that have ended, as they are on record."""
    runs = store.runs(catalog=catalog, table=table, limit=_KINDS_OF_RUNS * _RUNS_REMEMBERED, worked_only=True)
    return [run for run in runs if run.outcome is None or run.outcome.groups][:_RUNS_REMEMBERED]


def rates_of(context: Context, table: IcebergTable, policy: Policy, mine: Sequence[RunRecord] | None = None) -> Rates:
    """How fast methods are on a table, and what the next run of this process takes besides its work; `mine` are the
    runs on the table, if they have been read."""
    spark = context.spark_catalog.session.sparkContext
    known = learned_rates(context.store, context.spark_catalog.recorded_as, table.name, mine, first=is_first(spark))
    return replace(known, cores=min(spark.defaultParallelism, policy.parallelism or spark.defaultParallelism))


def learned_rates(
    store: RunStore, catalog: str, table: str, mine: Sequence[RunRecord] | None = None, *, first: bool = False
) -> Rates:
    """How fast methods are on a table, after what runs on it and on others of its catalog took; and what a run takes
    besides, be it the first of its process or a later one."""
    mine = _recorded_runs(store, catalog, table) if mine is None else mine
    known = {run.run_id for run in mine}
    others = store.runs(catalog=catalog, limit=_RUNS_OF_OTHERS, worked_only=True)
    runs = [*mine, *(run for run in others if run.run_id not in known)]
    newest_first = sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True)
    outcomes = [run.outcome for run in newest_first if run.outcome]
    learned = Rates.learned((one for outcome in outcomes for one in measurements(outcome)), table)
    return replace(learned, overhead=learned_overhead(outcomes, first=first))


def resolve_policy(
    spark_catalog: SparkCatalog, name: str, request: Options, policies: Policies
) -> tuple[IcebergTable, TablePolicy]:
    """Load a table, and resolve the policy that holds for it."""
    table = spark_catalog.table(name)
    table.refresh()
    found = policies.resolve(request, table.properties, spark_catalog.catalog, table_parts(name, spark_catalog.catalog))
    service = leaves_alone(services_of(table, spark_catalog), "compact")
    if service is not None and found.policy.sources["enabled"] == "default":
        sources = {**found.policy.sources, "enabled": str(service)}
        found = replace(found, policy=replace(found.policy, enabled=False, sources=sources), sources=sources)
    return table, found


def services_of(table: IcebergTable, spark_catalog: SparkCatalog) -> tuple[ManagedBy, ...]:
    """Other services that look after a table."""
    return managed_by(table.properties, table.location, spark_catalog.settings)


def _table_and_policy(context: Context, name: str, request: Options) -> tuple[IcebergTable, Policy]:
    table, found = resolve_policy(context.spark_catalog, name, request, context.policies)
    return table, found.policy


def set_aside(failures: Sequence[Failure], now: datetime | None = None) -> dict[str, str]:
    """Signatures of groups that are not tried now because they failed before, and why."""
    now = now or datetime.now(UTC)
    found = {}
    for failure in failures:
        when = f"{failure.last_at:%Y-%m-%d %H:%M} UTC"
        if failure.count >= SET_ASIDE_AFTER:
            found[failure.signature] = (
                f"set aside: failed {failure.count} times, last on {when}: {failure.reason}; "
                "tried again when its files change, or after `icepact unblock`"
            )
        elif failure.count > 1 and now < failure.last_at + _SECOND_CHANCE:
            found[failure.signature] = (
                f"failed {failure.count} times, last on {when}: {failure.reason}; tried again later"
            )
    return found
