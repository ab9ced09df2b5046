"""Threads of one task that encode: columns of a row group at the same time, while the next rows are decoded.

The writer lets go of Python's lock, and a chunk is the same whichever columns are encoded beside it. So an output has
the same bytes, however many lanes there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple, Self

import pyarrow as pa

from icepact.execute.assemble.encode import Encoder
from icepact.execute.assemble.forms import Form, Forms
from icepact.execute.parquet.assembler import ChunkToWrite

_SHARES_PER_LANE = 4
"""A row group is cut into so many shares for each lane, if it has the columns: lanes end at about the same time."""
_LEAST_SHARE = 256 * 1024
"""Decoded bytes below which columns are not worth a share of their own."""


class _Share(NamedTuple):
    """Some columns of a row group."""

    encoded: Future[dict[int, ChunkToWrite]]
    """Their chunks."""
    memory: int
    """Bytes of the columns, decoded: they are let go once they are encoded."""


class Encoding(NamedTuple):
    """Columns of a row group that are being encoded."""

    shares: Sequence[_Share]


class Lanes:
    """Encodes tables of some of the target's columns, several columns at once if there is more than one lane.

    While they are open, Arrow decodes with as many threads.
    """

    def __init__(self, encoder: Encoder, count: int) -> None:
        self.count = count
        self.encoder = encoder
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="icepact-encode") if count > 1 else None
        self._arrow = pa.cpu_count()

    def __enter__(self) -> Self:
        pa.set_cpu_count(self.count)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        pa.set_cpu_count(self._arrow)

    def begin(self, table: pa.Table, forms: Forms, leaves: Sequence[int]) -> Encoding:
        """Encode columns as one row group; they make up these leaves of the target."""
        target, names = self.encoder.target, self.encoder.schema.names
        shares: list[_Share] = []
        for columns in _shares(table, self.count):
            mine = [n for n in leaves if names[target.top_of_leaf[n]] in columns]
            some = table if len(columns) == table.num_columns else table.select(columns)
            shares.append(_Share(self._submit(some, mine, forms.of(mine)), some.nbytes))
        return Encoding(shares)

    def _submit(self, table: pa.Table, leaves: Sequence[int], form: Form) -> Future[dict[int, ChunkToWrite]]:
        if self._pool is not None:
            return self._pool.submit(self.encoder.encode, table, leaves, *form)
        done: Future[dict[int, ChunkToWrite]] = Future()
        done.set_result(self.encoder.encode(table, leaves, *form))
        return done

    @staticmethod
    def wait(encodings: Iterable[Encoding], most: int) -> None:
        """Wait until columns that are not encoded yet take so many bytes at most."""
        left = {share.encoded: share.memory for encoding in encodings for share in encoding.shares}
        while sum(memory for encoded, memory in left.items() if not encoded.done()) > most:
            wait([encoded for encoded in left if not encoded.done()], return_when=FIRST_COMPLETED)

    @staticmethod
    def chunks(encoding: Encoding) -> dict[int, ChunkToWrite]:
        """The chunks by leaf of the target, once they are there."""
        return {leaf: chunk for share in encoding.shares for leaf, chunk in share.encoded.result().items()}


def _shares(table: pa.Table, lanes: int) -> Iterator[list[str]]:
    """The columns, large ones first and each by itself, small ones together; in their order within a share."""
    if lanes == 1:
        yield table.column_names
        return
    sizes = {name: column.nbytes for name, column in zip(table.column_names, table.columns, strict=True)}
    least = max(_LEAST_SHARE, sum(sizes.values()) / (_SHARES_PER_LANE * lanes))
    some: list[str] = []
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        some.append(name)
        if sum(sizes[one] for one in some) >= least:
            yield sorted(some, key=table.column_names.index)
            some = []
    if some:
        yield sorted(some, key=table.column_names.index)
