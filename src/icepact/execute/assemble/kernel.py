"""One unit from beginning to end: open, decide, copy or encode, write."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from icepact.execute.assemble.carried import CarriedRows
from icepact.execute.assemble.deleted import DeletedRows
from icepact.execute.assemble.encode import Encoder
from icepact.execute.assemble.fresh import FreshChunks
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.lanes import Lanes
from icepact.execute.assemble.messages import InputFile, TaskContext, UnitReport, UnitWork
from icepact.execute.assemble.new_deletes import write_deletes
from icepact.execute.assemble.output import Outputs
from icepact.execute.assemble.row_buffer import RowBuffer
from icepact.execute.assemble.row_map import RowMapRecorder
from icepact.execute.assemble.segments import Segment, fresh_columns, segments
from icepact.execute.assemble.synthetic_chunks import picks
from icepact.execute.assemble.target import Target, make_target
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.writing import WrittenDelete
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.input import sorting_columns
from icepact.execute.storage.base import Storage
from icepact.model.effort import Effort
from icepact.model.row_map import RowMap

_MOST_CHUNKS = 50_000
"""Column chunks of a unit whose footers are in memory at once."""
_MOST_OPEN = 100
"""Inputs that are open at once."""
_SHARE = 4
"""Of a task's memory, a quarter holds small files that were opened for their schema, and a quarter those that wait."""


def assemble(work: UnitWork, context: TaskContext, storage: Storage, cache: DeleteCache, attempt: str) -> UnitReport:
    """Rewrite one unit. Whatever goes wrong, no file of it is left behind."""
    started, worked = time.monotonic(), time.process_time()
    before = storage.traffic
    inputs = _open_inputs(work, context, storage)
    recorder = RowMapRecorder({file.path: file.rows for file in work.inputs})
    outputs = Outputs(storage, inputs.target, context, f"{work.output}-{attempt}", work.max_file_size, recorder)
    try:
        with Lanes(Encoder(inputs.target, context.writing), work.lanes) as lanes:
            unit = _Unit(work, context, inputs, storage, cache, lanes, outputs, recorder)
            unit.run()
        row_map = recorder.row_map()
        deletes = _write_carried(unit.carried, row_map, outputs, work, context, storage, attempt)
    except BaseException:
        with suppress(Exception):
            outputs.abort()
        raise
    finally:
        for view in inputs.views.values():
            view.source.close()
        pa.default_memory_pool().release_unused()
    after = storage.traffic
    elapsed, worked = time.monotonic() - started, time.process_time() - worked
    rows_read = sum(file.rows for file in work.inputs)
    return UnitReport(
        unit_id=work.unit_id,
        outputs=tuple(outputs.written),
        rows_read=rows_read,
        rows_deleted=unit.rows_deleted,
        row_map=row_map,
        deletes=tuple(deletes),
        effort=Effort(
            # of one core: with several lanes, those they worked, not those they waited
            seconds=max(elapsed, worked) if work.lanes > 1 else elapsed,
            copied_bytes=outputs.copied_bytes,
            encoded_bytes=outputs.encoded_bytes,
            transferred_bytes=after.bytes_read + after.bytes_written - before.bytes_read - before.bytes_written,
            requests=after.requests - before.requests,
            write_requests=after.writes - before.writes,
        ),
    )


def _write_carried(
    carried: CarriedRows,
    row_map: RowMap,
    outputs: Outputs,
    work: UnitWork,
    context: TaskContext,
    storage: Storage,
    attempt: str,
) -> list[WrittenDelete]:
    """Deletes of the rows that readers do not see and that were copied all the same."""
    numbers = count()
    return write_deletes(
        carried.in_outputs(row_map, [output.path for output in outputs.written]),
        lambda ending: f"{work.output}-{attempt}-deletes-{next(numbers)}.{ending}",
        storage,
        vectors=context.lineage,
        created_by=context.created_by,
    )


class _OpenedInputs(NamedTuple):
    """The schema of a unit's outputs, and the inputs that were opened to choose it."""

    target: Target
    views: dict[str, InputView]
    closed: frozenset[str]
    """Paths of inputs that must be opened again."""


def _open_inputs(work: UnitWork, context: TaskContext, storage: Storage) -> _OpenedInputs:
    """Choose the schema of the outputs, and open as many inputs as that takes.

    A column that no input can hold a null in stays without nulls: only so can its pages be copied. If the first
    input has no such column, which the table does not know of, the others need not be opened.
    """
    target = make_target(context.schema, lineage=context.lineage)
    views: dict[str, InputView] = {}
    closed: set[str] = set()
    in_memory = 0
    ids = {field["id"] for field in target.fields}
    required = {field["id"] for field in target.fields if field["required"]}
    try:
        for file in work.inputs:
            view = views[file.path] = _open_view(file, storage, target, context)
            if view.never_null & ids <= required or len(work.inputs) * len(target.leaves) > _MOST_CHUNKS:
                return _OpenedInputs(target, views, frozenset(closed))
            if in_memory + file.size <= context.writing.task_memory // _SHARE:
                view.load()
            if view.in_memory:
                in_memory += file.size
            elif file.size < context.writing.copy_floor or len(views) > _MOST_OPEN:
                view.source.close()  # it is opened again when its turn comes; only its footer is kept
                closed.add(file.path)
    except BaseException:
        for view in views.values():
            view.source.close()
        raise
    strict = frozenset.intersection(*(view.never_null for view in views.values()))
    target = make_target(context.schema, lineage=context.lineage, never_null=strict)
    for view in views.values():
        view.target = target
    return _OpenedInputs(target, views, frozenset(closed))


