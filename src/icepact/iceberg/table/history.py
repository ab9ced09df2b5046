"""Reader of a table's history: everything that its metadata says of snapshots, refs and statistics, in one transfer."""

import json
from typing import Any

from icepact.iceberg.java.bridge import retry_reads
from icepact.iceberg.metadata import history_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.history import TableHistory
from icepact.model.plan import Before


@retry_reads
def read_history(table: IcebergTable) -> TableHistory:
    """The history of a table as it was last read; `refresh` it first to have the newest."""
    return history_at(table, current_metadata(table))


def current_metadata(table: IcebergTable) -> Any:
    """The metadata of a table as it was last read, Java's own. Spark's commands in this process may share what holds
    it: who judges by it and commits on it must hold on to it."""
    return table.table.operations().current()


def history_at(table: IcebergTable, metadata: Any) -> TableHistory:
    """The history that metadata tells."""
    java = table.java
    owner = "org.apache.iceberg.TableMetadata"
    to_json = java.method("org.apache.iceberg.TableMetadataParser", "toJson", owner)
    return history_of(json.loads(java.big_text(to_json, metadata)), str(metadata.metadataFileLocation()))


def totals(table: IcebergTable, branch: str) -> Before:
    """Live files, rows and bytes of a branch, as the summary of its newest snapshot counts them; 0 what it does not."""
    head = table.head(branch)
    summary = {} if head is None else table.java.mapping(head.summary())
    files, rows, size = (
        int(value) if (value := str(summary.get(name, ""))).isdecimal() else 0
        for name in ("total-data-files", "total-records", "total-files-size")
    )
    return Before(files=files, rows=rows, bytes=size)
