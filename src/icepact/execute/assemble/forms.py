"""How sources hold their columns decides how outputs do: in dictionaries, or in a special encoding."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from icepact.execute.assemble.decode import in_dictionary, named_encoding
from icepact.execute.assemble.encode import Encoder
from icepact.execute.assemble.target import ROW_ID
from icepact.execute.assemble.view import View
from icepact.execute.parquet.layout import BOOLEAN


class Form(NamedTuple):
    """How columns are written, by the writer's paths."""

    dictionaries: frozenset[str]
    encodings: Mapping[str, str]


class Forms:
    """Remembers how row groups held the target's leaves."""

    def __init__(self, encoder: Encoder) -> None:
        self._paths = encoder.paths
        self._leaves = encoder.target.leaves
        self._in_dictionary: Counter[int] = Counter()
        """By leaf of the target: values that came out of dictionaries, less those that did not."""
        self._encodings: dict[int, str] = {}

    def remember(self, view: View, group: int) -> None:
        """Look at a row group."""
        where = view.input.footer.row_groups[group]
        for number, place in enumerate(view.leaf_of):
            if self._leaves[number].field_id == ROW_ID:  # all differ, and mostly by one
                self._encodings[number] = "DELTA_BINARY_PACKED"
                continue
            if place is None:
                self._in_dictionary[number] += 1
                continue
            chunk = where.chunks[place]
            self._in_dictionary[number] += chunk.values if in_dictionary(chunk) else -chunk.values
            encoding = named_encoding(chunk)
            if encoding is not None and chunk.physical == self._leaves[number].physical:
                self._encodings[number] = encoding

    def of(self, leaves: Sequence[int]) -> Form:
        """How these leaves of the target are written."""
        wanted = [n for n in leaves if self._leaves[n].physical != BOOLEAN]
        return Form(
            dictionaries=frozenset(self._paths[n] for n in wanted if self._in_dictionary[n] > 0),
            encodings={self._paths[n]: self._encodings[n] for n in leaves if n in self._encodings},
        )
