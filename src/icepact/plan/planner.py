"""From a pinned table to a plan: candidates, groups, packing, prediction, budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from icepact.model.budget import Limit, run_limits
from icepact.model.health import Health, Place
from icepact.model.outlook import Outlook
from icepact.model.plan import Before, LeftOut, Plan, Prediction, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.rates import Effort, Estimate, Rates, encoded_share, on_the_clock
from icepact.model.table import DataFile, TableState, delete_records, signature
from icepact.plan.budget import within_budget
from icepact.plan.choosing import choose_files
from icepact.plan.columns import FileColumns, listed_columns
from icepact.plan.expected import Expected
from icepact.plan.groups import Group, Grouping, prospect_of
from icepact.plan.offers import best_offer, other_tasks, tasks_of
from icepact.plan.packing import reading_order
from icepact.plan.prospect import Prospect, features_of
from icepact.plan.sizes import sizes_after
from icepact.plan.strategies.choice import Choice, Which


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What is to be done with one partition: groups, or a reason why not."""

    groups: tuple[RewriteFiles, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class _Known:
    """What is known for one plan: the table, what is wanted, how files are grouped, and what will come of it."""

    def __init__(
        self, state: TableState, policy: Policy, rates: Rates, prices: Prices, outlook: Outlook, tasks: int
    ) -> None:
        self.state = state
        self.policy = policy
        self.prices = prices.for_table(state.properties)
        self.outlook = outlook
        self.tasks = tasks
        """Those of a scan of the whole table once it is compact."""
        self.grouping = Grouping(state, policy, rates, self.prices)
        self._expected = Expected(state)

    def foreseen(self, step: RewriteFiles) -> RewriteFiles:
        """A step with the rows that remain, and bytes of those alone."""
        rows, remaining = sum(f.rows for f in step.files), self._expected.rows(step.files)
        size = round(step.predicted_bytes * remaining / rows) if rows else step.predicted_bytes
        return replace(step, predicted_rows=remaining, predicted_bytes=size)


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
    beyond: Sequence[LeftOut] = (),
) -> Plan:
    """What to rewrite, how, and why everything else is left alone.

    `state` needs to have only the files of the places that are chosen, as far as they are still there. `set_aside`
    says by a group's signature why it is not tried now. `budget` is all that limits the plan; if not given, what the
    policy allows a run on one core. Without `prices` those of the default preset are taken, and without an `outlook`
    nothing was learned yet. `unchosen` are places that were judged already and are left alone, with the reason; those
    that are `beyond` the budget were not even listed.
    """
    paying = prices or Prices.of(DEFAULT_PRESET)
    ahead = outlook or Outlook(now=now, currency=paying.currency)
    known = _Known(state, policy, rates or Rates(), paying, ahead, tasks_of(health.places))
    budget = tuple(run_limits(policy, cores=1, currency=paying.currency) if budget is None else budget)
    groups: list[RewriteFiles] = []
    left_out: list[LeftOut] = []
    unlisted = {entry.partition for entry in beyond}
    for place in health.places:
        if place.name in unlisted:
            continue
        reason = unchosen.get(place.name) if unchosen else None
        verdict = _judge(known, place) if reason is None else _left(place, reason)
        groups.extend(verdict.groups)
        left_out.extend(verdict.left_out)
    groups, aside = _without(groups, state, set_aside or {})
    steps, cut = within_budget(groups, state.deletes, policy, budget)
    cut = [*cut, *beyond]
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
        predicted=_predict(before, state, numbered, rates or Rates()),
        before=before,
        complete=not cut and not aside and not _blind(state, policy),
        held_back=tuple(sorted({entry.partition for entry in (*cut, *aside)})),
        sizes_before=health.histogram,
        sizes_after=sizes_after(health.histogram, numbered, policy),
        budget=budget,
        prices=known.prices,
        note=_note(health, state, policy),
        planned_at=known.outlook.now,
    )


