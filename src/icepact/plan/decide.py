"""Which places to compact, with gain and price, from the census alone: files are listed only for what is chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import numpy as np

from icepact.model.census import Census
from icepact.model.decision import Decision, Judgement
from icepact.model.health import Health, Place
from icepact.model.outlook import Outlook
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.rates import Rates
from icepact.model.tally import Tally
from icepact.plan.choosing import choose_files
from icepact.plan.columns import counted_columns
from icepact.plan.groups import Grouping, prospect_of
from icepact.plan.offers import best_offer, other_tasks, tasks_of
from icepact.plan.prospect import Prospect
from icepact.plan.strategies.choice import Choice, Which


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """A judgement, and by what it was made."""

    judgement: Judgement
    policy: Policy
    rates: Rates
    prices: Prices
    outlook: Outlook
    offers: Mapping[tuple[int, Which], Prospect]
    """What could be done with each place, by its identity and depth."""


def decide(
    health: Health,
    census: Census,
    policy: Policy,
    rates: Rates | None = None,
    *,
    prices: Prices | None = None,
    outlook: Outlook,
    before: Decided | None = None,
) -> Decided:
    """What is worth doing about each place.

    `before` is an earlier judgement: if it was made by the same policy, rates and prices, places that have not changed
    since are not packed again.
    """
    rates = rates or Rates()
    paying = (prices or Prices.of(DEFAULT_PRESET)).for_table(census.pin.properties)
    asked = (policy.without_budgets, rates, paying)
    same = before is not None and (before.policy.without_budgets, before.rates, before.prices) == asked
    known = before.offers if before is not None and same else {}
    choices = [choose_files(place, policy, outlook.now) for place in health.places]
    wanted = [
        (place, depth)
        for place, choice in zip(health.places, choices, strict=True)
        if choice.which is not Which.NONE
        for depth in (choice, *choice.others)
    ]
    fresh = [(place, depth) for place, depth in wanted if (id(place), depth.which) not in known]
    offers = {
        (id(place), depth.which): known[id(place), depth.which]
        for place, depth in wanted
        if (id(place), depth.which) in known
    }
    if fresh:
        offers |= _prospects(fresh, census, Grouping(census.pin, policy, rates, paying))
    tasks = tasks_of(health.places)
    decisions = [
        _decision(
            place,
            choice,
            [offers[id(place), depth.which] for depth in (choice, *choice.others)],
            outlook,
            policy,
            tasks,
        )
        if choice.which is not Which.NONE
        else Decision(place=place, chosen=False, reason=choice.reason)
        for place, choice in zip(health.places, choices, strict=True)
    ]
    judgement = Judgement(health=health, decisions=decisions)
    return Decided(judgement=judgement, policy=policy, rates=rates, prices=paying, outlook=outlook, offers=offers)


def _decision(
    place: Place, choice: Choice, offers: Sequence[Prospect], outlook: Outlook, policy: Policy, tasks: int
) -> Decision:
    told = [
        replace(offer, choice=depth, other_tasks=other_tasks(tasks, place, offer.bytes))
        for offer, depth in zip(offers, (choice, *choice.others), strict=True)
    ]
    useful = [offer for offer in told if offer.files]
    if not useful:
        reason = f"packing would not leave fewer files ({choice.reason})"
        return Decision(place=place, chosen=False, reason=reason, tier=choice.which.tier)
    best = best_offer(useful, outlook, policy)
    if isinstance(best, str):
        return Decision(place=place, chosen=False, reason=best, tier=choice.which.tier)
    taken = useful[best]
    return Decision(
        place=place,
        chosen=True,
        reason=taken.choice.reason,
        tier=taken.choice.which.tier,
        files=taken.files,
        bytes=taken.bytes,
        outputs=taken.outputs,
        gain=taken.gain,
        cost=taken.cost,
    )


def _prospects(
    fresh: Sequence[tuple[Place, Choice]], census: Census, grouping: Grouping
) -> Mapping[tuple[int, Which], Prospect]:
    """What could be done with some places, by their identity and depth."""
    part = census.only({key for place, _ in fresh for key in place.keys})
    index = {key: at for at, key in enumerate(part.places)}
    tally = Tally(part)
    found: dict[tuple[int, Which], Prospect] = {}
    for place, some in groupby(fresh, key=itemgetter(0)):
        files = counted_columns(part, np.concatenate([tally.files(index[key]) for key in place.keys]))
        for _, choice in some:
            found[id(place), choice.which] = prospect_of(place, choice, grouping.groups(place, choice, files))
    return found
