"""From a pinned table to a plan: candidates, groups, packing, prediction, budget."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from icepact.model.health import Health, Place
from icepact.model.outlook import Outlook
from icepact.model.plan import Before, Cost, Gain, LeftOut, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.rates import Rates
from icepact.model.table import DataFile, TableState, delete_records, signature
from icepact.plan.budget import within_budget
from icepact.plan.gain import gain_of
from icepact.plan.methods import choose
from icepact.plan.packing import outputs_of, pack, reading_order
from icepact.plan.prospect import Prospect, features_of
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.strategies.table import STRATEGIES
from icepact.plan.worth import SPLIT, scan_tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What is to be done with one partition: groups, or a reason why not."""

    groups: tuple[RewriteFiles, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def make_plan(
    health: Health,
    state: TableState,
    policy: Policy,
    rates: Rates | None = None,
    *,
    now: datetime,
    set_aside: Mapping[str, str] | None = None,
    outlook: Outlook | None = None,
) -> Plan:
    """What to rewrite, how, and why everything else is left alone.

    `state` needs to have only the files of the places that are `chosen`. `set_aside` says by a group's signature why it is
    not tried now. Without an `outlook` nothing was learned yet.
    """
    rates = rates or Rates()
    outlook = outlook or Outlook(now=now)
    tasks = sum(scan_tasks(0, place.facts.bytes) for place in health.places)
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    for place in health.places:
        verdict = _judge(state, policy, rates, place, outlook, tasks)
        groups.extend(verdict.groups)
        left_out.extend(verdict.left_out)
    groups, aside = _without(groups, state, set_aside or {})
    steps, cut = within_budget(_most_saved_first(groups), state.deletes, policy)
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
        predicted=_predict(before, state, numbered),
        before=before,
        complete=not cut and not aside,
    )


def choose_files(place: Place, policy: Policy, now: datetime) -> Choice:
    """Which files of a place are worth rewriting, and why, or why none are."""
    if place.broken:
        return Choice(which=Which.NONE, reason="refused: a file is live more than once in this snapshot")
    if policy.rewrite_all:
        return Choice(which=Which.ALL, reason="rewrite-all was asked for")
    entry = STRATEGIES[policy.strategy]
    if place.settled_by is not None and (place.compacted_last or entry.worth is None):
        reason = f"nothing was written since the run that made snapshot {place.settled_by}"
        return Choice(which=Which.NONE, reason=reason)
    return entry.choose(place, policy, now)


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


def _judge(state: TableState, policy: Policy, rates: Rates, place: Place, outlook: Outlook, tasks: int) -> _Verdict:
    """Candidates of one place, packed; refused, settled and useless work is left out with its reason.

    `tasks` are those of a scan of the whole table once it is compact.
    """
    choice = choose_files(place, policy, outlook.now)
    files = [file for key in place.keys for file in state.by_partition.get(key, ())]
    twice = sorted({f.path for f in files} & state.live_twice)
    if twice:
        return _left(place, f"refused: {twice[0]} is live more than once in this snapshot")
    if choice.which is Which.NONE:
        return _left(place, choice.reason)
    offers = [
        _offer(state, policy, rates, place, files, depth, tasks, outlook.now) for depth in (choice, *choice.others)
    ]
    offers = [offer for offer in offers if offer.groups]
    if not offers:
        return _left(place, f"packing would not leave fewer files ({choice.reason})")
    ask = None if policy.rewrite_all else STRATEGIES[policy.strategy].worth
    if ask is None:
        groups = offers[0].groups
    else:
        verdicts = [ask(offer.prospect, outlook, policy) for offer in offers]
        good = [at for at, verdict in enumerate(verdicts) if verdict.worth]
        if not good:
            best = max(range(len(offers)), key=lambda at: verdicts[at].net)
            return _left(place, f"{verdicts[best].reason} ({offers[best].prospect.choice.reason})")
        groups = offers[max(good, key=lambda at: verdicts[at].net)].groups
    taken = {f.path for g in groups for f in g.files}
    rest = [f for f in files if f.path not in taken]
    if not rest:
        return _Verdict(groups=groups)
    size = sum(f.size for f in rest)
    gain = LeftOut(partition=place.name, files=len(rest), bytes=size, reason="nothing to gain from these files")
    return _Verdict(groups=groups, left_out=(gain,))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Offer:
    """What could be done with a place."""

    groups: tuple[RewriteFiles, ...]
    prospect: Prospect


