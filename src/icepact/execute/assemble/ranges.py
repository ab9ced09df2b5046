"""Statistics of a row group's key columns, in the form in which equality keys compare."""

from collections.abc import Callable, Sequence
from struct import calcsize, pack, unpack
from typing import Any

import numpy as np

from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.messages import TaskContext
from icepact.execute.assemble.target import primitive_leaf
from icepact.execute.assemble.values import scalar_of
from icepact.execute.deletes.ranges import UNKNOWN, ColumnRange
from icepact.execute.parquet.bloom import hashes, may_contain
from icepact.execute.parquet.layout import BYTE_ARRAY, FLOAT, INT32, INT64
from icepact.execute.parquet.schema import Leaf
from icepact.execute.parquet.some_pages import PagedChunk
from icepact.execute.parquet.thrift import Fields
from icepact.execute.parquet.trust import PACKED, bound_value, trusted_statistics, usable_bound

_PROMOTED = {("long", INT32), ("double", FLOAT)}
"""Older forms of a type whose statistics mean the same."""


def column_range(view: InputView, group: int, field_id: int) -> ColumnRange:
    """What is known of a key column; everything doubtful is unknown."""
    kind = view.context.types[field_id]
    rows = view.input.footer.row_groups[group].rows
    if field_id in view.constants:  # readers take the partition's value, whatever the file holds
        return ColumnRange.constant(kind, constant_of(view, field_id), rows)
    index = view.leaf_index.get(field_id)
    if index is None:
        if field_id in view.top_level or not view.lacks(field_id):
            return UNKNOWN
        return ColumnRange.constant(kind, constant_of(view, field_id), rows)
    leaf = view.leaves[index]
    if leaf.repeated:
        return UNKNOWN
    chunk = view.input.footer.row_groups[group].chunks[index]
    statistics = trusted_statistics(view.input.footer, index, chunk)
    lower, upper = statistics.get(6), statistics.get(5)
    if not _in_form_of_type(kind, leaf):
        lower = upper = None
    return ColumnRange.of(
        kind,
        lower=None if lower is None else bound_value(leaf, lower),
        upper=None if upper is None else bound_value(leaf, upper),
        nulls=statistics.get(3),
        rows=rows,
    )


class PageRanges:
    """What is known of a key column page by page; everything doubtful is unknown."""

    def __init__(self, view: InputView, chunk: PagedChunk, field_id: int, statistics: Fields) -> None:
        """`statistics` are those per page, see `Input.page_bounds`."""
        self._leaf = view.leaves[chunk.leaf]
        self._kind = view.context.types[field_id]
        self._rows = np.diff(chunk.edges).tolist()
        self._all_null: Sequence[bool] = statistics[1]
        self._lower: Sequence[bytes] = statistics[2]
        self._upper: Sequence[bytes] = statistics[3]
        counted = 3 in trusted_statistics(view.input.footer, chunk.leaf, chunk.chunk)
        self._nulls: Sequence[int] | None = statistics.get(5) if counted else None

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, page: int) -> ColumnRange:
        """What is known of the column in a page, by its number."""
        rows = self._rows[page]
        nulls = None if self._nulls is None else self._nulls[page]
        if self._all_null[page]:
            return ColumnRange(nulls=rows, rows=rows) if nulls == rows else UNKNOWN
        lower, upper = self._lower[page], self._upper[page]
        return ColumnRange.of(
            self._kind,
            lower=bound_value(self._leaf, lower) if usable_bound(self._leaf, lower) else None,
            # ClickHouse leaves an upper bound empty that would be long: of a lower one it is true all the same
            upper=bound_value(self._leaf, upper) if upper and usable_bound(self._leaf, upper) else None,
            nulls=nulls,
            rows=rows,
        )


def page_ranges(view: InputView, chunk: PagedChunk, field_id: int) -> PageRanges | None:
    """What is known of a key column page by page; `None` if nothing is."""
    if not _in_form_of_type(view.context.types[field_id], view.leaves[chunk.leaf]):
        return None
    statistics = view.input.page_bounds(chunk.group, chunk.leaf)
    if statistics is None or not _add_up(view, chunk, statistics):
        return None
    return PageRanges(view, chunk, field_id, statistics)


def _add_up(view: InputView, chunk: PagedChunk, statistics: Fields) -> bool:
    """False if pages together have other nulls, or narrower bounds, than their chunk: these are not its pages then."""
    whole = trusted_statistics(view.input.footer, chunk.leaf, chunk.chunk)
    if 5 in statistics and 3 in whole and sum(statistics[5]) != whole[3]:
        return False
    form = PACKED.get(view.leaves[chunk.leaf].physical)
    if form is None:  # texts may be cut here and there, each in another way
        return True
    lower, upper = (
        b"".join(bound for bound, null in zip(statistics[n], statistics[1], strict=True) if not null) for n in (2, 3)
    )
    if len(lower) != len(upper) or not lower or len(lower) % calcsize(form):
        return False
    least, most = (np.frombuffer(data, dtype=form) for data in (lower, upper))
    (low,), (high,) = unpack(form, whole[6]), unpack(form, whole[5])
    return bool(least.min() <= low and most.max() >= high)


def constant_of(view: InputView, field_id: int) -> Any:
    """The value of a column that the file lacks, as Python holds it."""
    return view.lacking(field_id, view.context.types[field_id]).as_py()


def default_of(context: TaskContext, field_id: int) -> Any:
    """The value of a key column that a delete file lacks, as Python holds it."""
    return scalar_of(context.defaults.get(field_id), context.types[field_id]).as_py()


def in_bloom(view: InputView, group: int, field_id: int, values: Sequence[Any]) -> bool:
    """False if the column has a bloom filter and none of the values, in comparable form, is in it."""
    index = view.leaf_index.get(field_id)
    kind = view.context.types[field_id]
    if index is None or field_id in view.constants or not _in_form_of_type(kind, view.leaves[index]):
        return True
    leaf = view.leaves[index]
    if leaf.physical != primitive_leaf(kind)[0] or kind.startswith("decimal"):
        return True  # held in another form, the value has another hash
    data = view.input.bloom(view.input.footer.row_groups[group].chunks[index])
    if data is None or leaf.physical not in _PLAIN_BYTES:
        return True
    return bool(may_contain(data, hashes(_PLAIN_BYTES[leaf.physical](value) for value in values)).any())


_PLAIN_BYTES: dict[int, Callable[[Any], bytes]] = {
    INT32: lambda value: pack("<i", value),
    INT64: lambda value: pack("<q", value),
    BYTE_ARRAY: bytes,
}
"""Values as the filter's hash function sees them; other types are not asked for."""


def _in_form_of_type(kind: str, leaf: Leaf) -> bool:
    """True if the file holds the column in the form of its type, so that its bounds are bounds of the type."""
    physical, logical = primitive_leaf(kind)
    if (kind, leaf.physical) in _PROMOTED:
        return leaf.logical == ()
    if logical and logical[0] == "decimal":
        # some writers put decimals of any length in the order of their bytes
        return leaf.logical[:1] == ("decimal",) and leaf.logical[2] == logical[2] and leaf.physical != BYTE_ARRAY
    return leaf.physical == physical and leaf.logical == logical
