"""Where rows of a file are in other files, by their row ids: for outputs of methods that keep no row map.

Format version 3 only, and only for rows that have an id: those of a table that was upgraded have none.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icepact.execute.assemble.row_map import Located, check_positions
from icepact.execute.assemble.target import ROW_ID
from icepact.execute.storage.base import Storage

_FIELD_ID = b"PARQUET:field_id"


class IdentifiedFile(NamedTuple):
    """A Parquet file whose rows have ids."""

    path: str
    size: int
    rows: int
    first_row_id: int | None
    """That of its first row, for rows without an id of their own; `None` if such rows have none."""


def locate_by_id(
    file: IdentifiedFile, positions: NDArray[np.int64], outputs: Sequence[IdentifiedFile], storage: Storage
) -> Located:
    """Where rows of an input are now; positions ascend, and each is given once. Only columns of ids are read.

    Raises ValueError if ids do not tell: a row without one, or one that two rows have.
    """
    check_positions(positions, file.rows)
    if not len(positions):
        return Located({}, positions)
    wanted = _ids_at(file, positions, storage)
    order = np.argsort(wanted, kind="stable")
    ordered = wanted[order]
    if np.any(ordered[1:] == ordered[:-1]):
        raise ValueError(f"{file.path}: two rows have one id")
    times = np.zeros(len(wanted), dtype=np.int64)
    moved: dict[int, NDArray[np.int64]] = {}
    for number, output in enumerate(outputs):
        found = [np.empty(0, dtype=np.int64)]
        for first, ids in _ids(output, storage):
            at = np.searchsorted(ordered, ids)
            hit = np.flatnonzero((at < len(ordered)) & (ordered[np.minimum(at, len(ordered) - 1)] == ids))
            np.add.at(times, order[at[hit]], 1)
            found.append(hit + first)
        if any(map(len, found)):
            moved[number] = np.concatenate(found)
    if np.any(times > 1):
        raise ValueError(f"{file.path}: two rows of its outputs have one id")
    return Located(moved, positions[times == 0])


def _ids_at(file: IdentifiedFile, positions: NDArray[np.int64], storage: Storage) -> NDArray[np.int64]:
    """The ids of some rows."""
    parts = [np.empty(0, dtype=np.int64)]
    for first, ids in _ids(file, storage):
        start, end = np.searchsorted(positions, [first, first + len(ids)])
        parts.append(ids[positions[start:end] - first])
    return np.concatenate(parts)


def _ids(file: IdentifiedFile, storage: Storage) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The ids of all rows, row group by row group, each with the position of its first row."""
    source = storage.open(file.path, file.size)
    try:
        with pq.ParquetFile(source.arrow()) as parquet:
            own = [f.name for f in parquet.schema_arrow if (f.metadata or {}).get(_FIELD_ID) == str(ROW_ID).encode()]
            first = 0
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                inherited = None if file.first_row_id is None else np.arange(rows) + (file.first_row_id + first)
                yield first, _resolved(file, inherited, parquet.read_row_group(group, own)[own[0]] if own else None)
                first += rows
    finally:
        source.close()


def _resolved(file: IdentifiedFile, inherited: NDArray[np.int64] | None, stored: Any) -> NDArray[np.int64]:
    """Ids as they are stored; where there is none, the one that the row inherits from its file."""
    if stored is not None and stored.null_count == 0:
        ids: NDArray[np.int64] = stored.to_numpy()
        return ids
    if inherited is None:
        raise ValueError(f"{file.path} has rows without an id")
    if stored is None:
        return inherited
    missing = stored.is_null().to_numpy()
    return np.where(missing, inherited, stored.fill_null(0).to_numpy())
