"""Which delete files apply to nothing once the inputs are replaced. Judged at the head. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from icepact.model.files import DataFile, DeleteFile, DeleteKind, PartitionKey, PartitionSpec


def candidates(
    inputs: frozenset[str],
    files: Sequence[DataFile],
    deletes: Sequence[DeleteFile],
    specs: Mapping[int, PartitionSpec],
) -> list[DeleteFile]:
    """Delete files that touch a partition of the inputs, or are global: the only ones that can become
    dangling by this commit. Deletion vectors go with their data file and are none of our business."""
    partitions = {_partition_key(f) for f in files if f.path in inputs}
    attached = {deletes[i].key for f in files if f.path in inputs for i in f.deletes}
    return [
        d
        for d in deletes
        if d.kind is not DeleteKind.DV and (d.key in attached or _partition_key(d) in partitions or d.is_global(specs))
    ]


def needs_content(inputs: frozenset[str], files: Sequence[DataFile], some: Sequence[DeleteFile]) -> list[DeleteFile]:
    """Position-delete files whose content decides: they share a partition with files that stay."""
    oldest = _oldest(f for f in files if f.path not in inputs)
    return [d for d in some if d.kind is DeleteKind.POSITION and d.referenced is None and _reaches(d, oldest)]


def dangling(
    inputs: frozenset[str],
    files: Sequence[DataFile],
    some: Sequence[DeleteFile],
    *,
    specs: Mapping[int, PartitionSpec],
    oldest_elsewhere: int | None,
    paths_in: Mapping[str, set[str]],
) -> list[DeleteFile]:
    """Those of `some` that no live row needs after the commit.

    `files` are the live files in the inputs' partitions, `oldest_elsewhere` the smallest sequence number
    in all others, `paths_in` the content of the position-delete files that needed reading. The outputs
    are newer than every delete, so no delete applies to them.
    """
    staying = [f for f in files if f.path not in inputs]
    live = {f.path for f in staying}
    partitions = {_partition_key(f) for f in files}
    oldest = _oldest(staying)
    everywhere = min((n for n in (*oldest.values(), oldest_elsewhere) if n is not None), default=None)

    def needed(delete: DeleteFile) -> bool:
        if delete.kind is DeleteKind.EQUALITY:
            first = everywhere if delete.is_global(specs) else oldest.get(_partition_key(delete))
            return first is not None and first < delete.sequence_number
        if delete.referenced is not None:
            unseen = _partition_key(delete) not in partitions
            return delete.referenced not in inputs and (unseen or delete.referenced in live)
        if delete.path in paths_in:
            return bool(paths_in[delete.path] & live)
        return _reaches(delete, oldest)

    return [d for d in some if not needed(d)]


def _partition_key(file: DataFile | DeleteFile) -> PartitionKey:
    return file.spec_id, file.partition


def _oldest(files: Iterable[DataFile]) -> dict[PartitionKey, int]:
    """The smallest sequence number in each partition."""
    oldest: dict[PartitionKey, int] = {}
    for file in files:
        key = _partition_key(file)
        oldest[key] = min(file.sequence_number, oldest.get(key, file.sequence_number))
    return oldest


def _reaches(delete: DeleteFile, oldest: Mapping[PartitionKey, int]) -> bool:
    """A position-delete file may speak of a file that stays: same spec and partition, and not older."""
    first = oldest.get(_partition_key(delete))
    return first is not None and first <= delete.sequence_number