def _open_view(file: InputFile, storage: Storage, target: Target, context: TaskContext) -> InputView:
    source = storage.open(file.path, file.size)
    try:
        return InputView(file, source, target, context)
    except Damaged as error:
        source.close()
        raise Damaged(f"{file.path}: {error}") from None


class _Unit:
    """A unit under way."""

    def __init__(
        self,
        work: UnitWork,
        context: TaskContext,
        inputs: _OpenedInputs,
        storage: Storage,
        cache: DeleteCache,
        lanes: Lanes,
        outputs: Outputs,
        recorder: RowMapRecorder,
    ) -> None:
        self._work = work
        self._recorder = recorder
        self._context = context
        self._target = inputs.target
        self._storage = storage
        self._cache = cache
        self._outputs = outputs
        self._views = inputs.views
        self._closed = inputs.closed
        self._encoder = lanes.encoder
        self._fresh = FreshChunks(lanes)
        self._rows = RowBuffer(context.writing, lanes, outputs)
        self._waiting: list[Segment] = []
        self._waiting_bytes = 0
        self._current: InputView | None = None
        self._open: list[InputView] = []
        self._copied_from: set[InputView] = set()
        self._walk = not outputs.copies_server_side
        self.rows_deleted = 0
        self.carried = CarriedRows([file.path for file in work.inputs])

    def run(self) -> None:
        try:
            for segment in self._segments():
                self._do(segment)
            self._flush_small_row_groups()
            self._rows.finish()
            self._outputs.finish()
        finally:
            for view in self._open:
                view.source.close()

    def _segments(self) -> Iterator[Segment]:
        """All segments in order; a file is closed once it is decoded, or at the end if it was copied from."""
        for file in self._work.inputs:
            view = self._views.get(file.path)
            if view is None:
                view = _open_view(file, self._storage, self._target, self._context)
            elif file.path in self._closed:
                view.reopen(self._storage.open(file.path, file.size))
            self._open.append(view)
            self._current = view
            survived = 0
            deleted = DeletedRows(view, self._cache)
            if self._work.carries:
                deleted.check_bounds()
            for segment in segments(view, deleted, walk=self._walk, carries=self._work.carries):
                survived += segment.rows
                yield segment
            self.rows_deleted += file.rows - survived
            if self._work.carries:
                self.carried.add(file.path, deleted.seen)
            else:
                self._recorder.dropped(file.path, deleted.seen)
            self._current = None
            if not self._waiting or self._waiting[-1].view is not view:
                self._close(view)

    def _close(self, view: InputView) -> None:
        # where the store copies by itself, a copy may still wait for its neighbour
        if self._walk or view not in self._copied_from:
            view.source.close()
            self._open.remove(view)
            self._views.pop(view.file.path, None)

    def _do(self, segment: Segment) -> None:
        if segment.fresh is not None:
            self._flush_small_row_groups()
            self._copy(segment, segment.fresh)
        elif segment.small:
            self._wait(segment)
        else:
            self._flush_small_row_groups()
            self._rows.take(segment)

    def _wait(self, segment: Segment) -> None:
        """Keep a small row group until there are enough of them for a large one."""
        writing = self._context.writing
        if self._waiting_bytes + segment.row_group.size > min(writing.row_group_bytes, writing.task_memory // _SHARE):
            self._flush_small_row_groups()
        if segment.view not in self._copied_from or self._walk:
            segment.view.load()
        self._waiting.append(segment)
        self._waiting_bytes += segment.row_group.size

    def _flush_small_row_groups(self) -> None:
        """Join, copy or decode the small row groups that wait.

        One with nothing to join is copied if it can be: encoding it would not make it larger.
        """
        waiting, self._waiting = self._waiting, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        fresh = None
        if len(waiting) == 1 and self._rows.empty and waiting[0].keep is None:
            fresh = fresh_columns(waiting[0].view, waiting[0].group, walk=self._walk)
        if fresh is not None:
            self._copy(waiting[0], fresh)
        elif self._may_join(waiting) and (self._rows.empty or size >= self._context.writing.copy_floor):
            self._rows.join(waiting)
        else:
            for segment in waiting:
                self._rows.take(segment)
        for view in {segment.view for segment in waiting}:
            if view is not self._current:
                self._close(view)

    def _may_join(self, waiting: Sequence[Segment]) -> bool:
        """Where the store copies by itself, pages that are not in memory would cost a request for each chunk."""
        return self._walk or all(segment.view.in_memory for segment in waiting)

    def _copy(self, segment: Segment, fresh: frozenset[int]) -> None:
        """Copy the chunks of a row group; those of `fresh` columns are encoded anew."""
        self._rows.finish()
        view = segment.view
        if not view.in_memory:
            self._copied_from.add(view)
        column_of = {index: n for n, index in enumerate(view.leaf_of) if index is not None}
        sorting = sorting_columns(segment.row_group, column_of)
        encoded = self._fresh.chunks(view, segment.group, fresh) if fresh else {}
        chunks = picks(view, segment.group, self._encoder, encoded)
        self._outputs.add(segment.row_group.rows, chunks, [segment.sources()], sorting)
