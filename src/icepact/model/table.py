"""One pinned table state: what every later stage works on, and nothing newer."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from math import copysign, isfinite
from typing import Any, NamedTuple

Partition = tuple[Any, ...]
"""Partition values in the order of the spec's fields, as Iceberg's JSON writes them (dates are ISO text)."""
Key = tuple[int, Partition]
"""A partition of one spec."""


_ODD_WORDS = ("NaN", "Infinity", "-Infinity", "-0.0")


def is_odd(value: Any) -> bool:
    """True for a partition value that Iceberg's JSON cannot be trusted with: it writes what it cannot read again, or
    two zeros that are one to others."""
    return value in _ODD_WORDS or (isinstance(value, float) and (not isfinite(value) or _is_minus_zero(value)))


def as_partition(values: Iterable[Any]) -> Partition:
    """Comparable values: NaN must equal itself, or a delete would not be found to apply to its own partition; and the
    two zeros, which are two partitions, must differ."""
    return tuple([_comparable(value) if isinstance(value, float) else value for value in values])


def _comparable(value: float) -> Any:
    return "NaN" if value != value else "-0.0" if _is_minus_zero(value) else value


def _is_minus_zero(value: float) -> bool:
    return value == 0 and copysign(1.0, value) < 0


class DeleteKind(StrEnum):
    """The three ways in which Iceberg says that rows are gone."""

    POSITION = "position"
    DV = "dv"
    EQUALITY = "equality"


class DataFile(NamedTuple):
    """One live data file. A named tuple, because tables have a hundred thousand of them."""

    path: str
    size: int
    """Bytes."""
    rows: int
    """Records in the file, deleted ones included."""
    spec_id: int
    partition: Partition
    sequence_number: int
    """Data sequence number; 0 on format version 1."""
    format: str
    """parquet, orc or avro."""
    row_groups: tuple[int, ...]
    """Byte offsets at which the manifest lets readers begin: starts of row groups (ORC stripes, Avro blocks), though
    files of ours have more row groups than that; empty if not recorded."""
    first_row_id: int | None
    """Row lineage of format version 3; null on files from before an upgrade."""
    deletes: tuple[int, ...]
    """Indexes into `TableState.deletes` of the deletes that apply to this file."""


class DeleteFile(NamedTuple):
    """One live delete file, or one deletion vector inside a Puffin file."""

    path: str
    offset: int | None
    """Where the deletion vector starts in its Puffin file; null for delete files."""
    kind: DeleteKind
    size: int
    """Bytes of the file; of the blob for a deletion vector."""
    records: int
    spec_id: int
    partition: Partition
    sequence_number: int
    referenced: str | None
    """The one data file it belongs to, if it is bound to one."""
    format: str = "parquet"
    """parquet, orc, avro, or puffin for deletion vectors."""
    file_size: int = 0
    """Bytes of the whole file; for a deletion vector, of the Puffin file around it."""
    equality_ids: tuple[int, ...] = ()
    """Field ids of the key columns of an equality delete."""

    @property
    def key(self) -> tuple[str, int | None]:
        """What tells two deletes apart: vectors share a file."""
        return self.path, self.offset

    def is_global(self, specs: "Mapping[int, PartitionSpec]") -> bool:
        """True if it applies to files of every spec and partition: an equality delete of an unpartitioned spec."""
        return self.kind is DeleteKind.EQUALITY and specs[self.spec_id].unpartitioned


def delete_records(files: Iterable[DataFile], deletes: Sequence[DeleteFile]) -> int:
    """Records of the deletes that apply to any of these files, each delete counted once."""
    return sum(deletes[index].records for index in {i for f in files for i in f.deletes})


def signature(files: Iterable[DataFile], deletes: Sequence[DeleteFile]) -> str:
    """Of some files and what applies to them; another one as soon as anything changes."""
    told = sorted([file.path, *sorted(str(deletes[i].key) for i in file.deletes)] for file in files)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecField:
    """One field of a partition spec."""

    name: str
    transform: str
    """As Iceberg writes it: identity, day, bucket[16], ..."""
    source: str
    """Column that is transformed; empty if it was dropped since."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionSpec:
    """How one generation of files is partitioned."""

    spec_id: int
    fields: tuple[SpecField, ...]

    @property
    def unpartitioned(self) -> bool:
        """True if all files of this spec are in one partition."""
        return all(f.transform == "void" for f in self.fields)

    def show(self, partition: Partition) -> str:
        """`day=2026-01-01/region=eu`; `(all)` for an unpartitioned spec."""
        pairs = zip(self.fields, partition, strict=True)
        shown = [f"{f.name}={_readable(f.transform, v)}" for f, v in pairs if f.transform != "void"]
        return "/".join(shown) or "(all)"


