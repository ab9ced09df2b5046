"""Key columns of a data file, row group by row group: by field id, whatever they were called and stored as."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from icepact.execute.assemble.errors import NotAssembled, errors_named, too_few_rows
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.key_pages import KeyPages
from icepact.execute.assemble.ranges import constant_of
from icepact.execute.deletes.files import columns_by_id


class KeyReader:
    """Reads what equality deletes compare."""

    def __init__(self, view: InputView) -> None:
        self._view = view

    def columns(self, field_ids: Sequence[int], group: int) -> dict[int, Any]:
        """Columns of a row group; of one that the file lacks, its constant."""
        own = self._own(field_ids)
        indexes = sorted(self._view.leaf_index[i] for i in own)
        columns = self._constants(field_ids, own)
        if indexes:
            columns |= self._read(group, indexes, own)
        return columns

    def of_pages(self, field_ids: Sequence[int], pages: KeyPages) -> dict[int, Any]:
        """Columns of those rows of a row group that may have a key; of one that the file lacks, its constant."""
        own = self._own(field_ids)
        self._view.source.preload(pages.ranges)
        with errors_named(self._view.file.path):
            return self._constants(field_ids, own) | {i: pages.column(i) for i in own}

    def _own(self, field_ids: Sequence[int]) -> list[int]:
        view = self._view
        return [i for i in field_ids if i in view.leaf_index and i not in view.constants]

    def _constants(self, field_ids: Sequence[int], own: Sequence[int]) -> dict[int, Any]:
        view = self._view
        missing = [i for i in field_ids if i not in own]
        if any(i not in view.constants and not view.lacks(i) for i in missing):
            raise NotAssembled("a key column was added inside a struct that the file has")
        return {i: constant_of(view, i) for i in missing}

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return self._view.opened()

    def _read(self, group: int, indexes: list[int], ids: Sequence[int]) -> dict[int, Any]:
        view = self._view
        with errors_named(view.file.path):
            table = view.read_columns(self._file, group, indexes)
        rows = view.input.footer.row_groups[group].rows
        found = min(map(len, table.columns))
        if found != rows:
            raise too_few_rows(view.file.path, found, rows)
        if view.has_ids:
            return columns_by_id(table, ids)
        if any(len(view.leaves[n].path) > 1 for n in indexes):
            raise NotAssembled("a key column is inside a struct of a file without field ids")
        columns = {view.leaves[n].field_id: table.column(number) for number, n in enumerate(indexes)}
        return {field_id: column for field_id, column in columns.items() if field_id is not None}
