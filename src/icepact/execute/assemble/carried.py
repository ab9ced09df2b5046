"""Deletes of rows that stay in their row groups: gathered by input, and written anew as deletes of the outputs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from icepact.execute.assemble.row_map import locate, ranges_by_input
from icepact.execute.deletes.bitmaps import PositionSet, decode_positions
from icepact.model.row_map import RowMap, RowRange


class CarriedRows:
    """Deleted rows of a unit's inputs that are copied like any others."""

    def __init__(self, inputs: Sequence[str]) -> None:
        """`inputs` are the paths in the order of the unit."""
        self._number_of = {path: number for number, path in enumerate(inputs)}
        self._deleted: dict[int, PositionSet] = {}

    def add(self, path: str, positions: PositionSet) -> None:
        """All deleted rows of an input."""
        if len(positions):
            self._deleted[self._number_of[path]] = positions

    def in_outputs(self, row_map: RowMap, outputs: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Where these rows are now: positions by the path of an output, in the order of outputs."""
        deleted = {number: decode_positions(positions.encode()) for number, positions in self._deleted.items()}
        return rows_in_outputs(row_map, deleted, outputs)


def rows_in_outputs(
    row_map: RowMap, rows: Mapping[int, NDArray[np.int64]], outputs: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """Where rows are that are given by the number of their input: positions by the path of an output, ascending."""
    parts: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
    ranges = ranges_by_input(row_map)
    for number, positions in sorted(rows.items()):
        for output, moved in locate(row_map, number, positions, ranges.get(number, ())).moved.items():
            parts[output].append(moved)
    return {outputs[number]: np.sort(np.concatenate(some)) for number, some in sorted(parts.items())}


def rows_of_input(
    row_map: RowMap, number: int, ranges: Sequence[RowRange], deleted: Mapping[int, NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Which rows of an input are among these positions in outputs, of a unit that dropped no row of it.

    `ranges` are those of this input, `deleted` are positions, ascending, by the number of an output.
    """
    if number in row_map.dropped:
        raise ValueError("rows of this input were dropped")
    parts = [np.empty(0, dtype=np.int64)]
    for each in ranges:
        if each.output in deleted:
            positions = deleted[each.output]
            start, end = np.searchsorted(positions, [each.at, each.at + each.rows])
            parts.append(positions[start:end] - each.at + each.first)
    return np.sort(np.concatenate(parts))
