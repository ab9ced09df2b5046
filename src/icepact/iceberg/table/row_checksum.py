"""Checksum over whole rows as an independent reader sees them: what no statistic of a column can tell.

Each row is hashed with all its columns, row lineage included, and the hashes are added up: the order of rows does not
matter, their number and every value in them do. Spark's Iceberg reader applies the deletes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, LongType, MapType, StructType, VariantType

from icepact.iceberg.java.bridge import Java
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.staged_rows import staged_rows
from icepact.iceberg.table.staging import FileDocument
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import ProofFailed

_ROW_ID, _UPDATED = "_row_id", "_last_updated_sequence_number"
_LINEAGE_VERSION = 3
_NO_NUMBER = 2**62
"""Ids and sequence numbers from here on were made up by a reader, for rows whose file says that they have none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChecksum:
    """Number of rows, and the sum of their hashes."""

    rows: int
    total: int
    """Of the hashes."""
    unnumbered: int = 0
    """Rows without an id: of files from before an upgrade to format version 3."""


def compare_rows(
    table: IcebergTable,
    what: str,
    tasks: Any,
    documents: Sequence[FileDocument],
    deletes: Sequence[FileDocument] = (),
) -> int:
    """The sum over new files with their deletes, if readers see the same rows in them as in these tasks; ProofFailed
    otherwise."""
    before = row_checksum(table, tasks)
    after = row_checksum(table, _tasks_of(table, documents, deletes))
    if before != after:
        raise ProofFailed(
            f"{what}: readers see {before.rows} rows adding up to {before.total}, "
            f"in the new files {after.rows} adding up to {after.total}"
        )
    return after.total


def row_checksum(table: IcebergTable, tasks: Any, *, lineage: bool = True) -> RowChecksum:
    """Checksum of the rows that readers see in scan tasks; with row lineage, if the table has it and it is wanted."""
    if tasks.isEmpty():
        return RowChecksum(rows=0, total=0)
    with staged_rows(table, tasks) as frame:
        numbered = lineage and table.format_version >= _LINEAGE_VERSION
        fields = [field for field in frame.schema.fields if field.name not in (_ROW_ID, _UPDATED)]
        parts = [_digest(F.col(f"`{field.name.replace('`', '``')}`"), field.dataType) for field in fields]
        row_id = _known(_ROW_ID) if numbered else F.lit(0)
        if numbered:  # a row without an id has no history either
            updated = F.when(row_id.isNotNull(), _known(_UPDATED))
            parts += [_digest(row_id, LongType()), _digest(updated, LongType())]
        hashed = F.xxhash64(F.lit(0), *parts).cast("decimal(38,0)").alias("hashed")
        rows = frame.select(hashed, row_id.isNull().alias("unnumbered"))
        sums = rows.agg(F.count(F.lit(1)), F.sum("hashed"), F.count_if("unnumbered")).collect()[0]
    return RowChecksum(rows=int(sums[0]), total=int(sums[1] or 0), unnumbered=int(sums[2]))


def _known(name: str) -> Column:
    """A number of a row, unless a reader made it up."""
    return F.when(F.col(name) < _NO_NUMBER, F.col(name))


def _digest(value: Column, kind: DataType) -> Column:
    """A hash that tells nulls and nested values apart, which Spark's own does not."""
    if isinstance(kind, StructType):
        parts = [_digest(value.getField(f.name), f.dataType) for f in kind.fields]
        whole = F.xxhash64(F.lit(1), *parts)
    elif isinstance(kind, ArrayType):
        element = kind.elementType
        whole = F.xxhash64(F.lit(2), F.size(value), F.transform(value, lambda one: _digest(one, element)))
    elif isinstance(kind, MapType):
        key, inner = kind.keyType, kind.valueType

        def entry(one: Column) -> Column:
            return F.xxhash64(_digest(one.getField("key"), key), _digest(one.getField("value"), inner))

        whole = F.xxhash64(F.lit(3), F.array_sort(F.transform(F.map_entries(value), entry)))
    elif isinstance(kind, VariantType):
        whole = F.xxhash64(F.lit(4), F.to_json(value))
    elif isinstance(kind, FloatType | DoubleType):  # Spark hashes both zeros alike
        whole = F.xxhash64(F.lit(5), value, F.when(value == 0, value.cast("string")))
    else:
        whole = F.xxhash64(F.lit(6), value)
    return F.when(value.isNull(), F.lit(0).cast("long")).otherwise(whole)


def _tasks_of(table: IcebergTable, documents: Sequence[FileDocument], deletes: Sequence[FileDocument]) -> Any:
    """Scan tasks for files that no snapshot has yet; no deletes apply to them but these."""
    java = table.java
    schema = str(java.iceberg.SchemaParser.toJson(table.table.schema()))
    specs = table.table.specs()
    everything = java.iceberg.expressions.ResidualEvaluator.unpartitioned(
        java.iceberg.expressions.Expressions.alwaysTrue()
    )
    tasks = java.jvm.java.util.ArrayList()
    if not documents:
        return tasks
    # readers look at the numbers in a file only if it has some itself, as a committed file would
    documents = [{**document, "first-row-id": _NO_NUMBER} for document in documents]
    mine = {document["referenced-data-file"]: _java_delete(java, document, specs) for document in deletes}
    for file in java.items(described_files(java, table.table, documents)):
        _set_sequence_number(java, file)
        spec = str(java.iceberg.PartitionSpecParser.toJson(specs[file.specId()]))
        delete = mine.get(str(file.location()))
        applied = java.gateway.new_array(java.iceberg.DeleteFile, 0 if delete is None else 1)
        if delete is not None:
            applied[0] = delete
        tasks.add(java.iceberg.BaseFileScanTask(file, applied, schema, spec, everything))
    return tasks


def _java_delete(java: Java, document: FileDocument, specs: Any) -> Any:
    """Java's own description of a delete that no snapshot has yet, as old as the new files."""
    delete = java.iceberg.ContentFileParser.fromJson(java.mapper.readTree(json.dumps(document)), specs)
    _set_sequence_number(java, delete)
    return delete


def _set_sequence_number(java: Java, file: Any) -> None:
    """What a commit would do; Iceberg has no public way to do it to a file that is not committed."""
    types = java.gateway.new_array(java.jvm.java.lang.Class, 1)
    types[0] = java.class_of("java.lang.Long")
    setter = java.class_of("org.apache.iceberg.BaseFile").getDeclaredMethod("setDataSequenceNumber", types)
    setter.setAccessible(True)
    arguments = java.gateway.new_array(java.jvm.java.lang.Object, 1)
    arguments[0] = java.jvm.java.lang.Long.valueOf(str(_NO_NUMBER))
    setter.invoke(file, arguments)
