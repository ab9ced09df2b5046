"""What is counted."""

import numpy as np

from icepact.model.census import Tally
from icepact.model.health import Facts
from icepact.model.table import DeleteKind


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
        )
        for files, small, total, rows, row_groups, delete_files, delete_records in columns
    ]
