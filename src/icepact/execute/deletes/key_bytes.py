"""Keys as byte strings: equal exactly where Iceberg takes the keys for equal, so that whoever joins bytes joins keys.

Each column is a byte that is 1 if it is not null, and then 8 bytes of a number, or the length of a text in 4 bytes and
the text. Where it is null, zeros or nothing stand in.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icepact.execute.deletes.columns import KeyColumn
from icepact.execute.deletes.errors import UnsupportedDelete

_MOST_ROWS = 64 * 1024
_MOST_BYTES = 16 * 1024**2
"""Of one batch, about."""
_PREFIX, _NUMBER, _LENGTH = 4, 8, 4


def key_batches(columns: Sequence[KeyColumn], prefix: int) -> Iterator[tuple[int, pa.Array]]:
    """The first row of each batch, and the keys of its rows; all begin with a number."""
    rows = len(columns[0])
    size = sum(column.nbytes for column in columns) // max(1, rows) + 1
    step = max(1, min(_MOST_ROWS, _MOST_BYTES // size))
    for first in range(0, rows, step):
        yield first, key_bytes([column.part(first, first + step) for column in columns], prefix)


def key_bytes(columns: Sequence[KeyColumn], prefix: int) -> pa.Array:
    """The key of each row; all begin with a number."""
    rows = len(columns[0])
    head = np.frombuffer(np.array([prefix], dtype=">u4").tobytes(), dtype=np.uint8)
    pieces: list[pa.Array] = []
    fixed: list[NDArray[np.uint8]] = [np.broadcast_to(head, (rows, _PREFIX))]
    for column in columns:
        there = ~column.is_null
        if isinstance(column.values, np.ndarray):
            numbers = np.where(there, column.values, 0).astype(">i8")
            fixed += [there.astype(np.uint8)[:, None], numbers.view(np.uint8).reshape(rows, _NUMBER)]
            continue
        values = pc.if_else(pa.array(there), column.values, pa.scalar(b"", pa.large_binary()))
        lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
        if rows and lengths.max() > np.iinfo(np.int32).max:
            raise UnsupportedDelete("a key is longer than 2 GiB")
        fixed += [
            there.astype(np.uint8)[:, None],
            lengths.astype(">u4").view(np.uint8).reshape(rows, _LENGTH),
        ]
        pieces += [_joined_bytes(fixed), values]
        fixed = []
    if fixed:
        pieces.append(_joined_bytes(fixed))
    if len(pieces) == 1:
        return pieces[0].cast(pa.binary())
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary())).cast(pa.binary())


def _joined_bytes(parts: Sequence[NDArray[np.uint8]]) -> pa.Array:
    """Columns of bytes side by side, as one byte string for each row."""
    matrix = np.ascontiguousarray(np.concatenate(parts, axis=1))
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])
