"""Scan tasks of Iceberg, Java's own, and their files as `model` values, converted in bulk."""

import gc
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

from icepact.iceberg.java.bridge import Java
from icepact.iceberg.java.classes import instance_of
from icepact.model.files import (
    DataFile,
    DeleteFile,
    DeleteKind,
    ManifestBounds,
    Partition,
    PartitionKey,
    as_partition,
)

_TASK = "org.apache.iceberg.ContentScanTask"
_FILE = "org.apache.iceberg.ContentFile"
_EXAMPLE = {
    "content": "data",
    "file-path": "x",
    "file-format": "parquet",
    "file-size-in-bytes": 1,
    "record-count": 1,
}
"""A data file of which only spec and partition matter."""
_DELETE_COLUMNS = [
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "equality_ids"),
    *("sort_order_id", "referenced_data_file", "content_offset", "content_size_in_bytes", "split_offsets"),
]


def described_files(java: Java, table: Any, described: Sequence[Mapping[str, Any]]) -> Any:
    """A Java list of data files from their JSON, all at once."""
    tasks = [{"data-file": file, "residual-filter": True} for file in described]
    node = java.mapper.readTree(json.dumps({"file-scan-tasks": tasks}))
    parser = java.iceberg.rest.responses.FetchScanTasksResponseParser
    parsed = parser.fromJson(node, table.specs(), True).fileScanTasks()
    return java.mapped(parsed, java.method(_TASK, "file"))


def described_deletes(java: Java, table: Any, described: Sequence[Mapping[str, Any]]) -> Any:
    """A Java list of delete files from their JSON, all at once."""
    if not described:
        return java.jvm.java.util.ArrayList()
    any_file = {**_EXAMPLE, "spec-id": described[0]["spec-id"], "partition": described[0]["partition"]}
    task = {
        "data-file": any_file,
        "delete-file-references": list(range(len(described))),
        "residual-filter": True,
    }
    node = java.mapper.readTree(json.dumps({"file-scan-tasks": [task], "delete-files": list(described)}))
    parser = java.iceberg.rest.responses.FetchScanTasksResponseParser
    return java.jvm.java.util.ArrayList(parser.fromJson(node, table.specs(), True).fileScanTasks().get(0).deletes())


