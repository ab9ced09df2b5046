"""Which files the snapshots of a table reach, worked out and held in Java; only what is asked for comes to Python."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, NamedTuple
from weakref import finalize

from icepact.iceberg.java.bridge import retry_reads
from icepact.iceberg.java.classes import instance_of, ship
from icepact.iceberg.table.table import IcebergTable
from icepact.model.housekeeping import FileTotals

AT_ONCE = 24_000
"""Files that are held in Python at once: on S3, three requests for each of the eight that are under way."""
MOST_HERE = 2_000_000
"""Entries of manifests that are read in this process; more are read by tasks of Spark."""
_BLOCK = 1 << 20
_KINDS = {
    "D": "data_files",
    "P": "delete_files",
    "M": "manifests",
    "L": "manifest_lists",
    "S": "statistics_files",
    "J": "metadata_files",
    "O": "other_files",
}
"""By the letter that a file is written down with: what it is, as `FileTotals` counts it."""


class FileToDelete(NamedTuple):
    """A file that nobody needs."""

    kind: str
    """A letter of `_KINDS`."""
    size: int
    """0 if it is not known."""
    path: str

    def __str__(self) -> str:
        return f"{self.kind}\t{self.size}\t{self.path}"

    @staticmethod
    def parse(line: str) -> "FileToDelete":
        """From text."""
        kind, size, path = line.split("\t", 2)
        return FileToDelete(kind, int(size), path)


def totals_of(files: Iterable[FileToDelete]) -> FileTotals:
    """How many there are of each kind, and their bytes."""
    counts, size = dict.fromkeys(_KINDS.values(), 0), 0
    for file in files:
        counts[_KINDS[file.kind]] += 1
        size += file.size
    return FileTotals(**counts, bytes=size)


def in_portions(files: Iterable[FileToDelete], size: int = AT_ONCE) -> Iterator[list[FileToDelete]]:
    """So many at a time."""
    each = iter(files)
    while portion := list(islice(each, size)):
        yield portion


class UnreachableFiles:
    """Files of a table that are to go: those that only some snapshots need, or those that somebody wrote down. They
    are held in Java."""

    def __init__(self, table: IcebergTable) -> None:
        self._table = table
        self._java = instance_of(table.java, "Reachability")
        self._others: list[FileToDelete] = []

    @classmethod
    def of_snapshots(cls, table: IcebergTable, snapshot_ids: Sequence[int]) -> "UnreachableFiles":
        """Data and delete files, and manifests, that only these snapshots of a table need."""

        @retry_reads
        def divided() -> UnreachableFiles:
            found = cls(table)
            descriptor, spill = tempfile.mkstemp(prefix="icepact-")
            os.close(descriptor)
            finalize(found, os.unlink, spill)
            spark = table.session.sparkContext._jsc
            ship(table.java, spark, "Reachability")
            ids = table.java.from_json(list(snapshot_ids), "java.util.ArrayList")
            found._java.divide(table.table, ids, spark, MOST_HERE, spill)
            return found

        return divided()

    @classmethod
    def still_unreachable(cls, table: IcebergTable, files: Iterable[FileToDelete]) -> "UnreachableFiles":
        """Of some files, those that no snapshot of the table needs any more; all its manifests are read."""
        found = cls(table)
        descriptor, path = tempfile.mkstemp(prefix="icepact-")
        try:
            with open(descriptor, "wb") as stream:
                stream.writelines(f"{file}\0".encode() for file in files)
            found._java.take(path)
        finally:
            os.unlink(path)
        found.look_again()
        found._java.takeOutManifests()
        return found

    def moved_to(self, table: IcebergTable) -> bool:
        """Whether another reader of the same table can go on with them: it is the same Java."""
        if table.java.gateway is not self._table.java.gateway:
            return False
        self._table = table
        return True

    @retry_reads
    def look_again(self) -> None:
        """Take out what snapshots need that have come since, in the table as it was last read."""
        self._java.lookAgain(self._table.table)

    def keep(self, paths: Iterable[str]) -> None:
        """Take these files out."""
        kept = frozenset(paths)
        for path in kept:
            self._java.keep(path)
        self._others = [file for file in self._others if file.path not in kept]

    def add(self, files: Iterable[FileToDelete]) -> None:
        """Files that are to go, too."""
        self._others += files

    def __iter__(self) -> Iterator[FileToDelete]:
        yield from self._others
        descriptor, path = tempfile.mkstemp(prefix="icepact-")
        try:
            with open(descriptor, "rb") as stream:
                self._java.write(path)
                for line in _ended_by_zero(stream):
                    yield FileToDelete.parse(line)
        finally:
            os.unlink(path)


def _ended_by_zero(stream: BinaryIO) -> Iterator[str]:
    rest = b""
    while block := stream.read(_BLOCK):
        *lines, rest = (rest + block).split(b"\0")
        yield from (line.decode() for line in lines)
