"""A saved plan is carried out: judged at the head first, so that only groups that nobody touched are done."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from icepact.assess.health import assess
from icepact.commit.judge import Answer, ReadPoint, Verdict, judge, pinned_inputs
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.maintain.context import Context
from icepact.maintain.inspect import rates_of, read_stats, set_aside
from icepact.maintain.limits import limits_of
from icepact.maintain.rebase import rebase
from icepact.maintain.runs import apply
from icepact.model.errors import BadInput, TableNotFound
from icepact.model.files import DataFile, signature
from icepact.model.outcome import Outcome
from icepact.model.plan import Before, Plan, RewriteFiles
from icepact.model.progress import Progress
from icepact.model.saved import DroppedGroup, SavedPlan
from icepact.plan.budget import fit_to_budget


def apply_saved(context: Context, saved: SavedPlan, progress: Progress) -> Outcome:
    """Carry out what is still as it was planned; the outcome tells of every group of the plan."""
    table = _its_table(context, saved)
    plan = saved.plan
    if not plan.rewrites:  # nothing, or housekeeping: that is judged anew as it is carried out
        return apply(context.spark_catalog, plan, context.store, progress)
    now = datetime.now(UTC)
    plan, dropped = _at_head(context, table, plan, now)
    plan, more = _within(context, table, plan, now)
    plan = replace(plan, steps=(*plan.steps, *saved.plan.chores))  # judged anew as they are carried out
    return apply(context.spark_catalog, plan, context.store, progress, dropped=(*dropped, *more))


def _its_table(context: Context, saved: SavedPlan) -> IcebergTable:
    try:
        table = context.spark_catalog.table(saved.plan.table)
    except TableNotFound as error:
        raise TableNotFound(f"{saved.file} is of a table that is not there: {error}") from None
    if table.uuid != saved.plan.uuid:
        raise BadInput(
            f"{saved.file} is of another table with the name {saved.plan.table} (uuid {saved.plan.uuid}, "
            f"here {table.uuid}): plan again"
        )
    return table


def _at_head(context: Context, table: IcebergTable, plan: Plan, now: datetime) -> tuple[Plan, list[DroppedGroup]]:
    """The groups that are as they were, with the head as their pin; and the others."""
    pin = table.pinned(plan.branch)
    stats = read_stats(context, table, pin)
    aside = set_aside(context.store.failures(table.uuid), now)
    dropped: list[DroppedGroup] = []
    kept: list[RewriteFiles] = []
    view = table.view(plan.branch, [file.path for step in plan.rewrites for file in step.files])
    live: dict[str, list[DataFile]] = {}
    for file in view.files:
        live.setdefault(file.path, []).append(file)
    for step in plan.rewrites:
        verdict = _judged(plan, step, view, live, pin.spec_id)
        reason = aside.get(signature(step.files, plan.deletes))
        if verdict.answer is not Answer.CLEAN:
            dropped.append(DroppedGroup(step=step, reason=f"refused: {verdict.reason}", overtaken=True))
        elif reason is not None:
            dropped.append(DroppedGroup(step=step, reason=reason, overtaken=False))
        else:
            kept.append(step)
    again = rebase(plan, [step.group_id for step in kept], view).plan
    facts = assess(stats, plan.policy).facts
    before = Before(files=facts.data_files, rows=facts.rows, bytes=facts.bytes)
    return replace(
        again,
        before=plan.before if plan.policy.where else before,
        # what was written since the plan was made was not assessed: such a plan is not complete
        complete=plan.complete and plan.snapshot_id == view.snapshot_id and not dropped,
    ), dropped


def _judged(
    plan: Plan, step: RewriteFiles, view: HeadView, live: Mapping[str, Sequence[DataFile]], spec_id: int
) -> Verdict:
    paths = [file.path for file in step.files]
    mixed = any(len({(f.spec_id, f.partition) for f in unit.files}) > 1 for unit in step.units)
    if len(set(paths)) < len(paths) or (mixed and not step.regroup):
        return Verdict(answer=Answer.REFUSED, reason="its files do not belong together: plan again")
    if step.output_spec_id != spec_id:
        reason = f"the table is partitioned by spec {spec_id} now, and was by {step.output_spec_id}"
        return Verdict(answer=Answer.REFUSED, reason=reason)
    return judge(
        pinned_inputs(step.files, plan.deletes),
        ReadPoint(  # nothing is written yet: what would be late is as refused as the rest
            sequence_number=plan.sequence_number,
            version=plan.format_version,
            interpretation=view.interpretation,
            columns=frozenset(i for delete in view.deletes for i in delete.equality_ids),
            in_history=True,
        ),
        head_version=view.format_version,
        head_interpretation=view.interpretation,
        head_files=[now for file in step.files for now in live.get(file.path, ())],
        head_deletes=view.deletes,
    )


def _within(context: Context, table: IcebergTable, plan: Plan, now: datetime) -> tuple[Plan, list[DroppedGroup]]:
    """The groups that the budgets of this hour allow."""
    limits = limits_of(context, table.name, plan.policy, rates_of(context, table, plan.policy), now)
    steps, refused = fit_to_budget(plan.rewrites, limits)
    dropped = [
        DroppedGroup(step=step, reason=refused[step.group_id], overtaken=False)
        for step in plan.rewrites
        if step.group_id in refused
    ]
    return replace(plan, steps=tuple(steps), budget=limits, complete=plan.complete and not dropped), dropped
