"""Facts per partition and for the table, from the pinned manifests alone."""

from collections.abc import Iterable, Sequence

from icepact.assess.signals import score
from icepact.model.health import Facts, Health, PartitionHealth
from icepact.model.policy import Policy
from icepact.model.table import DataFile, DeleteFile, DeleteKind, TableState


def assess(state: TableState, policy: Policy) -> Health:
    """The health of a pinned table."""
    threshold = policy.min_file_size
    partitions = []
    for (spec_id, partition), files in state.by_partition.items():
        attached = sorted({index for file in files for index in file.deletes})
        facts = _facts(files, [state.deletes[i] for i in attached], threshold)
        partitions.append(
            PartitionHealth(
                spec_id=spec_id,
                partition=partition,
                name=state.show_partition(spec_id, partition),
                facts=facts,
                score=score(facts),
            )
        )
    facts = _total(partitions, state.deletes)
    used = {index for file in state.files for index in file.deletes}
    return Health(
        table=state.table,
        branch=state.branch,
        snapshot_id=state.snapshot_id,
        format_version=state.format_version,
        threshold=threshold,
        target=policy.target_file_size,
        facts=facts,
        score=score(facts),
        dangling_delete_files=len(state.deletes) - len(used),
        manifests=state.manifests,
        snapshots=state.snapshots,
        partitions=partitions,
    )


def _facts(files: Sequence[DataFile], deletes: Sequence[DeleteFile], threshold: int) -> Facts:
    small = sum(1 for f in files if f.size < threshold)
    return Facts(
        data_files=len(files),
        small_files=small,
        mergeable_files=small if small > 1 else 0,
        bytes=sum(f.size for f in files),
        rows=sum(f.rows for f in files),
        row_groups=sum(len(f.row_groups) or 1 for f in files),
        delete_files=_by_kind((d.kind, 1) for d in deletes),
        delete_records=_by_kind((d.kind, d.records) for d in deletes),
    )


def _total(partitions: Sequence[PartitionHealth], deletes: Sequence[DeleteFile]) -> Facts:
    parts = [p.facts for p in partitions]
    return Facts(
        data_files=sum(f.data_files for f in parts),
        small_files=sum(f.small_files for f in parts),
        mergeable_files=sum(f.mergeable_files for f in parts),
        bytes=sum(f.bytes for f in parts),
        rows=sum(f.rows for f in parts),
        row_groups=sum(f.row_groups for f in parts),
        # counted over the table: one delete file can apply to many partitions
        delete_files=_by_kind((d.kind, 1) for d in deletes),
        delete_records=_by_kind((d.kind, d.records) for d in deletes),
    )


def _by_kind(counts: Iterable[tuple[DeleteKind, int]]) -> dict[str, int]:
    total = {kind.value: 0 for kind in DeleteKind}
    for kind, count in counts:
        total[kind.value] += count
    return total
