"""From a pinned table to a plan: candidates, groups, packing, prediction, budget."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from icepact.model.plan import Before, LeftOut, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.rates import Rates
from icepact.model.table import DataFile, LastRun, TableState, delete_records, signature
from icepact.plan.budget import within_budget
from icepact.plan.methods import choose
from icepact.plan.packing import outputs_of, pack, reading_order
from icepact.plan.strategies import STRATEGIES, Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Files that are judged together: one partition of the current spec, or everything of old specs."""

    name: str
    files: Sequence[DataFile]
    spread: int
    """For files of old specs: over how many current partitions their rows will go (a guess); else 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What is to be done with one partition: groups, or a reason why not."""

    groups: tuple[RewriteFiles, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def make_plan(
    state: TableState, policy: Policy, rates: Rates | None = None, *, set_aside: Mapping[str, str] | None = None
) -> Plan:
    """What to rewrite, how, and why everything else is left alone.

    `set_aside` says by a group's signature why it is not tried now.
    """
    rates = rates or Rates()
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    for place in _places(state):
        verdict = _judge(state, policy, rates, place)
        groups.extend(verdict.groups)
        left_out.extend(verdict.left_out)
    groups, aside = _without(groups, state, set_aside or {})
    steps, cut = within_budget(_most_saved_first(groups), state.deletes, policy)
    numbered = tuple(replace(step, group_id=f"g{n:04d}") for n, step in enumerate(steps, start=1))
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
        predicted=_predict(state, numbered),
        before=Before(
            files=len(state.files),
            rows=sum(f.rows for f in state.files),
            bytes=sum(f.size for f in state.files),
        ),
        complete=not cut and not aside,
    )


