"""Deleted rows of a file, row group by row group: one without any may be copied."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.key_pages import key_pages
from icepact.execute.assemble.key_reader import KeyReader
from icepact.execute.assemble.ranges import column_range, default_of, in_bloom
from icepact.execute.deletes.bitmaps import PositionSet
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.equality import KeySet
from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.parquet.errors import Damaged
from icepact.model.files import DeleteKind

Mask = NDArray[np.bool_]
_NOWHERE: NDArray[np.int64] = np.empty(0, dtype=np.int64)
"""No positions."""
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
        self._keys = KeyReader(view)
        if by_key:
            ids = {i for delete in by_key for i in delete.equality_ids}
            self._key_sets = cache.key_sets(by_key, view.context.types, {i: default_of(view.context, i) for i in ids})
        known = view.file.by_key
        self._by_key = _NOWHERE if known is None else cache.positions([known], view.file.path)

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
        row_group = self._view.input.footer.row_groups[group]
        gone: Mask | None = None
        first, last = np.searchsorted(self._by_key, [row_group.first_row, row_group.first_row + row_group.rows])
        if first < last:
            gone = np.zeros(row_group.rows, dtype=bool)
            gone[self._by_key[first:last] - row_group.first_row] = True
        for keys in self._key_sets:
            if self._may_match(keys, group):
                matched = self._matches(keys, group)
                gone = matched if gone is None else gone | matched
        return gone if gone is not None and gone.any() else None

    def _matches(self, keys: KeySet, group: int) -> Mask:
        """Which rows of a row group have one of the keys. Pages that cannot have one are not read, where that pays."""
        rows = self._view.input.footer.row_groups[group].rows
        pages = key_pages(self._view, keys, group)
        if pages is not None and not pages.rows:
            return np.zeros(rows, dtype=np.bool_)
        if pages is not None:
            # pages that are not what is said of them: the whole column does without that
            with suppress(Damaged, NotAssembled):
                return pages.spread(keys.matches(self._keys.of_pages(keys.field_ids, pages), pages.rows), rows)
        return keys.matches(self._keys.columns(keys.field_ids, group), rows)

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
