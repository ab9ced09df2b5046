"""References to deletes, as the driver sends them to workers."""

from dataclasses import dataclass

from icepact.model.files import DeleteKind


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteRef:
    """One delete file, or one deletion vector inside a Puffin file; small, hashable and picklable."""

    path: str
    kind: DeleteKind
    format: str
    """parquet, avro, orc or puffin."""
    size: int
    """Bytes of the whole file."""
    records: int
    """Delete rows, or positions of a deletion vector, as the manifest says."""
    offset: int | None = None
    """Where the deletion vector starts in its Puffin file; `None` for delete files."""
    length: int | None = None
    """Bytes of the deletion vector; `None` for delete files."""
    equality_ids: tuple[int, ...] = ()
    """Field ids of the key columns of an equality delete."""
    referenced: str | None = None
    """The one data file it belongs to, if it is bound to one."""

    @property
    def key(self) -> tuple[str, int | None]:
        """What tells two deletes apart: vectors share a file."""
        return self.path, self.offset

    def __str__(self) -> str:
        return self.path if self.offset is None else f"{self.path} at offset {self.offset}"
