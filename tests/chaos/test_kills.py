"""The driver is killed at every named step; then the run is resumed, or cleaned up, and nothing is lost or left."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.progress import STEPS
from tests.chaos.judge import RECOVERIES
from tests.chaos.kills import add_mess, kill_once, make_table, named_kills

FEW = ("attempting", "landed")
"""Before and after a commit is under way; the orders of all other events are searched in the model of the protocol."""


@pytest.mark.parametrize("version", [2, 3])
def test_kills_around_the_commit(compactor: Compactor, spark: SparkSession, table: str, version: int) -> None:
    """Each of the few steps once in all, half of them on each version; one is resumed, one cleaned up."""
    make_table(spark, table, version)
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    start = 0
    some = [how for how in named_kills()[: len(STEPS)] if how["step"] in FEW]
    assert len(some) == len(FEW)
    for number, how in list(enumerate(some))[version % 2 :: 2]:
        start = add_mess(spark, table, start)
        kill = kill_once(compactor, spark, Path(warehouse), table, how, recovery=RECOVERIES[number % 2])
        assert kill.clean, kill
        assert kill.hit, kill


@pytest.mark.matrix
@pytest.mark.parametrize("version", [2, 3])
def test_kills_at_every_step(compactor: Compactor, spark: SparkSession, table: str, version: int) -> None:
    """Each step once in all, half of them on each version, by turns resumed and cleaned up."""
    make_table(spark, table, version)
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    start = 0
    reached = set()
    for number, how in enumerate(named_kills()[: len(STEPS)]):
        if number % 2 != version % 2:
            continue
        start = add_mess(spark, table, start)
        kill = kill_once(compactor, spark, Path(warehouse), table, how, recovery=RECOVERIES[number // 2 % 2])
        assert kill.clean, kill
        assert kill.hit, kill
        reached.add(how["step"])
    assert len(reached) >= len(STEPS) // 2
