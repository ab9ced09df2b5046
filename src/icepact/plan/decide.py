"""Which places to compact, with gain and price, from the census alone: files are listed only for what is chosen."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np

from icepact.model.census import Census, Ints, Tally
from icepact.model.decision import Decision, Judgement
from icepact.model.health import Health, Place
from icepact.model.policy import Policy
from icepact.model.rates import Rates
from icepact.plan.choosing import choose_files
from icepact.plan.gain import make_gain
from icepact.plan.methods import cheapest, why_not_assembled
from icepact.plan.packing import outputs_of, pack_sizes
from icepact.plan.prospect import Prospect
from icepact.plan.strategies.choice import Choice, Which


def decide(
    health: Health,
    census: Census,
    policy: Policy,
    rates: Rates | None = None,
    *,
    now: datetime,
    before: Judgement | None = None,
) -> Judgement:
    """What is worth doing about each place.

    `before` is an earlier judgement by the same policy and rates: of places that have not changed since, what was said
    then is said again.
    """
    rates = rates or Rates()
    known = {id(decision.place): decision for decision in before.decisions} if before else {}
    choices = [choose_files(place, policy, now) for place in health.places]
    fresh = [
        (place, choice)
        for place, choice in zip(health.places, choices, strict=True)
        if choice.which is not Which.NONE and not _said_before(known.get(id(place)), choice)
    ]
    prospects = _prospects(census, fresh, policy, rates) if fresh else {}
    return Judgement(
        health=health,
        decisions=[
            _decision(place, choice, prospects.get(id(place)), known.get(id(place)), policy)
            for place, choice in zip(health.places, choices, strict=True)
        ],
    )


def _said_before(decision: Decision | None, choice: Choice) -> bool:
    return (
        decision is not None
        and decision.chosen
        and (decision.tier, decision.reason)
        == (
            choice.which.tier,
            choice.reason,
        )
    )


def _decision(
    place: Place, choice: Choice, prospect: Prospect | None, before: Decision | None, policy: Policy
) -> Decision:
    if choice.which is Which.NONE:
        return Decision(place=place, chosen=False, reason=choice.reason)
    if prospect is None:
        assert before is not None  # it was said before
        return before
    if not _useful(prospect, policy):
        reason = f"packing would not leave fewer files ({choice.reason})"
        return Decision(place=place, chosen=False, reason=reason, tier=choice.which.tier)
    return Decision(
        place=place,
        chosen=True,
        reason=choice.reason,
        tier=choice.which.tier,
        files=prospect.files,
        bytes=prospect.bytes,
        outputs=prospect.outputs,
        gain=prospect.gain,
        cost=prospect.cost,
    )


def _useful(prospect: Prospect, policy: Policy) -> bool:
    fewer = prospect.outputs < prospect.files
    return prospect.files > 0 and (fewer or prospect.gain.delete_records > 0 or policy.rewrite_all)


def _prospects(
    census: Census, fresh: Sequence[tuple[Place, Choice]], policy: Policy, rates: Rates
) -> Mapping[int, Prospect]:
    """Of some places, by their identity."""
    part = census.only({key for place, _ in fresh for key in place.keys})
    index = {key: at for at, key in enumerate(part.places)}
    tally = Tally(part)
    against = {regroup: why_not_assembled(part.pin, regroup=regroup) for regroup in (False, True)}
    found = {}
    for place, choice in fresh:
        files = np.concatenate([tally.files(index[key]) for key in place.keys])
        found[id(place)] = _prospect(part, place, choice, files, policy, rates, against[place.spread > 0])
    return found


def _prospect(
    census: Census, place: Place, choice: Choice, files: Ints, policy: Policy, rates: Rates, against: str | None
) -> Prospect:
    """By packing the real candidates."""
    touched = census.deletes.touched[files]
    small = census.size[files] < policy.min_file_size
    taken = choice.which.mask(small=small, touched=touched)
    candidates, marked = files[taken], touched[taken]
    order = np.argsort(-census.size[candidates], kind="stable")
    candidates, marked = candidates[order], marked[order]
    sizes = census.size[candidates].tolist()
    units = []
    outputs = 0
    if place.spread:
        for unit in _batches(np.argsort(census.number[candidates], kind="stable").tolist(), sizes, policy):
            pieces = max(place.spread, math.ceil(sum(sizes[at] for at in unit) / policy.target_file_size))
            if pieces < len(unit) or marked[unit].any() or policy.rewrite_all:
                units.append(unit)
                outputs += pieces
    else:
        units = [u for u in pack_sizes(sizes, policy) if policy.rewrite_all or len(u) > 1 or bool(marked[u[0]])]
        outputs = sum(outputs_of(sum(sizes[at] for at in unit), policy) for unit in units)
    inside = candidates[[at for unit in units for at in unit]]
    hit = census.deletes.touched[inside]
    deleted = int(np.count_nonzero(hit))
    share = deleted / max(1, int(np.count_nonzero(touched)))
    size = int(census.size[inside].sum())
    row_groups = census.row_groups[inside]
    whole = (census.size[inside] >= policy.min_row_group_size * row_groups) & ~hit
    copied = 0 if policy.recode else int(census.size[inside][whole].sum())
    chosen = cheapest(
        census.pin, policy, rates, against, files=len(inside), units=len(units), bytes=size, copied=copied
    )
    return Prospect(
        place=place,
        choice=choice,
        files=len(inside),
        bytes=size,
        outputs=outputs,
        gain=make_gain(
            files=len(inside) - outputs,
            row_groups=max(0, int(row_groups.sum()) - outputs),
            delete_files=round(share * place.facts.all_delete_files),
            delete_records=round(share * place.facts.all_delete_records),
        ),
        cost=chosen.cost,
    )


def _batches(order: Sequence[int], sizes: Sequence[int], policy: Policy) -> Iterator[list[int]]:
    """Files in order, cut where a group may not be larger."""
    batch: list[int] = []
    total = 0
    for at in order:
        if batch and (total + sizes[at] > policy.max_group_size or len(batch) == policy.max_group_files):
            yield batch
            batch, total = [], 0
        batch.append(at)
        total += sizes[at]
    if batch:
        yield batch
