"""Rows of chosen scan tasks, as a reader sees them: with their deletes applied, and nothing else of the table read."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icepact.iceberg.table.staging import frozen_copy, own_session, static_get
from icepact.iceberg.table.table import IcebergTable


class RowCount(NamedTuple):
    """Rows that were looked for."""

    files: int
    """That have some."""
    rows: int


@contextmanager
def staged_rows(table: IcebergTable, tasks: Any) -> Iterator[DataFrame]:
    """The rows of some scan tasks, Java's own, under the names that columns have now."""
    java = table.java
    frozen = frozen_copy(table, "verify", {})
    name = f"icepact-rows-{secrets.token_hex(8)}"
    cache = static_get(java, "org.apache.iceberg.spark.SparkTableCache")
    manager = java.iceberg.spark.ScanTaskSetManager.get()
    session = own_session(java, table.session, 0)
    cache.add(name, frozen)
    try:
        manager.stageTasks(frozen, name, tasks)
        with java.active(session):
            yield session.read.format("iceberg").load(name)
    finally:
        cache.remove(name)
        manager.removeTasks(frozen, name)


def count_rows(table: IcebergTable, tasks: Any, condition: str) -> RowCount:
    """How many rows of some scan tasks, of how many files, a condition of Spark's SQL holds for."""
    if tasks.isEmpty():
        return RowCount(0, 0)
    with staged_rows(table, tasks) as frame:
        files = frame.where(condition).select(F.input_file_name().alias("file"))  # not all staged reads have `_file`
        found = files.agg(F.count_distinct("file"), F.count(F.lit(1))).collect()[0]
    return RowCount(int(found[0]), int(found[1]))
