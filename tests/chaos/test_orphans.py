"""Finished files of a run are removed before they are committed: they never become part of the table."""

import pytest
from pyspark.sql import SparkSession

from tests.chaos.orphans import OrphanTrials


@pytest.fixture(scope="module")
def trials(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> OrphanTrials:
    """Tables in a catalog of their own."""
    return OrphanTrials(tmp_path_factory.mktemp("orphans"))


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, id="during the run"),
        pytest.param(2, id="before it is resumed", marks=pytest.mark.matrix),
    ],
)
def test_files_are_removed(trials: OrphanTrials, number: int) -> None:
    entry = trials.trial(number, seed=7)
    assert entry["clean"], entry
    assert entry["hit"], entry
