"""Reader of manifest statistics: the live files of each manifest of a snapshot, in bulk; and the paths of those that a
plan may need."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from pydantic_core import from_json

from icepact.iceberg.java.bridge import retry_reads, through_a_file
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.scan import gc_paused
from icepact.iceberg.table.table import IcebergTable, live_twice
from icepact.model.files import DataFile, PartitionKey, as_partition
from icepact.model.snapshot import PinnedFiles, PinnedSnapshot
from icepact.stats.manifest import COLUMNS, Ints, ManifestStats
from icepact.stats.paths import ManifestPaths
from icepact.stats.table import FileStats

_DATA = ["content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "split_offsets"]
_BOUNDS = ["lower_bounds", "upper_bounds"]
_PATHS = ["first_row_id"]
"""What a file needs besides its statistics and its path."""
_DELETES = [
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "equality_ids"),
    *("referenced_data_file", "content_offset", "content_size_in_bytes", *_BOUNDS),
]
_AT_ONCE = 4
"""Manifests that are read at the same time."""

LoadStats = Callable[[Sequence[str]], Mapping[str, ManifestStats]]
"""Looks up the statistics of manifests by their paths; what is missing has to be read."""
SaveStats = Callable[[Mapping[str, ManifestStats], Sequence[str]], None]
"""Takes statistics that were read, and the paths of all manifests of the snapshot."""


class PathCache(Protocol):
    """Cache of the paths of data files, by the path of their manifest."""

    def names(self, paths: Sequence[str]) -> Mapping[str, ManifestPaths]:
        """The paths of the files in these manifests, as far as they are kept."""

    def keep_names(self, names: Mapping[str, ManifestPaths]) -> None:
        """Keep paths that were read."""


def read_file_stats(
    table: IcebergTable, pin: PinnedSnapshot, *, known: LoadStats, keep: SaveStats, path_cache: PathCache | None = None
) -> FileStats:
    """Statistics of all files of a pinned snapshot. Manifests that `known` has are not read again; `keep` takes what
    was read. Whoever brings a path cache will ask for paths, too: they are read at the same time."""
    snapshot = None if pin.snapshot_id is None else table.table.snapshot(pin.snapshot_id)
    if snapshot is None:
        return FileStats(pin=pin, stats_by_manifest={})
    listed = snapshot.allManifests(table.table.io())
    paths = table.manifest_paths(listed)
    found = {
        path: manifest_stats
        for path, manifest_stats in known(paths).items()
        if manifest_stats.deletes or manifest_stats.sorted_by == pin.sort_key
    }
    missing = {path: listed[at] for at, path in enumerate(paths) if path not in found}
    if missing:
        read = _read(table, missing, pin.sort_key, named=path_cache is not None)
        stats_by_manifest = {path: manifest_stats for path, (manifest_stats, _) in read.items()}
        keep(stats_by_manifest, paths)
        if path_cache is not None:
            path_cache.keep_names({path: names for path, (_, names) in read.items() if names is not None})
        found |= stats_by_manifest
    return FileStats(pin=pin, stats_by_manifest={path: found[path] for path in paths})


def list_files(
    table: IcebergTable, stats: FileStats, partitions: Collection[PartitionKey], path_cache: PathCache
) -> PinnedFiles:
    """A pinned snapshot with the files of some partitions. Iceberg scans only partitions in which deletes apply."""
    part = stats.only(partitions)
    touched = frozenset(part.partitions[at] for at in np.unique(part.partition[part.deletes.touched]).tolist())
    state = table.listed(stats, touched)
    scanned = [file for file in state.files if (file.spec_id, file.partition) in touched]
    files = [*scanned, *_named(table, stats, frozenset(partitions) - touched, path_cache)]
    return replace(state, files=files, live_twice=live_twice(files))


def _named(
    table: IcebergTable, stats: FileStats, partitions: Collection[PartitionKey], path_cache: PathCache
) -> list[DataFile]:
    """The files of some partitions that no deletes apply to."""
    wanted = {
        path: rows
        for path, manifest_stats in stats.stats_by_manifest.items()
        if len(rows := _rows_of(manifest_stats, partitions))
    }
    if not wanted:
        return []
    names = dict(path_cache.names(list(wanted)))
    missing = wanted.keys() - names.keys()
    if missing:
        listed = table.table.snapshot(stats.pin.snapshot_id).allManifests(table.table.io())
        manifests = {path: listed[at] for at, path in enumerate(table.manifest_paths(listed)) if path in missing}
        read = _read(table, manifests, 0, named=True)
        fresh = {path: paths for path, (_, paths) in read.items() if paths is not None}
        path_cache.keep_names(fresh)
        names |= fresh
    with gc_paused():
        return [
            file for path, rows in wanted.items() for file in names[path].files(stats.stats_by_manifest[path], rows)
        ]


def _rows_of(manifest_stats: ManifestStats, partitions: Collection[PartitionKey]) -> Ints:
    """The files of a manifest that are in some partitions, as indexes into its statistics."""
    inside = [(manifest_stats.spec_id, partition) in partitions for partition in manifest_stats.partitions]
    if manifest_stats.deletes or not any(inside):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.array(inside, np.bool_)[manifest_stats.partition])


def _read(
    table: IcebergTable, manifests: Mapping[str, Any], sort_key: int, *, named: bool
) -> dict[str, tuple[ManifestStats, ManifestPaths | None]]:
    with ThreadPoolExecutor(min(_AT_ONCE, len(manifests))) as threads:
        over = threads.map if len(manifests) > 1 else map
        read = over(lambda manifest: read_manifest_stats(table, manifest, sort_key, named=named), manifests.values())
        return dict(zip(manifests, read, strict=True))


@retry_reads
def read_manifest_stats(
    table: IcebergTable, manifest: Any, sort_key: int, *, named: bool = False
) -> tuple[ManifestStats, ManifestPaths | None]:
    """Statistics of the live files of one manifest, and their paths if they are data files and paths are asked for."""
    java, specs = table.java, table.table.specs()
    deletes = str(manifest.content()) == "DELETES"
    prefix = f"{str(table.table.location()).rstrip('/')}/" if named and not deletes else None
    wanted = _DELETES if deletes else [*_DATA, *(_BOUNDS if sort_key else ()), *(_PATHS if prefix else ())]
    columns = java.from_json(wanted, "java.util.ArrayList")
    kind = table.table.schema().findType(sort_key) if sort_key else None
    reading = instance_of(java, "ManifestStatsReader")
    reading.read(manifest, table.table.io(), specs, columns, sort_key, kind, prefix)
    numbers = np.frombuffer(through_a_file(reading.write), "<i8").reshape(len(COLUMNS), -1)
    manifest_stats = ManifestStats(
        spec_id=int(manifest.partitionSpecId()),
        deletes=deletes,
        sorted_by=0 if deletes else sort_key,
        partitions=tuple(as_partition(values) for values in from_json(reading.partitions())),
        **dict(zip(COLUMNS, numbers, strict=True)),
    )
    names = None if prefix is None else ManifestPaths.from_bytes(through_a_file(reading.writeNames), prefix)
    return manifest_stats, names
