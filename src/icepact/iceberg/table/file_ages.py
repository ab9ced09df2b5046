"""Reader of what manifests tell of the age of data files: partitions, and bounds and nulls of one column."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pydantic_core import from_json

from icepact.iceberg.commit.replace import COMMIT_ID
from icepact.iceberg.java.bridge import retry_reads, through_a_file
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.files import Partition, as_partition

FileLine = tuple[int, str, int, Partition, int, int, int | None, bytes | None, bytes | None, tuple[int, ...]]
"""Number, path, spec, partition, rows, bytes, nulls, lower and upper bound, and deletes of a data file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopColumn:
    """A column that is not inside another one."""

    id: int
    name: str
    kind: str
    """Iceberg's name of its type; `struct`, `list` or `map` if it is nested."""
    required: bool


def top_columns(schema: str) -> list[TopColumn]:
    """The columns of a schema, Iceberg's JSON."""
    return [
        TopColumn(
            id=int(each["id"]),
            name=str(each["name"]),
            kind=each["type"] if isinstance(each["type"], str) else str(each["type"]["type"]),
            required=bool(each["required"]),
        )
        for each in json.loads(schema)["fields"]
    ]


def spec_fields(table: IcebergTable) -> dict[int, Sequence[Mapping[str, object]]]:
    """Fields of all partition specs as Iceberg's JSON has them."""
    return {spec_id: json.loads(text)["fields"] for spec_id, text in table.spec_documents.items()}


class FileAges:
    """The live data files of a snapshot that may hold old rows, held in Java; all of them if any deletes are live."""

    def __init__(self, table: IcebergTable, snapshot_id: int, column: TopColumn, before: str | int | None) -> None:
        """`before` is a value of the column as Iceberg's JSON has it: only files that may hold lower ones count."""
        self._table = table
        self._column = column
        snapshot = table.table.snapshot(snapshot_id)
        self.has_deletes = not snapshot.deleteManifests(table.table.io()).isEmpty()
        self._tasks = _planned(table, snapshot_id, column, None if self.has_deletes else before)
        self._java = instance_of(table.java, "FileAges")

    @cached_property
    def _written(self) -> bytes:
        table = self._table
        return through_a_file(lambda path: self._java.write(self._tasks, table.table.specs(), self._column.id, path))

    def __iter__(self) -> Iterator[FileLine]:
        written = io.BytesIO(self._written)
        partitions = [as_partition(values) for values in from_json(str(self._java.partitions()))]
        for number, line in enumerate(written):
            spec, partition, rows, size, nulls, lower, upper, deletes, path = line.decode()[:-1].split("\t")
            yield (
                number,
                path,
                int(spec),
                partitions[int(partition)],
                int(rows),
                int(size),
                int(nulls) if nulls else None,
                bytes.fromhex(lower[1:]) if lower else None,
                bytes.fromhex(upper[1:]) if upper else None,
                tuple(map(int, deletes.split(","))) if deletes else (),
            )

    def vectors(self) -> frozenset[int]:
        """Which of the deletes are deletion vectors, once the files were read."""
        return frozenset(from_json(str(self._java.vectors())))

    def chosen(self, numbers: Sequence[int]) -> Any:
        """Java's own list of the data files with these numbers."""
        return self._java.chosen(self._tasks, self._table.java.from_json(list(numbers), "java.util.ArrayList"))

    def tasks(self, numbers: Sequence[int]) -> Any:
        """Java's own list of the scan tasks of the data files with these numbers, deletes included."""
        return self._java.some(self._tasks, self._table.java.from_json(list(numbers), "java.util.ArrayList"))


@retry_reads
def _planned(table: IcebergTable, snapshot_id: int, column: TopColumn, before: str | int | None) -> Any:
    """Scan tasks with the statistics of one column. The filter selects files, never rows."""
    java = table.java
    then = java.iceberg.util.SnapshotUtil.schemaFor(table.table, snapshot_id)  # with the names that it had
    field = then.findField(column.id)
    scan = table.table.newScan().useSnapshot(snapshot_id).ignoreResiduals()
    # Iceberg looks the name up among today's columns, too, and would filter by another one that has it now
    if field is not None and before is not None and (field.name(), str(field.type())) == (column.name, column.kind):
        older = {"type": "lt", "term": column.name, "value": before}
        wanted = {"type": "or", "left": older, "right": {"type": "is-null", "term": column.name}}
        parser = java.iceberg.expressions.ExpressionParser
        scan = scan.filter(parser.fromJson(json.dumps(wanted), then))
    if field is not None:
        scan = scan.includeColumnStats(java.from_json([str(field.name())], "java.util.ArrayList"))
    tasks = scan.planFiles()
    try:
        return java.listed(tasks)
    finally:
        tasks.close()


@retry_reads
def last_write(table: IcebergTable, branch: str) -> datetime | None:
    """When a branch was committed to last, maintenance left out: what only replaced files, and what is ours; `None` if
    no such snapshot is known any more."""
    snapshot = table.head(branch)
    while snapshot is not None:
        ours = (snapshot.summary() or {}).get(COMMIT_ID) is not None
        if snapshot.operation() != "replace" and not ours:
            return datetime.fromtimestamp(int(snapshot.timestampMillis()) / 1000, UTC)
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.table.snapshot(parent)
    return None
