"""Reading the census of a snapshot: its manifests, each as one sheet, in bulk."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from pydantic_core import from_json

from icepact.iceberg.java import Java, patient
from icepact.iceberg.scan import partition_values
from icepact.iceberg.table import IcebergTable
from icepact.model.census import KINDS, Census, Ints, Sheet
from icepact.model.table import DeleteKind, Partition, Pinned

_FILE = "org.apache.iceberg.ContentFile"
_DELETE = "org.apache.iceberg.DeleteFile"
_COLUMNS = {
    False: ["content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "split_offsets"],
    True: [
        *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "equality_ids"),
        *("referenced_data_file", "content_offset", "content_size_in_bytes"),
    ],
}
_AT_ONCE = 4
"""Manifests that are read at the same time."""

Known = Callable[[Sequence[str]], Mapping[str, Sheet]]
Keep = Callable[[Mapping[str, Sheet]], None]


@patient
def manifests_of(table: IcebergTable, snapshot: Any) -> dict[str, Any]:
    """Java's own manifests of a snapshot by their paths."""
    listed = snapshot.allManifests(table.table.io())
    paths = table.java.texts(listed, table.java.method("org.apache.iceberg.ManifestFile", "path"))
    return dict(zip(paths, table.java.items(listed), strict=True))


def read_census(table: IcebergTable, pin: Pinned, *, known: Known, keep: Keep) -> Census:
    """The census of a pinned snapshot. `known` gives the sheets of manifests that were read before, `keep` takes new
    ones."""
    snapshot = None if pin.snapshot_id is None else table.table.snapshot(pin.snapshot_id)
    manifests = manifests_of(table, snapshot) if snapshot is not None else {}
    found = dict(known(list(manifests)))
    missing = [path for path in manifests if path not in found]
    if missing:
        with ThreadPoolExecutor(min(_AT_ONCE, len(missing))) as threads:
            read = dict(zip(missing, threads.map(lambda path: read_sheet(table, manifests[path]), missing), strict=True))
        keep(read)
        found |= read
    return Census(pin=pin, sheets=[found[path] for path in manifests])


@patient
def read_sheet(table: IcebergTable, manifest: Any) -> Sheet:
    """The live files of one manifest."""
    java, specs, io = table.java, table.table.specs(), table.table.io()
    deletes = str(manifest.content()) == "DELETES"
    read = java.iceberg.ManifestFiles.readDeleteManifest if deletes else java.iceberg.ManifestFiles.read
    reader = read(manifest, io, specs).select(java.from_json(_COLUMNS[deletes], "java.util.ArrayList"))
    try:
        files = java.listed(reader)
    finally:
        reader.close()
    spec_id = int(manifest.partitionSpecId())
    partitions, place = _places(java, specs[spec_id], files)

    def column(name: str) -> Ints:
        return java.longs(files, java.method(_FILE, name))

    ones = np.ones(len(place), np.int64)
    size = column("fileSizeInBytes")
    if deletes:
        blob = java.longs(files, _or(java, java.method(_DELETE, "contentSizeInBytes"), 0))
        size = np.where(blob > 0, blob, size)
    return Sheet(
        spec_id=spec_id,
        deletes=deletes,
        partitions=partitions,
        place=place,
        size=size,
        rows=column("recordCount"),
        number=java.longs(files, _or(java, java.method(_FILE, "dataSequenceNumber"), 0)),
        row_groups=ones if deletes else np.maximum(1, _lengths(java, files)),
        key=_hashes(java, files, deletes=deletes),
        kind=_kinds(java, files) if deletes else 0 * ones,
    )


def _places(java: Java, spec: Any, files: Any) -> tuple[tuple[Partition, ...], Ints]:
    """The partitions of some files, and of each file which of them it is in.

    Partitions are told apart by their paths: Java's own comparison fails on binary values.
    """
    if spec.isUnpartitioned():
        return ((),), np.zeros(files.size(), np.int64)
    to_path = java.method("org.apache.iceberg.PartitionSpec", "partitionToPath", "org.apache.iceberg.StructLike")
    path = java.chain(java.method(_FILE, "partition"), java.bind(to_path, 0, spec))
    first = java.first_of_each(files, path)
    to_json = java.method("org.apache.iceberg.ContentFileParser", "toJson", _FILE, "org.apache.iceberg.PartitionSpec")
    documents = java.texts(java.listed(first.values()), java.bind(to_json, 1, spec))
    names = java.texts(java.listed(first.keySet()), java.method("java.lang.Object", "toString"))
    index = java.from_json({name: at for at, name in enumerate(names)}, "java.util.HashMap")
    get = java.bind(java.method("java.util.HashMap", "get", "java.lang.Object"), 0, index)
    partitions = tuple(partition_values(from_json(document)["partition"]) for document in documents)
    return partitions, java.longs(files, java.chain(path, get))


def _lengths(java: Java, files: Any) -> Ints:
    offsets = java.method(_FILE, "splitOffsets")
    none = java.jvm.java.util.ArrayList()
    return java.longs(files, java.chain(_or(java, offsets, none), java.method("java.util.List", "size")))


def _hashes(java: Java, files: Any, *, deletes: bool) -> Ints:
    """Two hashes of 32 bits for each path, side by side; both are 0 where there is none."""
    path = java.method(_FILE, "location")
    if deletes:
        path = _or(java, java.method(_DELETE, "referencedDataFile"), "")
    one = java.longs(files, java.chain(path, java.method("java.lang.Object", "hashCode")))
    murmur = java.method("org.apache.iceberg.util.BucketUtil", "hash", "java.lang.CharSequence")
    other = java.longs(files, java.chain(path, murmur))
    return (one << 32) ^ (other & 0xFFFFFFFF)


def _kinds(java: Java, files: Any) -> Ints:
    contents = java.texts(files, java.method(_FILE, "content"))
    formats = java.texts(files, java.method(_FILE, "format"))
    kinds = [
        DeleteKind.EQUALITY
        if content == "EQUALITY_DELETES"
        else DeleteKind.DV
        if written == "PUFFIN"
        else DeleteKind.POSITION
        for content, written in zip(contents, formats, strict=True)
    ]
    return np.array([KINDS.index(kind) for kind in kinds], np.int64)


def _or(java: Java, handle: Any, otherwise: Any) -> Any:
    """A handle that says something else where it said null."""
    instead = java.method("java.util.Objects", "requireNonNullElse", "java.lang.Object", "java.lang.Object")
    return java.chain(handle, java.bind(instead, 1, otherwise))
