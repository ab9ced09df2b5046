"""Files of one partition group as columns: all that packing and prices go by, from statistics or from listed files.

Both bring files into the same order, in which only files that cost the same may be swapped. So what is decided from
statistics costs what is planned from files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.policy import Policy
from icepact.stats.manifest import FORMATS, Flags, Ints
from icepact.stats.table import FileStats, tail_of


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class FileColumns:
    """Columns of equal length."""

    size: Ints
    """Bytes."""
    number: Ints
    """Data sequence numbers."""
    row_groups: Ints
    """How many, at least 1."""
    tail: Ints
    """Bytes of the last row group."""
    hits: Ints
    """Row groups that deletes may touch."""
    touched: Flags
    """Whether any delete applies."""
    format: Ints
    """As indexes into `FORMATS`."""
    origin: Ints
    """Where each file stands in what the columns were made of."""
    deletes_of: Callable[[Ints], Ints]
    """The deletes that apply to any of some files; files are named by their origin."""
    records: Ints
    """Of each delete."""
    keys: Ints
    """Of each delete: its records if they are keys, else 0."""

    def __len__(self) -> int:
        return len(self.size)

    def in_order(self) -> "FileColumns":
        """Largest first; of equal ones by everything that a price depends on."""
        keys = (self.number, self.tail, self.row_groups, self.hits, self.touched, self.format, -self.size)
        differing = [key for key in keys if len(key) and (key != key[0]).any()]
        if not differing:
            return self
        order = np.lexsort(differing)
        columns = ("size", "number", "row_groups", "tail", "hits", "touched", "format", "origin")
        return replace(self, **{name: getattr(self, name)[order] for name in columns})


def columns_of_stats(stats: FileStats, files: Ints) -> FileColumns:
    """Columns of some data files of the statistics."""
    deletes = stats.deletes
    return FileColumns(
        size=stats.size[files],
        number=stats.number[files],
        row_groups=stats.row_groups[files],
        tail=stats.tail[files],
        hits=deletes.hits[files],
        touched=deletes.touched[files],
        format=stats.format[files],
        origin=files,
        deletes_of=deletes.applied_to,
        records=deletes.records,
        keys=deletes.keys,
    ).in_order()


def columns_of_files(files: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> FileColumns:
    """Columns of listed files, which are given in a fixed order."""

    def deletes_of(some: Ints) -> Ints:
        return np.array(sorted({index for at in some.tolist() for index in files[at].deletes}), np.int64)

    return FileColumns(
        size=np.fromiter((f.size for f in files), np.int64),
        number=np.fromiter((f.sequence_number for f in files), np.int64),
        row_groups=np.fromiter((len(f.row_groups) or 1 for f in files), np.int64),
        tail=np.fromiter(map(tail_of, files), np.int64),
        hits=np.fromiter((_hits(f, deletes) if f.deletes else 0 for f in files), np.int64),
        touched=np.fromiter((bool(f.deletes) for f in files), np.bool_),
        format=np.fromiter((FORMATS.index(f.format) for f in files), np.int64),
        origin=np.arange(len(files)),
        deletes_of=deletes_of,
        records=np.fromiter((d.records for d in deletes), np.int64),
        keys=np.fromiter((d.records if d.kind is DeleteKind.EQUALITY else 0 for d in deletes), np.int64),
    ).in_order()


def _hits(file: DataFile, deletes: Sequence[DeleteFile]) -> int:
    """What `DeleteIndex.hits` counts in statistics."""
    row_groups, mine = len(file.row_groups) or 1, [deletes[index] for index in file.deletes]
    if any(delete.kind is DeleteKind.EQUALITY for delete in mine):
        return row_groups
    return min(row_groups, sum(delete.records for delete in mine))


def copied_bytes(files: FileColumns, policy: Policy, *, carried: bool = False) -> Ints:
    """Of each file: bytes of the row groups that are probably copied, large as they are and with no deletes in them;
    where deletes are carried, with any.

    All row groups but the last are taken to be of one size, and deletes to touch large and small ones alike.
    """
    if policy.recode:
        return np.zeros(len(files), np.int64)
    body, others = files.size - files.tail, files.row_groups - 1
    large = np.where((others > 0) & (body >= policy.min_row_group_size * others), body, 0)
    large += np.where(files.tail >= policy.min_row_group_size, files.tail, 0)
    if carried:
        return large
    copied: Ints = large * (files.row_groups - files.hits) // files.row_groups
    return copied
