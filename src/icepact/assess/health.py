"""Facts per partition and for the table, from the census of its files alone."""

import numpy as np

from icepact.assess.facts import counted_facts
from icepact.assess.places import places
from icepact.assess.signals import score
from icepact.model.census import Census, Tally
from icepact.model.health import Facts, Health, PartitionHealth
from icepact.model.histogram import Histogram
from icepact.model.policy import Policy
from icepact.model.table import DeleteKind


def assess(census: Census, policy: Policy) -> Health:
    """The health of a pinned table."""
    pin, threshold = census.pin, policy.min_file_size
    partitions = [
        PartitionHealth(
            spec_id=spec_id,
            partition=partition,
            name=pin.show_partition(spec_id, partition),
            facts=facts,
            score=score(facts),
        )
        for (spec_id, partition), facts in zip(census.places, counted_facts(Tally(census), threshold), strict=True)
    ]
    facts = _total(partitions, census)
    return Health(
        table=pin.table,
        branch=pin.branch,
        snapshot_id=pin.snapshot_id,
        format_version=pin.format_version,
        threshold=threshold,
        target=policy.target_file_size,
        facts=facts,
        score=score(facts),
        dangling_delete_files=int(np.count_nonzero(~census.deletes.applied)),
        manifests=pin.manifests,
        snapshots=pin.snapshots,
        partitions=partitions,
        places=places(census, policy),
        histogram=Histogram.of(census.size),
    )


def _total(partitions: list[PartitionHealth], census: Census) -> Facts:
    parts = [p.facts for p in partitions]
    deletes = census.deletes
    return Facts(
        data_files=sum(f.data_files for f in parts),
        small_files=sum(f.small_files for f in parts),
        mergeable_files=sum(f.mergeable_files for f in parts),
        bytes=sum(f.bytes for f in parts),
        rows=sum(f.rows for f in parts),
        row_groups=sum(f.row_groups for f in parts),
        # counted over the table: one delete file can apply to many partitions
        delete_files={kind.value: int(np.count_nonzero(deletes.of(kind))) for kind in DeleteKind},
        delete_records={kind.value: int(deletes.records[deletes.of(kind)].sum()) for kind in DeleteKind},
    )
