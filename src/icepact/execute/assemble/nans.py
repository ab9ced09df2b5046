"""NaN among values that are encoded: the writer's bounds leave it out and its counts pass over it.

Readers do not agree where NaN is ordered. Spark puts it above everything, so `x > 5` finds it; a reader that skips
files and row groups by bounds that leave it out does not. So it is counted, and bounds beside it are not believed.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from icepact.execute.parquet.input import Input


def count_nans(encoded: Input, table: pa.Table) -> None:
    """Write the number of NaN in each column into the statistics of a row group that was just made of a table."""
    leaves = [leaf for column in table.columns for leaf in _leaves(column)]
    for group in encoded.footer.row_groups[:1]:
        for chunk, values in zip(group.chunks, leaves, strict=True):
            if pa.types.is_floating(values.type):
                chunk.meta.setdefault(12, {})[9] = pc.sum(pc.is_nan(values)).as_py() or 0


def _leaves(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """The columns with values inside a column, in the order in which they are written."""
    kind = column.type
    if pa.types.is_struct(kind):
        for member in column.flatten():
            yield from _leaves(member)
    elif pa.types.is_map(kind):
        yield from _leaves(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_list(kind):
        yield from _leaves(pc.list_flatten(column))
    else:
        yield column
