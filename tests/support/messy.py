"""Making tables messy on purpose: equality deletes, described files, concurrent writers."""

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.support.java import int_array, jvm


def load(spark: SparkSession, table: str) -> Any:
    """Iceberg's own table object, freshly read; `table` carries the catalog's name."""
    loaded = jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    loaded.refresh()
    return loaded


def scan_tasks(java_table: Any) -> Iterator[Any]:
    """Iceberg's own scan tasks of the current snapshot, one by one: for small test tables."""
    tasks = java_table.newScan().planFiles().iterator()
    while tasks.hasNext():
        yield tasks.next()


def equality_delete(
    spark: SparkSession,
    table: str,
    rows: Sequence[dict[str, Any]],
    *,
    columns: Sequence[str],
    partition: str | None = None,
    unpartitioned: bool = False,
    types: dict[str, pa.DataType] | None = None,
    branch: str | None = None,
    metrics: bool = False,
    spec_id: int | None = None,
) -> str:
    """Commit one equality-delete file as a streaming writer would; returns its path.

    `partition` is a partition path such as `day=2026-01-01`; with `unpartitioned` the delete is written
    with the table's unpartitioned spec and is therefore global; with `metrics` the manifest knows the
    bounds of its keys; `spec_id` is that of an old spec.
    """
    java = load(spark, table)
    iceberg = jvm(spark).org.apache.iceberg
    schema = java.schema()
    ids = [schema.findField(name).fieldId() for name in columns]
    fields = []
    for name, field_id in zip(columns, ids, strict=True):
        kind = (types or {}).get(name) or _arrow_type(str(schema.findField(name).type()))
        fields.append(pa.field(name, kind, nullable=True, metadata={"PARQUET:field_id": str(field_id)}))
    data = pa.Table.from_pylist([{c: row.get(c) for c in columns} for row in rows], schema=pa.schema(fields))
    path = f"{str(java.location()).removeprefix('file:')}/data/eq-{uuid.uuid4()}.parquet"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path)
    spec = java.spec()
    if spec_id is not None:
        spec = java.specs()[spec_id]
    if unpartitioned:
        spec = next(s for s in java.specs().values() if s.isUnpartitioned())
    builder = (
        iceberg.FileMetadata.deleteFileBuilder(spec)
        .ofEqualityDeletes(int_array(spark, ids))
        .withPath(path)
        .withFormat("parquet")
        .withFileSizeInBytes(Path(path).stat().st_size)
        .withRecordCount(len(rows))
    )
    if metrics:
        stored, wanted = iceberg.Files.localInput(path), iceberg.MetricsConfig.getDefault()
        builder = builder.withMetrics(iceberg.parquet.ParquetUtil.fileMetrics(stored, wanted))
    if partition is not None:
        builder = builder.withPartitionPath(partition)
    delta = java.newRowDelta().addDeletes(builder.build())
    if branch:
        delta = delta.toBranch(branch)
    delta.commit()
    return path


def _arrow_type(kind: str) -> pa.DataType:
    plain = {
        "int": pa.int32(),
        "long": pa.int64(),
        "string": pa.string(),
        "double": pa.float64(),
        "float": pa.float32(),
        "date": pa.date32(),
        "boolean": pa.bool_(),
        "timestamptz": pa.timestamp("us", tz="UTC"),
        "timestamp": pa.timestamp("us"),
    }
    return plain[kind]


def convert_to_positions(spark: SparkSession, table: str, *, deleted: int) -> None:
    """What a converter of deletes does: the equality delete goes, a position delete comes, in one replace."""
    java = load(spark, table)
    iceberg = jvm(spark).org.apache.iceberg
    task = next(t for t in scan_tasks(java) if t.deletes().size() == 1 and _holds(t, deleted))
    path = str(task.file().location())
    position = pq.read_table(path.removeprefix("file:")).column("id").to_pylist().index(deleted)
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
    )
    target = path.removeprefix("file:") + "-deletes.parquet"
    pq.write_table(pa.Table.from_pylist([{"file_path": path, "pos": position}], schema=schema), target)
    converted = (
        iceberg.FileMetadata.deleteFileBuilder(java.spec())
        .ofPositionDeletes()
        .withPath(target)
        .withFormat("parquet")
        .withFileSizeInBytes(Path(target).stat().st_size)
        .withRecordCount(1)
        .build()
    )
    sets = jvm(spark).java.util.Set
    old = task.deletes().get(0)
    java.newRewrite().rewriteFiles(sets.of(), sets.of(old), sets.of(), sets.of(converted)).commit()


def _holds(task: Any, value: int) -> bool:
    return value in pq.read_table(str(task.file().location()).removeprefix("file:")).column("id").to_pylist()