def _offer(
    state: TableState,
    policy: Policy,
    rates: Rates,
    place: Place,
    files: Sequence[DataFile],
    choice: Choice,
    tasks: int,
    now: datetime,
) -> _Offer:
    """One depth, packed and priced; its groups carry what a later lesson needs to know."""
    chosen = [f for f in files if choice.which.takes(small=f.size < policy.min_file_size, touched=bool(f.deletes))]
    taken = {f.path for f in chosen}
    staying = {index for f in files if f.path not in taken for index in f.deletes}
    groups = tuple(_groups(state, policy, rates, place, chosen, choice, staying))
    size = sum(g.bytes for g in groups)
    prospect = Prospect(
        place=place,
        choice=choice,
        files=sum(len(g.files) for g in groups),
        bytes=size,
        outputs=sum(g.predicted_files for g in groups),
        gain=Gain.sum(g.gain for g in groups),
        cost=Cost.sum(g.cost for g in groups),
        other_tasks=tasks - scan_tasks(0, place.facts.bytes) + math.ceil((place.facts.bytes - size) / SPLIT),
    )
    features = features_of(prospect, now, policy.horizon / 3600)
    return _Offer(groups=tuple(replace(g, features=features) for g in groups), prospect=prospect)


def _left(place: Place, reason: str) -> _Verdict:
    """A whole place that nothing is done with."""
    facts = place.facts
    entry = LeftOut(partition=place.name, files=facts.data_files, bytes=facts.bytes, reason=reason)
    return _Verdict(left_out=(entry,))


def _groups(
    state: TableState,
    policy: Policy,
    rates: Rates,
    place: Place,
    chosen: Sequence[DataFile],
    choice: Choice,
    staying: Collection[int],
) -> Iterator[RewriteFiles]:
    """Groups of one place that leave fewer files or remove delete records; `staying` are deletes of its other files."""
    if place.spread:
        # cut only where a group may not be larger: every further group leaves one more small file in each partition
        lone = [Unit(files=(f,)) for f in sorted(chosen, key=reading_order)]
        batches: list[tuple[Unit, ...]] = [
            (Unit(files=tuple(f for unit in batch for f in unit.files)),) for batch in _batches(lone, policy)
        ]
    else:
        units = [u for u in pack(chosen, policy) if policy.rewrite_all or _useful(u)]
        batches = list(_batches(units, policy))
    for units_of_group in batches:
        files = [f for u in units_of_group for f in u.files]
        size = sum(f.size for f in files)
        predicted = sum(outputs_of(u, policy) for u in units_of_group)
        if place.spread:
            predicted = max(place.spread, math.ceil(size / policy.target_file_size))
        if predicted >= len(files) and not any(f.deletes for f in files) and not policy.rewrite_all:
            continue
        method = choose(state, units_of_group, policy, rates, regroup=place.spread > 0)
        yield RewriteFiles(
            group_id="",
            partition=place.name,
            output_spec_id=state.spec_id,
            regroup=place.spread > 0,
            units=units_of_group,
            method=method.method,
            method_reason=method.reason,
            cost=method.cost,
            reason=choice.reason,
            tier=choice.which.tier,
            gain=gain_of(files, predicted, state.deletes, staying),
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


def _predict(before: Before, state: TableState, steps: Sequence[RewriteFiles]) -> Prediction:
    inputs = sum(len(step.files) for step in steps)
    outputs = sum(step.predicted_files for step in steps)
    return Prediction(
        files_before=before.files,
        files_after=before.files - inputs + outputs,
        input_files=inputs,
        input_bytes=sum(step.bytes for step in steps),
        output_files=outputs,
        output_bytes=sum(step.predicted_bytes for step in steps),
        delete_records=delete_records((f for step in steps for f in step.files), state.deletes),
    )
