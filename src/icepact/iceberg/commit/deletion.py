"""Deletion of many files: in bulk where the store can, several requests at a time."""

from collections.abc import Sequence
from typing import Any

from icepact.iceberg.commit.run_files import missing_files
from icepact.iceberg.java.bridge import JavaError, error_class, is_transient
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import PermanentError

_BATCH, _MOST = "s3.delete.batch-size", "1000"
"""Keys of one request: so many are allowed, a quarter of that is Iceberg's default."""
_THREADS, _AT_ONCE = "s3.delete.num-threads", "8"
"""Requests under way: Iceberg has one for each core, which mostly wait for the store."""
_NOT_PLAIN = ("s3.delete.tags.", "s3.delete-enabled", "s3.access-points.")
"""Beginnings of settings with which deleting is not just to send keys: Iceberg does it then."""
_S3 = "org.apache.iceberg.aws.s3.S3FileIO"
_BULK = "org.apache.iceberg.io.SupportsBulkOperations"
_CREDENTIALS = "org.apache.iceberg.io.SupportsStorageCredentials"
_SOME_STAYED = "BulkDeletionFailureException"
_ATTEMPTS = 3


class BulkDeletion:
    """Deletes files of one table, whole portions at once; files that are gone already are no error."""

    def __init__(self, table: IcebergTable) -> None:
        self._table = table
        io = table.table.io()
        kind = str(io.getClass().getName())
        may_be_s3 = kind == _S3 or kind.endswith(".ResolvingFileIO")
        self._io = _with_large_batches(table, io, kind) if may_be_s3 else io
        self._in_bulk = table.java.class_of(_BULK).isInstance(self._io)
        self._by_us = kind == _S3 and not any(key.startswith(_NOT_PLAIN) for key in table.java.mapping(io.properties()))

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
            if self._by_us:
                return self._by_our_threads(files)
            self._io.deleteFiles(files)
        except JavaError as error:
            if error_class(error) != _SOME_STAYED and not is_transient(error):
                raise
            return False
        return True

    def _by_our_threads(self, files: Any) -> bool:
        settings = self._io.properties()
        most, at_once = int(settings.get(_BATCH)), int(settings.get(_THREADS))
        return bool(instance_of(self._table.java, "S3Deletion").delete(self._io, files, most, at_once))


def _with_large_batches(table: IcebergTable, io: Any, kind: str) -> Any:
    """The same access to storage with as many keys in a request as S3 allows; `kind` is its class."""
    java = table.java
    properties = java.jvm.java.util.HashMap(io.properties())
    if properties.containsKey(_BATCH) and properties.containsKey(_THREADS):
        return io
    properties.putIfAbsent(_BATCH, _MOST)
    properties.putIfAbsent(_THREADS, _AT_ONCE)
    conf = table.session.sparkContext._jsc.hadoopConfiguration()
    large = java.iceberg.CatalogUtil.loadFileIO(kind, properties, conf)
    if java.class_of(_CREDENTIALS).isInstance(io):
        large.setCredentials(io.credentials())
    return large
