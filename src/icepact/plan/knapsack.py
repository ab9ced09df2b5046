"""Which items to take, so that they fit and bring the most.

Greedy by gain for weight first. If that is not within a thousandth of what any choice can reach, branch and bound looks
for better ones, for a bounded number of steps. Several limits are weighed into one for the order and for the bound;
what is taken is held against each of them. Thousands of small items need no search: there the greedy choice is about as
good as the bound.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_GOOD_ENOUGH = 1.001
_MOST_STEPS = 3_000
_WEIGHINGS = 20
_TRIED = 3
"""Of the weighings, those with the lowest bounds."""
_STAGES = 40

Weights: TypeAlias = tuple[float, ...]
"""Of one item, one number for each limit; or the limits themselves."""
_Floats: TypeAlias = npt.NDArray[np.float64]


def best_choice(gains: Sequence[float], weights: Sequence[Weights], limits: Weights) -> list[int]:
    """Numbers of the items to take, ascending. The same items in the same order give the same choice."""
    free = [i for i, weight in enumerate(weights) if not any(weight)]
    items = [i for i, weight in enumerate(weights) if any(weight) and gains[i] > 0 and fits(weight, limits)]
    if not items:
        return free
    chosen = _Search([gains[i] for i in items], [weights[i] for i in items], limits).run()
    return sorted([*free, *(items[i] for i in chosen)])


def fits(weight: Weights, room: Weights) -> bool:
    """Whether something is within each limit."""
    return all(w <= r for w, r in zip(weight, room, strict=True))


def plus(a: Weights, b: Weights) -> Weights:
    """Both together."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


class _Search:
    """Items that fit alone, have a weight and bring something."""

    def __init__(self, gains: Sequence[float], weights: Sequence[Weights], limits: Weights) -> None:
        self._gains = gains
        self._weights = weights
        self._limits = limits
        self._gain_array = np.array(gains)
        self._shares = np.array(weights) / [limit if limit > 0 else 1.0 for limit in limits]
        """Of each item in each limit; a limit of zero is met by items without such a weight only."""
        self.best = 0.0
        self.chosen: list[int] = []

    def run(self) -> list[int]:
        weighings = sorted(self._weighings(), key=lambda weighing: weighing[0])
        bound, factors = weighings[0]
        for order in (*(self._order(f) for _, f in weighings[:_TRIED]), np.argsort(-self._gain_array, kind="stable")):
            self._greedy(order.tolist())
        if len(self._limits) > 1:
            self._greedy_in_stages()
        if self.best * _GOOD_ENOUGH < bound:
            self._branch_and_bound(factors)
        return self.chosen

    # -- several limits as one ------------------------------------------------------------------------

    def _weighings(self) -> Iterator[tuple[float, _Floats]]:
        """What can be reached at most if the limits are weighed like this; scarcer ones weigh more from try to try."""
        several = self._shares.shape[1]
        factors = np.full(several, 1 / several)
        for number in range(_WEIGHINGS if several > 1 else 1):
            order = self._order(factors)
            weight = (self._shares @ factors)[order]
            parts = np.clip((1.0 - np.concatenate(([0.0], np.cumsum(weight)[:-1]))) / np.maximum(weight, 1e-300), 0, 1)
            yield float(parts @ self._gain_array[order]), factors
            used = parts @ self._shares[order]
            factors = factors * np.clip(used, 0.2, 5) ** (1 / (1 + max(0, number - 8) / 2))
            factors = factors / factors.sum()

    def _order(self, factors: _Floats) -> npt.NDArray[np.intp]:
        density = self._gain_array / np.maximum(self._shares @ factors, 1e-300)
        return np.argsort(-density, kind="stable")

    # -- choosing -------------------------------------------------------------------------------------

    def _greedy(self, order: Sequence[int]) -> None:
        used: Weights = (0.0,) * len(self._limits)
        chosen, gain = [], 0.0
        for i in order:
            after = plus(used, self._weights[i])
            if fits(after, self._limits):
                used = after
                chosen.append(i)
                gain += self._gains[i]
        if gain > self.best:
            self.best, self.chosen = gain, chosen

    def _greedy_in_stages(self) -> None:
        """By gain for what is left of each limit, weighed anew after every few items: so that none is used up early."""
        weights, limits = np.array(self._weights, dtype=float), np.array(self._limits, dtype=float)
        used = np.zeros(len(limits))
        waiting = np.arange(len(weights))
        chosen: list[int] = []
        while waiting.size:
            left = limits - used
            share = (weights[waiting] / np.maximum(left, 1e-300)).sum(axis=1)
            waiting = waiting[np.argsort(-self._gain_array[waiting] / np.maximum(share, 1e-300), kind="stable")]
            taken = np.zeros(waiting.size, dtype=bool)
            for at, i in enumerate(waiting[: 1 + len(weights) // _STAGES].tolist()):
                if (used + weights[i] <= limits).all():
                    used = used + weights[i]
                    chosen.append(i)
                    taken[at] = True
            waiting = waiting[~taken]
            waiting = waiting[(used + weights[waiting] <= limits).all(axis=1)]
        gain = sum(self._gains[i] for i in chosen)
        if gain > self.best:
            self.best, self.chosen = gain, chosen

    def _branch_and_bound(self, factors: _Floats) -> None:
        """Depth first in the order of density: with an item, then without it."""
        order = self._order(factors).tolist()
        weight = (self._shares @ factors)[order]
        weights = [0.0, *np.cumsum(weight).tolist()]
        gains = [0.0, *np.cumsum(self._gain_array[order]).tolist()]
        path: list[tuple[int, Weights, float, float]] = []  # position, and what was used and gained before it
        used: Weights = (0.0,) * len(self._limits)
        filled = gain = 0.0
        at = 0
        for _ in range(_MOST_STEPS):
            if at < len(order) and self._promising(gain, at, 1.0 - filled, weights, gains):
                after = plus(used, self._weights[order[at]])
                if fits(after, self._limits):
                    path.append((at, used, filled, gain))
                    used, filled, gain = after, filled + weight[at], gain + self._gains[order[at]]
                    if gain > self.best:
                        self.best, self.chosen = gain, [order[position] for position, *_ in path]
                at += 1
            elif path:
                at, used, filled, gain = path.pop()
                at += 1
            else:
                return

    def _promising(self, gain: float, at: int, room: float, weights: Sequence[float], gains: Sequence[float]) -> bool:
        """Whether the items from a position on could still lead to something better; the last of them may be cut."""
        full = bisect_right(weights, weights[at] + room, at) - 1
        bound = gain + gains[full] - gains[at]
        if full + 1 < len(weights):
            left = weights[at] + room - weights[full]
            bound += (gains[full + 1] - gains[full]) * left / (weights[full + 1] - weights[full])
        return bound > self.best * _GOOD_ENOUGH
