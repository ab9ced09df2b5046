"""From a pinned table to a plan: candidates, groups, packing, prediction, budget."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress

import numpy as np

from icepact.model.budget import Limit, run_limits
from icepact.model.health import Health, Place
from icepact.model.outlook import Outlook
from icepact.model.plan import Before, Cost, Gain, LeftOut, Method, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.rates import Rates
from icepact.model.table import DataFile, TableState, delete_records, signature
from icepact.plan.budget import within_budget
from icepact.plan.choosing import choice_is_enough, choose_files, idle_deletes
from icepact.plan.expected import Expected
from icepact.plan.gain import gain_of
from icepact.plan.methods import Chosen, choose
from icepact.plan.offers import best_offer, other_tasks, tasks_of
from icepact.plan.packing import AS_IT_IS, Scale, as_one, outputs_of, pack, reading_order
from icepact.plan.prospect import Prospect, features_of
from icepact.plan.sizes import sizes_after
from icepact.plan.strategies.choice import Choice, Which


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What is to be done with one partition: groups, or a reason why not."""

    groups: tuple[RewriteFiles, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class _Known:
    """What is known for one plan: the table, what is wanted, what work takes and costs, and what will come of it."""

    def __init__(
        self, state: TableState, policy: Policy, rates: Rates, prices: Prices, outlook: Outlook, tasks: int
    ) -> None:
        self.state = state
        self.policy = policy
        self.rates = rates
        self.prices = prices.for_table(state.properties)
        self.outlook = outlook
        self.tasks = tasks
        """Those of a scan of the whole table once it is compact."""
        self.expected = Expected(state, policy, rates)
        self.learned = any(rates.ratio(method) != 1.0 for method in Method)

    def method(self, units: Sequence[Unit], *, spread: int, outputs: int | None = None) -> Chosen:
        """How units are rewritten best."""
        return choose(self.state, units, self.policy, self.rates, self.prices, regroup=spread > 0, outputs=outputs)

    def foreseen(self, step: RewriteFiles) -> RewriteFiles:
        """A step with the rows that remain, and bytes of those alone."""
        rows, remaining = sum(f.rows for f in step.files), self.expected.rows(step.files)
        size = round(step.predicted_bytes * remaining / rows) if rows else step.predicted_bytes
        return replace(step, predicted_rows=remaining, predicted_bytes=size)

    def scale(self, files: Sequence[DataFile], *, spread: int) -> Scale:
        """How large files are in outputs, by the method that is likely to rewrite them."""
        if not self.learned or not files:
            return AS_IT_IS
        return self.expected.scale(self.method([Unit(files=tuple(files))], spread=spread).method)


def make_plan(
    health: Health,
    state: TableState,
    policy: Policy,
    rates: Rates | None = None,
    *,
    now: datetime,
    prices: Prices | None = None,
    set_aside: Mapping[str, str] | None = None,
    budget: Sequence[Limit] | None = None,
    outlook: Outlook | None = None,
    unchosen: Mapping[str, str] | None = None,
) -> Plan:
    """What to rewrite, how, and why everything else is left alone.

    `state` needs to have only the files of the places that are chosen, as far as they are still there. `set_aside`
    says by a group's signature why it is not tried now. `budget` is all that limits the plan; if not given, what the
    policy allows a run on one core. Without `prices` those of the default preset are taken, and without an `outlook`
    nothing was learned yet. `unchosen` are places that were judged already and are left alone, with the reason.
    """
    paying = prices or Prices.of(DEFAULT_PRESET)
    known = _Known(state, policy, rates or Rates(), paying, outlook or Outlook(now=now), tasks_of(health.places))
    budget = tuple(run_limits(policy, cores=1) if budget is None else budget)
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    for place in health.places:
        reason = unchosen.get(place.name) if unchosen else None
        verdict = _judge(known, place) if reason is None else _left(place, reason)
        groups.extend(verdict.groups)
        left_out.extend(verdict.left_out)
    groups, aside = _without(groups, state, set_aside or {})
    steps, cut = within_budget(groups, state.deletes, policy, budget)
    numbered = tuple(replace(step, group_id=f"g{n:04d}") for n, step in enumerate(map(known.foreseen, steps), start=1))
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
        complete=not cut and not aside and not _blind(state, policy),
        held_back=tuple(sorted({entry.partition for entry in (*cut, *aside)})),
        sizes_before=health.histogram,
        sizes_after=sizes_after(health.histogram, numbered, policy),
        budget=budget,
        prices=known.prices,
        planned_at=known.outlook.now,
    )


def _blind(state: TableState, policy: Policy) -> bool:
    """True if nobody will be able to tell what was committed after the snapshot that is planned from."""
    return policy.snapshot_id is not None and state.format_version == 1  # no sequence numbers


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


