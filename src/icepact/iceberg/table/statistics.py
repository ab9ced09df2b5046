"""Statistics files of a table: which are registered for which snapshot, and new ones by Iceberg's own actions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from icepact.iceberg.java.bridge import JavaError, error_line, mute_pyspark_errors, retry_reads
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.table import IcebergTable

_SKETCH = "apache-datasketches-theta-v1"
_LONGEST_HISTORY = 5000
"""Snapshots that are looked through for statistics."""


class SketchFile(NamedTuple):
    """A file of sketches, as it is registered for one snapshot."""

    path: str
    bytes: int
    columns: Mapping[int, int]
    """By field id: the snapshot that its sketch was computed from."""
    fields: frozenset[int]
    """Field ids of everything that the file says, sketches or not."""

    @property
    def sources(self) -> frozenset[int]:
        """Snapshots that the sketches were computed from."""
        return frozenset(self.columns.values())


class NewStatistics(NamedTuple):
    """Statistics files of one snapshot, Java's own, that are to be registered."""

    snapshot_id: int
    sketches: Any = None
    partitions: Any = None
    carried: str | None = None
    """The file of sketches, if it is one that is registered for another snapshot."""

    def paths(self) -> tuple[str, ...]:
        """Of all files."""
        return tuple(str(file.path()) for file in (self.sketches, self.partitions) if file is not None)

    def written(self) -> tuple[str, ...]:
        """Paths of those that nothing refers to before they are registered."""
        return tuple(path for path in self.paths() if path != self.carried)

    def bytes_written(self) -> int:
        """Sizes of these."""
        files = [file for file in (self.sketches, self.partitions) if file is not None]
        return sum(int(file.fileSizeInBytes()) for file in files if str(file.path()) != self.carried)


# -- what there is --------------------------------------------------------------------------------


def sketch_files(table: IcebergTable) -> dict[int, SketchFile]:
    """All files of sketches, by the snapshot that they are registered for."""
    documents = _documents(table, table.table.statisticsFiles(), "StatisticsFile")
    return {document["snapshot-id"]: _sketch_file(document) for document in documents}


def _sketch_file(document: Mapping[str, Any]) -> SketchFile:
    blobs = document["blob-metadata"]
    sketches = [blob for blob in blobs if blob["type"] == _SKETCH and len(blob["fields"]) == 1]
    return SketchFile(
        path=document["statistics-path"],
        bytes=document["file-size-in-bytes"],
        columns={blob["fields"][0]: blob["snapshot-id"] for blob in sketches},
        fields=frozenset(field for blob in blobs for field in blob["fields"]),
    )


def partition_files(table: IcebergTable) -> dict[int, str]:
    """Paths of all files of partition statistics, by the snapshot that they are registered for."""
    documents = _documents(table, table.table.partitionStatisticsFiles(), "PartitionStatisticsFile")
    return {document["snapshot-id"]: document["statistics-path"] for document in documents}


def _documents(table: IcebergTable, items: Any, kind: str) -> list[dict[str, Any]]:
    """Iceberg's JSON of every item, in one transfer."""
    java, package = table.java, "org.apache.iceberg"
    parse = java.method(f"{package}.{kind}Parser", "toJson", f"{package}.{kind}", "boolean")
    return [json.loads(text) for text in java.texts(items, java.bind(parse, 1, False))]


@retry_reads
def snapshot_documents(table: IcebergTable, snapshot_id: int) -> list[dict[str, Any]]:
    """Iceberg's JSON of a snapshot and its ancestors, newest first."""
    java = table.java
    ancestors = java.iceberg.util.SnapshotUtil.ancestorsBetween(table.table, snapshot_id, None)
    limited = java.iceberg.relocated.com.google.common.collect.Iterables.limit(ancestors, _LONGEST_HISTORY)
    return _documents(table, java.listed(limited), "Snapshot")


def schema_of(table: IcebergTable, snapshot_id: int) -> str | None:
    """Iceberg's JSON of the schema that a snapshot was written with; `None` if the snapshot does not tell, as very old
    ones do not."""
    number = table.table.snapshot(snapshot_id).schemaId()
    schema = None if number is None else table.table.schemas().get(number)
    return None if schema is None else str(table.java.iceberg.SchemaParser.toJson(schema))


def no_partitions(table: IcebergTable) -> str | None:
    """Why a table can have no partition statistics; `None` if it can."""
    partitioning = table.java.iceberg.Partitioning
    if not partitioning.isPartitioned(table.table):
        return "it is not partitioned"
    try:
        kinds = [str(field.type()) for field in table.java.items(partitioning.partitionType(table.table).fields())]
    except JavaError as error:
        return error_line(error)
    return "the column of one of its partition fields was dropped" if not kinds or "unknown" in kinds else None


@retry_reads
def manifest_bytes(table: IcebergTable, snapshot_id: int, added_by: Sequence[int] | None = None) -> tuple[int, int]:
    """How many manifests a snapshot has, and their bytes; only those that these snapshots wrote, if they are named."""
    kind = "org.apache.iceberg.ManifestFile"
    manifests = table.table.snapshot(snapshot_id).allManifests(table.table.io())
    lengths = table.java.numbers(manifests, table.java.method(kind, "length"))
    writers = table.java.numbers(manifests, table.java.method(kind, "snapshotId"))
    chosen = [
        length or 0
        for length, writer in zip(lengths, writers, strict=True)
        if added_by is None or writer is None or writer in added_by
    ]
    return len(chosen), sum(chosen)


# -- new ones -------------------------------------------------------------------------------------


def compute_sketches(table: IcebergTable, snapshot_id: int, columns: Sequence[str]) -> Any:
    """Read the rows of a snapshot, and write a file of sketches; nothing refers to it yet."""
    java = table.java
    names = java.gateway.new_array(java.jvm.java.lang.String, len(columns))
    for at, name in enumerate(columns):
        names[at] = name
    operations = instance_of(java, "UnsentOperations").of(table.table.operations())  # else the action registers it
    unsent = java.iceberg.BaseTable(operations, table.table.name())
    with java.active(table.session), mute_pyspark_errors():
        actions = java.iceberg.spark.actions.SparkActions.get(table.session._jsparkSession)
        return actions.computeTableStats(unsent).snapshot(snapshot_id).columns(names).execute().statisticsFile()


def carried_sketches(table: IcebergTable, snapshot_id: int, *, registered_for: int) -> Any:
    """The sketches of one snapshot as those of another. What the file says of columns that the table has no more is
    left out: Spark's optimizer fails on them."""
    java = table.java
    names = table.table.schema().idToName()
    file = next(f for f in java.items(table.table.statisticsFiles()) if int(f.snapshotId()) == registered_for)
    blobs = java.jvm.java.util.ArrayList()
    for blob in java.items(file.blobMetadata()):
        if all(names.containsKey(field) for field in java.items(blob.fields())):
            blobs.add(blob)
    return java.iceberg.GenericStatisticsFile(
        snapshot_id, file.path(), file.fileSizeInBytes(), file.fileFooterSizeInBytes(), blobs
    )


def compute_partitions(table: IcebergTable, snapshot_id: int) -> Any:
    """Write a file of partition statistics of a snapshot, from earlier ones and what has changed since where there are
    any; nothing refers to it yet. `None` if the snapshot has no files."""
    return table.java.iceberg.PartitionStatsHandler.computeAndWriteStatsFile(table.table, snapshot_id)
