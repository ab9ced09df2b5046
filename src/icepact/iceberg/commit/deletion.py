"""Deletion of many files: in bulk where the store can, several requests at a time."""

from collections.abc import Sequence
from typing import Any

from icepact.iceberg.commit.run_files import missing_files
from icepact.iceberg.java.bridge import JavaError, error_class, is_transient
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import PermanentError

_BATCH, _MOST = "s3.delete.batch-size", "1000"
"""Keys of one request: so many are allowed, a quarter of that is Iceberg's default."""
_THREADS, _AT_ONCE = "s3.delete.num-threads", "4"
"""Requests under way: Iceberg has one for each core, which mostly wait for the store."""
_BULK = "org.apache.iceberg.io.SupportsBulkOperations"
_CREDENTIALS = "org.apache.iceberg.io.SupportsStorageCredentials"
_SOME_STAYED = "BulkDeletionFailureException"
_ATTEMPTS = 3


class BulkDeletion:
    """Deletes files of one table, whole portions at once; files that are gone already are no error."""

    def __init__(self, table: IcebergTable) -> None:
        self._table = table
        self._io = _with_large_batches(table)
        self._in_bulk = table.java.class_of(_BULK).isInstance(self._io)

    def delete(self, paths: Sequence[str]) -> list[str]:
        """Delete these; returns those that are still there."""
        left = list(paths)
        odd = next((path for path in left if "://" in path and ("?" in path or "#" in path)), None)
        if odd is not None:  # Iceberg drops what follows, and would delete another file
            raise PermanentError(f"{odd} has a letter in it that is not safe in addresses: it is not deleted")
        for _ in range(_ATTEMPTS):
            if self._try(left):
                return []
            missing = missing_files(self._table, left)
            left = [path for path in left if path not in missing]
        return left

    def _try(self, paths: Sequence[str]) -> bool:
        """Whether it is certain that all of them are gone."""
        java = self._table.java
        files = java.from_json(list(paths), "java.util.ArrayList")
        if not self._in_bulk:
            java.iceberg.CatalogUtil.deleteFiles(self._io, files, "unreachable", True)  # says nothing of what stays
            return not paths
        try:
            self._io.deleteFiles(files)
        except JavaError as error:
            if error_class(error) != _SOME_STAYED and not is_transient(error):
                raise
            return False
        return True


def _with_large_batches(table: IcebergTable) -> Any:
    """The table's own access to storage, or the same with as many keys in a request as S3 allows."""
    java, io = table.java, table.table.io()
    name = str(io.getClass().getName())
    if not name.startswith("org.apache.iceberg.aws.s3.S3FileIO") and not name.endswith(".ResolvingFileIO"):
        return io
    properties = java.jvm.java.util.HashMap(io.properties())
    if properties.containsKey(_BATCH) and properties.containsKey(_THREADS):
        return io
    properties.putIfAbsent(_BATCH, _MOST)
    properties.putIfAbsent(_THREADS, _AT_ONCE)
    conf = table.session.sparkContext._jsc.hadoopConfiguration()
    large = java.iceberg.CatalogUtil.loadFileIO(name, properties, conf)
    if java.class_of(_CREDENTIALS).isInstance(io):
        large.setCredentials(io.credentials())
    return large
