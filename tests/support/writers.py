"""Deletes as other engines write them: Flink's sink, by Iceberg's own writers, and Trino's MERGE."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from icepact.iceberg.java.bridge import Java
from tests.support.java import int_array, items, jvm
from tests.support.messy import load, scan_tasks

Row = Mapping[str, Any]
"""A row; numbers are 32 bits long, for Python cannot hand Java a small `long`."""
_FILE_PATH, _POSITION, _ROW = 2147483546, 2147483545, 2147483544


@dataclass
class FlinkSink:
    """Upserts rows by key, as Flink's sink does: one `RowDelta` for each checkpoint.

    A key that was written before this checkpoint is deleted by equality. One that was written within it is deleted by
    position, in a file of the same commit.
    """

    spark: SparkSession
    table: str
    """With the catalog's name."""
    key: Sequence[str]
    tasks: int = 2
    """Subtasks; each row goes to one by its key."""
    delete_format: str = "parquet"
    now: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    """What the table holds, as far as this writer knows."""

    def checkpoint(self, changes: Sequence[tuple[str, Row]]) -> None:
        """Commit changes: `+` for an upsert, `-` for a delete."""
        java = load(self.spark, self.table)
        delta = java.newRowDelta()
        for number in range(self.tasks):
            mine = [(sign, row) for sign, row in changes if sum(map(ord, str(self._key(row)))) % self.tasks == number]
            _Subtask(self, java, number).write(mine, delta)
        delta.commit()
        for sign, row in changes:
            if sign == "+":
                self.now[self._key(row)] = row
            else:
                self.now.pop(self._key(row), None)

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)


class _Subtask:
    """One subtask's part of a checkpoint."""

    def __init__(self, sink: FlinkSink, table: Any, number: int) -> None:
        self._sink = sink
        self._table = table
        self._java = jvm(sink.spark)
        self._iceberg = self._java.org.apache.iceberg
        schema = table.schema()
        self._fields = [str(column.name()) for column in items(schema.columns())]
        ids = int_array(sink.spark, [schema.findField(name).fieldId() for name in sink.key])
        self._keys = schema.select(self._java.java.util.ArrayList(list(sink.key)))
        formats = self._iceberg.FileFormat
        self._writers = (
            getattr(self._iceberg.data, "GenericFileWriterFactory$Builder")(table)
            .dataFileFormat(formats.PARQUET)
            .dataSchema(schema)
            .deleteFileFormat(formats.fromString(sink.delete_format))
            .equalityFieldIds(ids)
            .equalityDeleteRowSchema(self._keys)
            .build()
        )
        files = self._iceberg.io.OutputFileFactory.builderFor(table, number, 1).operationId(uuid.uuid4().hex)
        self._files = {kind: files.format(formats.fromString(kind)).build() for kind in {"parquet", sink.delete_format}}

    def write(self, changes: Sequence[tuple[str, Row]], delta: Any) -> None:
        """Write all that changes in each partition, and add it to the commit."""
        by_partition: dict[str, tuple[Any, list[tuple[str, Row]]]] = {}
        for sign, row in changes:
            partition = self._iceberg.PartitionKey(self._table.spec(), self._table.schema())
            partition.partition(self._record(self._table.schema(), row))
            by_partition.setdefault(str(partition.toPath()), (partition, []))[1].append((sign, row))
        for partition, some in by_partition.values():
            self._write(some, partition, delta)

    def _write(self, changes: Sequence[tuple[str, Row]], partition: Any, delta: Any) -> None:
        spec = self._table.spec()
        file = self._files["parquet"].newOutputFile(spec, partition)
        data = self._writers.newDataWriter(file, spec, partition)
        target = self._files[self._sink.delete_format].newOutputFile(spec, partition)
        equality = self._writers.newEqualityDeleteWriter(target, spec, partition)
        where: dict[tuple[Any, ...], int] = {}
        keys = rows = 0
        gone: list[int] = []
        for sign, row in changes:
            key = self._sink._key(row)
            if key in where:
                gone.append(where.pop(key))
            else:
                equality.write(self._record(self._keys, row))
                keys += 1
            if sign == "+":
                data.write(self._record(self._table.schema(), row))
                where[key] = rows
                rows += 1
        data.close()
        equality.close()
        if rows:
            delta.addRows(data.toDataFile())
        if keys:
            delta.addDeletes(equality.toDeleteFile())
        for delete in self._positions(str(file.encryptingOutputFile().location()), sorted(gone), partition):
            delta.addDeletes(delete)

    def _positions(self, path: str, positions: Sequence[int], partition: Any) -> Iterator[Any]:
        spec = self._table.spec()
        if not positions:
            return
        if self._table.operations().current().formatVersion() >= 3:
            bridge = Java(self._sink.spark.sparkContext._gateway)
            nothing = bridge.bind(
                bridge.method("java.util.Map", "get", "java.lang.Object"), 0, self._java.java.util.HashMap()
            )
            factory = self._iceberg.io.OutputFileFactory.builderFor(self._table, 1, 1)
            puffin = factory.format(self._iceberg.FileFormat.PUFFIN).build()
            vectors = self._iceberg.deletes.BaseDVFileWriter(puffin, bridge.as_function(nothing))
            for position in positions:
                vectors.delete(path, position, spec, partition)
            vectors.close()
            yield from items(vectors.result().deleteFiles())
            return
        target = self._files[self._sink.delete_format].newOutputFile(spec, partition)
        writer = self._writers.newPositionDeleteWriter(target, spec, partition)
        one = self._iceberg.deletes.PositionDelete.create()
        for position in positions:
            writer.write(one.set(path, position))
        writer.close()
        yield writer.toDeleteFile()

    def _record(self, schema: Any, row: Row) -> Any:
        record = self._iceberg.data.GenericRecord.create(schema)
        for column in items(schema.columns()):
            record.setField(str(column.name()), row[str(column.name())])
        return record


