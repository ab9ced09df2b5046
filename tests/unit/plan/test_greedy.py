"""Greedy choice: never above a limit, nothing that still fits is left, and not far below the best there is."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.limits import NO_DEMAND, Demand, Limit, Resource
from icepact.plan.greedy import Budget, Item, choose

demands = st.builds(
    Demand,
    files=st.integers(0, 100),
    bytes=st.integers(0, 1000),
    seconds=st.floats(0, 10),
    money=st.integers(0, 40).map(lambda cents: cents / 100),
)
item_lists = st.lists(st.builds(Item, gain=st.floats(0, 1000), demand=demands), min_size=1, max_size=9)
budgets = st.lists(st.tuples(st.sampled_from(Resource), st.floats(0, 1.1)), min_size=1, max_size=4)


def limit(resource: Resource, amount: float) -> Limit:
    """A limit with the name of what it limits."""
    return Limit(resource=resource, amount=amount, name=resource.value)


def shares(items: Sequence[Item], given_: Sequence[tuple[Resource, float]]) -> list[Limit]:
    """Limits that allow these shares of all items."""
    return [limit(resource, share * sum(item.demand.of(resource) for item in items)) for resource, share in given_]


def of_files(*pairs: tuple[float, int]) -> list[Item]:
    """Items of some gain and so many files each."""
    return [Item(gain=gain, demand=Demand(files=files)) for gain, files in pairs]


def fit(items: Sequence[Item], limits: Sequence[Limit]) -> bool:
    """Whether items are within each limit together; in another order a sum may be a billionth more."""
    return all(sum(i.demand.of(one.resource) for i in items) <= one.amount * (1 + 1e-9) for one in limits)


def the_best(items: Sequence[Item], limits: Sequence[Limit]) -> float:
    """By trying every choice."""
    choices = ([i for i, yes in zip(items, mask, strict=True) if yes] for mask in product((0, 1), repeat=len(items)))
    return max(sum(i.gain for i in chosen) for chosen in choices if fit(chosen, limits))


@given(item_lists, budgets)
def test_no_limit_is_exceeded_and_nothing_that_fits_is_left(
    items: list[Item], given_: list[tuple[Resource, float]]
) -> None:
    limits = shares(items, given_)
    taken = choose(items, Budget(limits))
    assert list(taken) == sorted(taken)
    assert fit(list(taken.values()), limits)
    closer = [replace(one, amount=one.amount * (1 - 3e-9)) for one in limits]
    for number, item in enumerate(items):
        assert number in taken or not fit([*taken.values(), item], closer)


@given(item_lists, st.sampled_from(Resource), st.floats(0, 1))
def test_half_of_the_best_under_one_limit(items: list[Item], resource: Resource, share: float) -> None:
    limits = shares(items, [(resource, share)])
    gain = sum(item.gain for item in choose(items, Budget(limits)).values())
    assert gain >= the_best(items, [replace(one, amount=one.amount * (1 - 3e-9)) for one in limits]) / 2 * (1 - 1e-8)


@given(item_lists, budgets)
def test_half_of_the_best_for_each_limit(items: list[Item], given_: list[tuple[Resource, float]]) -> None:
    """What passes one of several limits takes at least the whole of it, and nothing can take more than all of them."""
    limits = shares(items, given_)
    gain = sum(item.gain for item in choose(items, Budget(limits)).values())
    best = the_best(items, [replace(one, amount=one.amount * (1 - 3e-9)) for one in limits])
    assert gain >= best / (2 * len(limits)) * (1 - 1e-8)


@pytest.mark.parametrize(
    ("pairs", "most", "taken"),
    [
        pytest.param([(6, 3), (5, 5), (1, 4)], 9, [0, 1], id="the densest"),
        pytest.param([(3, 6), (2, 2), (2, 2)], 6, [1, 2], id="not the largest"),
        pytest.param([(6, 3), (5, 7), (1, 4)], 9, [0, 2], id="and what still fits"),
        pytest.param([(2, 1), (9, 9), (1, 9)], 9, [1], id="one that brings more than they do"),
        pytest.param([(2, 1), (9, 7), (4, 3), (1, 2)], 9, [0, 1], id="one of them, and what fits beside it"),
        pytest.param([(1, 3), (1, 3), (1, 3)], 6, [0, 1], id="of equal ones the first"),
        pytest.param([(0, 2), (0, 2)], 3, [0], id="what brings nothing and fits"),
        pytest.param([(1, 2), (0, 0)], 0, [1], id="what takes nothing"),
        pytest.param([(1, 2), (0, 0)], -5, [1], id="what takes nothing, from less than nothing"),
        pytest.param([], 0, [], id="nothing"),
    ],
)
def test_what_is_taken(pairs: list[tuple[float, int]], most: int, taken: list[int]) -> None:
    assert list(choose(of_files(*pairs), Budget([limit(Resource.FILES, most)]))) == taken


@pytest.mark.parametrize(
    ("pairs", "most", "files"),
    [
        pytest.param([(6, 3), (5, 7), (1, 4)], 9, {0: 3, 1: 6}, id="in its turn, where that brings more"),
        pytest.param([(8, 4), (3, 3), (2, 2)], 6, {0: 4, 2: 2}, id="not where whole ones bring as much"),
        pytest.param([(8, 4), (9, 9)], 6, {0: 4, 1: 2}, id="after what fits whole"),
    ],
)
def test_items_that_can_be_cut(pairs: list[tuple[float, int]], most: int, files: dict[int, int]) -> None:
    def cut(item: Item, used: Demand) -> Item | None:
        left = most - used.files
        return Item(gain=item.gain * left / item.demand.files, demand=Demand(files=left)) if left else None

    taken = choose(of_files(*pairs), Budget([limit(Resource.FILES, most)]), cut)
    assert {number: item.demand.files for number, item in taken.items()} == files


def test_of_several_limits_of_one_resource_the_least_holds() -> None:
    budget = Budget([limit(Resource.FILES, 9), Limit(resource=Resource.FILES, amount=5, name="less")])
    assert list(choose(of_files((1, 5), (9, 6)), budget)) == [0]
    assert budget.reason(Demand(files=6)) == "over the budget (less)"
    assert budget.reason(Demand(files=10)) == "over the budget (files, less)"
    assert Budget([]).allows(Demand(files=10**9))
    assert sum((item.demand for item in of_files((1, 2), (1, 3))), NO_DEMAND) == Demand(files=5)
