"""From a pinned table to a plan: candidates, groups, packing, prediction, budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from icepact.model.plan import Before, LeftOut, Method, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.table import DataFile, LastRun, TableState, delete_records
from icepact.plan.budget import within_budget
from icepact.plan.packing import outputs_of, pack, reading_order
from icepact.plan.strategies import STRATEGIES, Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What is to be done with one partition: groups, or a reason why not."""

    groups: tuple[RewriteFiles, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def make_plan(state: TableState, policy: Policy) -> Plan:
    """What to rewrite, and why everything else is left alone."""
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    for (spec_id, partition), files in state.by_partition.items():
        verdict = _judge(state, policy, spec_id, state.show_partition(spec_id, partition), files)
        groups.extend(verdict.groups)
        left_out.extend(verdict.left_out)
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
        left_out=(*left_out, *cut),
        predicted=_predict(state, numbered),
        before=Before(
            files=len(state.files),
            rows=sum(f.rows for f in state.files),
            bytes=sum(f.size for f in state.files),
        ),
        complete=not cut,
    )


def _most_saved_first(groups: Sequence[RewriteFiles]) -> list[RewriteFiles]:
    """Most files saved first; ties by delete records, then by name, so that plans are stable."""
    return sorted(
        groups,
        key=lambda g: (g.predicted_files - len(g.files), -g.delete_records, g.partition, g.files[0].path),
    )


def _judge(state: TableState, policy: Policy, spec_id: int, name: str, files: Sequence[DataFile]) -> _Verdict:
    """Candidates of one partition, packed; refused, settled and useless work is left out with its reason."""

    def leave(reason: str, these: Sequence[DataFile] = files) -> _Verdict:
        size = sum(f.size for f in these)
        return _Verdict(left_out=(LeftOut(partition=name, files=len(these), bytes=size, reason=reason),))

    twice = sorted({f.path for f in files} & state.live_twice)
    if twice:
        return leave(f"refused: {twice[0]} is live more than once in this snapshot")
    if policy.rewrite_all:
        choice = Choice(files=files, reason="rewrite-all was asked for")
    elif settled(files, state, policy):
        return leave(f"nothing was written since run in snapshot {state.last_run and state.last_run.snapshot_id}")
    else:
        choice = STRATEGIES[policy.strategy](files, state.deletes, policy)
    if not choice.files:
        return leave(choice.reason)
    groups = tuple(_groups(state, policy, spec_id, name, choice))
    if not groups:
        return leave(f"packing would not leave fewer files ({choice.reason})")
    taken = {f.path for g in groups for f in g.files}
    rest = [f for f in files if f.path not in taken]
    if not rest:
        return _Verdict(groups=groups)
    remainder = leave("nothing to gain from these files", rest)
    return replace(remainder, groups=groups)


def settled(files: Sequence[DataFile], state: TableState, policy: Policy) -> bool:
    """True if a complete run with this same policy has already judged every one of these files.

    Outputs are often smaller than predicted (one footer instead of a hundred), so packing alone would
    find new work in them. The run's own snapshot says what it had seen; only news since then count.
    """
    last = state.last_run
    if last is None or last.layout != policy.fingerprint:
        return False
    if state.format_version == 1:  # no sequence numbers: settled only while nothing else was committed
        return state.snapshot_id == last.snapshot_id
    return all(
        _seen(f.sequence_number, last) and all(_seen(state.deletes[i].sequence_number, last) for i in f.deletes)
        for f in files
    )


def _seen(sequence_number: int, last: LastRun) -> bool:
    return sequence_number <= last.pinned_sequence_number or sequence_number == last.sequence_number


def _groups(state: TableState, policy: Policy, spec_id: int, name: str, choice: Choice) -> Iterator[RewriteFiles]:
    """Groups of one partition that leave fewer files or remove delete records."""
    scattered = _scattered(state, spec_id)
    if scattered:
        # one shuffle writes each output partition once: cut only where a group may not be larger, because
        # every further group leaves one more small file in each
        lone = [Unit(files=(f,)) for f in sorted(choice.files, key=reading_order)]
        batches: list[tuple[Unit, ...]] = [
            (Unit(files=tuple(f for unit in batch for f in unit.files)),) for batch in _batches(lone, policy)
        ]
    else:
        units = [u for u in pack(choice.files, policy) if policy.rewrite_all or _useful(u)]
        batches = list(_batches(units, policy))
    for units_of_group in batches:
        files = [f for u in units_of_group for f in u.files]
        predicted = sum(outputs_of(u, policy) for u in units_of_group)
        if scattered:
            predicted = max(predicted, scattered)
        if predicted >= len(files) and not any(f.deletes for f in files) and not policy.rewrite_all:
            continue
        yield RewriteFiles(
            group_id="",
            partition=name,
            spec_id=spec_id,
            output_spec_id=state.spec_id,
            units=units_of_group,
            method=Method.SPARK,
            reason=choice.reason,
            predicted_files=predicted,
            predicted_bytes=sum(f.size for f in files),
            delete_records=delete_records(files, state.deletes),
        )


def _scattered(state: TableState, spec_id: int) -> int:
    """For files of an old spec: over how many current partitions their rows will spread (a guess), else 0."""
    if spec_id == state.spec_id:
        return 0
    if state.specs[state.spec_id].unpartitioned:
        return 1
    return max(1, sum(1 for spec, _ in state.by_partition if spec == state.spec_id))


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
