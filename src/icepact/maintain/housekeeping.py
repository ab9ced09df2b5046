"""Plans of housekeeping: one step of one kind, planned by the policy that holds for a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from icepact.economics.steps import priced
from icepact.execute.uploads import unfinished_uploads
from icepact.housekeeping.deletes import plan_deletes
from icepact.housekeeping.expire import plan_expire
from icepact.housekeeping.manifests import plan_manifests
from icepact.housekeeping.orphans import plan_orphans
from icepact.housekeeping.retention import (
    MAX_SNAPSHOT_AGE,
    MIN_SNAPSHOTS,
    before,
    decide_retention,
    retention_settings,
)
from icepact.housekeeping.statistics import has_statistics, plan_statistics, statistics_age
from icepact.housekeeping.tags import plan_tags
from icepact.housekeeping.ttl import plan_ttl
from icepact.iceberg.table.file_ages import top_columns
from icepact.iceberg.table.history import read_history, totals
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain import inspect
from icepact.maintain.compaction import resume_first
from icepact.maintain.context import Context
from icepact.maintain.inspect import resolve_policy
from icepact.maintain.runs import apply
from icepact.maintain.steps import last_run_of, needed_snapshots, open_runs
from icepact.maintain.tracing import table_span
from icepact.model.errors import BadInput, Cancelled
from icepact.model.formatting import format_duration
from icepact.model.health import Health
from icepact.model.housekeeping import Waiting
from icepact.model.outcome import Outcome
from icepact.model.plan import Before, Chore, Plan, Prediction
from icepact.model.policy import Policy
from icepact.model.progress import Progress, Silent
from icepact.model.status import Status
from icepact.policy.amoro_housekeeping import (
    DATA_EXPIRE,
    ORPHANS,
    automatic_tags,
    cleans_orphans,
    data_ttl,
    expiry,
)
from icepact.policy.options import Options
from icepact.policy.units import parse_duration
from icepact.telemetry import trace

YOUNGEST = timedelta(days=1)
"""What is younger is deleted only by those who say that they mean it."""

PlanChore = Callable[[Context, IcebergTable, Policy, datetime, bool], Chore | str]
"""Plans one step, or says why there is nothing to do; last comes whether ages below the floor are allowed."""


class How(TypedDict, total=False):
    """How a step is carried out."""

    allow_young: bool
    """Ages below the floor are meant."""
    dry_run: bool
    """Nothing is done, and nobody is asked."""
    progress: Progress | None
    on_resumed: Callable[[Outcome | None], None] | None
    """Called before the table is planned, with the outcome of the run that was carried on with, if there was one."""
    confirm: Callable[[Plan], bool] | None
    """Called with the plan."""


def plan_chore(
    context: Context,
    name: str,
    request: Options,
    operation: str,
    make: PlanChore,
    *,
    allow_young: bool,
    now: datetime | None = None,
) -> Plan:
    """Plan one step of housekeeping; nothing is written."""
    with trace.span("planning"):
        return _plan_chore(context, name, request, operation, make, allow_young, now or datetime.now(UTC))


def _plan_chore(
    context: Context,
    name: str,
    request: Options,
    operation: str,
    make: PlanChore,
    allow_young: bool,
    now: datetime,
) -> Plan:
    table, resolved = resolve_policy(context.spark_catalog, name, request, context.policies)
    policy = resolved.policy
    if policy.off is not None:
        return _plan(context, table, policy, (), policy.off, now, operation)
    step = make(context, table, policy, now, allow_young)
    if isinstance(step, str):
        return _plan(context, table, policy, (), step, now, operation)
    step = priced(context.prices, step, local=table.is_local)
    return _plan(context, table, policy, (step,), "", now, operation)


def carry_out(
    context: Context,
    name: str,
    request: Options,
    operation: str,
    make: PlanChore,
    *,
    allow_young: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    on_resumed: Callable[[Outcome | None], None] | None = None,
    confirm: Callable[[Plan], bool] | None = None,
    keep_empty: bool = True,
) -> Outcome:
    """Carry on with a run on a table that died, plan a step, have it confirmed, and carry it out; a dry run ends with
    the plan. That there was nothing to do is recorded with `keep_empty`."""
    heard = progress or Silent()
    with table_span(name, operation) as span:
        resumed = None if dry_run else resume_first(context, name, request, heard)
        if on_resumed is not None:
            on_resumed(resumed)
        made = plan_chore(context, name, request, operation, make, allow_young=allow_young)
        if confirm is not None and not confirm(made):
            raise Cancelled(f"the plan for {name} was not confirmed")
        if dry_run:
            return planned_outcome(made)
        if resumed is not None and not made.steps:
            return resumed
        if not made.steps and not keep_empty:
            return replace(planned_outcome(made), dry_run=False)
        outcome = replace(apply(context.spark_catalog, made, context.store, heard), resumed=resumed)
        span.ended(outcome)
        return outcome


def planned_outcome(plan: Plan) -> Outcome:
    """The outcome of a dry run: what the steps would do."""
    return Outcome(
        run_id="",
        table=plan.table,
        branch=plan.branch,
        status=Status.PLANNED if plan.steps else Status.NOTHING_TO_DO,
        snapshot_id=plan.snapshot_id,
        started_at=plan.planned_at or datetime.now(UTC),
        seconds=0.0,
        files_before=plan.before.files,
        files_after=plan.predicted.files_after,
        rows_before=plan.before.rows,
        rows_after=plan.before.rows,
        rows_deleted=0,
        bytes_before=plan.before.bytes,
        bytes_after=plan.before.bytes,
        delete_files_removed=0,
        proof="",
        methods={},
        groups=(),
        currency=plan.prices.currency,
        reason=plan.why_nothing,
        operation=plan.operation,
        steps=tuple(step.planned for step in plan.chores),
        dry_run=True,
    )


def expire_step(context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool) -> Chore | str:
    """Plan the expiry of a table's snapshots."""
    wanted = _retention(table, policy)
    if isinstance(wanted, str):
        return wanted
    age, least = wanted
    if policy.expire_older_than is not None:
        refuse_young("expire_older_than", age, allow_young)
    return plan_expire(
        table,
        older_than=before(now, age),
        retain_last=least,
        needed=needed_snapshots(context.store, table, catalog=context.spark_catalog.recorded_as),
        now=now,
    )


