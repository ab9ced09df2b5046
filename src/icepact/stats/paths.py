"""Paths of the data files of one manifest, in its order, with what else no number tells: formats, row ids, offsets.

They lie in memory as one text, because a table has a million of them of which a plan names a few thousand.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icepact.model.files import DataFile
from icepact.stats.manifest import Ints, ManifestStats


@dataclass(frozen=True, kw_only=True, eq=False)
class ManifestPaths:
    """Paths of the files that `ManifestStats` counts."""

    prefix: str
    """What most paths begin with."""
    lines: bytes
    begin: int
    """Where the first line begins."""
    ends: npt.NDArray[np.int32]
    """Where each file's line ends."""

    @staticmethod
    def from_bytes(document: bytes, prefix: str) -> "ManifestPaths":
        """Paths from the document that Java writes."""
        files = int.from_bytes(document[:4], "little")
        begin = 4 + 4 * files
        return ManifestPaths(
            prefix=prefix, lines=document, begin=begin, ends=np.frombuffer(document, "<i4", files, 4) + begin
        )

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return len(self.lines) + self.ends.nbytes

    def files(self, manifest_stats: ManifestStats, some: Ints) -> Iterator[DataFile]:
        """Some files of the manifest, by their indexes; no deletes apply to them."""
        lines, prefix, spec_id, partitions = self.lines, self.prefix, manifest_stats.spec_id, manifest_stats.partitions
        begins = np.where(some > 0, self.ends[some - 1], self.begin).tolist()
        columns = (
            column[some].tolist()
            for column in (manifest_stats.partition, manifest_stats.size, manifest_stats.rows, manifest_stats.number)
        )
        shapes: dict[tuple[bytes, bytes], tuple[str, tuple[int, ...]]] = {}
        for begin, end, at, size, rows, number in zip(begins, self.ends[some].tolist(), *columns, strict=True):
            form, row_id, offsets, path = lines[begin:end].split(b"\0", 3)
            shape = shapes.get((form, offsets))
            if shape is None:
                starts = tuple(map(int, offsets.split(b","))) if offsets else ()
                shape = shapes[form, offsets] = form.decode().lower(), starts
            text = path.decode()
            whole = prefix + text[1:] if text[0] == "+" else text[1:]
            first = int(row_id) if row_id else None
            yield DataFile(whole, size, rows, spec_id, partitions[at], number, shape[0], shape[1], first, ())
