"""Encodings of outputs, chosen by those of their inputs: dictionaries, or a special encoding."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from icepact.execute.assemble.decode import in_dictionary, named_encoding
from icepact.execute.assemble.encode import Encoder
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.target import ROW_ID
from icepact.execute.parquet.layout import BOOLEAN


class Form(NamedTuple):
    """Encodings of columns, by the writer's paths."""

    dictionaries: frozenset[str]
    encodings: Mapping[str, str]


class Forms:
    """Counts how row groups of the inputs encode the target's leaves."""

    def __init__(self, encoder: Encoder) -> None:
        self._paths = encoder.paths
        self._leaves = encoder.target.leaves
        self._in_dictionary: Counter[int] = Counter()
        """By leaf of the target: values that came out of dictionaries, less those that did not."""
        self._encodings: dict[int, str] = {}

    def remember(self, view: InputView, group: int) -> None:
        """Count the encodings of a row group."""
        row_group = view.input.footer.row_groups[group]
        for number, index in enumerate(view.leaf_of):
            if self._leaves[number].field_id == ROW_ID:  # all differ, and mostly by one
                self._encodings[number] = "DELTA_BINARY_PACKED"
                continue
            if index is None:
                self._in_dictionary[number] += 1
                continue
            chunk = row_group.chunks[index]
            self._in_dictionary[number] += chunk.values if in_dictionary(chunk) else -chunk.values
            encoding = named_encoding(chunk)
            if encoding is not None and chunk.physical == self._leaves[number].physical:
                self._encodings[number] = encoding

    def of(self, leaves: Sequence[int]) -> Form:
        """Encodings for these leaves of the target."""
        wanted = [n for n in leaves if self._leaves[n].physical != BOOLEAN]
        return Form(
            dictionaries=frozenset(self._paths[n] for n in wanted if self._in_dictionary[n] > 0),
            encodings={self._paths[n]: self._encodings[n] for n in leaves if n in self._encodings},
        )
