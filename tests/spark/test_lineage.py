"""Row lineage of format 3: a row keeps its id and the number of its last change."""

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.oracle import LINEAGE, seen
from tests.support.tables import create
from tests.support.ways import rewritten

COLUMNS = ", ".join(LINEAGE)


@pytest.mark.parametrize(
    ("mode", "way"),
    [
        ("merge-on-read", "copy"),
        ("copy-on-write", "encode"),
        *(pytest.param("merge-on-read", way, marks=pytest.mark.matrix) for way in ("encode", "spark")),
        *(pytest.param("copy-on-write", way, marks=pytest.mark.matrix) for way in ("copy", "spark")),
    ],
)
def test_rows_keep_their_ids(compactor: Compactor, spark: SparkSession, namespace: str, mode: str, way: str) -> None:
    """Rows that were written, updated, and moved by writers and by compaction before."""
    modes = {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
    table = create(spark, f"{namespace}.t", "id bigint, word string", version=3, properties=modes)
    alive: set[int] = set()
    for number in range(2):
        for start in (number * 80, number * 80 + 40):
            rows = spark.range(start, start + 40, 1, 4).selectExpr("id", "'new' AS word")
            rows.writeTo(table).append()
            spark.sql(f"UPDATE {table} SET word = 'changed' WHERE id % 6 = 1 AND id BETWEEN {start} AND {start + 30}")
            spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0 AND id BETWEEN {start} AND {start + 30}")
            alive |= {n for n in range(start, start + 40) if n % 7 or n > start + 30}
        rewritten(compactor, table, way, lineage=True)
    found = spark.sql(f"SELECT count(*), count(DISTINCT {LINEAGE[0]}), count(DISTINCT {LINEAGE[1]}) FROM {table}")
    assert tuple(found.collect()[0]) == (len(alive), len(alive), 8)  # four appends, four updates


def test_upgraded_table_keeps_the_ids_it_got(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """The first commit after the upgrade gives ids to old rows; from then on they stay."""
    table = create(spark, f"{namespace}.t", "id bigint", version=2)
    spark.range(0, 60, 1, 6).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    spark.range(60, 120, 1, 6).writeTo(table).append()

    keeps_rows(compactor, table, lineage=True)

    assert spark.sql(f"SELECT count(*) FROM {table} WHERE {LINEAGE[0]} IS NULL").collect()[0][0] == 0


def test_upgraded_table_without_ids(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Nobody committed since the upgrade, so rows have no ids: our commit gives them some, as any would."""
    table = create(spark, f"{namespace}.t", "id bigint", version=2)
    spark.range(0, 60, 1, 6).writeTo(table).append()
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"REFRESH TABLE {table}")
    assert [tuple(row) for row in spark.sql(f"SELECT DISTINCT {COLUMNS} FROM {table}").collect()] == [(None, None)]

    keeps_rows(compactor, table)

    assert {row[0] for row in spark.sql(f"SELECT {LINEAGE[0]} FROM {table}").collect()} == set(range(60))
    spark.range(60, 120, 1, 6).writeTo(table).append()
    assert seen(spark, table)[0] == 120
    keeps_rows(compactor, table, lineage=True)
