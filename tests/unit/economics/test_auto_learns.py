"""`auto` with lessons against `auto` without, in the simulator."""

import os
from functools import cache

import pytest

from tests.support.simulator import WORLDS, Compared, Simulation, World, compare, taught

SEEDS = range(4 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 2)


@cache
def compared(world: World) -> Compared:
    """Each world once."""
    return compare(world, taught, SEEDS)


@pytest.mark.parametrize("world", [w for w in WORLDS if w.wrong], ids=lambda w: w.name)
def test_where_the_model_is_wrong_learning_brings_a_tenth_more_gain_for_the_money(world: World) -> None:
    """And not by doing next to nothing: more is left of what scans save, too."""
    found = compared(world)
    assert found.ratio >= world.bar == 1.10
    assert found.after.left > found.before.left


@pytest.mark.parametrize("world", [w for w in WORLDS if not w.wrong], ids=lambda w: w.name)
def test_elsewhere_learning_costs_next_to_nothing(world: World) -> None:
    found = compared(world)
    assert found.ratio >= world.bar == 0.98
    assert found.after.left >= 0.98 * found.before.left


def test_a_world_is_the_same_each_time() -> None:
    first, second = (Simulation(WORLDS[0], 1, taught).run() for _ in range(2))
    assert first == second
