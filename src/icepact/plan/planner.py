"""From decisions to a plan: files are put into groups as they were counted, within a budget, with what is predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from icepact.economics.limits import run_limits
from icepact.economics.speeds import Rates, Workload, encoded_share, on_the_clock
from icepact.model.decision import Decision
from icepact.model.effort import NO_ESTIMATE, Estimate
from icepact.model.files import DataFile, delete_records, signature
from icepact.model.health import Health
from icepact.model.key_join import KeyLookups
from icepact.model.limits import Limit
from icepact.model.methods import METHODS
from icepact.model.plan import Before, LeftOut, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.snapshot import PinnedFiles
from icepact.plan.budget import within_budget
from icepact.plan.candidate import Candidate, features_of
from icepact.plan.carrying import may_carry
from icepact.plan.decide import DecisionMemo
from icepact.plan.expected import RemainingRows
from icepact.plan.file_columns import columns_of_files
from icepact.plan.groups import Group, Grouping
from icepact.plan.pack import reading_order
from icepact.plan.pick import nothing_to_pack
from icepact.plan.sizes import sizes_after


def make_plan(
    decided: DecisionMemo,
    state: PinnedFiles,
    *,
    set_aside: Mapping[str, str] | None = None,
    budget: Sequence[Limit] | None = None,
    over_budget: Sequence[LeftOut] = (),
) -> Plan:
    """What to rewrite, how, and why everything else is left alone: decisions, with the files that they are about.

    `state` needs to have only the files of partition groups that are chosen, as far as they are still there.
    `set_aside` says by a group's signature why it is not tried now. `budget` is all that limits the plan; if not given,
    what the policy allows a run on one core. The files of partition groups that are `over_budget` were not even listed.
    """
    policy, rates, health = decided.policy, decided.rates, decided.decisions.health
    budget = tuple(run_limits(policy, cores=1, currency=decided.prices.currency) if budget is None else budget)
    unlisted = {entry.partition for entry in over_budget}
    planning = _Planning(decided, state)
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    for decision in decided.decisions.partitions:
        if decision.partition not in unlisted:
            steps, rest = planning.planned(decision)
            groups.extend(steps)
            left_out.extend(rest)
    groups, aside = _without_set_aside(groups, state, set_aside or {})
    chosen, cut = within_budget(groups, state.deletes, policy, budget)
    cut = [*cut, *over_budget]
    remaining, lookups = RemainingRows(state), KeyLookups(state.deletes, policy.task_memory)
    numbered = tuple(
        replace(_with_join(_with_prediction(step, remaining), lookups), group_id=f"g{n:04d}")
        for n, step in enumerate(chosen, start=1)
    )
    before = Before(files=health.facts.data_files, rows=health.facts.rows, bytes=health.facts.bytes)
    return Plan(
        table=state.table,
        uuid=state.uuid,
        branch=state.branch,
        snapshot_id=state.snapshot_id,
        sequence_number=state.sequence_number,
        format_version=state.format_version,
        policy=policy,
        steps=numbered,
        deletes=state.deletes,
        left_out=(*left_out, *aside, *cut),
        predicted=_predict(before, state, numbered, rates),
        before=before,
        complete=not cut and not aside and not _cannot_see_later_commits(state, policy),
        held_back=tuple(sorted({entry.partition for entry in (*cut, *aside)})),
        sizes_before=health.histogram,
        sizes_after=sizes_after(health.histogram, numbered, policy),
        budget=budget,
        prices=decided.prices,
        note=_note(health, state, policy),
        planned_at=decided.valuation.now,
    )


class _Planning:
    """Decisions about one table, and the files that they are about."""

    def __init__(self, decided: DecisionMemo, state: PinnedFiles) -> None:
        self._decided = decided
        self._state = state
        self._grouping = Grouping(state, decided.policy, decided.rates, decided.prices, decided.valuation)

    def planned(self, decision: Decision) -> tuple[Sequence[RewriteFiles], Sequence[LeftOut]]:
        """The file groups of a decision, and what they leave as it is."""
        listed, name = self._state.by_partition, decision.partition
        files = [file for key in decision.partition_group.keys for file in listed.get(key, ())]
        files.sort(key=attrgetter("path"))  # where files are alike, it decides
        refused = self._why_not(decision, files)
        steps = [] if refused else self._steps(self._decided.picked[name], files)
        if not steps:
            reason = refused or nothing_to_pack(self._decided.picked[name].selection)
            facts = decision.partition_group.facts
            return [], [LeftOut(partition=name, files=facts.data_files, bytes=facts.bytes, reason=reason)]
        taken = {file.path for step in steps for file in step.files}
        rest = [file for file in files if file.path not in taken]
        reason = "nothing to gain from these files"
        if may_carry(self._decided.policy) and any(file.deletes for file in rest):
            reason += ", and their deletes are carried"
        size = sum(file.size for file in rest)
        return steps, [LeftOut(partition=name, files=len(rest), bytes=size, reason=reason)] if rest else []

    def _why_not(self, decision: Decision, files: Sequence[DataFile]) -> str | None:
        """Why a partition group is left alone before anything is packed; `None` if it is not."""
        twice = sorted({file.path for file in files} & self._state.live_twice)
        if twice:
            return f"refused: {twice[0]} is live more than once in this snapshot"
        if not decision.chosen:
            return decision.reason
        return None if files else "its files were replaced since this snapshot"

    def _steps(self, candidate: Candidate, files: Sequence[DataFile]) -> list[RewriteFiles]:
        columns = columns_of_files(files, self._state.deletes)
        ordered = [files[at] for at in columns.origin.tolist()]
        features = features_of(candidate, self._decided.valuation.now, self._decided.policy.horizon / 3600)
        groups = self._grouping.groups(candidate.partition_group, candidate.selection, columns)
        return [self._step(candidate, group, ordered, features) for group in groups]

    def _step(
        self, candidate: Candidate, group: Group, files: Sequence[DataFile], features: Mapping[str, float]
    ) -> RewriteFiles:
        """A group with its files, which are in the order of the columns; rows stay in the order of writing."""
        units = tuple(
            Unit(files=tuple(sorted((files[at] for at in unit), key=reading_order)), predicted=merged)
            for unit, merged in zip(group.units, group.merged, strict=True)
        )
        return RewriteFiles(
            group_id="",
            partition=candidate.partition_group.name,
            output_spec_id=self._state.spec_id,
            regroup=candidate.partition_group.target_partitions > 0,
            units=units,
            method=group.chosen.method,
            method_reason=group.chosen.reason,
            cost=group.chosen.cost,
            reason=candidate.selection.reason,
            tier=candidate.selection.which.tier,
            gain=group.gain,
            predicted_files=group.outputs,
            predicted_bytes=group.predicted,
            delete_records=delete_records((f for unit in units for f in unit.files), self._state.deletes),
            features=features,
            carries=group.deletes.carries,
            deletes_reason=group.deletes.reason,
        )


def _with_prediction(step: RewriteFiles, remaining: RemainingRows) -> RewriteFiles:
    """A step with the rows that its outputs will hold, and bytes of those alone."""
    rows = sum(f.rows for f in step.files)
    left = rows if step.carries else remaining.rows(step.files)
    size = round(step.predicted_bytes * left / rows) if rows else step.predicted_bytes
    return replace(step, predicted_rows=left, predicted_bytes=size)


def _with_join(step: RewriteFiles, lookups: KeyLookups) -> RewriteFiles:
    """A step with the join of keys that it needs: only methods that run in Python workers look keys up."""
    return replace(step, joined=lookups.join(step.files) if METHODS[step.method].needs_workers else None)


def _note(health: Health, state: PinnedFiles, policy: Policy) -> str:
    """That a pattern of partitions means none of them, and how they are named; empty if it means some."""
    if policy.partition is None or not all(group.filtered_out for group in health.partition_groups):
        return ""
    fields = [field.name for field in state.specs[state.spec_id].fields if field.transform != "void"]
    named = f"partition fields are {', '.join(fields)}" if fields else "the table is not partitioned"
    like = f", as in {health.partition_groups[0].name}" if fields and health.partition_groups else ""
    return f"no partition is like {policy.partition}: {named}{like}"


def _cannot_see_later_commits(state: PinnedFiles, policy: Policy) -> bool:
    """True if nobody will be able to tell what was committed after the snapshot that is planned from."""
    return policy.snapshot_id is not None and state.format_version == 1  # no sequence numbers


def _without_set_aside(
    groups: Sequence[RewriteFiles], state: PinnedFiles, set_aside: Mapping[str, str]
) -> tuple[list[RewriteFiles], list[LeftOut]]:
    """The groups that may be tried now, and those that failed too often."""
    if not set_aside:
        return list(groups), []
    judged = [(group, set_aside.get(signature(group.files, state.deletes))) for group in groups]
    return [group for group, reason in judged if reason is None], [
        LeftOut(partition=group.partition, files=group.input_files, bytes=group.bytes, reason=reason)
        for group, reason in judged
        if reason is not None
    ]


def _encoded(step: RewriteFiles) -> float:
    workload = Workload(len(step.units), step.input_files, step.cost.copied_bytes, step.cost.encoded_bytes)
    return encoded_share(step.method, workload)


def _predict(before: Before, state: PinnedFiles, steps: Sequence[RewriteFiles], rates: Rates) -> Prediction:
    inputs = sum(len(step.files) for step in steps)
    outputs = sum(step.predicted_files for step in steps)
    work = Estimate.sum(step.cost.seconds for step in steps)
    besides = rates.overhead if steps else NO_ESTIMATE
    units = sum(len(step.units) for step in steps)
    encoded = sum(step.cost.seconds.likely * _encoded(step) for step in steps) / max(work.likely, 1e-9)
    share = on_the_clock(1.0, units=units, cores=rates.cores, encoded=encoded)
    return Prediction(
        files_before=before.files,
        files_after=before.files - inputs + outputs,
        input_files=inputs,
        input_bytes=sum(step.bytes for step in steps),
        output_files=outputs,
        output_bytes=sum(step.predicted_bytes for step in steps),
        delete_records=delete_records((f for step in steps for f in step.files), state.deletes),
        deletes_carried=delete_records((f for step in steps if step.carries for f in step.files), state.deletes),
        seconds=work.rounded(3),
        overhead=round(besides.likely, 3),
        duration=(besides + work.each(lambda seconds: seconds * share)).rounded(3),
        cores=rates.cores,
        money=Estimate.sum(step.cost.money for step in steps).rounded(9),
    )
