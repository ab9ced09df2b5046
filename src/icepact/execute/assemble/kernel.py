"""One unit from beginning to end: open, decide, copy or encode, write."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from icepact.execute.assemble.decode import Decoder
from icepact.execute.assemble.deleted import Deleted
from icepact.execute.assemble.encode import Encoder
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.extras import picks
from icepact.execute.assemble.output import Outputs
from icepact.execute.assemble.rows import Rows
from icepact.execute.assemble.segments import Segment, copyable, segments
from icepact.execute.assemble.target import Target, make_target
from icepact.execute.assemble.view import View
from icepact.execute.assemble.work import InputFile, TaskContext, UnitReport, UnitWork
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.errors import UnsupportedDelete
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.input import sorting_columns
from icepact.execute.storage.base import Storage

_MOST_CHUNKS = 50_000
"""Column chunks of a unit whose footers are held at once."""


_MOST_OPEN = 100
"""Inputs that are open at once."""


def assemble(work: UnitWork, context: TaskContext, storage: Storage, cache: DeleteCache, attempt: str) -> UnitReport:
    """Rewrite one unit. Whatever goes wrong, no file of it is left behind."""
    started = time.monotonic()
    before = storage.traffic
    looked = _looked_at(work, context, storage)
    outputs = Outputs(storage, looked.target, context, f"{work.output}-{attempt}", work.max_file_size)
    try:
        unit = _Unit(work, context, looked, storage, cache, outputs)
        unit.run()
    except BaseException:
        with suppress(Exception):
            outputs.abort()
        raise
    finally:
        for view in looked.views.values():
            view.source.close()
        pa.default_memory_pool().release_unused()
    after = storage.traffic
    rows_read = sum(file.rows for file in work.inputs)
    return UnitReport(
        unit_id=work.unit_id,
        outputs=tuple(outputs.written),
        rows_read=rows_read,
        rows_deleted=unit.rows_deleted,
        copied_bytes=outputs.copied_bytes,
        encoded_bytes=outputs.encoded_bytes,
        requests=after.requests - before.requests,
        transferred_bytes=after.bytes_read + after.bytes_written - before.bytes_read - before.bytes_written,
        seconds=time.monotonic() - started,
    )


class _Looked(NamedTuple):
    """What was seen of a unit's inputs before it was begun."""

    target: Target
    views: dict[str, View]
    closed: frozenset[str]
    """Paths of inputs that must be opened again."""


def _looked_at(work: UnitWork, context: TaskContext, storage: Storage) -> _Looked:
    """The schema of the outputs, and the inputs that had to be opened to settle it.

    Where something may be copied, a column that no input can hold a null in stays without nulls.
    """
    target = make_target(context.schema, lineage=context.lineage)
    large = any(file.size >= context.writing.copy_floor for file in work.inputs)
    if not large or len(work.inputs) * len(target.leaves) > _MOST_CHUNKS:
        return _Looked(target, {}, frozenset())
    views: dict[str, View] = {}
    closed: set[str] = set()
    try:
        for file in work.inputs:
            view = views[file.path] = _opened(file, storage, target, context)
            if file.size < context.writing.copy_floor or len(views) > _MOST_OPEN:
                view.source.close()  # it is opened again when its turn comes; only its footer is held
                closed.add(file.path)
    except BaseException:
        for view in views.values():
            view.source.close()
        raise
    strict = frozenset.intersection(*(view.never_null for view in views.values()))
    target = make_target(context.schema, lineage=context.lineage, never_null=strict)
    for view in views.values():
        view.target = target
    return _Looked(target, views, frozenset(closed))


def _opened(file: InputFile, storage: Storage, target: Target, context: TaskContext) -> View:
    source = storage.open(file.path, file.size)
    try:
        return View(file, source, target, context)
    except Damaged as error:
        source.close()
        raise Damaged(f"{file.path}: {error}") from None


def attempted(work: UnitWork, context: TaskContext, storage: Storage, cache: DeleteCache, attempt: str) -> UnitReport:
    """As `assemble`, but what another method must do is told instead of raised."""
    try:
        return assemble(work, context, storage, cache, attempt)
    except (NotAssembled, UnsupportedDelete, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return UnitReport(unit_id=work.unit_id, refused=_line(error))


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


class _Unit:
    """A unit under way."""

    def __init__(
        self,
        work: UnitWork,
        context: TaskContext,
        looked: _Looked,
        storage: Storage,
        cache: DeleteCache,
        outputs: Outputs,
    ) -> None:
        self._work = work
        self._context = context
        self._target = target = looked.target
        self._storage = storage
        self._cache = cache
        self._outputs = outputs
        self._views = looked.views
        self._closed = looked.closed
        self._encoder = Encoder(target, context.writing)
        self._rows = Rows(target, context.writing, self._encoder, outputs)
        self._lone: Segment | None = None
        self._open: list[View] = []
        self._copied_from: set[View] = set()
        self._decoder: Decoder | None = None
        self._walk = not outputs.splices
        self.rows_deleted = 0

    def run(self) -> None:
        try:
            for segment in self._segments():
                self._do(segment)
            self._settle_lone()
            self._rows.flush()
            self._outputs.finish()
        finally:
            for view in self._open:
                view.source.close()

    def _segments(self) -> Iterator[Segment]:
        """All segments in order; a file is closed once it is decoded, or at the end if it was copied from."""
        for file in self._work.inputs:
            view = self._views.get(file.path)
            if view is None:
                view = _opened(file, self._storage, self._target, self._context)
            elif file.path in self._closed:
                view.reopen(self._storage.open(file.path, file.size))
            self._open.append(view)
            survived = 0
            for segment in segments(view, Deleted(view, self._cache), self._context.writing, walk=self._walk):
                survived += segment.rows
                yield segment
            self.rows_deleted += file.rows - survived
            if self._lone is None or self._lone.view is not view:
                self._close(view)

    def _close(self, view: View) -> None:
        # where the store copies by itself, a copy may still wait for its neighbour
        if self._walk or view not in self._copied_from:
            view.source.close()
            self._open.remove(view)

    def _do(self, segment: Segment) -> None:
        if segment.copied:
            self._settle_lone()
            self._rows.flush()
            self._copy(segment)
        elif segment.small and self._rows.empty and self._lone is None:
            self._lone = segment
        else:
            lone, self._lone = self._lone, None
            if lone is not None:
                self._take(lone)
                if lone.view is not segment.view:
                    self._close(lone.view)
            self._take(segment)

    def _take(self, segment: Segment) -> None:
        try:
            if self._decoder is None or self._decoder.view is not segment.view:
                self._decoder = Decoder(segment.view)
            self._rows.take(segment, self._decoder)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise NotAssembled(f"{segment.view.file.path}: {_line(error)}") from error

    def _settle_lone(self) -> None:
        """A small row group with nothing to join is copied if it can be: encoding it would not make it larger."""
        lone, self._lone = self._lone, None
        if lone is None:
            return
        if copyable(lone.view, lone.group, self._context.writing, walk=self._walk):
            self._copy(lone)
        else:
            self._take(lone)

    def _copy(self, segment: Segment) -> None:
        view = segment.view
        self._copied_from.add(view)
        place_of = {place: n for n, place in enumerate(view.leaf_of) if place is not None}
        sorting = sorting_columns(segment.where, place_of)
        self._outputs.add(segment.where.rows, picks(view, segment.group, self._encoder), sorting)
