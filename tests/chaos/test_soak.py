"""A few cycles of the soak: writers and other compactors all the while, and every row right in the end."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.soak import Soak


@pytest.fixture(scope="module")
def soak(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Soak:
    """Everybody, in a warehouse of their own."""
    return Soak(tmp_path_factory.mktemp("soak"), seed=7)


@pytest.mark.parametrize("number", [0, 1], ids=["v2", "v3"])
def test_rows_are_right_after_a_cycle(soak: Soak, number: int) -> None:
    entry = soak.cycle(number, seconds=2, kills=False)
    assert entry["clean"], entry
    assert sum(entry["writes"].values()) >= 1
    assert sum(entry["runs"].values()) >= 1


def test_the_oracle_notices(soak: Soak, tmp_path: Path) -> None:
    """What is wrong in either direction is found: without that, no cycle proves anything."""
    world = soak.world(0)
    kept = dict(world.rows)
    first, second, third = sorted(kept)[:3]
    del world.rows[first]
    world.rows[10**9] = dict(kept[second])
    world.rows[third] = {**kept[third], 3: "another text"}
    found = world.compare()
    world.rows = kept
    assert (found.resurrected, found.lost, found.changed, found.duplicated) == (1, 1, 1, 0)
    assert world.compare().changed == 0
