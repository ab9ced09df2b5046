"""Reader of a table's history: everything that its metadata says of snapshots, refs and statistics, in one transfer."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from icepact.iceberg.java.bridge import retry_reads
from icepact.iceberg.table.table import IcebergTable
from icepact.model.history import SnapshotNode, SnapshotRef, StatisticsFile, TableHistory, age_of
from icepact.model.plan import Before

_STAGED, _PUBLISHED = "wap.id", "published-wap-id"


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


def history_of(document: Mapping[str, Any], location: str) -> TableHistory:
    """The history in the JSON of a table's metadata, which is at this location."""
    snapshots = document.get("snapshots") or []
    published = {(snapshot.get("summary") or {}).get(_PUBLISHED) for snapshot in snapshots}
    return TableHistory(
        snapshots=[_node(snapshot, published) for snapshot in snapshots],
        refs=[_ref(name, ref) for name, ref in (document.get("refs") or {}).items()] or _main(document),
        statistics=[
            StatisticsFile(
                snapshot_id=file["snapshot-id"], path=file["statistics-path"], size=file["file-size-in-bytes"]
            )
            for kind in ("statistics", "partition-statistics")
            for file in document.get(kind) or ()
        ],
        metadata_files=[location, *(entry["metadata-file"] for entry in document.get("metadata-log") or ())],
        properties=document.get("properties") or {},
    )


def _main(document: Mapping[str, Any]) -> list[SnapshotRef]:
    """Metadata of format version 1 may name no refs."""
    current = document.get("current-snapshot-id")
    return [] if current in (None, -1) else [SnapshotRef(name="main", snapshot_id=current, tag=False)]


def _node(snapshot: Mapping[str, Any], published: set[str | None]) -> SnapshotNode:
    summary = snapshot.get("summary") or {}
    staged, removed = summary.get(_STAGED), str(summary.get("removed-files-size", ""))
    return SnapshotNode(
        snapshot_id=snapshot["snapshot-id"],
        parent_id=snapshot.get("parent-snapshot-id"),
        sequence_number=snapshot.get("sequence-number", 0),
        at=datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC),
        manifest_list=snapshot.get("manifest-list"),
        removed_bytes=int(removed) if removed.isdecimal() else 0,
        staged=None if staged in published else staged,
    )


def _ref(name: str, ref: Mapping[str, Any]) -> SnapshotRef:
    return SnapshotRef(
        name=name,
        snapshot_id=ref["snapshot-id"],
        tag=str(ref["type"]).lower() == "tag",
        min_snapshots=ref.get("min-snapshots-to-keep"),
        max_snapshot_age=_age(ref.get("max-snapshot-age-ms")),
        max_age=_age(ref.get("max-ref-age-ms")),
    )


def _age(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else age_of(milliseconds)
