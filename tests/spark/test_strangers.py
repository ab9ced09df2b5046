"""Who may have work done on one table learns nothing of others by it, and does nothing to them."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.maintain.housekeeping import orphans_step, plan_chore
from icepact.model.errors import BadInput
from icepact.model.orphans import OrphanFile, RemoveOrphans
from icepact.model.status import Status
from icepact.policy.options import Options
from tests.spark.test_orphans import orphaned
from tests.support.histories import History
from tests.support.reach import location_of


def test_a_predicate_is_about_rows_of_its_table(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """The same words for tables that are there and for those that are not, whatever a subquery looks like."""
    mine = History(compactor, f"{namespace}.mine", 1, version=2).table
    spark.sql(f"CREATE TABLE {namespace}.theirs (secret bigint) USING iceberg")
    refused = set()
    for other in (f"{namespace}.theirs", f"{namespace}.nowhere"):
        for predicate in (
            "id IN (SELECT secret FROM {})",
            "EXISTS (SELECT 1 FROM {})",
            "id > (SELECT max(secret) FROM {})",
            "id = 1 OR NOT (id IN (FROM {} SELECT secret))",
            "id IN (TABLE {})",
            "(WITH x AS (SELECT secret FROM {}) SELECT count(*) FROM x) > 0",
        ):
            text = predicate.format(other)
            with pytest.raises(BadInput) as told:
                compactor.plan(mine, where=text)
            refused.add(str(told.value).replace(repr(text), "..."))
    assert refused == {"where ...: it is about rows of this table, and takes no subqueries"}
    assert compactor.plan(mine, where="id IN (1, 2) AND id > 0").table == mine


def test_an_edited_list_of_orphans_takes_nothing_from_a_folder_that_it_leaves_alone(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    table = History(compactor, f"{namespace}.t", 1, version=2).table
    folder = location_of(spark, table)
    [lost] = orphaned(folder, ["data/lost.parquet"])
    inner = f"{namespace}.inner"
    spark.sql(f"CREATE TABLE {inner} (id bigint) USING iceberg LOCATION '{folder}/inner'")
    spark.sql(f"INSERT INTO {inner} VALUES (1)")
    [live] = (folder / "inner" / "data").glob("*.parquet")
    made = plan_chore(
        compactor.application.context(table),
        table,
        Options(),
        "orphans",
        orphans_step([f"{folder}/inner"]),
        allow_young=False,
    )
    [step] = made.chores
    assert isinstance(step, RemoveOrphans)
    more = OrphanFile(str(live), live.stat().st_size, 0)
    edited = replace(made, steps=(replace(step, paths=(*step.paths, more)),))
    refused = compactor.apply(edited)
    assert refused.status is Status.FAILED
    assert "is in a folder that the plan leaves alone" in (refused.error or "")
    assert (live.exists(), Path(lost).exists()) == (True, True)
    assert compactor.apply(made).status is Status.COMMITTED
    assert spark.table(inner).count() == 1
