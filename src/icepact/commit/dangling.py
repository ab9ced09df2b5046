"""Which delete files apply to nothing once the inputs are replaced. Judged at the head. Pure."""

from collections.abc import Mapping, Sequence

from icepact.model.table import DataFile, DeleteFile, DeleteKind, PartitionSpec


def candidates(inputs: frozenset[str], files: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> list[DeleteFile]:
    """Delete files that touch a partition of the inputs, or are global: the only ones that can become
    dangling by this commit. Deletion vectors go with their data file and are none of our business."""
    places = {(f.spec_id, f.partition) for f in files if f.path in inputs}
    attached = {deletes[i].key for f in files if f.path in inputs for i in f.deletes}
    return [
        d for d in deletes if d.kind is not DeleteKind.DV and (d.key in attached or (d.spec_id, d.partition) in places)
    ]


def needs_content(inputs: frozenset[str], files: Sequence[DataFile], some: Sequence[DeleteFile]) -> list[DeleteFile]:
    """Position-delete files whose content decides: they share a partition with files that stay."""
    staying = [f for f in files if f.path not in inputs]
    return [
        d
        for d in some
        if d.kind is DeleteKind.POSITION and d.referenced is None and any(_reaches(d, f) for f in staying)
    ]


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

    def needed(delete: DeleteFile) -> bool:
        if delete.kind is DeleteKind.EQUALITY:
            everywhere = specs[delete.spec_id].unpartitioned
            if everywhere and oldest_elsewhere is not None and oldest_elsewhere < delete.sequence_number:
                return True
            return any(
                f.sequence_number < delete.sequence_number
                and (everywhere or (f.spec_id, f.partition) == (delete.spec_id, delete.partition))
                for f in staying
            )
        if delete.referenced is not None:
            return delete.referenced in live
        if delete.path in paths_in:
            return bool(paths_in[delete.path] & live)
        return any(_reaches(delete, f) for f in staying)

    return [d for d in some if not needed(d)]


def _reaches(delete: DeleteFile, file: DataFile) -> bool:
    """A position-delete file may speak of a data file: same spec and partition, and not older."""
    same_place = (file.spec_id, file.partition) == (delete.spec_id, delete.partition)
    return same_place and file.sequence_number <= delete.sequence_number
