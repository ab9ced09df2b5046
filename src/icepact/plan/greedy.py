"""Greedy choice within limits: what brings most for its share of them first, then whatever still fits.

Under one limit it brings at least half of what the best choice would. A search for more would be precise about numbers
that are not: gains and prices are forecasts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from icepact.model.limits import Demand, Limit, Resource

_CLEARLY = 1 + 1e-9
"""Sums of the same gains in another order may differ by less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Something to take or to leave."""

    gain: float
    demand: Demand


T = TypeVar("T", bound=Item)
Cut: TypeAlias = Callable[[T, Demand], T | None]
"""Makes an item small enough to fit beside what is used; `None` if that is impossible or not worth it."""


class Budget:
    """Limits that hold together."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = limits
        self._room: dict[Resource, float] = {}
        """Of each limited resource the least that any limit leaves."""
        for limit in limits:
            least = min(limit.amount, self._room.get(limit.resource, limit.amount))
            self._room[limit.resource] = max(0.0, least)

    def allows(self, demand: Demand) -> bool:
        """Whether a demand is within every limit."""
        return all(demand.of(resource) <= room for resource, room in self._room.items())

    def density(self, gain: float, demand: Demand) -> float:
        """Gain for the share of the limits that a demand takes."""
        share = sum(demand.of(resource) / room for resource, room in self._room.items() if room)
        return gain / share if share else float("inf")

    def reason(self, wanted: Demand) -> str:
        """The limits that do not allow so much."""
        names = [limit.name for limit in self._limits if wanted.of(limit.resource) > limit.amount]
        return over_budget(names or [limit.name for limit in self._limits])


def over_budget(names: Iterable[str]) -> str:
    """Why something is left out."""
    return f"over the budget ({', '.join(names)})"


def choose(items: Sequence[T], budget: Budget, cut: Cut[T] | None = None) -> dict[int, T]:
    """What is taken, by its number among the items, ascending; of equal items those that are given first.

    The densest come first; or the one with the most gain does, if that brings more. Items are cut after all that fits
    whole is taken; or in their turn, if that brings more.
    """
    if budget.allows(Demand.sum(item.demand for item in items)):
        return dict(enumerate(items))
    order = sorted(range(len(items)), key=lambda number: -budget.density(items[number].gain, items[number].demand))
    most = max(order, key=lambda number: (budget.allows(items[number].demand), items[number].gain))
    taken = _better(_fill({}, items, order, budget), _fill({}, items, [most, *order], budget))
    if cut is not None:
        taken = _better(_fill(taken, items, order, budget, cut), _fill({}, items, order, budget, cut))
    return dict(sorted(taken.items()))


def _fill(
    taken: dict[int, T], items: Sequence[T], order: Iterable[int], budget: Budget, cut: Cut[T] | None = None
) -> dict[int, T]:
    """Take what fits beside what is taken already, one item after the other."""
    used = Demand.sum(item.demand for item in taken.values())
    for number in order:
        if number in taken:
            continue
        item: T | None = items[number]
        if not budget.allows(used + items[number].demand):
            item = cut(items[number], used) if cut is not None else None
        if item is not None:
            taken[number] = item
            used += item.demand
    return taken


def _better(one: dict[int, T], other: dict[int, T]) -> dict[int, T]:
    """The one, unless the other brings clearly more."""
    gains = [sum(item.gain for item in taken.values()) for taken in (one, other)]
    return other if gains[1] > gains[0] * _CLEARLY else one
