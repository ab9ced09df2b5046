"""Facts: what is counted in each group of partitions."""

from collections.abc import Sequence

import numpy as np

from icepact.assess.overlap import overlaps
from icepact.model.files import DeleteKind
from icepact.model.health import Facts, Overlap
from icepact.stats.totals import PartitionTotals


def facts_of(totals: PartitionTotals, threshold: int) -> list[Facts]:
    """Facts of every group of the totals; files below the threshold, in bytes, are small."""
    kinds, size = [kind.value for kind in DeleteKind], totals.stats.size
    columns = zip(
        totals.sums().tolist(),
        totals.sums(where=size < threshold).tolist(),
        totals.sums(size).tolist(),
        totals.sums(totals.stats.rows).tolist(),
        totals.sums(totals.stats.row_groups).tolist(),
        np.stack([totals.deletes(kind) for kind in DeleteKind], axis=1).tolist(),
        np.stack([totals.deletes(kind, records=True) for kind in DeleteKind], axis=1).tolist(),
        totals.sums(where=totals.stats.deletes.single & (size >= threshold)).tolist(),
        _overlaps(totals),
        strict=True,
    )
    return [
        Facts(
            data_files=files,
            small_files=small,
            mergeable_files=small if small > 1 else 0,
            bytes=total,
            rows=rows,
            row_groups=row_groups,
            delete_files=dict(zip(kinds, delete_files, strict=True)),
            delete_records=dict(zip(kinds, delete_records, strict=True)),
            single_deletes=single,
            overlap=overlap,
        )
        for files, small, total, rows, row_groups, delete_files, delete_records, single, overlap in columns
    ]


def _overlaps(totals: PartitionTotals) -> Sequence[Overlap | None]:
    """Of each group: how deep its files lie over each other; `None` if the bounds of none are known."""
    stats = totals.stats
    if not stats.pin.sort_key:
        return [None] * totals.groups
    known = stats.bounded
    every = overlaps(totals.of_file[known], stats.low[known], stats.high[known], groups=totals.groups)
    return [overlap if overlap.files else None for overlap in every]
