"""Which places to compact, with gain and price, from the census alone: files are listed only for what is chosen."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from icepact.model.census import Census, Flags, Ints, Tally
from icepact.model.decision import Decision, Judgement
from icepact.model.health import Health, Place
from icepact.model.outlook import Outlook
from icepact.model.plan import Method
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.rates import Rates
from icepact.plan.choosing import choice_is_enough, choose_files, idle_deletes
from icepact.plan.gain import make_gain
from icepact.plan.methods import cheapest, why_not_assembled
from icepact.plan.offers import best_offer, other_tasks, tasks_of
from icepact.plan.packing import outputs_of, pack_sizes, trusted
from icepact.plan.prospect import Prospect
from icepact.plan.strategies.choice import Choice, Which


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided:
    """A judgement, and by what it was made."""

    judgement: Judgement
    policy: Policy
    rates: Rates
    prices: Prices
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
    same = before is not None and (before.policy, before.rates, before.prices) == (policy, rates, paying)
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
        offers |= _Packing(census, policy, rates, paying).prospects(fresh)
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
    return Decided(judgement=judgement, policy=policy, rates=rates, prices=paying, offers=offers)


def _decision(
    place: Place, choice: Choice, offers: Sequence[Prospect], outlook: Outlook, policy: Policy, tasks: int
) -> Decision:
    told = [
        replace(offer, choice=depth, other_tasks=other_tasks(tasks, place, offer.bytes))
        for offer, depth in zip(offers, (choice, *choice.others), strict=True)
    ]
    useful = [offer for offer in told if _useful(offer, policy)]
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


def _useful(prospect: Prospect, policy: Policy) -> bool:
    if not prospect.files:
        return False
    return prospect.outputs < prospect.files or prospect.touched > 0 or choice_is_enough(prospect.choice, policy)


class _Packing:
    """Packs the real candidates of places, from their sizes."""

    def __init__(self, census: Census, policy: Policy, rates: Rates, prices: Prices) -> None:
        self._census = census
        self._policy = policy
        self._rates = rates
        self._prices = prices
        self._own = list(census.pin.own_sequence_numbers)
        self._against = {regroup: why_not_assembled(census.pin, regroup=regroup) for regroup in (False, True)}

    def prospects(self, fresh: Sequence[tuple[Place, Choice]]) -> Mapping[tuple[int, Which], Prospect]:
        """Of some places, by their identity and by depth."""
        part = self._census.only({key for place, _ in fresh for key in place.keys})
        index = {key: at for at, key in enumerate(part.places)}
        tally = Tally(part)
        return {
            (id(place), choice.which): self._prospect(
                part, place, choice, np.concatenate([tally.files(index[key]) for key in place.keys])
            )
            for place, choice in fresh
        }

    def _prospect(self, census: Census, place: Place, choice: Choice, files: Ints) -> Prospect:
        policy = self._policy
        touched = census.deletes.touched[files]
        taken = files[choice.which.mask(census.size[files], threshold=policy.min_file_size, touched=touched)]
        method, ratio = self._method(census, place, taken)
        sizes = self._merged(census, taken, method, ratio)
        order = np.lexsort((-census.size[taken], -sizes))
        taken, falling = taken[order], sizes[order].tolist()
        enough = choice_is_enough(choice, policy)
        units, outputs = self._units(census, place, taken, falling, ratio, enough=enough)
        inside = taken[[at for unit in units for at in unit]]
        hit = int(np.count_nonzero(census.deletes.touched[inside]))
        if hit == int(np.count_nonzero(touched)):
            delete_files, delete_records = place.facts.all_delete_files, place.facts.all_delete_records
        else:  # what is not bound to a file still applies to those that stay
            delete_files, delete_records = census.deletes.bound_to(inside)
        copied = int(census.size[inside][self._copied(census, inside)].sum())
        size = int(census.size[inside].sum())
        chosen = cheapest(
            census.pin,
            policy,
            self._rates,
            self._prices,
            against=self._against[place.spread > 0],
            files=len(inside),
            units=len(units),
            copied=copied,
            encoded=size - copied,
            outputs=outputs,
        )
        return Prospect(
            place=place,
            choice=choice,
            files=len(inside),
            bytes=size,
            outputs=outputs,
            gain=make_gain(
                files=len(inside) - outputs,
                row_groups=max(0, int(census.row_groups[inside].sum()) - outputs),
                delete_files=delete_files,
                delete_records=delete_records,
                idle=idle_deletes(choice, place),
            ),
            cost=chosen.cost,
            touched=hit,
        )

    def _units(
        self, census: Census, place: Place, taken: Ints, sizes: Sequence[int], ratio: float, *, enough: bool
    ) -> tuple[list[list[int]], int]:
        """Units that are worth writing, and the files they become."""
        policy, touched = self._policy, census.deletes.touched[taken]
        if not place.spread:
            packed = pack_sizes(sizes, policy, ratio)
            units = [u for u in packed if enough or len(u) > 1 or bool(touched[u[0]])]
            return units, sum(outputs_of(sum(sizes[at] for at in unit), policy) for unit in units)
        units = []
        outputs = 0
        in_order = np.argsort(census.number[taken], kind="stable").tolist()
        for unit in _batches(in_order, census.size[taken].tolist(), policy):
            pieces = max(place.spread, math.ceil(sum(sizes[at] for at in unit) / policy.target_file_size))
            if pieces < len(unit) or touched[unit].any() or enough:
                units.append(unit)
                outputs += pieces
        return units, outputs

    def _method(self, census: Census, place: Place, taken: Ints) -> tuple[Method, float]:
        """How these files are likely to be rewritten, and how much smaller that makes what is encoded anew."""
        if all(self._rates.ratio(method) == 1.0 for method in Method) or not len(taken):
            return Method.ASSEMBLE, 1.0
        copied = int(census.size[taken][self._copied(census, taken)].sum())
        method = cheapest(
            census.pin,
            self._policy,
            self._rates,
            self._prices,
            against=self._against[place.spread > 0],
            files=len(taken),
            units=1,
            copied=copied,
            encoded=int(census.size[taken].sum()) - copied,
        ).method
        return method, trusted(self._rates.ratio(method), self._policy)

    def _merged(self, census: Census, taken: Ints, method: Method, ratio: float) -> Ints:
        """Bytes of each file's share of an output. What a run of ours wrote does not shrink once more."""
        sizes = census.size[taken]
        if ratio == 1.0:
            return sizes
        whole = np.isin(census.number[taken], self._own)
        if method is not Method.SPARK:
            whole |= self._copied(census, taken)
        return np.where(whole, sizes, np.ceil(sizes * ratio).astype(np.int64))

    def _copied(self, census: Census, files: Ints) -> Flags:
        """Of these files: whether their row groups are probably copied, large as they are and without deletes."""
        if self._policy.recode:
            return np.zeros(len(files), np.bool_)
        large = census.size[files] >= self._policy.min_row_group_size * census.row_groups[files]
        copied: Flags = large & ~census.deletes.touched[files]
        return copied


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
