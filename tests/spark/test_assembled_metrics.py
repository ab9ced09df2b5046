"""What is said of assembled files: metrics as the table wants them, names as Iceberg writes them, no order claimed."""

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.manifests import described, manifests_agree
from tests.support.oracle import data_files
from tests.support.tables import create
from tests.support.ways import SEVERAL_ROW_GROUPS, footer, maybe, rewritten

PREFIX = "write.metadata.metrics."
MODES: dict[str, dict[str, str]] = {
    "mixed": {
        "default": "counts",
        "column.text": "truncate(3)",
        "column.blob": "full",
        "column.wide": "none",
        "column.place.city": "truncate(2)",
        "column.tags.element": "none",
    },
    "full": {"default": "full"},
    "none": {"default": "none"},
    "few": {"max-inferred-column-defaults": "3"},
}
VALUES = {
    "id": "id",
    "text": "concat(substr('zyxé日𝄞', int(id % 6) + 1), repeat('é', 20), id)",
    "blob": "concat(X'FFFFFF', encode(repeat('b', 30), 'utf-8'), X'FF')",
    "wide": "id / 3",
    "zero": "IF(id % 2 = 0, -0d, 0d)",
    "nan": "IF(id % 3 = 0, double('NaN'), double(id))",
    "place": f"named_struct('city', {maybe('''concat('city', id)''')})",
    "tags": f"array({maybe('string(id)')}, NULL)",
}
COLUMNS = (
    "id bigint, text string, blob binary, wide double, zero double, nan double, place struct<city: string>,"
    " tags array<string>"
)


@pytest.mark.parametrize(
    "modes", ["mixed", *(pytest.param(name, marks=pytest.mark.matrix) for name in MODES if name != "mixed")]
)
@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.matrix)])
def test_metrics(compactor: Compactor, spark: SparkSession, namespace: str, version: int, modes: str) -> None:
    """Of a file with row groups of both kinds, as much is said as the table wants, and what Iceberg would say."""
    properties = {**SEVERAL_ROW_GROUPS, **{f"{PREFIX}{key}": mode for key, mode in MODES[modes].items()}}
    table = create(spark, f"{namespace}.t", COLUMNS, version=version, properties=properties)
    values = [f"IF(id % 7 = 5, NULL, {value}) AS {name}" for name, value in VALUES.items()]
    values[0] = f"{maybe('id')} AS id"
    spark.range(0, 200, 1, 5).selectExpr(*values).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 4, 100)")

    rewritten(compactor, table, "copy", lineage=version == 3, copied=8, encoded=2)

    [told] = described(spark, table).values()
    if modes == "mixed":
        ids = {name: n for n, name in enumerate(VALUES, 1)}
        assert set(told["lower-bounds"]) == {ids["text"], ids["blob"], 9}
        assert ids["wide"] not in told["value-counts"]
        assert told["lower-bounds"][9] == b"ci".hex().upper()
    assert 6 not in told["lower-bounds"], "NaN"
    manifests_agree(spark, table)


ODD = ["a.b", "é x", "1st", "a-b", "日本", "semi;colon", "𝄞", "𝐀", "_x", "Upper", "quote'", 'double"']


@pytest.mark.parametrize("way", ["copy", "encode"])
def test_odd_names(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """Columns are called in new files as Iceberg's own writer called them in old ones."""
    columns = ", ".join(f"`{name}` string" for name in ODD)
    table = create(spark, f"{namespace}.t", f"id bigint, {columns}, `s.t` struct<`in.ner`: int>")
    values = [f"{maybe('string(id)')} AS `{name}`" for name in ODD]
    inner = maybe(f"named_struct('in.ner', {maybe('int(id)')})")
    rows = spark.range(0, 100, 1, 5).selectExpr(f"{maybe('id')} AS id", *values, f"{inner} AS `s.t`")
    rows.writeTo(table).append()
    before = [leaf.path for leaf in footer(data_files(spark, table)[0]).leaves]

    rewritten(compactor, table, way, copied=5 if way == "copy" else 0, encoded=0 if way == "copy" else 1)

    [path] = data_files(spark, table)
    assert [leaf.path for leaf in footer(path).leaves] == before
    manifests_agree(spark, table)
    assert spark.table(table).where("`a.b` = '7' AND `𝄞` = '7' AND `s.t`.`in.ner` = 7").count() == 1


def test_order_is_not_claimed(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Sorted inputs one after the other are not sorted, and nobody says that they are."""
    table = create(spark, f"{namespace}.t", "id bigint, text string")
    spark.sql(f"ALTER TABLE {table} WRITE ORDERED BY id")
    for number in range(5):
        values = f"{maybe('id')} AS id", f"{maybe('string(id)')} AS text"
        spark.range(number, 100, 5, 1).selectExpr(*values).writeTo(table).append()
    claims = f"SELECT DISTINCT sort_order_id FROM {table}.data_files"
    assert [row[0] for row in spark.sql(claims).collect()] == [1]

    rewritten(compactor, table, "copy", copied=5, encoded=0)

    [path] = data_files(spark, table)
    ids = pq.read_table(path)["id"].to_pylist()
    assert ids != sorted(ids)
    assert [row[0] for row in spark.sql(claims).collect()] in ([0], [None])