def _without(
    groups: Sequence[RewriteFiles], state: TableState, set_aside: Mapping[str, str]
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


def _most_saved_first(groups: Sequence[RewriteFiles]) -> list[RewriteFiles]:
    """Most files saved first; ties by delete records, then by name, so that plans are stable."""
    return sorted(
        groups,
        key=lambda g: (g.predicted_files - len(g.files), -g.delete_records, g.partition, g.files[0].path),
    )


def _places(state: TableState) -> Iterator[_Place]:
    """Files of old specs are one place: one shuffle then writes each current partition once, whereas a group
    for every old partition would leave a small file of its own in each."""
    old: dict[str, Sequence[DataFile]] = {}
    for (spec_id, partition), files in state.by_partition.items():
        name = state.show_partition(spec_id, partition)
        if spec_id == state.spec_id or any(f.path in state.live_twice for f in files):
            yield _Place(name=name, files=files, spread=0)
        else:
            old[name] = files
    if old:
        name = next(iter(old)) if len(old) == 1 else f"{len(old)} partitions of old specs"
        yield _Place(name=name, files=[f for files in old.values() for f in files], spread=_spread(state))


def _spread(state: TableState) -> int:
    if state.specs[state.spec_id].unpartitioned:
        return 1
    return max(1, sum(1 for spec, _ in state.by_partition if spec == state.spec_id))


def _judge(state: TableState, policy: Policy, rates: Rates, place: _Place) -> _Verdict:
    """Candidates of one place, packed; refused, settled and useless work is left out with its reason."""
    files = place.files

    def leave(reason: str, these: Sequence[DataFile] = files) -> _Verdict:
        size = sum(f.size for f in these)
        return _Verdict(left_out=(LeftOut(partition=place.name, files=len(these), bytes=size, reason=reason),))

    twice = sorted({f.path for f in files} & state.live_twice)
    if twice:
        return leave(f"refused: {twice[0]} is live more than once in this snapshot")
    if policy.rewrite_all:
        choice = Choice(files=files, reason="rewrite-all was asked for")
    elif (last := settled(files, state, policy)) is not None:
        return leave(f"nothing was written since the run that made snapshot {last.snapshot_id}")
    else:
        choice = STRATEGIES[policy.strategy](files, state.deletes, policy)
    if not choice.files:
        return leave(choice.reason)
    groups = tuple(_groups(state, policy, rates, place, choice))
    if not groups:
        return leave(f"packing would not leave fewer files ({choice.reason})")
    taken = {f.path for g in groups for f in g.files}
    rest = [f for f in files if f.path not in taken]
    if not rest:
        return _Verdict(groups=groups)
    remainder = leave("nothing to gain from these files", rest)
    return replace(remainder, groups=groups)


def settled(files: Sequence[DataFile], state: TableState, policy: Policy) -> LastRun | None:
    """The complete run with this same policy that has already judged every one of these files, if there is one.

    Outputs are often smaller than predicted (one footer instead of a hundred), so packing alone would
    find new work in them. The run's own snapshot says what it had seen; only news since then count.
    """
    last = next((run for run in state.last_runs if run.layout == policy.fingerprint), None)
    if last is None:
        return None
    if state.format_version == 1:  # no sequence numbers: settled only while nothing else was committed
        return last if state.snapshot_id == last.snapshot_id else None
    judged = all(
        _seen(f.sequence_number, last) and all(_seen(state.deletes[i].sequence_number, last) for i in f.deletes)
        for f in files
    )
    return last if judged else None


def _seen(sequence_number: int, last: LastRun) -> bool:
    return sequence_number <= last.pinned_sequence_number or sequence_number in last.own_sequence_numbers


def _groups(state: TableState, policy: Policy, rates: Rates, place: _Place, choice: Choice) -> Iterator[RewriteFiles]:
    """Groups of one place that leave fewer files or remove delete records."""
    if place.spread:
        # cut only where a group may not be larger: every further group leaves one more small file in each partition
        lone = [Unit(files=(f,)) for f in sorted(choice.files, key=reading_order)]
        batches: list[tuple[Unit, ...]] = [
            (Unit(files=tuple(f for unit in batch for f in unit.files)),) for batch in _batches(lone, policy)
        ]
    else:
        units = [u for u in pack(choice.files, policy) if policy.rewrite_all or _useful(u)]
        batches = list(_batches(units, policy))
    for units_of_group in batches:
        files = [f for u in units_of_group for f in u.files]
        size = sum(f.size for f in files)
        predicted = sum(outputs_of(u, policy) for u in units_of_group)
        if place.spread:
            predicted = max(place.spread, math.ceil(size / policy.target_file_size))
        if predicted >= len(files) and not any(f.deletes for f in files) and not policy.rewrite_all:
            continue
        chosen = choose(state, units_of_group, policy, rates, regroup=place.spread > 0)
        yield RewriteFiles(
            group_id="",
            partition=place.name,
            output_spec_id=state.spec_id,
            regroup=place.spread > 0,
            units=units_of_group,
            method=chosen.method,
            method_reason=chosen.reason,
            cost=chosen.cost,
            reason=choice.reason,
            predicted_files=predicted,
            predicted_bytes=size,
            delete_records=delete_records(files, state.deletes),
        )


def _useful(unit: Unit) -> bool:
    return len(unit.files) > 1 or any(f.deletes for f in unit.files)


def _batches(units: Sequence[Unit], policy: Policy) -> Iterator[tuple[Unit, ...]]:
    """Cut the units of one partition into groups by bytes and files."""
    batch: list[Unit] = []
    size = files = 0
    for unit in units:
        too_big = size + unit.bytes > policy.max_group_size or files + len(unit.files) > policy.max_group_files
        if batch and too_big:
            yield tuple(batch)
            batch, size, files = [], 0, 0
        batch.append(unit)
        size += unit.bytes
        files += len(unit.files)
    if batch:
        yield tuple(batch)


def _predict(state: TableState, steps: Sequence[RewriteFiles]) -> Prediction:
    inputs = sum(len(step.files) for step in steps)
    outputs = sum(step.predicted_files for step in steps)
    return Prediction(
        files_before=len(state.files),
        files_after=len(state.files) - inputs + outputs,
        input_files=inputs,
        input_bytes=sum(step.bytes for step in steps),
        output_files=outputs,
        output_bytes=sum(step.predicted_bytes for step in steps),
        delete_records=delete_records((f for step in steps for f in step.files), state.deletes),
    )
