"""What outputs will hold: bytes after merging, as the table has taught, and rows without the deleted ones."""

import math
from collections.abc import Iterable

from icepact.model.plan import Method
from icepact.model.policy import Policy
from icepact.model.rates import Rates
from icepact.model.table import DataFile, DeleteKind, TableState
from icepact.plan.methods import copied_bytes
from icepact.plan.packing import AS_IT_IS, Scale, trusted


class Expected:
    """Looks ahead for one pinned table."""

    def __init__(self, state: TableState, policy: Policy, rates: Rates) -> None:
        self._state = state
        self._policy = policy
        self._rates = rates
        self._own = state.own_sequence_numbers
        self._rows_under: dict[int, int] = {}
        for file in state.files:
            for index in file.deletes:
                self._rows_under[index] = self._rows_under.get(index, 0) + file.rows

    def scale(self, method: Method) -> Scale:
        """How large a file's share of an output is. What a run of ours wrote does not shrink once more."""
        ratio = trusted(self._rates.ratio(method), self._policy)
        if ratio == 1.0:
            return AS_IT_IS

        known: dict[str, int] = {}

        def size(file: DataFile) -> int:
            found = known.get(file.path)
            if found is None:
                found = known[file.path] = self._merged(file, method, ratio)
            return found

        return Scale(ratio=ratio, size=size)

    def _merged(self, file: DataFile, method: Method, ratio: float) -> int:
        if file.sequence_number in self._own:
            return file.size
        copied = 0 if method is Method.SPARK else copied_bytes(file, self._state.deletes, self._policy)
        return copied + math.ceil((file.size - copied) * ratio)

    def rows(self, files: Iterable[DataFile]) -> int:
        """Rows that remain. A delete that is not bound to one file is taken to be spread evenly; equality deletes may
        match anything or nothing, and what they remove is learned with the sizes."""
        return sum(file.rows - (min(file.rows, self._deleted(file)) if file.deletes else 0) for file in files)

    def _deleted(self, file: DataFile) -> int:
        deletes = ((self._state.deletes[index], self._rows_under[index]) for index in file.deletes)
        return round(
            sum(d.records * file.rows / max(1, rows) for d, rows in deletes if d.kind is not DeleteKind.EQUALITY)
        )
