"""Health of a table: facts per partition and for the whole, from its file statistics alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from icepact.assess.facts import facts_of
from icepact.assess.groups import group_partitions
from icepact.assess.inspection import Inspection, LastCompacted
from icepact.assess.signals import score
from icepact.model.files import PartitionKey
from icepact.model.health import Facts, Health, Overlap, PartitionGroup, PartitionHealth
from icepact.model.histogram import Histogram
from icepact.model.policy import Policy
from icepact.model.snapshot import PinnedSnapshot
from icepact.stats.manifest import KINDS
from icepact.stats.table import FileStats, order_of
from icepact.stats.totals import PartitionTotals


def assess(
    stats: FileStats, policy: Policy, *, last_compacted: LastCompacted | None = None, before: Inspection | None = None
) -> Health:
    """Health of a pinned table.

    `before` is an earlier inspection: partitions that are in no manifest that came or went since keep what it says.
    """
    last_compacted = last_compacted or {}
    changed = None if before is None else _changed(before, stats, policy, last_compacted)
    if before is None or changed is None:
        return _health(stats, stats, policy, last_compacted)
    return _health(
        stats,
        stats.only(changed),
        policy,
        last_compacted,
        partitions=[p for p in before.health.partitions if (p.spec_id, p.partition) not in changed],
        partition_groups=[group for group in before.health.partition_groups if group.keys[0] not in changed],
        dangling={key: count for key, count in before.health.dangling.items() if key not in changed},
    )


def _changed(
    before: Inspection, stats: FileStats, policy: Policy, last_compacted: LastCompacted
) -> frozenset[PartitionKey] | None:
    """Partitions that may not be as they were; `None` if that can be any."""
    asked = (before.policy.without_budgets, before.last_compacted)
    if asked != (policy.without_budgets, last_compacted) or _whole_table(before.stats) != _whole_table(stats):
        return None
    if list(before.stats.pin.moments) != list(stats.pin.moments[: len(before.stats.pin.moments)]):
        return None  # snapshots have expired: of some files it is not known any more when they came
    if any(manifest_stats.spec_id != stats.pin.spec_id for manifest_stats in stats.stats_by_manifest.values()):
        return None  # files of old specs are one partition group
    if stats.pin.specs[stats.pin.spec_id].unpartitioned:
        return None  # so is everything
    was, now = before.stats.stats_by_manifest, stats.stats_by_manifest
    moved = [*(now[path] for path in now.keys() - was.keys()), *(was[path] for path in was.keys() - now.keys())]
    return frozenset(
        (manifest_stats.spec_id, partition) for manifest_stats in moved for partition in manifest_stats.partitions
    )


def _whole_table(stats: FileStats) -> tuple[Any, ...]:
    """What a whole table is judged by."""
    pin: PinnedSnapshot = stats.pin
    names = ("uuid", "branch", "format_version", "specs", "spec_id", "sort_key", "sort_order", "properties", "schema")
    only_here = pin.snapshot_id if pin.format_version == 1 else None  # without sequence numbers any commit is news
    return (*(getattr(pin, name) for name in names), list(pin.last_runs), only_here)


def _health(
    stats: FileStats,
    part: FileStats,
    policy: Policy,
    last_compacted: LastCompacted,
    *,
    partitions: Sequence[PartitionHealth] = (),
    partition_groups: Sequence[PartitionGroup] = (),
    dangling: Mapping[PartitionKey, int] | None = None,
) -> Health:
    """Health of a table of whose statistics only a part is counted; what the rest has is given."""
    pin, threshold = stats.pin, policy.min_file_size
    judged = group_partitions(part, policy, last_compacted)
    counted = {group.keys[0]: group.facts for group in judged if len(group.keys) == 1}
    if len(counted) < len(part.partitions):
        counted = dict(zip(part.partitions, facts_of(PartitionTotals(part), threshold), strict=True))
    fresh = [
        PartitionHealth(
            spec_id=spec_id,
            partition=partition,
            name=pin.show_partition(spec_id, partition),
            facts=counted[spec_id, partition],
            score=score(counted[spec_id, partition]),
        )
        for spec_id, partition in part.partitions
    ]
    partitions = [*partitions, *fresh]
    partition_groups = [*partition_groups, *judged]
    if len(fresh) < len(partitions):
        partitions.sort(key=lambda p: order_of((p.spec_id, p.partition)))
        partition_groups.sort(key=lambda group: (group.target_partitions > 0, order_of(group.keys[0])))
    dangling = {**(dangling or {}), **_dangling(part)}
    facts = _total(partitions, stats)
    return Health(
        table=pin.table,
        branch=pin.branch,
        snapshot_id=pin.snapshot_id,
        format_version=pin.format_version,
        threshold=threshold,
        target=policy.target_file_size,
        facts=facts,
        score=score(facts),
        dangling=dangling,
        manifests=pin.manifests,
        snapshots=pin.snapshots,
        partitions=partitions,
        partition_groups=partition_groups,
        histogram=Histogram.sum(s.sizes for s in stats.stats_by_manifest.values() if not s.deletes),
    )


def _dangling(stats: FileStats) -> Mapping[PartitionKey, int]:
    """Deletes that apply to no live file, by the partition that they are in."""
    dangling: Counter[PartitionKey] = Counter()
    begin, idle = 0, ~stats.deletes.applied
    for manifest_stats in stats.stats_by_manifest.values():
        if manifest_stats.deletes:
            for at in manifest_stats.partition[idle[begin : begin + len(manifest_stats)]].tolist():
                dangling[(manifest_stats.spec_id, manifest_stats.partitions[at])] += 1
            begin += len(manifest_stats)
    return dangling


def _total(partitions: Sequence[PartitionHealth], stats: FileStats) -> Facts:
    parts = [p.facts for p in partitions]
    # over the table: one delete file can apply to many partitions
    kinds, records = stats.column("kind", deletes=True), stats.column("rows", deletes=True)
    overlaps = [f.overlap for f in parts if f.overlap is not None]
    return Facts(
        data_files=sum(f.data_files for f in parts),
        small_files=sum(f.small_files for f in parts),
        mergeable_files=sum(f.mergeable_files for f in parts),
        bytes=sum(f.bytes for f in parts),
        rows=sum(f.rows for f in parts),
        row_groups=sum(f.row_groups for f in parts),
        delete_files={kind.value: int((kinds == number).sum()) for number, kind in enumerate(KINDS)},
        delete_records={kind.value: int(records[kinds == number].sum()) for number, kind in enumerate(KINDS)},
        single_deletes=sum(f.single_deletes for f in parts),
        overlap=Overlap.sum(overlaps) if overlaps else None,
    )
