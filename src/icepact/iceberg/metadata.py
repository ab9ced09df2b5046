"""The JSON of Iceberg's metadata, read into values: whoever fetched it, Java or not."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from icepact.model.history import COMMIT_ID, SnapshotNode, SnapshotRef, StatisticsFile, TableHistory, age_of

_STAGED, _PUBLISHED = "wap.id", "published-wap-id"


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
        summary={name: str(value) for name, value in summary.items()} if COMMIT_ID in summary else {},
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
