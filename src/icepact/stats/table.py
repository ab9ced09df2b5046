"""File statistics of a snapshot: every live file as numbers in columns, without its path.

They are put together from the statistics of its manifests. Whatever is decided about partitions is decided from them;
paths are looked up only for the partitions that are chosen.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from icepact.model.files import DataFile, DeleteFile, Partition, PartitionKey
from icepact.model.snapshot import PinnedFiles, PinnedSnapshot
from icepact.stats.deletes import DeleteIndex
from icepact.stats.manifest import FORMATS, KINDS, NEVER, Flags, Ints, ManifestStats

_ALWAYS = int(np.iinfo(np.int64).min)


def order_of(key: PartitionKey) -> tuple[int, list[tuple[bool, str]]]:
    """Where a partition stands among others."""
    return key[0], [(value is not None, str(value)) for value in key[1]]


def _of_data_files(name: str) -> "cached_property[Ints]":
    """One of `COLUMNS` over all data files, put together when it is first asked for."""
    return cached_property(lambda stats: stats.column(name, deletes=False))


@dataclass(frozen=True, kw_only=True)
class FileStats:
    """Statistics of all live files of one snapshot."""

    pin: PinnedSnapshot
    stats_by_manifest: Mapping[str, ManifestStats]
    """By the path of the manifest."""

    def only(self, wanted: Collection[PartitionKey]) -> "FileStats":
        """Statistics of some partitions. Deletes that apply everywhere stay."""
        everywhere = {spec_id for spec_id, spec in self.pin.specs.items() if spec.unpartitioned}
        parts = {
            path: manifest_stats
            if manifest_stats.deletes and manifest_stats.spec_id in everywhere
            else manifest_stats.only(wanted)
            for path, manifest_stats in self.stats_by_manifest.items()
        }
        if all(parts[path] is manifest_stats for path, manifest_stats in self.stats_by_manifest.items()):
            return self
        return FileStats(
            pin=self.pin, stats_by_manifest={path: part for path, part in parts.items() if part is not None}
        )

    @cached_property
    def partitions(self) -> list[PartitionKey]:
        """Partitions with data files, by spec, in a fixed order."""
        live = {(s.spec_id, p) for s in self.stats_by_manifest.values() if not s.deletes for p in _live(s)}
        return sorted(live, key=order_of)

    @cached_property
    def index(self) -> dict[PartitionKey, int]:
        """Index of each partition in `partitions`."""
        return {partition: at for at, partition in enumerate(self.partitions)}

    def column(self, name: str, *, deletes: bool) -> Ints:
        """One of `COLUMNS` over all manifests: of the data files, or of the delete files."""
        columns = [getattr(s, name) for s in self.stats_by_manifest.values() if s.deletes is deletes]
        return np.concatenate(columns) if columns else np.zeros(0, np.int64)

    def partition_column(self, *, deletes: bool) -> Ints:
        """Of each file: an index into `partitions`; -1 for deletes of partitions that no data file is in."""
        columns = []
        for manifest_stats in self.stats_by_manifest.values():
            if manifest_stats.deletes is deletes:
                table = [self.index.get((manifest_stats.spec_id, p), -1) for p in manifest_stats.partitions]
                columns.append(np.array(table or [0], np.int64)[manifest_stats.partition])
        return np.concatenate(columns) if columns else np.zeros(0, np.int64)

    # -- data files -------------------------------------------------------------------------------

    @cached_property
    def partition(self) -> Ints:
        """Of each data file: an index into `partitions`."""
        return self.partition_column(deletes=False)

    size = _of_data_files("size")
    """Bytes of each data file."""
    rows = _of_data_files("rows")
    """Records of each data file, deleted ones included."""
    number = _of_data_files("number")
    """Data sequence number of each data file."""
    row_groups = _of_data_files("row_groups")
    """Offsets at which readers may begin, of each data file."""
    tail = _of_data_files("tail")
    """Bytes of each data file's last row group."""
    format = _of_data_files("kind")
    """Format of each data file, as an index into `FORMATS`."""
    low = _of_data_files("low")
    """Smallest sort key of each data file."""
    high = _of_data_files("high")
    """Largest sort key of each data file."""
    key = _of_data_files("key")
    """Hash of each data file's path."""

    @cached_property
    def bounded(self) -> Flags:
        """Of each data file: whether its smallest and largest sort keys are known; false if the table is not sorted."""
        key = self.pin.sort_key
        parts = [np.full(len(s), s.sorted_by == key != 0) for s in self.stats_by_manifest.values() if not s.deletes]
        known: Flags = np.concatenate(parts) if parts else np.zeros(0, np.bool_)
        return known & (self.low <= self.high) & ((self.low > _ALWAYS) | (self.high < NEVER))

    @cached_property
    def has_duplicate_paths(self) -> Flags:
        """Of each partition: whether one of its data files is listed more than once."""
        _, first, often = np.unique(self.key, return_index=True, return_counts=True)
        duplicated = np.zeros(len(self.partitions), np.bool_)
        if len(first) < len(self.key):
            duplicated[self.partition[np.isin(self.key, self.key[first[often > 1]])]] = True
        return duplicated

    @cached_property
    def counts(self) -> Ints:
        """Of each partition: how many data files it has."""
        return np.bincount(self.partition, minlength=len(self.partitions))

    @cached_property
    def oldest(self) -> Ints:
        """Of each partition: the smallest sequence number of its data files."""
        oldest = np.full(len(self.partitions), NEVER)
        np.minimum.at(oldest, self.partition, self.number)
        return oldest

    # -- deletes ----------------------------------------------------------------------------------

    @cached_property
    def deletes(self) -> "DeleteIndex":
        """All delete files, and where they apply."""
        return DeleteIndex(self)