def _readable(transform: str, value: Any) -> Any:
    """Months, years and hours since 1970 as people write them; null as null, and the word null in quotes."""
    if value is None or value == "null":
        return "null" if value is None else "'null'"
    if not isinstance(value, int):
        return value
    match transform:
        case "year":
            return 1970 + value
        case "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case "hour":
            return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=value):%Y-%m-%d-%H}"
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class LastRun:
    """A run of icepact on this branch that left nothing over, read from its snapshot's summary."""

    layout: str
    """Fingerprint of the policy it worked by; see `Policy.fingerprint`."""
    snapshot_id: int
    own_sequence_numbers: frozenset[int]
    """Of its commits."""
    pinned_sequence_number: int
    """What it had seen when it planned: files up to here were judged by it."""
    planned_at: datetime | None = None
    """When it judged what is due; null if its snapshot does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """One snapshot in the life of a branch, as its summary tells it."""

    snapshot_id: int
    at: datetime
    operation: str
    """append, overwrite, replace or delete; empty if it is not told."""
    data_files: int | None
    """Live after it; null if it is not told, as in the following."""
    delete_files: int | None
    """Live after it, deletion vectors included."""
    bytes: int | None
    """Of all live files after it, delete files included."""

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as it is printed with `--json`."""
        return {
            "snapshot_id": self.snapshot_id,
            "at": self.at.isoformat(),
            "operation": self.operation,
            "data_files": self.data_files,
            "delete_files": self.delete_files,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """One snapshot of one table, pinned: all that is known without looking at its files."""

    table: str
    """Name without the catalog, quoted where Spark needs it."""
    uuid: str
    format_version: int
    branch: str
    snapshot_id: int | None
    """Null for a table that has no snapshot yet."""
    sequence_number: int
    schema: str
    """Iceberg's JSON of the current schema."""
    specs: Mapping[int, PartitionSpec]
    spec_id: int
    """The current spec: outputs follow it."""
    sort_order: str
    """The table's sort order in words; `unsorted` if it has none."""
    sort_key: int = field(default=0, kw_only=True)
    """Field id of the first sort column, if files can be told apart by it; else 0."""
    moments: Sequence[tuple[int, int]] = field(default=(), kw_only=True)
    """Sequence numbers of the snapshots that are known, with their milliseconds since 1970; ascending."""
    properties: Mapping[str, str]
    manifests: int
    snapshots: int
    last_runs: Sequence[LastRun] = ()
    """Complete runs among the ancestors of the snapshot, newest first."""

    @property
    def own_sequence_numbers(self) -> frozenset[int]:
        """Of all that these runs wrote; none where the format has no sequence numbers."""
        return frozenset(number for run in self.last_runs for number in run.own_sequence_numbers if number)

    def show_partition(self, spec_id: int, partition: Partition) -> str:
        """A partition as people name it, with its spec if that is not the current one."""
        shown = self.specs[spec_id].show(partition)
        return shown if spec_id == self.spec_id else f"{shown} (old spec {spec_id})"


@dataclass(frozen=True, kw_only=True)
class TableState(Pinned):
    """A pinned table with its files."""

    files: Sequence[DataFile]
    """Live data files that the row filter selects; all of them without one."""
    deletes: Sequence[DeleteFile]
    """All live deletes of the snapshot, those that apply to nothing included."""
    where: str | None = None
    """The row filter by which `files` were selected."""
    live_twice: frozenset[str] = field(default=frozenset())
    """Paths that the snapshot lists more than once: a broken table, never rewritten."""

    @cached_property
    def by_partition(self) -> Mapping[tuple[int, Partition], Sequence[DataFile]]:
        """Live files by spec and partition, in a fixed order."""
        groups: dict[tuple[int, Partition], list[DataFile]] = {}
        for file in self.files:
            groups.setdefault((file.spec_id, file.partition), []).append(file)
        order = sorted(groups, key=lambda key: (key[0], [(v is not None, str(v)) for v in key[1]]))
        return {key: groups[key] for key in order}
