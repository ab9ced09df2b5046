"""Statistics of one manifest: its live files as numbers in columns, without their paths.

Manifests never change, so that their statistics can be kept: a table that gained a manifest costs one reading of it.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from icepact.model.files import DeleteKind, Partition, PartitionKey
from icepact.model.histogram import Histogram
from icepact.stats.histogram import histogram_of

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
KINDS = tuple(DeleteKind)
"""Kinds of delete files, in the order of their numbers in the column `kind`."""
FORMATS = ("parquet", "orc", "avro")
"""Formats of data files, in the order of their numbers in the column `kind`."""
COLUMNS = ("partition", "size", "rows", "number", "row_groups", "key", "kind", "low", "high", "tail")
"""Columns of `ManifestStats`, in the order in which they are kept and in which Java writes them."""
_FORMAT = 3
"""Version of the kept document; one of another version is read anew from its manifest."""
NEVER = int(np.iinfo(np.int64).max)
"""A sequence number that no file has."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ManifestStats:
    """The live files of one manifest, in its order: columns of equal length."""

    spec_id: int
    deletes: bool
    """True for delete files."""
    partitions: tuple[Partition, ...]
    """Partitions of the files, each once."""
    partition: Ints
    """Of each file: its partition, as an index into `partitions`."""
    size: Ints
    """Bytes; of the blob for a deletion vector."""
    rows: Ints
    """Records."""
    number: Ints
    """Data sequence number; 0 on format version 1."""
    row_groups: Ints
    """Offsets at which readers may begin, at least 1."""
    key: Ints
    """Hash of the file's path; for delete files, of the data file that it is bound to, and 0 if it is to none."""
    kind: Ints
    """Of delete files: an index into `KINDS`; of data files: one into `FORMATS`."""
    low: Ints
    """Smallest value of the first sort column, as a number of the same order; 0 if there is none."""
    high: Ints
    """Its largest value."""
    tail: Ints
    """Bytes from the last offset at which readers may begin to the end, which is often fewer than the others have; the
    size of a file that has but one."""
    sorted_by: int = 0
    """Field id of that column; 0 if the table has no sort order."""

    def __len__(self) -> int:
        return len(self.size)

    @cached_property
    def index(self) -> Mapping[Partition, int]:
        """Index of each partition in `partitions`."""
        return {partition: at for at, partition in enumerate(self.partitions)}

    @cached_property
    def sizes(self) -> Histogram:
        """Histogram of the sizes of the files."""
        return histogram_of(self.size)

    def only(self, wanted: Collection[PartitionKey]) -> "ManifestStats | None":
        """The files of some partitions; `None` if there are none."""
        if len(wanted) < len(self.partitions):
            taken = sorted(self.index[p] for spec, p in wanted if spec == self.spec_id and p in self.index)
        else:
            taken = [at for at, partition in enumerate(self.partitions) if (self.spec_id, partition) in wanted]
        if len(taken) == len(self.partitions):
            return self
        if not taken:
            return None
        numbers = np.full(len(self.partitions), -1)
        numbers[taken] = np.arange(len(taken))
        renumbered = numbers[self.partition]
        mask = renumbered >= 0
        columns = {name: getattr(self, name)[mask] for name in COLUMNS if name != "partition"}
        kept = tuple(self.partitions[at] for at in taken)
        return replace(self, partitions=kept, partition=renumbered[mask], **columns)

    def to_bytes(self) -> bytes:
        """The document in which the statistics are kept, for `from_bytes`."""
        columns = [_narrow(getattr(self, name)) for name in COLUMNS]
        head = {
            "format": _FORMAT,
            "spec_id": self.spec_id,
            "deletes": self.deletes,
            "sorted_by": self.sorted_by,
            "partitions": self.partitions,
            "widths": [column.itemsize for column in columns],
        }
        encoded = json.dumps(head).encode()
        body = b"".join(column.tobytes() for column in columns)
        return len(encoded).to_bytes(4, "little") + len(body).to_bytes(8, "little") + encoded + body

    @staticmethod
    def from_bytes(document: bytes) -> "ManifestStats | None":
        """Statistics from the document that `to_bytes` made; `None` if it is of another version, or damaged."""
        try:
            begin = 12 + int.from_bytes(document[:4], "little")
            body = int.from_bytes(document[4:12], "little")
            head = json.loads(document[12:begin])
            widths = head["widths"]
            if head["format"] != _FORMAT or len(document) != begin + body or len(widths) != len(COLUMNS):
                return None
            files, rest = divmod(body, sum(widths))
            if rest:
                return None
            columns = {}
            for name, width in zip(COLUMNS, widths, strict=True):
                columns[name] = np.frombuffer(document, f"<i{width}", files, begin).astype(np.int64)
                begin += width * files
            if files and not 0 <= columns["partition"].min() <= columns["partition"].max() < len(head["partitions"]):
                return None
            return ManifestStats(
                spec_id=head["spec_id"],
                deletes=head["deletes"],
                sorted_by=head["sorted_by"],
                partitions=tuple(tuple(values) for values in head["partitions"]),
                **columns,
            )
        except (ValueError, LookupError, TypeError, ArithmeticError):
            return None


def _narrow(column: Ints) -> npt.NDArray[np.signedinteger[Any]]:
    """The same numbers in as few bytes as they need."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    width = next(width for width in (1, 2, 4, 8) if -(2 ** (8 * width - 1)) <= low and high < 2 ** (8 * width - 1))
    return column.astype(f"<i{width}")