def _note(health: Health, state: TableState, policy: Policy) -> str:
    """That a pattern of partitions means none of them, and how they are named; empty if it means some."""
    if policy.partition is None or not all(place.unasked for place in health.places):
        return ""
    fields = [field.name for field in state.specs[state.spec_id].fields if field.transform != "void"]
    named = f"partition fields are {', '.join(fields)}" if fields else "the table is not partitioned"
    like = f", as in {health.places[0].name}" if fields and health.places else ""
    return f"no partition is like {policy.partition}: {named}{like}"


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
    files = sorted(files, key=attrgetter("path"))  # where files are alike, it decides
    columns = listed_columns(files, state.deletes)
    offers = [_offer(known, place, files, columns, depth) for depth in (choice, *choice.others)]
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


def _offer(known: _Known, place: Place, files: Sequence[DataFile], columns: FileColumns, choice: Choice) -> _Offer:
    """One depth, packed and priced; its groups carry what a later lesson needs to know."""
    groups = known.grouping.groups(place, choice, columns)
    prospect = prospect_of(place, choice, groups)
    prospect = replace(prospect, other_tasks=other_tasks(known.tasks, place, prospect.bytes))
    features = features_of(prospect, known.outlook.now, known.policy.horizon / 3600)
    ordered = [files[at] for at in columns.origin.tolist()]
    steps = (_step(known, place, choice, group, ordered) for group in groups)
    return _Offer(groups=tuple(replace(step, features=features) for step in steps), prospect=prospect)


def _left(place: Place, reason: str) -> _Verdict:
    """A whole place that nothing is done with."""
    facts = place.facts
    entry = LeftOut(partition=place.name, files=facts.data_files, bytes=facts.bytes, reason=reason)
    return _Verdict(left_out=(entry,))


def _step(known: _Known, place: Place, choice: Choice, group: Group, files: Sequence[DataFile]) -> RewriteFiles:
    """A group with its files, which are in the order of the columns; rows stay in the order of writing."""
    units = tuple(
        Unit(files=tuple(sorted((files[at] for at in unit), key=reading_order)), predicted=merged)
        for unit, merged in zip(group.units, group.merged, strict=True)
    )
    return RewriteFiles(
        group_id="",
        partition=place.name,
        output_spec_id=known.state.spec_id,
        regroup=place.spread > 0,
        units=units,
        method=group.chosen.method,
        method_reason=group.chosen.reason,
        cost=group.chosen.cost,
        reason=choice.reason,
        tier=choice.which.tier,
        gain=group.gain,
        predicted_files=group.outputs,
        predicted_bytes=group.predicted,
        delete_records=delete_records((f for unit in units for f in unit.files), known.state.deletes),
    )


def _encoded(step: RewriteFiles) -> float:
    cost = step.cost
    effort = Effort(units=len(step.units), files=len(step.files), copied=cost.copied_bytes, encoded=cost.encoded_bytes)
    return encoded_share(step.method, effort)


def _predict(before: Before, state: TableState, steps: Sequence[RewriteFiles], rates: Rates) -> Prediction:
    inputs = sum(len(step.files) for step in steps)
    outputs = sum(step.predicted_files for step in steps)
    work = Estimate(
        seconds=sum(step.cost.seconds for step in steps),
        low=sum(step.cost.seconds_low for step in steps),
        high=sum(step.cost.seconds_high for step in steps),
    )
    besides = rates.overhead if steps else Estimate(seconds=0.0, low=0.0, high=0.0)
    units = sum(len(step.units) for step in steps)
    encoded = sum(step.cost.seconds * _encoded(step) for step in steps) / max(work.seconds, 1e-9)
    share = on_the_clock(1.0, units=units, cores=rates.cores, encoded=encoded)
    return Prediction(
        files_before=before.files,
        files_after=before.files - inputs + outputs,
        input_files=inputs,
        input_bytes=sum(step.bytes for step in steps),
        output_files=outputs,
        output_bytes=sum(step.predicted_bytes for step in steps),
        delete_records=delete_records((f for step in steps for f in step.files), state.deletes),
        seconds=round(work.seconds, 3),
        seconds_low=round(work.low, 3),
        seconds_high=round(work.high, 3),
        overhead=round(besides.seconds, 3),
        duration=round(besides.seconds + work.seconds * share, 3),
        duration_low=round(besides.low + work.low * share, 3),
        duration_high=round(besides.high + work.high * share, 3),
        cores=rates.cores,
        money=round(sum(step.cost.money for step in steps), 9),
        money_low=round(sum(step.cost.money_low for step in steps), 9),
        money_high=round(sum(step.cost.money_high for step in steps), 9),
    )