def partition_positions(
    spark: SparkSession,
    table: str,
    where: str,
    *,
    partition: str | None = None,
    rows_per_group: int = 1_000_000,
    with_rows: bool = False,
    validated: bool = False,
) -> str:
    """Delete rows by one file of position deletes for all data files, as Trino does; returns its path.

    `partition` is a partition path, such as `day=1`; `where` must not select rows of others. `with_rows` adds the
    deleted rows themselves, which the format allows. `validated`: the commit is refused if one of these data files was
    replaced meanwhile.
    """
    seen = load(spark, table).currentSnapshot().snapshotId()
    found = spark.sql(f"SELECT _file, _pos, * FROM {table} VERSION AS OF {seen} WHERE {where}").toArrow()
    found = found.sort_by([("_file", "ascending"), ("_pos", "ascending")])
    fields = [_field("file_path", pa.string(), _FILE_PATH), _field("pos", pa.int64(), _POSITION)]
    columns: list[Any] = [
        found["_file"].cast(pa.string()).combine_chunks(),
        found["_pos"].cast(pa.int64()).combine_chunks(),
    ]
    java = load(spark, table)
    if with_rows:
        schema = java.schema()
        parts = [
            _field(name, found.schema.field(name).type, int(schema.findField(name).fieldId()), nullable=True)
            for name in found.schema.names[2:]
        ]
        values = [found[part.name].combine_chunks() for part in parts]
        columns.append(pa.StructArray.from_arrays(values, fields=parts))
        fields.append(_field("row", columns[-1].type, _ROW))
    path = f"{str(java.location()).removeprefix('file:')}/data/positions-{uuid.uuid4()}.parquet"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), path, row_group_size=rows_per_group)
    iceberg = jvm(spark).org.apache.iceberg
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(
        iceberg.Files.localInput(path), iceberg.MetricsConfig.getDefault()
    )
    builder = (
        iceberg.FileMetadata.deleteFileBuilder(java.spec())
        .ofPositionDeletes()
        .withPath(path)
        .withFormat("parquet")
        .withFileSizeInBytes(Path(path).stat().st_size)
        .withMetrics(metrics)
    )
    if partition is not None:
        builder = builder.withPartitionPath(partition)
    delta = java.newRowDelta().addDeletes(builder.build())
    if validated:
        files = jvm(spark).java.util.ArrayList()
        for file in set(found["_file"].to_pylist()):
            files.add(file)
        delta = delta.validateFromSnapshot(seen).validateDataFilesExist(files)
    delta.commit()
    return path


def _field(name: str, kind: pa.DataType, field_id: int, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"PARQUET:field_id": str(field_id)})


def kinds_of_deletes(spark: SparkSession, table: str) -> dict[str, int]:
    """How many deletes of each kind apply to how many data files: `equality`, `position`, `vector`."""
    found: dict[str, int] = {}
    for task in scan_tasks(load(spark, table)):
        for delete in items(task.deletes()):
            vector = str(delete.format()) == "PUFFIN"
            kind = "vector" if vector else "equality" if delete.equalityFieldIds() is not None else "position"
            found[kind] = found.get(kind, 0) + 1
    return found