@contextmanager
def gc_paused() -> Iterator[None]:
    """Hold the garbage collector while a million small objects are made: it finds nothing and costs half."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ScanTasks:
    """A Java list of scan tasks, filtered, grouped and converted all at once."""

    def __init__(self, java: Java, table: Any, tasks: Any) -> None:
        self.java = java
        self.table = table
        self.tasks = tasks

    @classmethod
    def plan(cls, java: Java, table: Any, snapshot_id: int, *, expression: Any = None) -> "ScanTasks":
        """All tasks of a snapshot. A row filter selects files, never rows: residuals must be ignored."""
        scan = table.newScan().useSnapshot(snapshot_id).ignoreResiduals()
        iterable = (scan if expression is None else scan.filter(expression)).planFiles()
        try:
            return cls(java, table, java.listed(iterable))
        finally:
            iterable.close()

    @classmethod
    def of_partitions(
        cls, java: Java, table: Any, *, data: Any, deletes: Any, partitions: Collection[PartitionKey]
    ) -> "ScanTasks":
        """The tasks of some partitions, from these manifests: Java's own lists."""
        described = [{**_EXAMPLE, "spec-id": spec_id, "partition": partition} for spec_id, partition in partitions]
        examples = described_files(java, table, described)
        return cls(java, table, instance_of(java, "PartitionScan").plan(table, data, deletes, examples))

    @classmethod
    def with_stats(
        cls, java: Java, table: Any, snapshot_id: int, paths: Sequence[str], columns: Sequence[str]
    ) -> "ScanTasks":
        """The tasks of these files with the statistics of these columns; other files are never kept."""
        scan = table.newScan().useSnapshot(snapshot_id).ignoreResiduals()
        iterable = scan.includeColumnStats(java.from_json(list(columns), "java.util.ArrayList")).planFiles()
        try:
            return cls(java, table, java.filtered(java.stream(iterable), _of_paths(java, paths)))
        finally:
            iterable.close()

    def with_paths(self, paths: Sequence[str]) -> "ScanTasks":
        """Only the tasks of these files."""
        tasks = self.java.filtered(self.tasks.stream(), _of_paths(self.java, paths))
        return ScanTasks(self.java, self.table, tasks)

    def with_deletes(self) -> "ScanTasks":
        """Only the tasks that some delete applies to."""
        java = self.java
        none = java.chain(
            java.method("org.apache.iceberg.FileScanTask", "deletes"), java.method("java.util.List", "isEmpty")
        )
        tasks = java.filtered(self.tasks.stream(), java.as_predicate(none).negate())
        return ScanTasks(java, self.table, tasks)

    def in_partitions_of(self, some: "ScanTasks") -> "ScanTasks":
        """Only the tasks in a partition that one of these other tasks is in too.

        Partitions are compared as paths: Java's own comparison fails on binary values. Two partitions with
        one path only make the answer larger.
        """
        java, specs = self.java, self.table.specs()
        spec_id, partition = _file_method(java, "specId"), _file_method(java, "partition")
        mine = java.grouped(self.tasks, spec_id)
        tasks = java.jvm.java.util.ArrayList()
        to_path = java.method("org.apache.iceberg.PartitionSpec", "partitionToPath", "org.apache.iceberg.StructLike")
        for number, theirs in java.grouped(some.tasks, spec_id).items():
            path = java.chain(partition, java.bind(to_path, 0, specs[number]))
            inside = java.among(java.jvm.java.util.HashSet(java.mapped(theirs, path)))
            tasks.addAll(java.filtered(mine[number].stream(), java.as_predicate(java.chain(path, inside))))
        return ScanTasks(java, self.table, tasks)

    def by_key(self, key_by_path: Mapping[str, str]) -> dict[str, Any]:
        """Java lists of tasks by the key that their path has, in the mapping's order; every task must have one."""
        java = self.java
        path, get = _file_method(java, "location"), java.method("java.util.HashMap", "get", "java.lang.Object")
        keys = java.from_json(dict(key_by_path), "java.util.HashMap")
        ranks = java.from_json({path: n for n, path in enumerate(key_by_path)}, "java.util.HashMap")
        in_order = java.sorted(self.tasks, java.chain(path, java.bind(get, 0, ranks)))
        return java.grouped(in_order, java.chain(path, java.bind(get, 0, keys)))

    def paths(self) -> list[str]:
        """Every task's path, in order."""
        return self.java.texts(self.tasks, _file_method(self.java, "location"))

    def sequence_numbers(self) -> list[int]:
        """Every task's data sequence number, in order; 0 where the format has none."""
        return [n or 0 for n in self.java.numbers(self.tasks, _file_method(self.java, "dataSequenceNumber"))]

    def oldest_without(self, paths: Collection[str]) -> int | None:
        """Smallest data sequence number of all tasks but those of these files; `None` if there are no others."""
        java = self.java
        others = self.tasks.stream().filter(_of_paths(java, sorted(paths)).negate())
        numbers = others.map(java.as_function(_file_method(java, "dataSequenceNumber")))
        known = numbers.filter(java.as_predicate(java.method("java.util.Objects", "nonNull", "java.lang.Object")))
        oldest = known.min(java.jvm.java.util.Comparator.naturalOrder())
        if oldest.isPresent():
            return int(oldest.get())
        return None if self.tasks.size() <= len(set(paths)) else 0

    def data_files(self) -> Any:
        """Java's own data files, as a set for a commit."""
        java = self.java
        return java.jvm.java.util.HashSet(java.mapped(self.tasks, java.method(_TASK, "file")))

    def document(self) -> dict[str, Any]:
        """Iceberg's JSON of all tasks, parsed: files, deletes, and which apply to which."""
        if self.tasks.isEmpty():
            return {"file-scan-tasks": [], "delete-files": []}
        responses = self.java.iceberg.rest.responses
        response = (
            responses.FetchScanTasksResponse.builder()
            .withFileScanTasks(self.tasks)
            .withSpecsById(self.table.specs())
            .build()
        )
        package = "org.apache.iceberg.rest.responses"
        to_json = self.java.method(
            f"{package}.FetchScanTasksResponseParser", "toJson", f"{package}.FetchScanTasksResponse"
        )
        parsed: dict[str, Any] = from_json(self.java.big_text(to_json, response), cache_strings="keys")
        return parsed

    @gc_paused()
    def files(self, live_deletes: Sequence[DeleteFile]) -> list[DataFile]:
        """All tasks as data files; deletes are given as positions in the list of live ones."""
        document = self.document()
        index_of_delete = {delete.key: at for at, delete in enumerate(live_deletes)}
        deletes = [index_of_delete[d["file-path"], d.get("content-offset")] for d in document.get("delete-files", ())]
        shared: dict[tuple[int, Partition], Partition] = {}
        return [
            _data_file(task, number, deletes, shared)
            for task, number in zip(document["file-scan-tasks"], self.sequence_numbers(), strict=True)
        ]


def _file_method(java: Java, name: str) -> Any:
    """A handle from a task to a method of its file."""
    return java.chain(java.method(_TASK, "file"), java.method(_FILE, name))


def _of_paths(java: Java, paths: Sequence[str]) -> Any:
    """A predicate: the task's file is one of these."""
    return java.as_predicate(java.chain(_file_method(java, "location"), java.among(java.strings(paths))))


