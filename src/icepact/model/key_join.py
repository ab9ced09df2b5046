"""When equality deletes are more than a task can look up in its memory, and what is done then."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from icepact.model.documents import Document
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.formatting import format_size, plural

_BYTES_PER_KEY, _BYTES_PER_COLUMN, _BYTES_PER_STORED_BYTE = 32, 24, 3
"""Of a lookup in memory: for each key its hash and where it is found, for each of its columns, and of texts for each
byte on storage, where they are compressed. Measured for numbers; texts may take more or less."""
_SHARE = 2
"""Half of a task's memory may be lookups: they take twice as much while they are built."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyJoin(Document):
    """Keys of equality deletes that are joined with the keys of data files by Spark, which sorts and spills them,
    instead of being looked up in a task's memory."""

    data_files: int
    """Whose keys are joined."""
    rows: int
    """Of these data files."""
    keys: int
    """Records of the deletes."""
    lookup_bytes: int
    """Memory that looking these keys up would take."""
    memory: int
    """Bytes that lookups may take in a task."""

    def __str__(self) -> str:
        keys, files = plural(self.keys, "key"), plural(self.data_files, "data file")
        return (
            f"{keys} are joined with those of {files} by Spark: to look them up would take "
            f"{format_size(self.lookup_bytes)} of a task's memory, and {format_size(self.memory)} may be used for that"
        )


def lookup_bytes(delete: DeleteFile) -> int:
    """Memory that a lookup of the keys of a delete takes; none if it has no keys."""
    if delete.kind is not DeleteKind.EQUALITY:
        return 0
    each = _BYTES_PER_KEY + _BYTES_PER_COLUMN * len(delete.equality_ids)
    return delete.records * each + _BYTES_PER_STORED_BYTE * delete.size


def lookup_limit(task_memory: int) -> int:
    """Bytes that lookups may take in a task."""
    return task_memory // _SHARE


def is_joined(deletes: Iterable[DeleteFile], task_memory: int) -> bool:
    """Whether the keys of the deletes that apply to a data file are joined, and not looked up."""
    return sum(map(lookup_bytes, deletes)) > lookup_limit(task_memory)


class KeyLookups:
    """What looking up the keys of some deletes takes."""

    def __init__(self, deletes: Sequence[DeleteFile], task_memory: int, *, only: Collection[int] | None = None) -> None:
        """Of the deletes, none but `only` count, by their numbers."""
        self._deletes = deletes
        self._limit = lookup_limit(task_memory)
        self._taken = [lookup_bytes(d) if only is None or n in only else 0 for n, d in enumerate(deletes)]
        self._fit = sum(self._taken) <= self._limit

    def join(self, files: Iterable[DataFile]) -> KeyJoin | None:
        """The join that some of these data files need; `None` if each task can look all keys up."""
        if self._fit:
            return None
        taken, heavy, mine = self._taken, list[DataFile](), set[int]()
        for file in files:
            if sum(taken[number] for number in file.deletes) > self._limit:
                heavy.append(file)
                mine.update(number for number in file.deletes if taken[number])
        if not heavy:
            return None
        return KeyJoin(
            data_files=len(heavy),
            rows=sum(file.rows for file in heavy),
            keys=sum(self._deletes[number].records for number in mine),
            lookup_bytes=sum(taken[number] for number in mine),
            memory=self._limit,
        )
