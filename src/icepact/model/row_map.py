"""Where the rows of a unit's inputs are in its outputs."""

import base64
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

_VERSION = 1


class RowRange(NamedTuple):
    """Rows that follow each other in an input and in an output. Rows of the input that were dropped do not count."""

    input: int
    """Number of the input in the unit."""
    first: int
    """The first of them, counted among those rows of the input that were not dropped."""
    output: int
    """Number of the output in the unit."""
    at: int
    """Position of the first of them in the output."""
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RowMap:
    """Where each row of a unit's inputs went: into an output, or nowhere.

    It grows with the inputs, the outputs and the positions that were dropped, not with the rows.
    """

    inputs: tuple[int, ...]
    """Rows of each input, in the order of the unit."""
    outputs: tuple[int, ...]
    """Rows of each output, in the order in which they were written."""
    ranges: tuple[RowRange, ...]
    dropped: Mapping[int, bytes]
    """By the number of an input: positions of its rows that went nowhere, as a 64-bit roaring bitmap."""

    def to_bytes(self) -> bytes:
        """All of it, as short as it is predictable."""
        document = {
            "version": _VERSION,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "ranges": list(_differences(self.inputs, self.ranges)),
            "dropped": {number: base64.b64encode(positions).decode() for number, positions in self.dropped.items()},
        }
        return zlib.compress(json.dumps(document, separators=(",", ":")).encode())

    @staticmethod
    def from_bytes(data: bytes) -> "RowMap":
        """What `to_bytes` made. Raises ValueError if another version did."""
        try:
            document: dict[str, Any] = json.loads(zlib.decompress(data))
        except zlib.error as error:
            raise ValueError(f"this is no row map: {error}") from None
        if document["version"] != _VERSION:
            raise ValueError(f"a row map of version {document['version']} is not known")
        inputs = tuple(document["inputs"])
        return RowMap(
            inputs=inputs,
            outputs=tuple(document["outputs"]),
            ranges=tuple(_ranges(inputs, document["ranges"])),
            dropped={int(number): base64.b64decode(text) for number, text in document["dropped"].items()},
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RowMap.from_bytes, (self.to_bytes(),)


class _Expected:
    """The range that is likely to come next: all that is left of the next input, behind what was written last."""

    def __init__(self, inputs: tuple[int, ...]) -> None:
        self.number = 0
        self.first = [0] * len(inputs)
        self.at: defaultdict[int, int] = defaultdict(int)

    def go_on(self, each: RowRange) -> None:
        """After a range."""
        self.number = each.input + 1
        self.first[each.input] = each.first + each.rows
        self.at[each.output] = each.at + each.rows


def _differences(inputs: tuple[int, ...], ranges: Iterable[RowRange]) -> Iterator[tuple[int, ...]]:
    """Ranges as differences from what is expected: mostly zeros."""
    expected = _Expected(inputs)
    for each in ranges:
        number, first, at = expected.number, expected.first[each.input], expected.at[each.output]
        left = inputs[each.input] - first - each.rows
        yield each.input - number, each.first - first, each.output, each.at - at, left
        expected.go_on(each)


def _ranges(inputs: tuple[int, ...], differences: Iterable[list[int]]) -> Iterator[RowRange]:
    expected = _Expected(inputs)
    for further, skipped, output, gap, left in differences:
        number = expected.number + further
        first, at = expected.first[number], expected.at[output]
        each = RowRange(number, first + skipped, output, at + gap, inputs[number] - first - left)
        yield each
        expected.go_on(each)