def _data_file(
    task: Mapping[str, Any], number: int, deletes: Sequence[int], shared: dict[tuple[int, Partition], Partition]
) -> DataFile:
    file = task["data-file"]
    made = as_partition(file["partition"])
    partition = shared.setdefault((file["spec-id"], made), made)  # one tuple per partition, not per file
    references = task.get("delete-file-references")
    return DataFile(
        file["file-path"],
        file["file-size-in-bytes"],
        file["record-count"],
        file["spec-id"],
        partition,
        number,
        file["file-format"].lower(),
        tuple(file.get("split-offsets", ())),
        file.get("first-row-id"),
        tuple([deletes[i] for i in references]) if references else (),
    )


def live_deletes(java: Java, table: Any, snapshot: Any) -> tuple[Any, list[DeleteFile]]:
    """All delete files of a snapshot, those that apply to nothing included: Java's list and ours, in order."""
    io, specs = table.io(), table.specs()
    columns = java.from_json(_DELETE_COLUMNS, "java.util.ArrayList")
    java_files = java.jvm.java.util.ArrayList()
    for manifest in java.items(snapshot.deleteManifests(io)):
        reader = java.iceberg.ManifestFiles.readDeleteManifest(manifest, io, specs).select(columns)
        try:
            java_files.addAll(java.listed(reader))
        finally:
            reader.close()
    if java_files.isEmpty():
        return java_files, []
    by_spec = java.grouped(java_files, java.method(_FILE, "specId"))
    in_order = java.jvm.java.util.ArrayList()
    files: list[DeleteFile] = []
    parser = "org.apache.iceberg.ContentFileParser"
    for spec_id in sorted(by_spec):
        some = by_spec[spec_id]
        to_json = java.bind(java.method(parser, "toJson", _FILE, "org.apache.iceberg.PartitionSpec"), 1, specs[spec_id])
        numbers = java.numbers(some, java.method(_FILE, "dataSequenceNumber"))
        for text, number in zip(java.texts(some, to_json), numbers, strict=True):
            files.append(_delete_file(from_json(text), number or 0))
        in_order.addAll(some)
    return in_order, files


def bounds_of_deletes(java: Java, table: Any, snapshot: Any, paths: Collection[str]) -> dict[str, ManifestBounds]:
    """What manifests say of the columns of these delete files."""
    if not paths:
        return {}
    io, specs = table.io(), table.specs()
    columns = java.from_json([*_DELETE_COLUMNS, *_BOUNDS], "java.util.ArrayList")
    wanted = java.as_predicate(java.chain(java.method(_FILE, "location"), java.among(java.strings(sorted(paths)))))
    parser, found = "org.apache.iceberg.ContentFileParser", dict[str, ManifestBounds]()
    for manifest in java.items(snapshot.deleteManifests(io)):
        reader = java.iceberg.ManifestFiles.readDeleteManifest(manifest, io, specs).select(columns)
        try:
            some = java.filtered(java.stream(reader), wanted)
        finally:
            reader.close()
        spec = specs[manifest.partitionSpecId()]
        to_json = java.bind(java.method(parser, "toJson", _FILE, "org.apache.iceberg.PartitionSpec"), 1, spec)
        for text in java.texts(some, to_json):
            file = from_json(text)
            found[file["file-path"]] = ManifestBounds(
                lower={i: bytes.fromhex(raw) for i, raw in _by_field(file.get("lower-bounds"))},
                upper={i: bytes.fromhex(raw) for i, raw in _by_field(file.get("upper-bounds"))},
                nulls=dict(_by_field(file.get("null-value-counts"))),
                values=dict(_by_field(file.get("value-counts"))),
            )
    return found


_BOUNDS = ["value_counts", "null_value_counts", "lower_bounds", "upper_bounds"]


def _by_field(document: Mapping[str, Any] | None) -> Iterator[tuple[int, Any]]:
    return zip(document["keys"], document["values"], strict=True) if document else iter(())


def _delete_file(file: Mapping[str, Any], number: int) -> DeleteFile:
    if file["content"] == "equality-deletes":
        kind = DeleteKind.EQUALITY
    else:
        kind = DeleteKind.DV if file["file-format"].lower() == "puffin" else DeleteKind.POSITION
    return DeleteFile(
        path=file["file-path"],
        offset=file.get("content-offset"),
        kind=kind,
        size=file.get("content-size-in-bytes") or file["file-size-in-bytes"],
        records=file["record-count"],
        spec_id=file["spec-id"],
        partition=as_partition(file.get("partition", ())),
        sequence_number=number,
        referenced=file.get("referenced-data-file"),
        format=file["file-format"].lower(),
        file_size=file["file-size-in-bytes"],
        equality_ids=tuple(file.get("equality-ids", ())),
    )
