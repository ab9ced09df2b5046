"""Deleted rows of a file, row group by row group: one without any may be copied."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.ranges import column_range, constant_of, default_of, in_bloom
from icepact.execute.deletes.bitmaps import PositionSet
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.equality import KeySet
from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.deletes.files import columns_by_id
from icepact.model.files import DeleteKind

Mask = NDArray[np.bool_]
_MOST_PROBES = 1000
"""Keys that are tried in a bloom filter; for more, reading the column is the faster way."""


class DeletedRows:
    """Applies the deletes of one file to its row groups."""

    def __init__(self, view: InputView, cache: DeleteCache) -> None:
        self._view = view
        deletes = view.file.deletes
        by_position = [delete for delete in deletes if delete.kind is not DeleteKind.EQUALITY]
        by_key = [delete for delete in deletes if delete.kind is DeleteKind.EQUALITY]
        self.seen = PositionSet()
        """Positions of the deleted rows of all row groups so far."""
        self._positions = cache.positions(by_position, view.file.path)
        self._key_sets: Sequence[KeySet] = ()
        if by_key:
            ids = {i for delete in by_key for i in delete.equality_ids}
            self._key_sets = cache.key_sets(by_key, view.context.types, {i: default_of(view, i) for i in ids})

    def check_bounds(self) -> None:
        """Refuse positions that the file does not have: copied into a longer output, they would be other rows."""
        rows = self._view.input.footer.rows
        if len(self._positions) and self._positions[-1] >= rows:
            raise BrokenDelete(
                f"deletes of {self._view.file.path} speak of position {self._positions[-1]}, and it has {rows} rows"
            )

    def keep(self, group: int) -> Mask | None:
        """Which rows of a row group survive; `None` if all do."""
        row_group = self._view.input.footer.row_groups[group]
        first, last = np.searchsorted(self._positions, [row_group.first_row, row_group.first_row + row_group.rows])
        gone = self.by_key(group)
        if first == last and gone is None:
            return None
        if gone is None:
            gone = np.zeros(row_group.rows, dtype=bool)
        gone[self._positions[first:last] - row_group.first_row] = True
        self.seen.add(np.flatnonzero(gone) + row_group.first_row)
        return ~gone

    def by_key(self, group: int) -> Mask | None:
        """Which rows of a row group equality deletes delete, whatever others do; `None` if there are none."""
        gone: Mask | None = None
        for keys in self._key_sets:
            if self._may_match(keys, group):
                rows = self._view.input.footer.row_groups[group].rows
                matched = keys.matches(self._key_columns(keys, group), rows)
                gone = matched if gone is None else gone | matched
        return gone if gone is not None and gone.any() else None

    def _may_match(self, keys: KeySet, group: int) -> bool:
        """False if statistics, or the bloom filter of a single key column, rule every key out."""
        known = {i: column_range(self._view, group, i) for i in keys.field_ids}
        if not keys.may_match(known):
            return False
        if len(keys.field_ids) > 1:
            return True
        (field_id,) = keys.field_ids
        values = keys.single_values(field_id, _MOST_PROBES, within=known[field_id])
        return values is None or in_bloom(self._view, group, field_id, values)

    def _key_columns(self, keys: KeySet, group: int) -> dict[int, Any]:
        """The key columns of a row group; of one that the file lacks, its constant."""
        view = self._view
        own = [i for i in keys.field_ids if i in view.leaf_index and i not in view.constants]
        indexes = sorted(view.leaf_index[i] for i in own)
        columns: dict[int, Any] = {}
        for field_id in keys.field_ids:
            if field_id not in own:
                if field_id not in view.constants and not view.lacks(field_id):
                    raise NotAssembled("a key column was added inside a struct that the file has")
                columns[field_id] = constant_of(view, field_id)
        if indexes:
            columns |= self._read(group, indexes, own)
        return columns

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return self._view.opened()

    def _read(self, group: int, indexes: list[int], ids: Sequence[int]) -> dict[int, Any]:
        view = self._view
        table = view.read_columns(self._file, group, indexes)
        if view.has_ids:
            return columns_by_id(table, ids)
        if any(len(view.leaves[n].path) > 1 for n in indexes):
            raise NotAssembled("a key column is inside a struct of a file without field ids")
        columns = {view.leaves[n].field_id: table.column(number) for number, n in enumerate(indexes)}
        return {field_id: column for field_id, column in columns.items() if field_id is not None}
