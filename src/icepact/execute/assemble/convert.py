"""Deletes of data files made into one for each, while the data stays: equality deletes become positions.

Of a data file only key columns are read, and only of row groups that statistics and bloom filters do not rule out. A
file without equality deletes is not opened at all.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icepact.execute.assemble.deleted import DeletedRows
from icepact.execute.assemble.errors import NotAssembled, one_line
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.messages import ConvertContext, ConvertReport, ConvertWork, InputFile, TaskContext
from icepact.execute.assemble.target import no_columns
from icepact.execute.deletes.bitmaps import PositionSet, decode_positions
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.execute.deletes.writing import write_positions, write_vectors
from icepact.execute.parquet.errors import Damaged
from icepact.execute.storage.base import Sink, Storage
from icepact.model.effort import NO_EFFORT, Effort
from icepact.model.errors import TemporaryError
from icepact.model.files import DeleteKind

T = TypeVar("T")
Positions = NDArray[np.int64]
MOST_WAITING = 4_000_000
"""Positions that wait for a Puffin file to be written."""
_NO_ROWS = np.empty(0, dtype=np.int64)


def deleted_by_key(file: InputFile, context: TaskContext, storage: Storage, cache: DeleteCache) -> Positions:
    """Positions in a data file that its equality deletes delete, ascending, whatever else deletes them."""
    found = [_NO_ROWS]
    source = storage.open(file.path, file.size)
    try:
        view = InputView(file, source, no_columns(), context)
        rows = DeletedRows(view, cache)
        for group, row_group in enumerate(view.input.footer.row_groups):
            gone = rows.by_key(group)
            if gone is not None:
                found.append(np.flatnonzero(gone) + row_group.first_row)
    except Damaged as error:
        raise Damaged(f"{file.path}: {error}") from None
    finally:
        source.close()
        pa.default_memory_pool().release_unused()
    return np.concatenate(found)


def convert(
    works: Iterable[ConvertWork], context: ConvertContext, storage: Storage, cache: DeleteCache, attempt: str
) -> Iterator[ConvertReport]:
    """Convert the deletes of data files. What a retry can help is raised; then no file is left behind."""
    writer = _Writer(context, storage, f"{context.output}-{attempt}")
    try:
        for work in works:
            started, before = time.monotonic(), storage.traffic
            report, positions = _judged(work, context, storage, cache)
            after = storage.traffic
            effort = Effort(
                seconds=time.monotonic() - started,
                transferred_bytes=after.bytes_read - before.bytes_read,
                requests=after.requests - before.requests,
            )
            yield from writer.take(replace(report, effort=effort), positions)
        yield from writer.finish()
    except BaseException:
        writer.abort()
        raise


def _judged(
    work: ConvertWork, context: ConvertContext, storage: Storage, cache: DeleteCache
) -> tuple[ConvertReport, Positions | None]:
    """What becomes of one data file, and the positions that are to be written; `None` if nothing is."""
    report = ConvertReport(path=work.file.path)
    try:
        return _united(work, context, storage, cache)
    except TemporaryError:
        raise
    except BrokenDelete as error:
        return replace(report, failed=str(error)), None
    except (NotAssembled, UnsupportedDelete, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return replace(report, refused=one_line(error)), None


def _united(
    work: ConvertWork, context: ConvertContext, storage: Storage, cache: DeleteCache
) -> tuple[ConvertReport, Positions | None]:
    file = work.file
    if work.only_checked:
        cache.check_keys(file.deletes, context.task.types)
        return ConvertReport(path=file.path), None
    if work.only_found:
        if file.by_key is not None:
            found = cache.positions([file.by_key], file.path)
        else:
            found = deleted_by_key(file, context.task, storage, cache)
        return ConvertReport(path=file.path, by_key=PositionSet(found).encode(), by_key_rows=len(found)), None
    there = cache.positions(file.deletes, file.path)
    if len(there) and there[-1] >= file.rows:
        names = ", ".join(str(delete) for delete in file.deletes if delete.kind is not DeleteKind.EQUALITY)
        raise BrokenDelete(f"row {there[-1]} of {file.path} is deleted, which has {file.rows} ({names})")
    bitmap, by_key = work.by_key, _NO_ROWS
    if bitmap is not None:
        by_key = decode_positions(bitmap)
    elif file.by_key is not None:
        by_key = cache.positions([file.by_key], file.path)
    elif any(delete.kind is DeleteKind.EQUALITY for delete in file.deletes):
        by_key = deleted_by_key(file, context.task, storage, cache)
        bitmap = PositionSet(by_key).encode()
    every = np.union1d(there, by_key)
    report = ConvertReport(path=file.path, by_key=bitmap, by_key_rows=len(by_key))
    if work.may_stay and len(every) == len(there) and len(there):
        return replace(report, stays=True), None
    return report, every if len(every) else None


class _Writer:
    """Writes positions: as one file for each data file, or as vectors, of which many share a file."""

    def __init__(self, context: ConvertContext, storage: Storage, stem: str) -> None:
        self._context = context
        self._storage = storage
        self._stem = stem
        self._waiting: dict[str, tuple[ConvertReport, Positions]] = {}
        self._rows = 0
        self._written: list[str] = []

    def take(self, report: ConvertReport, positions: Positions | None) -> Iterator[ConvertReport]:
        """Write the positions of a data file, or keep them until there are enough; reports come when all of theirs is
        written."""
        if positions is None:
            yield report
        elif not self._context.vectors:
            written, effort = self._create("parquet", lambda sink: write_positions(sink, report.path, positions))
            yield replace(report, written=written, effort=report.effort + effort)
        else:
            self._waiting[report.path] = report, positions
            self._rows += len(positions)
            if self._rows >= MOST_WAITING:
                yield from self.finish()

    def finish(self) -> Iterator[ConvertReport]:
        """Write what waits."""
        waiting, self._waiting, self._rows = self._waiting, {}, 0
        if not waiting:
            return
        vectors = {path: positions for path, (_, positions) in waiting.items()}
        by = self._context.task.created_by
        file, effort = self._create("puffin", lambda sink: write_vectors(sink, vectors, created_by=by))
        for written in file:
            report, _ = waiting[written.referenced]
            yield replace(report, written=written, effort=report.effort + effort)
            effort = NO_EFFORT  # of the whole file

    def _create(self, ending: str, write: Callable[[Sink], T]) -> tuple[T, Effort]:
        before = self._storage.traffic
        sink = self._storage.create(f"{self._stem}-{len(self._written)}.{ending}")
        try:
            written = write(sink)
            sink.close()
        except BaseException:
            with suppress(Exception):
                sink.abort()
            raise
        self._written.append(sink.path)
        after = self._storage.traffic
        return written, Effort(
            encoded_bytes=sink.position,
            transferred_bytes=after.bytes_written - before.bytes_written,
            requests=after.requests - before.requests,
            write_requests=after.writes - before.writes,
        )

    def abort(self) -> None:
        """Leave nothing behind."""
        for path in self._written:
            with suppress(Exception):
                self._storage.delete(path)
