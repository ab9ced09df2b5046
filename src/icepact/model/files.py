"""Live files of a snapshot, and the partition specs that they follow."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import copysign, isfinite
from typing import Any, NamedTuple

Partition = tuple[Any, ...]
"""Partition values in the order of the spec's fields, as Iceberg's JSON writes them (dates are ISO text)."""


PartitionKey = tuple[int, Partition]
"""A partition of one spec."""


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
    """Row lineage of format version 3; `None` on files from before an upgrade."""
    deletes: tuple[int, ...]
    """Indexes into `PinnedFiles.deletes` of the deletes that apply to this file."""


class DeleteFile(NamedTuple):
    """One live delete file, or one deletion vector inside a Puffin file."""

    path: str
    offset: int | None
    """Where the deletion vector starts in its Puffin file; `None` for delete files."""
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

    def __str__(self) -> str:
        return self.path if self.offset is None else f"{self.path} at offset {self.offset}"

    def is_global(self, specs: "Mapping[int, PartitionSpec]") -> bool:
        """True if it applies to files of every spec and partition: an equality delete of an unpartitioned spec."""
        return self.kind is DeleteKind.EQUALITY and specs[self.spec_id].unpartitioned


class ManifestBounds(NamedTuple):
    """What a manifest says of the columns of a delete file, by field id; absent where it says nothing."""

    lower: Mapping[int, bytes]
    """As Iceberg writes single values."""
    upper: Mapping[int, bytes]
    nulls: Mapping[int, int]
    """How many values are null."""
    values: Mapping[int, int]
    """How many values there are, nulls included."""


def delete_records(files: Iterable[DataFile], deletes: Sequence[DeleteFile]) -> int:
    """Records of the deletes that apply to any of these files, each delete counted once."""
    return sum(deletes[index].records for index in {i for f in files for i in f.deletes})


def signature(files: Iterable[DataFile], deletes: Sequence[DeleteFile]) -> str:
    """Signature of some files and what applies to them; another one as soon as anything changes."""
    entries = sorted([file.path, *sorted(str(deletes[i].key) for i in file.deletes)] for file in files)
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:32]


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


_ODD_WORDS = ("NaN", "Infinity", "-Infinity", "-0.0")
