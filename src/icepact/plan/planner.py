"""From a pinned table to a plan: candidates, groups, packing, prediction, budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from icepact.economics.limits import run_limits
from icepact.economics.speeds import Rates, Workload, encoded_share, on_the_clock
from icepact.economics.valuation import Valuation
from icepact.model.effort import NO_ESTIMATE, Estimate
from icepact.model.files import DataFile, delete_records, signature
from icepact.model.health import Health, PartitionGroup
from icepact.model.limits import Limit
from icepact.model.plan import Before, LeftOut, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.snapshot import PinnedFiles
from icepact.plan.budget import within_budget
from icepact.plan.candidate import Candidate, features_of
from icepact.plan.expected import RemainingRows
from icepact.plan.file_columns import FileColumns, columns_of_files
from icepact.plan.groups import Group, Grouping, candidate_of
from icepact.plan.pack import reading_order
from icepact.plan.pick import other_tasks, pick_candidate, tasks_of
from icepact.plan.select import select_files
from icepact.plan.sizes import sizes_after
from icepact.plan.strategies.selection import FileSelector, Selection
from icepact.plan.strategies.table import STRATEGIES, Strategies


@dataclass(frozen=True, kw_only=True, slots=True)
class _PartitionGroupPlan:
    """What is planned for one partition group: file groups, and what is left out with the reason."""

    groups: tuple[RewriteFiles, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class _Planning:
    """All that one plan is made from: the table, the policy, how files are grouped, what is expected of them."""

    def __init__(
        self,
        state: PinnedFiles,
        policy: Policy,
        rates: Rates,
        prices: Prices,
        valuation: Valuation,
        tasks: int,
        strategies: Strategies,
    ) -> None:
        self.state = state
        self.policy = policy
        self.prices = prices.for_table(state.properties)
        self.valuation = valuation
        self.tasks = tasks
        """Tasks of a scan of the whole table once it is compact."""
        self.strategies = strategies
        self.grouping = Grouping(state, policy, rates, self.prices)
        self._expected = RemainingRows(state)

    def with_prediction(self, step: RewriteFiles) -> RewriteFiles:
        """A step with the rows that remain, and bytes of those alone."""
        rows, remaining = sum(f.rows for f in step.files), self._expected.rows(step.files)
        size = round(step.predicted_bytes * remaining / rows) if rows else step.predicted_bytes
        return replace(step, predicted_rows=remaining, predicted_bytes=size)


def make_plan(
    health: Health,
    state: PinnedFiles,
    policy: Policy,
    rates: Rates | None = None,
    *,
    now: datetime,
    prices: Prices | None = None,
    set_aside: Mapping[str, str] | None = None,
    budget: Sequence[Limit] | None = None,
    valuation: Valuation | None = None,
    unchosen: Mapping[str, str] | None = None,
    over_budget: Sequence[LeftOut] = (),
    strategies: Strategies = STRATEGIES,
) -> Plan:
    """What to rewrite, how, and why everything else is left alone.

    `state` needs to have only the files of partition groups that are chosen, as far as they are still there.
    `set_aside` says by a group's signature why it is not tried now. `budget` is all that limits the plan; if not given,
    what the policy allows a run on one core. Without `prices` those of the default preset are taken, and without a
    `valuation` nothing was learned yet. `unchosen` are partition groups about which it was decided already to leave
    them alone, with the reason; the files of those that are `over_budget` were not even listed.
    """
    paying = prices or Prices.of(DEFAULT_PRESET)
    ahead = valuation or Valuation(now=now, currency=paying.currency)
    tasks = tasks_of(health.partition_groups)
    planning = _Planning(state, policy, rates or Rates(), paying, ahead, tasks, strategies)
    budget = tuple(run_limits(policy, cores=1, currency=paying.currency) if budget is None else budget)
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    unlisted = {entry.partition for entry in over_budget}
    for partition_group in health.partition_groups:
        if partition_group.name in unlisted:
            continue
        reason = unchosen.get(partition_group.name) if unchosen else None
        planned = _plan_one(planning, partition_group) if reason is None else _leave(partition_group, reason)
        groups.extend(planned.groups)
        left_out.extend(planned.left_out)
    groups, aside = _without_set_aside(groups, state, set_aside or {})
    steps, cut = within_budget(groups, state.deletes, policy, budget)
    cut = [*cut, *over_budget]
    steps = [planning.with_prediction(step) for step in steps]
    numbered = tuple(replace(step, group_id=f"g{n:04d}") for n, step in enumerate(steps, start=1))
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
        predicted=_predict(before, state, numbered, rates or Rates()),
        before=before,
        complete=not cut and not aside and not _cannot_see_later_commits(state, policy),
        held_back=tuple(sorted({entry.partition for entry in (*cut, *aside)})),
        sizes_before=health.histogram,
        sizes_after=sizes_after(health.histogram, numbered, policy),
        budget=budget,
        prices=planning.prices,
        note=_note(health, state, policy),
        planned_at=planning.valuation.now,
    )


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
    tried: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    for group in groups:
        reason = set_aside.get(signature(group.files, state.deletes)) if set_aside else None
        if reason is None:
            tried.append(group)
        else:
            left_out.append(
                LeftOut(partition=group.partition, files=len(group.files), bytes=group.bytes, reason=reason)
            )
    return tried, left_out


def _plan_one(planning: _Planning, partition_group: PartitionGroup) -> _PartitionGroupPlan:
    """The best candidate of one partition group; what is refused, judged already or useless is left out."""
    state, policy = planning.state, planning.policy
    selection = select_files(partition_group, policy, planning.valuation.now, planning.strategies)
    files = [file for key in partition_group.keys for file in state.by_partition.get(key, ())]
    refused = _why_not(selection, files, state)
    if refused is not None:
        return _leave(partition_group, refused)
    files = sorted(files, key=attrgetter("path"))  # where files are alike, it decides
    columns = columns_of_files(files, state.deletes)
    depths = (selection, *selection.others)
    packed = [_pack_candidate(planning, partition_group, files, columns, depth) for depth in depths]
    packed = [one for one in packed if one.groups]
    if not packed:
        return _leave(partition_group, f"packing would not leave fewer files ({selection.reason})")
    best = pick_candidate([one.candidate for one in packed], planning.valuation, policy, planning.strategies)
    if isinstance(best, str):
        return _leave(partition_group, best)
    groups = packed[best].groups
    taken = {f.path for g in groups for f in g.files}
    rest = [f for f in files if f.path not in taken]
    if not rest:
        return _PartitionGroupPlan(groups=groups)
    size = sum(f.size for f in rest)
    reason = "nothing to gain from these files"
    useless = LeftOut(partition=partition_group.name, files=len(rest), bytes=size, reason=reason)
    return _PartitionGroupPlan(groups=groups, left_out=(useless,))


def _why_not(selection: Selection, files: Sequence[DataFile], state: PinnedFiles) -> str | None:
    """Why a partition group is left alone before anything is packed; `None` if it is not."""
    twice = sorted({f.path for f in files} & state.live_twice)
    if twice:
        return f"refused: {twice[0]} is live more than once in this snapshot"
    if selection.which is FileSelector.NONE:
        return selection.reason
    return None if files else "its files were replaced since this snapshot"


@dataclass(frozen=True, kw_only=True, slots=True)
class _PackedCandidate:
    """A candidate with its file groups."""

    groups: tuple[RewriteFiles, ...]
    candidate: Candidate


def _pack_candidate(
    planning: _Planning,
    partition_group: PartitionGroup,
    files: Sequence[DataFile],
    columns: FileColumns,
    selection: Selection,
) -> _PackedCandidate:
    """A candidate of one depth, packed and priced; its groups carry what a later lesson needs to know."""
    groups = planning.grouping.groups(partition_group, selection, columns)
    candidate = candidate_of(partition_group, selection, groups)
    candidate = replace(candidate, other_tasks=other_tasks(planning.tasks, partition_group, candidate.bytes))
    features = features_of(candidate, planning.valuation.now, planning.policy.horizon / 3600)
    ordered = [files[at] for at in columns.origin.tolist()]
    steps = (_step(planning, partition_group, selection, group, ordered) for group in groups)
    return _PackedCandidate(groups=tuple(replace(step, features=features) for step in steps), candidate=candidate)


def _leave(partition_group: PartitionGroup, reason: str) -> _PartitionGroupPlan:
    """Leave a whole partition group as it is."""
    facts = partition_group.facts
    entry = LeftOut(partition=partition_group.name, files=facts.data_files, bytes=facts.bytes, reason=reason)
    return _PartitionGroupPlan(left_out=(entry,))


def _step(
    planning: _Planning, partition_group: PartitionGroup, selection: Selection, group: Group, files: Sequence[DataFile]
) -> RewriteFiles:
    """A group with its files, which are in the order of the columns; rows stay in the order of writing."""
    units = tuple(
        Unit(files=tuple(sorted((files[at] for at in unit), key=reading_order)), predicted=merged)
        for unit, merged in zip(group.units, group.merged, strict=True)
    )
    return RewriteFiles(
        group_id="",
        partition=partition_group.name,
        output_spec_id=planning.state.spec_id,
        regroup=partition_group.target_partitions > 0,
        units=units,
        method=group.chosen.method,
        method_reason=group.chosen.reason,
        cost=group.chosen.cost,
        reason=selection.reason,
        tier=selection.which.tier,
        gain=group.gain,
        predicted_files=group.outputs,
        predicted_bytes=group.predicted,
        delete_records=delete_records((f for unit in units for f in unit.files), planning.state.deletes),
    )


def _encoded(step: RewriteFiles) -> float:
    cost = step.cost
    units, files = len(step.units), len(step.files)
    workload = Workload(units=units, files=files, copied=cost.copied_bytes, encoded=cost.encoded_bytes)
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
        seconds=work.rounded(3),
        overhead=round(besides.likely, 3),
        duration=(besides + work.each(lambda seconds: seconds * share)).rounded(3),
        cores=rates.cores,
        money=Estimate.sum(step.cost.money for step in steps).rounded(9),
    )
