"""Storage that takes nothing more: what that proves about a commit, and which disk it is."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from icepact.iceberg.java import all_messages, passed_through
from icepact.iceberg.table import IcebergTable
from icepact.model.room import is_full, no_room

_CLOSED = ("read-only file system", "[sqlite_readonly")
_OF_THE_CATALOG = ("[sqlite_full]", "[sqlite_readonly")
"""SQLite has not carried out what it answers so."""
_BEFORE_THE_CATALOG = (
    "org.apache.iceberg.SnapshotProducer.apply(",
    "org.apache.iceberg.BaseMetastoreTableOperations.writeNewMetadata",
    *(f"org.apache.iceberg.{writer}." for writer in ("ManifestWriter", "RollingManifestWriter")),
    *(f"org.apache.iceberg.{manager}." for manager in ("ManifestFilterManager", "ManifestMergeManager")),
)
"""Where Iceberg is while it writes what a commit consists of; the catalog is asked after that. Some of it is done by
other threads, which have nothing else on their stack."""


def not_carried_out(error: BaseException) -> bool:
    """Whether an error proves that storage took nothing more before a commit could be carried out. Nothing is proven of
    earlier requests for the same commit."""
    told = "\n".join(all_messages(error)).lower()
    if any(word in told for word in _OF_THE_CATALOG):
        return True
    closed = any(word in told for word in _CLOSED)
    return (closed or is_full(told)) and passed_through(error, _BEFORE_THE_CATALOG)


def remedy(told: str, places: Iterable[str]) -> str:
    """What is to be done if a message is about a disk without room; otherwise the message itself.

    `places` are where something is written: that with the least room is named.
    """
    if not is_full(told):
        return told
    local = {path: free for place in places if (path := _on_disk(place)) and (free := _free(path)) is not None}
    return no_room(min(local, key=lambda path: local[path], default=None))


def places_of(table: IcebergTable) -> list[str]:
    """Where a run on a table writes: beside the table, and where Spark puts what does not fit into memory."""
    scratch = table.session.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
    return [str(table.table.location()), *scratch.split(",")]


def _on_disk(place: str) -> str | None:
    if place.startswith("file:"):
        return unquote("/" + place.removeprefix("file:").lstrip("/"))
    return place if place.startswith("/") else None


def _free(path: str) -> int | None:
    """Of the disk that a path is on, whether or not it exists."""
    for folder in (Path(path), *Path(path).parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
