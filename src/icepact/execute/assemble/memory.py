"""Memory that decoded values take, estimated before they are decoded."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.messages import WriteSettings

T = TypeVar("T")
_SHARE = 8
_LARGER = 3
"""How much larger decoded values are than encoded ones, at first guess."""
_LEAST = 8
"""Bytes that a value inside of a list, map or struct takes at least, with what says where it is."""


def most_decoded(writing: WriteSettings) -> int:
    """Bytes of decoded rows that a task may hold: an eighth of its memory. The rest is for what is read and written."""
    return writing.task_memory // _SHARE


def batches(items: Iterable[T], size_of: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in order, as many at once as may be in memory together; one that is larger than that comes alone."""
    batch: list[T] = []
    in_memory = 0
    for item in items:
        size = size_of(item)
        if batch and in_memory + size > most:
            yield batch
            batch, in_memory = [], 0
        batch.append(item)
        in_memory += size
    if batch:
        yield batch


def row_size(view: InputView, group: int, schema: pa.Schema) -> float:
    """Bytes of a decoded row of a row group, all columns of the target."""
    row_group = view.input.footer.row_groups[group]
    return max(
        _LARGER * row_group.uncompressed_size / max(1, row_group.rows), sum(_width(field.type) for field in schema)
    )


def column_size(view: InputView, group: int, column: int) -> int:
    """Bytes of a top-level column of the target, once that column of a row group is decoded."""
    row_group = view.input.footer.row_groups[group]
    field = view.target.fields[column]
    leaves = [n for n, leaf in enumerate(view.leaves) if leaf.levels[0][1] == field["id"]]
    inside = sum(
        max(_LARGER * row_group.chunks[n].uncompressed_size, _LEAST * row_group.chunks[n].values) for n in leaves
    )
    return max(inside, _width(view.target.arrow.field(column).type) * row_group.rows)


def _width(kind: pa.DataType) -> int:
    """Bytes that a decoded value takes at least."""
    if pa.types.is_nested(kind):
        return 16
    return 8 if pa.types.is_string(kind) or pa.types.is_binary(kind) else max(1, kind.bit_width // 8)
