"""Which places to compact, with gain and price, from the census alone: files are listed only for what is chosen."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np

from icepact.model.census import Census, Flags, Ints, Tally
from icepact.model.decision import Decision, Judgement
from icepact.model.health import Health, Place
from icepact.model.plan import Method
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
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
    prices: Prices | None = None,
    before: Judgement | None = None,
) -> Judgement:
    """What is worth doing about each place.

    `before` is an earlier judgement by the same policy and rates: of places that have not changed since, what was said
    then is said again.
    """
    known = {id(decision.place): decision for decision in before.decisions} if before else {}
    choices = [choose_files(place, policy, now) for place in health.places]
    fresh = [
        (place, choice)
        for place, choice in zip(health.places, choices, strict=True)
        if choice.which is not Which.NONE and not _said_before(known.get(id(place)), choice)
    ]
    paying = (prices or Prices.of(DEFAULT_PRESET)).for_table(census.pin.properties)
    prospects = _Packing(census, policy, rates or Rates(), paying).prospects(fresh) if fresh else {}
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


class _Packing:
    """Packs the real candidates of places, from their sizes."""

    def __init__(self, census: Census, policy: Policy, rates: Rates, prices: Prices) -> None:
        self._census = census
        self._policy = policy
        self._rates = rates
        self._prices = prices
        self._own = [number for run in census.pin.last_runs for number in run.own_sequence_numbers if number]
        self._against = {regroup: why_not_assembled(census.pin, regroup=regroup) for regroup in (False, True)}

    def prospects(self, fresh: Sequence[tuple[Place, Choice]]) -> Mapping[int, Prospect]:
        """Of some places, by their identity."""
        part = self._census.only({key for place, _ in fresh for key in place.keys})
        index = {key: at for at, key in enumerate(part.places)}
        tally = Tally(part)
        return {
            id(place): self._prospect(
                part, place, choice, np.concatenate([tally.files(index[key]) for key in place.keys])
            )
            for place, choice in fresh
        }

    def _prospect(self, census: Census, place: Place, choice: Choice, files: Ints) -> Prospect:
        policy = self._policy
        touched = census.deletes.touched[files]
        taken = files[choice.which.mask(small=census.size[files] < policy.min_file_size, touched=touched)]
        method, ratio = self._method(census, place, taken)
        sizes = self._merged(census, taken, method, ratio)
        order = np.lexsort((-census.size[taken], -sizes))
        taken, falling = taken[order], sizes[order].tolist()
        units, outputs = self._units(census, place, taken, falling, ratio)
        inside = taken[[at for unit in units for at in unit]]
        hit = int(np.count_nonzero(census.deletes.touched[inside]))
        share = hit / max(1, int(np.count_nonzero(touched)))
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
                delete_files=round(share * place.facts.all_delete_files),
                delete_records=round(share * place.facts.all_delete_records),
            ),
            cost=chosen.cost,
        )

    def _units(
        self, census: Census, place: Place, taken: Ints, sizes: Sequence[int], ratio: float
    ) -> tuple[list[list[int]], int]:
        """Units that are worth writing, and the files they become."""
        policy, touched = self._policy, census.deletes.touched[taken]
        if not place.spread:
            packed = pack_sizes(sizes, policy, ratio)
            units = [u for u in packed if policy.rewrite_all or len(u) > 1 or bool(touched[u[0]])]
            return units, sum(outputs_of(sum(sizes[at] for at in unit), policy) for unit in units)
        units = []
        outputs = 0
        in_order = np.argsort(census.number[taken], kind="stable").tolist()
        for unit in _batches(in_order, census.size[taken].tolist(), policy):
            pieces = max(place.spread, math.ceil(sum(sizes[at] for at in unit) / policy.target_file_size))
            if pieces < len(unit) or touched[unit].any() or policy.rewrite_all:
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
        return method, self._rates.ratio(method)

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
