"""Overlap: by a sweep, the same as by looking at every position."""

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.overlap import overlaps
from icepact.model.health import Overlap

Range = tuple[int, int]
RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda r: (r[0], r[0] + r[1])), max_size=25)


def overlap(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> Overlap:
    """Of files that are one group."""
    return overlaps(np.zeros(len(lower), np.int64), lower, upper, groups=1)[0]


def of(ranges: list[Range]) -> Overlap:
    return overlap(np.array([r[0] for r in ranges], np.int64), np.array([r[1] for r in ranges], np.int64))


def looked_at(ranges: list[Range]) -> Overlap:
    """In other words than the code's: count what lies over each position, for integers."""

    def inside(position: float) -> int:
        return sum(lower < position < upper for lower, upper in ranges)

    depths = [
        1 + inside(lower) if lower == upper else (inside(lower + 0.5) + inside(upper - 0.5)) / 2
        for lower, upper in ranges
    ]
    deepest = [inside(position + 0.5) for position in range(20)]
    deepest += [1 + inside(lower) for lower, upper in ranges if lower == upper]
    average = sum(depths) / len(depths) if depths else 0.0
    return Overlap(average=average, maximum=max(deepest) if ranges else 0, files=len(ranges))


@given(RANGES)
def test_the_sweep_finds_what_is_there(ranges: list[Range]) -> None:
    found, expected = of(ranges), looked_at(ranges)
    assert found.average == pytest.approx(expected.average)
    assert found.maximum == expected.maximum
    assert not ranges or 1 <= found.average <= found.maximum <= len(ranges)


@given(st.lists(RANGES, min_size=1, max_size=4), st.randoms())
def test_groups_do_not_see_each_other(groups: list[list[Range]], dice: random.Random) -> None:
    files = [(number, *ranges) for number, group in enumerate(groups) for ranges in group]
    dice.shuffle(files)
    number, lower, upper = (np.array([file[at] for file in files], np.int64) for at in range(3))
    assert overlaps(number, lower, upper, groups=len(groups)) == [of(group) for group in groups]


@given(RANGES)
def test_neither_order_nor_direction_matters(ranges: list[Range]) -> None:
    mirrored = [(-upper, -lower) for lower, upper in reversed(ranges)]
    assert of(mirrored).maximum == of(ranges).maximum
    assert of(mirrored).average == pytest.approx(of(ranges).average)


@given(RANGES, st.tuples(st.integers(0, 6), st.integers(6, 18)))
def test_another_file_never_makes_it_shallower(ranges: list[Range], another: Range) -> None:
    assert of([*ranges, another]).maximum >= of(ranges).maximum


@pytest.mark.parametrize(
    ("ranges", "average", "maximum"),
    [
        ([], 0, 0),
        ([(1, 9)], 1, 1),
        ([(1, 3), (4, 6), (7, 9)], 1, 1),
        ([(1, 3), (3, 6), (6, 9)], 1, 1),
        ([(5, 5)] * 10, 1, 1),
        ([(1, 9)] * 4, 4, 4),
        ([(1, 5), (3, 9)], 1.5, 2),
        ([(1, 9), (4, 4)], 1.5, 2),
        ([(1, 9), (1, 1), (9, 9)], 1, 1),
    ],
)
def test_exact_depths(ranges: list[Range], average: float, maximum: int) -> None:
    assert of(ranges) == Overlap(average=average, maximum=maximum, files=len(ranges))


def test_keys_of_any_type_with_an_order() -> None:
    bounds = [("apple", "kiwi"), ("grape", "pear"), ("plum", "quince")]
    words = [np.array(column) for column in zip(*bounds, strict=True)]
    objects = [column.astype(object) for column in words]
    days = [np.array(column, "M8[D]") for column in (["2026-01-01", "2026-01-05"], ["2026-01-06", "2026-01-09"])]
    assert overlap(*words) == overlap(*objects) == Overlap(average=4 / 3, maximum=2, files=3)
    assert overlap(*days) == Overlap(average=1.5, maximum=2, files=2)


def test_bounds_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="above its upper"):
        of([(3, 2)])
    with pytest.raises(ValueError, match="2 lower and 1 upper"):
        overlap(np.array([1, 2]), np.array([3]))
