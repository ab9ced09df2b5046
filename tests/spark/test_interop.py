"""Tables that others write and read: PyIceberg through the same catalog file, plain Parquet files."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.oracle import data_files, seen
from tests.support.tables import create


@pytest.fixture
def pyiceberg(compactor: Compactor) -> Iterator[SqlCatalog]:
    """PyIceberg on the embedded catalog of the tests."""
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    catalog = SqlCatalog("local", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=str(warehouse))
    yield catalog
    catalog.close()


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "kind", StringType()),
    NestedField(4, "price", DecimalType(12, 2)),
    NestedField(5, "day", DateType()),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False)),
)


def batch(first: int, last: int) -> pa.Table:
    arrow = SCHEMA.as_arrow()
    return pa.Table.from_pylist(
        [
            {
                "id": n,
                "at": datetime(2026, 1, 1 + n % 2, 12, tzinfo=UTC),
                "kind": None if n % 5 == 0 else f"é{n % 2}",
                "price": Decimal(n) / 4,
                "day": date(1960, 1, 1 + n % 28),
                "tags": None if n % 7 == 0 else ["x", None, str(n)],
            }
            for n in range(first, last)
        ],
        schema=arrow,
    )


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "identity"])
def test_table_of_pyiceberg(compactor: Compactor, namespace: str, pyiceberg: SqlCatalog, partitioned: bool) -> None:
    """Written by PyIceberg, compacted by icepact, read by both with equal rows; then written on by PyIceberg."""
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "kind")) if partitioned else PartitionSpec()
    name = f"{namespace}.t"
    table = pyiceberg.create_table(name, SCHEMA, partition_spec=spec, properties={"format-version": "2"})
    for number in range(5):
        table.append(batch(number * 10, number * 10 + 10))
    before = table.scan().to_arrow().sort_by("id").to_pylist()

    outcome = keeps_rows(compactor, name)

    assert (outcome.files_before, outcome.files_after) == ((15, 3) if partitioned else (5, 1))
    table.refresh()
    assert table.scan().to_arrow().sort_by("id").to_pylist() == before
    table.append(batch(50, 60))
    table.delete(EqualTo("id", 3))  # type: ignore[arg-type, call-arg]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [n for n in range(60) if n != 3]
    compactor.spark.catalog.refreshTable(name)  # Spark caches what it knows of a table
    assert seen(compactor.spark, name)[0] == 59


def test_files_without_field_ids(compactor: Compactor, namespace: str, tmp_path: Path) -> None:
    """Plain Parquet files that were taken over are read by the name mapping, also after a rename."""
    spark, table, folder = compactor.spark, f"{namespace}.t", tmp_path / "plain"
    create(spark, table, "id bigint, name string, extra int")
    spark.range(0, 60, 1, 6).selectExpr("id", "concat('n', id) AS name").write.parquet(str(folder))
    spark.sql(f"CALL local.system.add_files(table => '{table}', source_table => '`parquet`.`{folder}`')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN name TO title")
    spark.sql(f"DELETE FROM {table} WHERE id % 7 = 0")
    taken_over = {path.name: path.read_bytes() for path in folder.iterdir()}

    keeps_rows(compactor, table)

    [row] = spark.sql(f"SELECT * FROM {table} WHERE id = 1").collect()
    assert tuple(row) == (1, "n1", None)
    [path] = data_files(spark, table)
    fields = pq.read_schema(path)
    assert [(f.name, f.metadata[b"PARQUET:field_id"]) for f in fields] == [
        ("id", b"1"),
        ("title", b"2"),
        ("extra", b"3"),
    ]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == taken_over
