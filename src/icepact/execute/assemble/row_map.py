"""The row map of a unit: recorded while row groups are written, and asked where rows are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icepact.execute.deletes.bitmaps import PositionSet, decode_positions
from icepact.model.row_map import RowMap, RowRange


class SourceRows(NamedTuple):
    """Rows on their way into an output, and where they come from."""

    path: str
    """Of the input."""
    first: int
    """The first of them, counted among those rows of the input that are not dropped."""
    rows: int
    """How many; they follow each other."""


class RowMapRecorder:
    """Hears of each row group that is written, and of the rows that are dropped."""

    def __init__(self, inputs: Mapping[str, int]) -> None:
        """`inputs` has the rows of each input by its path, in the order of the unit."""
        self._rows = tuple(inputs.values())
        self._number_of = {path: number for number, path in enumerate(inputs)}
        self._outputs: list[int] = []
        self._ranges: list[RowRange] = []
        self._dropped: dict[int, PositionSet] = {}

    def dropped(self, path: str, positions: PositionSet) -> None:
        """All rows of an input that go nowhere."""
        if len(positions):
            self._dropped[self._number_of[path]] = positions

    def written(self, output: int, rows: int, sources: Iterable[SourceRows]) -> None:
        """A row group of so many rows was added to an output."""
        self._outputs += [0] * (output + 1 - len(self._outputs))
        end = self._outputs[output] + rows
        for path, first, count in sources:
            self._append(RowRange(self._number_of[path], first, output, self._outputs[output], count))
            self._outputs[output] += count
        if self._outputs[output] != end:
            raise AssertionError(f"the sources of {rows} rows make {self._outputs[output] + rows - end}")

    def _append(self, new: RowRange) -> None:
        """Add a range, as a part of the last one if it goes on where that ends."""
        last = self._ranges[-1] if self._ranges else None
        if last is not None and new[:4] == (last.input, last.first + last.rows, last.output, last.at + last.rows):
            self._ranges[-1] = last._replace(rows=last.rows + new.rows)
        else:
            self._ranges.append(new)

    def row_map(self) -> RowMap:
        """The map, once all is written. Each row is in it once."""
        ends: dict[int, int] = defaultdict(int)
        for each in sorted(self._ranges):
            if each.first != ends[each.input]:
                raise AssertionError(f"rows of input {each.input} are missing or doubled at {each.first}")
            ends[each.input] += each.rows
        for number, rows in enumerate(self._rows):
            if ends[number] + len(self._dropped.get(number, ())) != rows:
                raise AssertionError(f"{ends[number]} of {rows} rows of input {number} were written")
        dropped = {number: positions.encode() for number, positions in sorted(self._dropped.items())}
        return RowMap(inputs=self._rows, outputs=tuple(self._outputs), ranges=tuple(self._ranges), dropped=dropped)


class Located(NamedTuple):
    """Where some rows of an input are."""

    moved: Mapping[int, NDArray[np.int64]]
    """By the number of an output: positions there, ascending."""
    dropped: NDArray[np.int64]
    """Positions in the input of those that are in no output."""


def ranges_by_input(row_map: RowMap) -> Mapping[int, Sequence[RowRange]]:
    """The ranges of a row map by the number of their input, for whoever asks about many inputs."""
    ranges: dict[int, list[RowRange]] = defaultdict(list)
    for each in row_map.ranges:
        ranges[each.input].append(each)
    return ranges


def locate(
    row_map: RowMap, number: int, positions: NDArray[np.int64], ranges: Sequence[RowRange] | None = None
) -> Located:
    """Where rows of an input are now; positions ascend, and each is given once. `ranges` are those of this input, if
    they are known: of a row map of thousands of inputs, all would be looked at for each of them.

    Raises ValueError if a position is not in the file.
    """
    check_positions(positions, row_map.inputs[number])
    gone = decode_positions(row_map.dropped[number]) if number in row_map.dropped else np.empty(0, dtype=np.int64)
    before = np.searchsorted(gone, positions)
    is_gone = np.zeros(len(positions), dtype=bool)
    is_gone[before < len(gone)] = gone[before[before < len(gone)]] == positions[before < len(gone)]
    some = row_map.ranges if ranges is None else ranges
    return Located(_moved(some, number, (positions - before)[~is_gone]), positions[is_gone])


def check_positions(positions: NDArray[np.int64], rows: int) -> None:
    """Refuse positions that are not in a file of so many rows."""
    if len(positions) and not 0 <= positions[0] <= positions[-1] < rows:
        raise ValueError(f"positions {positions[0]} to {positions[-1]} are not within {rows} rows")


def _moved(ranges: Sequence[RowRange], number: int, rows: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Positions in outputs, of rows that are counted among those of an input that were not dropped."""
    parts: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
    for each in ranges:
        if each.input == number:
            start, end = np.searchsorted(rows, [each.first, each.first + each.rows])
            if start < end:
                parts[each.output].append(rows[start:end] + (each.at - each.first))
    return {output: np.sort(np.concatenate(some)) for output, some in parts.items()}
