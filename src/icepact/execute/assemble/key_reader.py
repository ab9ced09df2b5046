"""Key columns of a data file, row group by row group: by field id, whatever they were called and stored as."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow.parquet as pq

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.ranges import constant_of
from icepact.execute.deletes.files import columns_by_id


class KeyReader:
    """Reads what equality deletes compare."""

    def __init__(self, view: InputView) -> None:
        self._view = view

    def columns(self, field_ids: Sequence[int], group: int) -> dict[int, Any]:
        """Columns of a row group; of one that the file lacks, its constant."""
        view = self._view
        own = [i for i in field_ids if i in view.leaf_index and i not in view.constants]
        indexes = sorted(view.leaf_index[i] for i in own)
        columns: dict[int, Any] = {}
        for field_id in field_ids:
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