def _retention(table: IcebergTable, policy: Policy) -> tuple[timedelta, int] | str:
    """How old snapshots become and how many every branch keeps: as the policy says, or the table, or Amoro's
    properties; or why none expire."""
    amoro = expiry(table.properties)
    age, least = retention_settings(table.properties)
    if policy.expire_older_than is not None:
        age = timedelta(seconds=policy.expire_older_than)
    elif amoro.get("enabled", ("", "true"))[1] == "false":
        return f"{amoro['enabled'][0]} is false, and nobody asked for an age"
    elif "older_than" in amoro and MAX_SNAPSHOT_AGE not in table.properties:
        age = parse_duration(str(amoro["older_than"][1]))
    if MIN_SNAPSHOTS not in table.properties and str(amoro.get("retain_last", ("", ""))[1]).isdecimal():
        least = max(1, int(str(amoro["retain_last"][1])))
    return age, policy.expire_retain_last or least


def waiting_of(context: Context, table: IcebergTable, policy: Policy, now: datetime) -> Waiting:
    """What housekeeping would find of a table, without reading manifests or listing storage."""
    catalog, history = context.spark_catalog.recorded_as, read_history(table)
    wanted = _retention(table, policy)
    gone: frozenset[int] = frozenset()
    if not isinstance(wanted, str) and history.snapshots:
        needed = needed_snapshots(context.store, table, catalog=catalog)
        found = decide_retention(
            history, older_than=before(now, wanted[0]), retain_last=wanted[1], needed=needed, now=now
        )
        gone = frozenset(found.snapshot_ids)
    age = statistics_age(table, policy.branch) if any(has_statistics(table)) else None
    return Waiting(
        expirable_snapshots=len(gone),
        expirable_bytes=sum(n.removed_bytes for n in history.snapshots if n.snapshot_id in gone or n.parent_id in gone),
        orphans_removed_at=last_run_of(context.store, table, "orphans", catalog=catalog),
        statistics=None if age is None else str(age),
    )


def health(context: Context, name: str, request: Options) -> Health:
    """Pin a table and assess it, and say what waits for housekeeping."""
    found, table, policy = inspect.health(context, name, request)
    return replace(found, waiting=waiting_of(context, table, policy, datetime.now(UTC)))


def orphans_step(exclude: Sequence[str]) -> PlanChore:
    """How the removal of a table's orphans is planned, but for those in some folders."""

    def make(context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool) -> Chore | str:
        age = timedelta(seconds=policy.orphans_older_than)
        if cleans_orphans(table.properties) is False and policy.sources["orphans_older_than"] == "default":
            return f"{ORPHANS} is false, and nobody asked for an age"
        refuse_young("orphans_older_than", age, allow_young)
        catalog = context.spark_catalog
        return plan_orphans(
            table,
            older_than=before(now, age),
            exclude=exclude,
            runs=open_runs(context.store, table, catalog=catalog.recorded_as),
            neighbours=lambda: catalog.neighbours(but=table.name, seen_lately=True),
            uploads=lambda folder: unfinished_uploads(table, folder, before=before(now, age)),
        )

    return make