def _judge(known: _Known, place: Place) -> _Verdict:
    """Candidates of one place, packed; refused, settled and useless work is left out with its reason."""
    state, policy = known.state, known.policy
    choice = choose_files(place, policy, known.outlook.now)
    files = [file for key in place.keys for file in state.by_partition.get(key, ())]
    refused = _why_not(choice, files, state)
    if refused is not None:
        return _left(place, refused)
    offers = [_offer(known, place, files, depth) for depth in (choice, *choice.others)]
    offers = [offer for offer in offers if offer.groups]
    if not offers:
        return _left(place, f"packing would not leave fewer files ({choice.reason})")
    best = best_offer([offer.prospect for offer in offers], known.outlook, policy)
    if isinstance(best, str):
        return _left(place, best)
    groups = offers[best].groups
    taken = {f.path for g in groups for f in g.files}
    rest = [f for f in files if f.path not in taken]
    if not rest:
        return _Verdict(groups=groups)
    size = sum(f.size for f in rest)
    gain = LeftOut(partition=place.name, files=len(rest), bytes=size, reason="nothing to gain from these files")
    return _Verdict(groups=groups, left_out=(gain,))


def _why_not(choice: Choice, files: Sequence[DataFile], state: TableState) -> str | None:
    """Why a place is left alone before anything is packed; null if it is not."""
    twice = sorted({f.path for f in files} & state.live_twice)
    if twice:
        return f"refused: {twice[0]} is live more than once in this snapshot"
    if choice.which is Which.NONE:
        return choice.reason
    return None if files else "its files were replaced since this snapshot"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Offer:
    """What could be done with a place."""

    groups: tuple[RewriteFiles, ...]
    prospect: Prospect


def _offer(known: _Known, place: Place, files: Sequence[DataFile], choice: Choice) -> _Offer:
    """One depth, packed and priced; its groups carry what a later lesson needs to know."""
    policy = known.policy
    sizes = np.fromiter((f.size for f in files), np.int64)
    touched = np.fromiter((bool(f.deletes) for f in files), np.bool_)
    meant = choice.which.mask(sizes, threshold=policy.min_file_size, touched=touched)
    chosen = list(compress(files, meant.tolist()))
    taken = {f.path for f in chosen}
    staying = {index for f in files if f.path not in taken for index in f.deletes}
    groups = tuple(_groups(known, place, chosen, choice, staying))
    size = sum(g.bytes for g in groups)
    prospect = Prospect(
        place=place,
        choice=choice,
        files=sum(len(g.files) for g in groups),
        bytes=size,
        outputs=sum(g.predicted_files for g in groups),
        gain=Gain.sum(g.gain for g in groups),
        cost=Cost.sum(g.cost for g in groups),
        other_tasks=other_tasks(known.tasks, place, size),
    )
    features = features_of(prospect, known.outlook.now, policy.horizon / 3600)
    return _Offer(groups=tuple(replace(g, features=features) for g in groups), prospect=prospect)


def _left(place: Place, reason: str) -> _Verdict:
    """A whole place that nothing is done with."""
    facts = place.facts
    entry = LeftOut(partition=place.name, files=facts.data_files, bytes=facts.bytes, reason=reason)
    return _Verdict(left_out=(entry,))


def _groups(
    known: _Known, place: Place, chosen: Sequence[DataFile], choice: Choice, staying: Collection[int]
) -> Iterator[RewriteFiles]:
    """Groups of one place that leave fewer files or remove delete records; `staying` are deletes of its other files."""
    state, policy = known.state, known.policy
    enough = choice_is_enough(choice, policy)
    idle = idle_deletes(choice, place)
    scale = known.scale(chosen, spread=place.spread)
    if place.spread:
        # cut only where a group may not be larger: every further group leaves one more small file in each partition
        lone = [Unit(files=(f,)) for f in sorted(chosen, key=reading_order)]
        batches: list[tuple[Unit, ...]] = [
            (as_one(tuple(f for unit in batch for f in unit.files), scale),) for batch in _batches(lone, policy)
        ]
    else:
        units = [u for u in pack(chosen, policy, scale) if enough or _useful(u)]
        batches = list(_batches(units, policy))
    for units_of_group in batches:
        files = [f for u in units_of_group for f in u.files]
        size = sum(u.predicted_bytes for u in units_of_group)
        predicted = sum(outputs_of(u.predicted_bytes, policy) for u in units_of_group)
        if place.spread:
            predicted = max(place.spread, math.ceil(size / policy.target_file_size))
        if predicted >= len(files) and not any(f.deletes for f in files) and not enough:
            continue
        method = known.method(units_of_group, spread=place.spread, outputs=predicted)
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
            gain=gain_of(files, predicted, state.deletes, staying, idle=idle),
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
        seconds=round(sum(step.cost.seconds for step in steps), 3),
        seconds_low=round(sum(step.cost.seconds_low for step in steps), 3),
        seconds_high=round(sum(step.cost.seconds_high for step in steps), 3),
        money=round(sum(step.cost.money for step in steps), 9),
        money_low=round(sum(step.cost.money_low for step in steps), 9),
        money_high=round(sum(step.cost.money_high for step in steps), 9),
    )
