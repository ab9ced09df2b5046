"""The files of one unit: one, or more if encoding outgrows the largest size."""

from collections.abc import Iterable, Sequence

import pyarrow.parquet as pq

from icepact.execute.assemble.copies import check_copies
from icepact.execute.assemble.memory import most_decoded
from icepact.execute.assemble.messages import Output, TaskContext
from icepact.execute.assemble.metrics import file_metrics
from icepact.execute.assemble.row_map import RowMapRecorder, SourceRows
from icepact.execute.assemble.target import Target
from icepact.execute.parquet.assembler import Assembler, ChunkToWrite, Copy
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.input import Input
from icepact.execute.parquet.thrift import Fields
from icepact.execute.storage.base import Sink, Storage

_SPLITS_PER_ROW_GROUP = 2
"""A reader may begin twice within the size that the table wants row groups to have, not more often."""


class Outputs:
    """Writes row groups into files, and a further file when one is full."""

    def __init__(
        self,
        storage: Storage,
        target: Target,
        context: TaskContext,
        stem: str,
        largest: int,
        row_map: RowMapRecorder,
    ) -> None:
        self._row_map = row_map
        self._storage = storage
        self._target = target
        self._context = context
        self._stem = stem
        self._largest = largest
        self._sink: Sink | None = None
        self._assembler: Assembler | None = None
        self._published: list[str] = []
        self.written: list[Output] = []
        self.copied_bytes = 0
        self.encoded_bytes = 0

    def add(
        self,
        rows: int,
        parts: Sequence[ChunkToWrite],
        sources: Iterable[SourceRows],
        sorting: list[Fields] | None = None,
    ) -> None:
        """Add a row group; `sources` tell where its rows come from, in their order."""
        size = sum(part.chunk.size for part in parts)
        if self._assembler is not None and self._assembler.size_with(size) > self._largest:
            self.finish()
        if self._assembler is None:
            self._assembler = Assembler(
                self._open_sink(),
                self._target.elements,
                created_by=self._context.created_by,
                key_values={"iceberg.schema": self._context.schema},
                most_waiting=most_decoded(self._context.writing),
            )
        self._assembler.add(rows, parts, sorting)
        self._row_map.written(len(self.written), rows, sources)

    def _open_sink(self) -> Sink:
        if self._sink is None:
            self._sink = self._storage.create(f"{self._stem}-{len(self.written)}.parquet")
        return self._sink

    @property
    def copies_server_side(self) -> bool:
        """True if the store copies ranges by itself."""
        return self._open_sink().copies_server_side

    def finish(self) -> None:
        """End the file under way, publish it, and read it back as any reader would."""
        if self._assembler is None or self._sink is None:
            self.abort_open()
            return
        done = self._assembler.finish()
        self._sink.close()
        self._published.append(self._sink.path)
        self.copied_bytes += done.copied_bytes
        self.encoded_bytes += done.appended_bytes
        self.written.append(self._read_back(self._sink.path, done.footer.file_size, done.copies))
        self._sink = self._assembler = None

    def _read_back(self, path: str, size: int, copies: Sequence[Copy]) -> Output:
        """Check a file on storage: our own reading of its footer, that of pyarrow, and bytes that were copied."""
        source = self._storage.open(path, size)
        try:
            footer = Input(source).footer
            other = pq.read_metadata(source.arrow())
            if (other.num_rows, other.num_row_groups) != (footer.rows, len(footer.row_groups)):
                raise Damaged(f"{path} is not read back as it was written")
            least = self._context.writing.row_group_bytes // _SPLITS_PER_ROW_GROUP
            metrics = file_metrics(footer, self._context.metrics, split_bytes=least)
            check_copies(copies, source, self._storage, self._context.compared)
        finally:
            source.close()
        return Output(path=path, size=size, rows=footer.rows, metrics=metrics.to_json())

    def abort_open(self) -> None:
        """Leave nothing of the file under way."""
        if self._sink is not None:
            self._sink.abort()
        self._sink = self._assembler = None

    def abort(self) -> None:
        """Leave nothing behind: neither the file under way nor those that are done."""
        self.abort_open()
        for path in self._published:
            self._storage.delete(path)
