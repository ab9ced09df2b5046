"""What no number tells of the data files of one manifest, in its order: paths, formats, row ids, offsets.

They lie in memory as one text, because a table has a million of them of which a plan names a few thousand.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from icepact.model.census import Ints, Sheet
from icepact.model.table import DataFile


@dataclass(frozen=True, kw_only=True, eq=False)
class Names:
    """Of the files that a sheet counts."""

    prefix: str
    """What most paths begin with."""
    lines: bytes
    begin: int
    """Of the first line."""
    ends: npt.NDArray[np.int32]
    """Of each file's line."""

    @staticmethod
    def from_bytes(document: bytes, prefix: str) -> "Names":
        """As Java writes them."""
        files = int.from_bytes(document[:4], "little")
        begin = 4 + 4 * files
        return Names(prefix=prefix, lines=document, begin=begin, ends=np.frombuffer(document, "<i4", files, 4) + begin)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def bytes(self) -> int:
        """In memory."""
        return len(self.lines) + self.ends.nbytes

    def files(self, sheet: Sheet, some: Ints) -> Iterator[DataFile]:
        """Some files of the sheet, which no deletes apply to."""
        lines, prefix, spec_id, partitions = self.lines, self.prefix, sheet.spec_id, sheet.partitions
        begins = np.where(some > 0, self.ends[some - 1], self.begin).tolist()
        columns = (column[some].tolist() for column in (sheet.place, sheet.size, sheet.rows, sheet.number))
        shapes: dict[tuple[bytes, bytes], tuple[str, tuple[int, ...]]] = {}
        for begin, end, place, size, rows, number in zip(begins, self.ends[some].tolist(), *columns, strict=True):
            form, row_id, offsets, path = lines[begin:end].split(b"\0", 3)
            shape = shapes.get((form, offsets))
            if shape is None:
                starts = tuple(map(int, offsets.split(b","))) if offsets else ()
                shape = shapes[form, offsets] = form.decode().lower(), starts
            told = path.decode()
            whole = prefix + told[1:] if told[0] == "+" else told[1:]
            first = int(row_id) if row_id else None
            yield DataFile(whole, size, rows, spec_id, partitions[place], number, shape[0], shape[1], first, ())