def file_stats_of(state: PinnedFiles) -> FileStats:
    """Statistics of files that have been listed already, such as those that a row filter selects."""
    parts: dict[str, ManifestStats] = {}
    for spec_id in sorted({file.spec_id for file in state.files}):
        data = [file for file in state.files if file.spec_id == spec_id]
        parts[f"data {spec_id}"] = _stats_of(
            spec_id,
            data,
            rows=[f.rows for f in data],
            row_groups=[len(f.row_groups) or 1 for f in data],
            key=[_hash(f.path) for f in data],
            kind=[FORMATS.index(f.format) for f in data],
            tail=[tail_of(f) for f in data],
        )
    for spec_id in sorted({delete.spec_id for delete in state.deletes}):
        deletes = [delete for delete in state.deletes if delete.spec_id == spec_id]
        parts[f"deletes {spec_id}"] = _stats_of(
            spec_id,
            deletes,
            rows=[d.records for d in deletes],
            row_groups=[1 for _ in deletes],
            key=[0 if d.referenced is None else _hash(d.referenced) for d in deletes],
            kind=[KINDS.index(d.kind) for d in deletes],
            tail=[d.size for d in deletes],
        )
    return FileStats(pin=state, stats_by_manifest=parts)


def _stats_of(
    spec_id: int, files: Sequence[DataFile] | Sequence[DeleteFile], **columns: Sequence[int]
) -> ManifestStats:
    """Files of one spec as a manifest would have them; `columns` are those that data files and deletes tell in ways of
    their own."""
    partitions = {partition: at for at, partition in enumerate({f.partition: None for f in files})}
    nothing = np.zeros(len(files), np.int64)
    own: dict[str, Any] = {name: _ints(values) for name, values in columns.items()}
    return ManifestStats(
        spec_id=spec_id,
        deletes=isinstance(files[0], DeleteFile),
        partitions=tuple(partitions),
        partition=_ints(partitions[f.partition] for f in files),
        size=_ints(f.size for f in files),
        number=_ints(f.sequence_number for f in files),
        low=nothing,
        high=nothing,
        **own,
    )


def tail_of(file: DataFile) -> int:
    """Bytes of the last row group of a data file, as far as the manifest tells."""
    return file.size - file.row_groups[-1] if file.row_groups else file.size


def _live(manifest_stats: ManifestStats) -> Iterable[Partition]:
    """Partitions that any file is in; statistics that were cut down may name others, too."""
    return (manifest_stats.partitions[at] for at in np.unique(manifest_stats.partition).tolist())


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _hash(path: str) -> int:
    """Never 0, which stands for no path."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little", signed=True) or 1
