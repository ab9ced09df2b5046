"""What is counted."""

from collections.abc import Sequence

import numpy as np

from icepact.assess.overlap import overlaps
from icepact.model.health import Facts, Overlap
from icepact.model.table import DeleteKind
from icepact.model.tally import Tally


def counted_facts(tally: Tally, threshold: int) -> list[Facts]:
    """What is counted in every group of a tally."""
    kinds, size = [kind.value for kind in DeleteKind], tally.census.size
    columns = zip(
        tally.sums().tolist(),
        tally.sums(where=size < threshold).tolist(),
        tally.sums(size).tolist(),
        tally.sums(tally.census.rows).tolist(),
        tally.sums(tally.census.row_groups).tolist(),
        np.stack([tally.deletes(kind) for kind in DeleteKind], axis=1).tolist(),
        np.stack([tally.deletes(kind, records=True) for kind in DeleteKind], axis=1).tolist(),
        _overlaps(tally),
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
            overlap=overlap,
        )
        for files, small, total, rows, row_groups, delete_files, delete_records, overlap in columns
    ]


def _overlaps(tally: Tally) -> Sequence[Overlap | None]:
    """Of each group: how deep its files lie over each other; null if the bounds of none are known."""
    census = tally.census
    if not census.pin.sort_key:
        return [None] * tally.groups
    known = census.bounded
    found = overlaps(tally.of_file[known], census.low[known], census.high[known], groups=tally.groups)
    return [overlap if overlap.files else None for overlap in found]
