"""Staged rewrites: chosen scan tasks in, new files out, nothing committed.

Iceberg's staged scan reads any file format, applies every kind of delete and carries row lineage. The
table it works on is a frozen copy whose files go below a folder named after the run, so that after any
crash the files of a dead run are known by name.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from py4j.java_gateway import JavaMember
from pydantic_core import from_json
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from icepact.iceberg.commit.run_files import DATA_PATH, run_folder
from icepact.iceberg.java.bridge import Java, retry_reads
from icepact.iceberg.spark.session import session_of
from icepact.iceberg.table.scan import ScanTasks, described_deletes, described_files
from icepact.iceberg.table.table import IcebergTable
from icepact.model.files import is_odd
from icepact.model.rewrite import ColumnFacts, InputFacts, WrittenFile
from icepact.model.schema import flat_columns

MOST_STATISTICS = 500_000
"""Files times columns whose statistics are held for the proof; beyond it, fewer columns are compared."""
_ONE_TASK = 2**62


FileDocument: TypeAlias = Mapping[str, Any]
"""Iceberg's JSON of one data file."""


def has_plain_partition(document: FileDocument) -> bool:
    """Whether Iceberg can read its own JSON of a file again: not if a partition value is odd."""
    return not any(is_odd(value) for value in document.get("partition", ()))


