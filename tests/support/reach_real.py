"""The history of a real table in the model of `reach_model`; pyiceberg reads it."""

from pathlib import Path

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tests.support.messy import load
from tests.support.reach import local
from tests.support.reach_model import ADDED, DELETED, EXISTING, Entry, History, Manifest, Snapshot

_STATUS = {
    ManifestEntryStatus.ADDED: ADDED,
    ManifestEntryStatus.EXISTING: EXISTING,
    ManifestEntryStatus.DELETED: DELETED,
}


def real_history(spark: SparkSession, table: str) -> History:
    """Every snapshot that the table's metadata has now."""
    location = load(spark, f"local.{table}").operations().refresh().metadataFileLocation()
    static = StaticTable.from_metadata(Path(local(str(location))).as_uri())
    known: dict[str, Manifest] = {}

    def manifest(found: ManifestFile) -> Manifest:
        path = local(found.manifest_path)
        if path not in known:
            entries = found.fetch_manifest_entry(static.io, discard_deleted=False)
            known[path] = Manifest(
                path=path,
                deletes=found.content is ManifestContent.DELETES,
                snapshot_id=found.added_snapshot_id or 0,
                sequence_number=found.sequence_number or 0,
                entries=tuple(
                    Entry(status=_STATUS[entry.status], path=local(entry.data_file.file_path), number=number)
                    for number, entry in enumerate(entries)
                ),
            )
        return known[path]

    history = History()
    for snapshot in static.metadata.snapshots:
        history.snapshots[snapshot.snapshot_id] = Snapshot(
            snapshot_id=snapshot.snapshot_id,
            parent_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            manifests=tuple(map(manifest, snapshot.manifests(static.io))),
        )
    return history
