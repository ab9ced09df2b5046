"""A streaming writer, as Flink is one: files made by pyarrow, commits by Iceberg's own API, no Spark job.

It is fast enough to commit several times during one compaction, and writes what Spark cannot: equality deletes, and
files of an old partition spec.
"""

import io
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.support.java import int_array, jvm
from tests.support.messy import load
from tests.support.servers.s3 import S3Server

Put = Callable[[str, bytes], None]
"""Puts a file where a path says."""
Row = Mapping[int, Any]
"""Values by field id."""
_ARROW = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "binary": pa.binary(),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column as it is now; only its id stays."""

    id: int
    name: str
    kind: str
    """As Iceberg says it."""


def on_disk(path: str, content: bytes) -> None:
    """A local file."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def in_bucket(server: S3Server) -> Put:
    """An object, by another client than icepact's."""

    def put(path: str, content: bytes) -> None:
        key = path.removeprefix(f"s3://{server.bucket}/")
        server.client.put_object(Bucket=server.bucket, Key=key, Body=content)

    return put


class Stream:
    """The writer of one table; `table` carries the catalog's name."""

    def __init__(self, spark: SparkSession, table: str, dice: random.Random, put: Put = on_disk) -> None:
        self._spark = spark
        self._table = table
        self._dice = dice
        self._put = put
        self._iceberg: Any = jvm(spark).org.apache.iceberg

    @property
    def java(self) -> Any:
        """Iceberg's table, as it is now."""
        return load(self._spark, self._table)

    def columns(self) -> list[Column]:
        """All columns, in their order."""
        fields = self.java.schema().columns().toArray()
        listed = [fields[n] for n in range(len(fields))]
        return [Column(id=int(f.fieldId()), name=str(f.name()), kind=str(f.type())) for f in listed]

    def append(self, batches: Sequence[tuple[str | None, Sequence[Row]]], *, fast: bool = False) -> None:
        """One commit with one file for each (partition path, rows); without a path, of the unpartitioned spec."""
        java, columns = self.java, self.columns()
        change = java.newFastAppend() if fast else java.newAppend()
        for partition, rows in batches:
            change.appendFile(self._data(java, columns, partition, rows))
        change.commit()

    def delete(self, column: Column, keys: Sequence[Any], partition: str | None) -> None:
        """One commit with an equality delete, of a partition or of all."""
        java = self.java
        java.newRowDelta().addDeletes(self._delete(java, column, keys, partition)).commit()

    def upsert(self, column: Column, partition: str, rows: Sequence[Row]) -> None:
        """One commit that deletes rows by their key and writes them anew."""
        java, columns = self.java, self.columns()
        keys = [row[column.id] for row in rows]
        change = java.newRowDelta().addDeletes(self._delete(java, column, keys, partition))
        change.addRows(self._data(java, columns, partition, rows)).commit()

    # -- files ------------------------------------------------------------------------------------

    def _data(self, java: Any, columns: Sequence[Column], partition: str | None, rows: Sequence[Row]) -> Any:
        path, size = self._written(java, "stream", columns, rows)
        builder = self._iceberg.DataFiles.builder(_spec(java, partition)).withPath(path).withFormat("parquet")
        if self._dice.random() < 0.5:  # some writers tell what is in their files
            stored = java.io().newInputFile(path)
            metrics = self._iceberg.parquet.ParquetUtil.fileMetrics(stored, self._iceberg.MetricsConfig.getDefault())
            builder = builder.withMetrics(metrics)
        builder = builder.withFileSizeInBytes(size).withRecordCount(len(rows))
        return (builder if partition is None else builder.withPartitionPath(partition)).build()

    def _delete(self, java: Any, column: Column, keys: Sequence[Any], partition: str | None) -> Any:
        path, size = self._written(java, "eq", [column], [{column.id: key} for key in keys])
        ids = int_array(self._spark, [column.id])
        builder = (
            self._iceberg.FileMetadata.deleteFileBuilder(_spec(java, partition))
            .ofEqualityDeletes(ids)
            .withPath(path)
            .withFormat("parquet")
            .withFileSizeInBytes(size)
            .withRecordCount(len(keys))
        )
        return (builder if partition is None else builder.withPartitionPath(partition)).build()

    def _written(self, java: Any, name: str, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[str, int]:
        schema = pa.schema(
            [pa.field(c.name, _ARROW[c.kind], metadata={"PARQUET:field_id": str(c.id)}) for c in columns]
        )
        table = pa.Table.from_pylist([{c.name: row.get(c.id) for c in columns} for row in rows], schema=schema)
        stored = io.BytesIO()
        pq.write_table(table, stored, compression="zstd")
        path = f"{str(java.location()).removeprefix('file:')}/data/{name}-{uuid.uuid4()}.parquet"
        self._put(path, stored.getvalue())
        return path, len(stored.getvalue())


def _spec(java: Any, partition: str | None) -> Any:
    if partition is not None:
        return java.spec()
    return next(spec for spec in java.specs().values() if spec.isUnpartitioned())