class Staging:
    """Scan tasks of the inputs of one run, held in Java, ready to be rewritten unit by unit."""

    def __init__(
        self,
        table: IcebergTable,
        *,
        snapshot_id: int,
        run_id: str,
        unit_of: Mapping[str, str],
        properties: Mapping[str, str],
        round_name: str = "",
        odd: dict[str, Any] | None = None,
    ) -> None:
        self.table = table
        self.java = table.java
        self.run_id = run_id
        self._round = round_name
        self._odd = {} if odd is None else odd
        """New files, by path, that Iceberg's JSON cannot describe; kept from round to round."""
        self._frozen = frozen_copy(table, run_id, properties)
        known = self.java.iceberg.util.SnapshotUtil.schemaFor(table.table, snapshot_id)  # columns as they were then
        document = json.loads(str(self.java.iceberg.SchemaParser.toJson(known)))
        columns = [column.name for column in flat_columns(document).values()]
        compared = columns[: max(1, MOST_STATISTICS // len(unit_of))]
        tasks = ScanTasks.with_stats(self.java, table.table, snapshot_id, list(unit_of), compared)
        self._tasks_of = tasks.by_key(unit_of)
        self._inputs = _input_facts(tasks, unit_of)

    def inputs(self, unit_id: str) -> list[InputFacts]:
        """Rows and column statistics of a unit's files, as the manifests have them."""
        return self._inputs[unit_id]

    def tasks(self, unit_ids: Sequence[str]) -> Any:
        """The scan tasks of units, as a Java list."""
        tasks = self.java.jvm.java.util.ArrayList()
        for unit_id in unit_ids:
            tasks.addAll(self._tasks_of[unit_id])
        return tasks

    def output_path(self, unit_id: str) -> str:
        """Where a unit's output goes, up to what makes its name unique; in the partition of its inputs."""
        file = self._tasks_of[unit_id].get(0).file()
        spec = self.table.table.specs()[file.specId()]
        locations = self._frozen.locationProvider()
        name = f"{self.run_id}-{unit_id}{self._round}"  # also where the table has a location provider of its own
        if spec.isUnpartitioned():
            return str(locations.newDataLocation(name))
        return str(locations.newDataLocation(spec, file.partition(), name))

    def rewrite(
        self, unit_id: str, *, output_spec_id: int, max_file_size: int, shuffle_tasks: int, split_size: int = _ONE_TASK
    ) -> tuple[int, list[tuple[WrittenFile, FileDocument]]]:
        """Read a unit and write its rows; returns how many flowed, and the new files.

        With `shuffle_tasks` above 0 rows are regrouped by output partition first; one task reads `split_size` bytes.
        """
        java, table = self.java, self._frozen
        cache = static_get(java, "org.apache.iceberg.spark.SparkTableCache")
        manager = java.iceberg.spark.ScanTaskSetManager.get()
        coordinator = java.iceberg.spark.FileRewriteCoordinator.get()
        staged = f"{self.run_id}-{unit_id}{self._round}"
        session = own_session(java, self.table.session, shuffle_tasks)
        rows = Observation(f"rows-{staged}")
        cache.add(staged, table)
        try:
            manager.stageTasks(table, staged, self._tasks_of[unit_id])
            with java.active(session):
                frame = (
                    session.read.format("iceberg")
                    .option("split-size", str(split_size))
                    .option("file-open-cost", "0")
                    .load(staged)
                )
                (
                    frame.observe(rows, F.count(F.lit(1)).alias("rows"))
                    .write.format("iceberg")
                    .option("target-file-size-bytes", str(max_file_size))
                    .option("distribution-mode", "hash" if shuffle_tasks else "none")
                    .option("fanout-enabled", "false" if shuffle_tasks else "true")
                    .option("output-spec-id", str(output_spec_id))
                    .mode("append")
                    .save(staged)
                )
            written = coordinator.fetchNewFiles(table, staged)
        finally:
            cache.remove(staged)
            manager.removeTasks(table, staged)
            coordinator.clearRewrite(table, staged)
        return int(rows.get["rows"]), self.written(written)

    def tag_jobs(self) -> None:
        """Mark the Spark jobs of this thread as this run's, so that they can be cancelled together."""
        self.table.session.sparkContext.addJobTag(f"icepact-{self.run_id}")

    def cancel(self) -> None:
        """Stop all Spark jobs of this run."""
        self.table.session.sparkContext.cancelJobsWithTag(f"icepact-{self.run_id}")

    def written(self, files: Any) -> list[tuple[WrittenFile, FileDocument]]:
        """New files, each with what its footer on storage says, and as Iceberg's JSON has it."""
        specs = self.table.table.specs()
        to_json = self.java.iceberg.ContentFileParser.toJson
        written = []
        for file in self.java.items(files):
            document = from_json(str(to_json(file, specs[file.specId()])))
            if not has_plain_partition(document):
                self._odd[document["file-path"]] = file
            written.append(self.stored(document))
        return written

    @retry_reads
    def stored(self, document: FileDocument) -> tuple[WrittenFile, FileDocument]:
        """A file as Iceberg's JSON describes it, with what its footer on storage says."""
        stored = self.table.table.io().newInputFile(document["file-path"])
        footer = self._footer(stored, document["file-format"].lower())
        rows, columns = (None, None) if footer is None else (footer["record-count"], column_facts(footer))
        size = int(stored.getLength())
        return WrittenFile.described(document, stored_size=size, stored_rows=rows, columns=columns), document

    @retry_reads
    def is_stored(self, document: FileDocument) -> bool:
        """Whether storage has a file of the size that Iceberg's JSON says."""
        stored = self.table.table.io().newInputFile(document["file-path"])
        return bool(stored.exists()) and int(stored.getLength()) == document["file-size-in-bytes"]

    def java_files(self, documents: Sequence[FileDocument]) -> Any:
        """Java's own description of new files, as a set for a commit."""
        java = self.java
        files = java.jvm.java.util.HashSet()
        for document in documents:
            if document["file-path"] in self._odd:
                files.add(self._odd[document["file-path"]])
        plain = [document for document in documents if document["file-path"] not in self._odd]
        if plain:
            files.addAll(described_files(java, self.table.table, plain))
        return files

    def java_deletes(self, documents: Sequence[FileDocument]) -> Any:
        """Java's own description of new delete files, as a set for a commit."""
        return self.java.jvm.java.util.HashSet(described_deletes(self.java, self.table.table, documents))

    def _footer(self, stored: Any, file_format: str) -> dict[str, Any] | None:
        """The metrics in a file's footer, read by Iceberg's own reader from storage."""
        java = self.java
        config = java.iceberg.MetricsConfig.forTable(self.table.table)
        if file_format == "parquet":
            metrics = java.iceberg.parquet.ParquetUtil.fileMetrics(stored, config)
        elif file_format == "orc":
            metrics = java.iceberg.orc.OrcMetrics.fromInputFile(stored, config)
        else:
            return None
        spec = java.iceberg.PartitionSpec.unpartitioned()
        described = (
            java.iceberg.DataFiles.builder(spec)
            .withInputFile(stored)
            .withFormat(file_format)
            .withMetrics(metrics)
            .build()
        )
        document: dict[str, Any] = from_json(str(java.iceberg.ContentFileParser.toJson(described, spec)))
        return document


def _input_facts(tasks: ScanTasks, unit_of: Mapping[str, str]) -> dict[str, list[InputFacts]]:
    """Rows and column statistics of all inputs as the manifests have them, by unit; in one transfer."""
    by_unit: dict[str, list[InputFacts]] = {unit_id: [] for unit_id in unit_of.values()}
    for task in tasks.document()["file-scan-tasks"]:
        file = task["data-file"]
        path = file["file-path"]
        by_unit[unit_of[path]].append(InputFacts(path=path, rows=file["record-count"], columns=column_facts(file)))
    return by_unit


def frozen_copy(table: IcebergTable, run_id: str, overrides: Mapping[str, str]) -> Any:
    """A read-only copy of the table as it is now, with the run's own folder for new files, and other properties."""
    java, real = table.java, table.table
    folder = run_folder(table, run_id)
    if folder is None:
        locations = real.locationProvider()
    else:
        properties = java.jvm.java.util.HashMap(real.properties())
        properties[DATA_PATH] = folder
        locations = java.iceberg.LocationProviders.locationsFor(real.location(), properties)
    metadata = real.operations().current()
    if overrides:
        changes = java.from_json(dict(overrides), "java.util.HashMap")
        metadata = java.iceberg.TableMetadata.buildFrom(metadata).setProperties(changes).discardChanges().build()
    operations = java.iceberg.StaticTableOperations(metadata, real.io(), locations)
    return java.iceberg.BaseTable(operations, real.name())


def own_session(java: Java, session: SparkSession, shuffle_tasks: int) -> SparkSession:
    """A clone of the session, so that the settings a rewrite needs never reach the user's own."""
    clone = session_for_writes(java, session)
    clone.conf.set("spark.sql.adaptive.enabled", "false")
    clone.conf.set("spark.sql.iceberg.executor-cache.delete-files.enabled", "false")
    if shuffle_tasks:
        clone.conf.set("spark.sql.shuffle.partitions", str(shuffle_tasks))
    return clone


def session_for_writes(java: Java, session: SparkSession) -> SparkSession:
    """A clone of the session that reads and writes what it is told to."""
    clone = session_of(session.sparkContext, java.session.cloneSession())
    for key in ("spark.wap.branch", "spark.wap.id"):  # these redirect reads and writes
        clone.conf.unset(key)
    return clone


def static_get(java: Java, owner: str) -> Any:
    """`owner.get()` where an instance method of the same name hides the static one from py4j."""
    return JavaMember("get", None, f"z:{owner}", java.gateway._gateway_client)()


def column_facts(file: Mapping[str, Any]) -> ColumnFacts:
    """Counts and bounds in Iceberg's JSON of a file."""
    return ColumnFacts(
        nulls=_by_field(file.get("null-value-counts")),
        lower=_by_field(file.get("lower-bounds")),
        upper=_by_field(file.get("upper-bounds")),
    )


def _by_field(document: Mapping[str, Any] | None) -> dict[int, Any]:
    return dict(zip(document["keys"], document["values"], strict=True)) if document else {}
