"""Disks without room: what an error proves about a commit, and what people are told."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from py4j.protocol import Py4JJavaError

from icepact.iceberg.disk import full_disk_remedy, not_carried_out
from icepact.model.errors import is_full

APPLY = "\tat org.apache.iceberg.SnapshotProducer.apply(SnapshotProducer.java:289)"
COMMIT = "\tat org.apache.iceberg.jdbc.JdbcTableOperations.doCommit(JdbcTableOperations.java:131)"
METADATA = (
    "\tat org.apache.iceberg.BaseMetastoreTableOperations.writeNewMetadata(BaseMetastoreTableOperations.java:160)"
)
POOL = "\tat org.apache.iceberg.ManifestFilterManager.filterManifestWithDeletedFiles(ManifestFilterManager.java:500)"


class Thrown(Py4JJavaError):
    """As py4j raises it: its text is Java's stack."""

    def __init__(self, message: str, *trace: str) -> None:
        named = SimpleNamespace(getSimpleName=lambda: "FSError")
        self.java_exception = SimpleNamespace(getClass=lambda: named, getMessage=lambda: message, getCause=lambda: None)
        self._trace = "\n".join([f": org.apache.hadoop.fs.FSError: {message}", *trace])

    def __str__(self) -> str:
        return self._trace


@pytest.mark.parametrize("trace", [(APPLY,), (POOL,), (METADATA, COMMIT)], ids=["manifests", "in a pool", "metadata"])
@pytest.mark.parametrize("message", ["java.io.IOException: No space left on device", "/x (Read-only file system)"])
def test_what_is_written_before_the_catalog_is_asked(message: str, trace: tuple[str, ...]) -> None:
    assert not_carried_out(Thrown(message, *trace))


def test_what_the_catalog_says_itself() -> None:
    """SQLite rolls back what it has no room for; of a server behind a network nothing is proven."""
    assert not_carried_out(Thrown("[SQLITE_FULL] Insertion failed because database is full", COMMIT))
    assert not not_carried_out(Thrown("Service failed: 500: No space left on device", COMMIT))


def test_other_errors_prove_nothing() -> None:
    assert not not_carried_out(Thrown("Connection reset", APPLY))
    assert not not_carried_out(Thrown("No space left on device", COMMIT, "\tSuppressed: java.io.IOException", APPLY))
    assert not not_carried_out(OSError(28, "No space left on device"))


class Usage(NamedTuple):
    """Of a disk."""

    free: int


def test_the_disk_with_the_least_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = {Path("/table"): 7, Path("/scratch"): 5000}

    def usage(path: Path) -> Usage:
        if path not in disks:
            raise FileNotFoundError(path)
        return Usage(free=disks[path])

    monkeypatch.setattr(shutil, "disk_usage", usage)
    told = full_disk_remedy(
        "IOException: No space left on device", ["file:/table/data%20of/t", "/scratch", "s3://bucket/t"]
    )
    assert told == "no space left on the disk of /table/data of/t: free some, then compact again"
    assert is_full(told)
    assert (
        full_disk_remedy("No space left on device", ["s3://bucket/t"]) == "no space left: free some, then compact again"
    )
    assert full_disk_remedy("another matter", ["/table"]) == "another matter"
