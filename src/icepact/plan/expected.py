"""Rows that outputs will hold: those of the inputs without the deleted ones."""

from collections.abc import Iterable

from icepact.model.files import DataFile, DeleteKind
from icepact.model.snapshot import PinnedFiles


class RemainingRows:
    """Prediction of the rows of one pinned table that deletes leave."""

    def __init__(self, state: PinnedFiles) -> None:
        self._state = state
        self._rows_under: dict[int, int] = {}
        for file in state.files:
            for index in file.deletes:
                self._rows_under[index] = self._rows_under.get(index, 0) + file.rows

    def rows(self, files: Iterable[DataFile]) -> int:
        """Rows that remain. A delete that is not bound to one file is taken to be spread evenly; equality deletes may
        match anything or nothing, and what they remove is learned with the sizes."""
        return sum(file.rows - (min(file.rows, self._deleted(file)) if file.deletes else 0) for file in files)

    def _deleted(self, file: DataFile) -> int:
        deletes = ((self._state.deletes[index], self._rows_under[index]) for index in file.deletes)
        return round(
            sum(d.records * file.rows / max(1, rows) for d, rows in deletes if d.kind is not DeleteKind.EQUALITY)
        )
