"""What only some snapshots need: Java's answer for real tables, the model's, and that of brute force."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.table import reachability
from icepact.iceberg.table.reachability import UnreachableFiles
from icepact.iceberg.table.table import IcebergTable
from tests.support.histories import History
from tests.support.messy import load
from tests.support.reach import local
from tests.support.reach_model import divide, must_stay, should_go
from tests.support.reach_real import real_history


def found_by_java(table: IcebergTable, expired: list[int]) -> set[str]:
    """Data and delete files, and manifests."""
    return {local(file.path) for file in UnreachableFiles.of_snapshots(table, expired)}


@pytest.mark.parametrize("version", [*(pytest.param(n, marks=pytest.mark.matrix) for n in (1, 2)), 3])
def test_java_decides_as_the_model_does(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In threads of the process, and in tasks of Spark where there is much to read."""
    lived = History(compactor, f"{namespace}.t", 10 + version, version=version)
    happened = lived.happen(22)
    table = compactor.application.spark_catalog.table(lived.table)
    history = real_history(spark, lived.table)
    ids, choices = list(history.snapshots), random.Random(version)
    assert len(ids) > 8
    for number in range(25):
        share = choices.choice([0.2, 0.5, 0.9])
        monkeypatch.setattr(reachability, "MOST_HERE", 0 if number % 5 == 0 else 1_000)
        expired = ids[: 1 + number % len(ids)] if number % 2 else [one for one in ids if choices.random() < share]
        found = found_by_java(table, expired)
        assert found == divide(history, expired).goes, (happened, expired)
        assert found & must_stay(history, expired) == set(), (happened, expired)
        assert found == should_go(history, expired), (happened, expired)


def test_a_file_that_was_added_twice_and_removed_once(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """Iceberg forbids nobody to add it twice, and removes it only from the manifest in which it was found."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id bigint) USING iceberg")
    for first in (0, 10):
        spark.range(first, first + 10, 1, 1).writeTo(name).append()
    loaded = load(spark, f"local.{name}")
    twice = next(_files(loaded))
    loaded.newFastAppend().appendFile(twice).commit()
    loaded.refresh()
    [_, second] = [file for file in _files(loaded) if str(file.location()) == str(twice.location())]
    loaded.newDelete().deleteFile(second).commit()
    spark.sql(f"REFRESH TABLE {name}")
    spark.range(20, 30, 1, 1).writeTo(name).append()
    history = real_history(spark, name)
    ids = list(history.snapshots)
    table = compactor.application.spark_catalog.table(name)
    assert str(twice.location()) in must_stay(history, ids[:-1])
    assert found_by_java(table, ids[:-1]) == should_go(history, ids[:-1])


def _files(loaded: Any) -> Iterator[Any]:
    """Live data files, as often as they are live."""
    files = loaded.newScan().planFiles().iterator()
    while files.hasNext():
        yield files.next().file()
