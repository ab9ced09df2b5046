"""A saved plan is carried out: judged at the head first, so that only groups that nobody touched are done."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from icepact.assess.health import assess
from icepact.commit.judge import Answer, Pin, Verdict, judge, pinned_inputs
from icepact.iceberg.table import HeadView, IcebergTable
from icepact.maintain.allowed import limits_of
from icepact.maintain.applying import apply
from icepact.maintain.looking import counted, rates_of, set_aside
from icepact.maintain.means import Means
from icepact.maintain.work import planned_again
from icepact.model.errors import BadInput, TableNotFound
from icepact.model.outcome import Outcome
from icepact.model.plan import Before, Plan, RewriteFiles
from icepact.model.progress import Progress
from icepact.model.saved import Dropped, SavedPlan
from icepact.model.table import DataFile, signature
from icepact.plan.affordable import affordable


def apply_saved(means: Means, saved: SavedPlan, progress: Progress) -> Outcome:
    """Carry out what is still as it was planned; the outcome tells of every group of the plan."""
    table = _its_table(means, saved)
    plan = saved.plan
    if not plan.steps:
        return apply(means.lake, plan, means.store, progress)
    now = datetime.now(UTC)
    plan, dropped = _at_head(means, table, plan, now)
    plan, more = _within(means, table, plan, now)
    return apply(means.lake, plan, means.store, progress, dropped=(*dropped, *more))


def _its_table(means: Means, saved: SavedPlan) -> IcebergTable:
    try:
        table = means.lake.table(saved.plan.table)
    except TableNotFound as error:
        raise TableNotFound(f"{saved.file} is of a table that is not there: {error}") from None
    if table.uuid != saved.plan.uuid:
        raise BadInput(
            f"{saved.file} is of another table with the name {saved.plan.table} (uuid {saved.plan.uuid}, "
            f"here {table.uuid}): plan again"
        )
    return table


def _at_head(means: Means, table: IcebergTable, plan: Plan, now: datetime) -> tuple[Plan, list[Dropped]]:
    """The groups that are as they were, with the head as their pin; and the others."""
    pin = table.pinned(plan.branch)
    census = counted(means, table, pin)
    aside = set_aside(means.store.failures(table.uuid), now)
    dropped: list[Dropped] = []
    kept: list[RewriteFiles] = []
    view = table.view(plan.branch, [file.path for step in plan.steps for file in step.files])
    live: dict[str, list[DataFile]] = {}
    for file in view.files:
        live.setdefault(file.path, []).append(file)
    for step in plan.steps:
        verdict = _judged(plan, step, view, live, pin.spec_id)
        reason = aside.get(signature(step.files, plan.deletes))
        if verdict.answer is not Answer.CLEAN:
            dropped.append(Dropped(step=step, reason=f"refused: {verdict.reason}", overtaken=True))
        elif reason is not None:
            dropped.append(Dropped(step=step, reason=reason, overtaken=False))
        else:
            kept.append(step)
    again = planned_again(plan, [step.group_id for step in kept], view).plan
    facts = assess(census, plan.policy).facts
    before = Before(files=facts.data_files, rows=facts.rows, bytes=facts.bytes)
    return replace(
        again,
        before=plan.before if plan.policy.where else before,
        # what was written since the plan was made was not looked at: the table is not settled by it
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
        Pin(  # nothing is written yet: what would be late is as refused as the rest
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


def _within(means: Means, table: IcebergTable, plan: Plan, now: datetime) -> tuple[Plan, list[Dropped]]:
    """The groups that the budgets of this hour allow."""
    limits = limits_of(means, table.name, plan.policy, rates_of(means, table, plan.policy), now)
    steps, refused = affordable(plan.steps, limits)
    dropped = [
        Dropped(step=step, reason=refused[step.group_id], overtaken=False)
        for step in plan.steps
        if step.group_id in refused
    ]
    return replace(plan, steps=tuple(steps), budget=limits, complete=plan.complete and not dropped), dropped