def manifests_step(
    context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool
) -> Chore | str:
    """Plan the rewriting of a table's manifests."""
    del context, allow_young  # nothing is deleted
    return plan_manifests(table, branch=policy.branch, now=now)


def deletes_step(
    context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool
) -> Chore | str:
    """Plan the conversion of a table's deletes."""
    del context, allow_young  # no row changes
    return plan_deletes(table, branch=policy.branch, task_memory=policy.task_memory, now=now)


def ttl_step(context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool) -> Chore | str:
    """Plan what data leaves a table by its age; where the policy names no column, as Amoro's properties say."""
    del context
    wanted: dict[str, Any] = {
        "column": policy.ttl_column,
        "keep": policy.ttl_keep,
        "level": policy.ttl_level.value,
        "pattern": policy.ttl_pattern,
        "since": policy.ttl_since.value,
        "rows": policy.ttl_rows,
    }
    if policy.ttl_column is None:
        column = table.properties.get(f"{DATA_EXPIRE}field", "")
        kind = next((one.kind for one in top_columns(table.schema) if one.name == column), None)
        wanted |= {name: text for name, (_, text) in data_ttl(table.properties, kind).items()}
    if wanted["column"] is None:
        return "no column is named by which data becomes old: --column, or ttl_column in the policy"
    if wanted["keep"] is None:
        raise BadInput("nobody says how old data becomes: --keep 90d, or ttl_keep in the policy")
    keep = wanted.pop("keep")
    age = timedelta(seconds=keep if isinstance(keep, float | int) else parse_duration(str(keep)).total_seconds())
    if policy.ttl_column is not None:
        refuse_young("ttl_keep", age, allow_young)
    return plan_ttl(table, **wanted, keep=age, zone=policy.ttl_zone, branch=policy.branch, now=now)


def tags_step(context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool) -> Chore | str:
    """Plan the tag that is due; where the policy names no period, as Amoro's properties say."""
    del context, allow_young  # nothing is deleted
    age = policy.tag_max_age
    wanted: dict[str, Any] = {
        "period": policy.tag_period and policy.tag_period.value,
        "offset": timedelta(seconds=policy.tag_offset or 0.0),
        "max_delay": timedelta(seconds=policy.tag_max_delay),
        "pattern": policy.tag_pattern,
        "max_age": None if age is None else timedelta(seconds=age),
    }
    if policy.tag_period is None:
        for name, (_, text) in automatic_tags(table.properties).items():
            wanted[name] = text if name in ("period", "pattern") or text is None else parse_duration(text)
    if wanted["period"] is None:
        return "no tags are made by themselves: --period, or tag_period in the policy"
    return plan_tags(table, **wanted, zone=policy.tag_zone, now=now)


def statistics_step(columns: Sequence[str] | None) -> PlanChore:
    """How the statistics of a table are planned; of all columns that can have some, if none are named."""

    def make(context: Context, table: IcebergTable, policy: Policy, now: datetime, allow_young: bool) -> Chore | str:
        del context, allow_young  # nothing is deleted
        return plan_statistics(
            table, columns=columns, stale_after=policy.statistics_stale_after, branch=policy.branch, now=now
        )

    return make


def refuse_young(option: str, age: timedelta, allow_young: bool) -> None:
    """Raise BadInput if an age is below the floor and nobody has said that it may be."""
    if age < YOUNGEST and not allow_young:
        raise BadInput(
            f"{option} {format_duration(age.total_seconds())} is below {format_duration(YOUNGEST.total_seconds())}: "
            "what is so young may be in use; --allow-young goes below it"
        )


def _plan(
    context: Context,
    table: IcebergTable,
    policy: Policy,
    steps: tuple[Chore, ...],
    note: str,
    now: datetime,
    operation: str,
) -> Plan:
    before = totals(table, policy.branch)
    return Plan(
        table=table.name,
        uuid=table.uuid,
        branch=policy.branch,
        snapshot_id=table.head_id(policy.branch),
        sequence_number=table.last_sequence_number,
        format_version=table.format_version,
        policy=policy,
        steps=steps,
        deletes=(),
        left_out=(),
        predicted=_unchanged(before),
        before=before,
        complete=False,
        prices=context.prices.for_table(table.properties),
        note=note,
        planned_at=now,
        operation=operation,
    )


def _unchanged(before: Before) -> Prediction:
    return Prediction(
        files_before=before.files,
        files_after=before.files,
        input_files=0,
        input_bytes=0,
        output_files=0,
        output_bytes=0,
        delete_records=0,
    )
