"""Full and read-only storage: what such an error proves about a commit, and which disk is full."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from icepact.iceberg.java.bridge import all_messages, passed_through
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import is_full, no_room

_READ_ONLY = ("read-only file system", "[sqlite_readonly")
_SQLITE_REFUSALS = ("[sqlite_full]", "[sqlite_readonly")
"""Answers of SQLite after which it has certainly not carried out a commit."""
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
    text = "\n".join(all_messages(error)).lower()
    if any(word in text for word in _SQLITE_REFUSALS):
        return True
    read_only = any(word in text for word in _READ_ONLY)
    return (read_only or is_full(text)) and passed_through(error, _BEFORE_THE_CATALOG)


def full_disk_remedy(message: str, locations: Iterable[str]) -> str:
    """What to do about a full disk if a message is about one; otherwise the message itself.

    `locations` are where something is written: that with the least free space is named.
    """
    if not is_full(message):
        return message
    local = {path: free for where in locations if (path := _local_path(where)) and (free := _free(path)) is not None}
    return no_room(min(local, key=lambda path: local[path], default=None))


def folders_of(table: IcebergTable) -> list[str]:
    """Folders into which a run writes: the table's own, and where Spark puts what does not fit into memory."""
    scratch = table.session.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
    return [str(table.table.location()), *scratch.split(",")]


def _local_path(location: str) -> str | None:
    if location.startswith("file:"):
        return unquote("/" + location.removeprefix("file:").lstrip("/"))
    return location if location.startswith("/") else None


def _free(path: str) -> int | None:
    """Free bytes of the disk that a path is on, whether or not it exists; `None` if nobody can say."""
    for folder in (Path(path), *Path(path).parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
