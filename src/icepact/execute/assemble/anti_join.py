"""Keys of deletes and keys of rows, joined by Spark where a task could not hold them: what tasks read and write.

Both leave here as byte strings that are equal where the keys are, with sequence numbers: a row is deleted by the newest
delete of its key if that is newer than its data file. Each key begins with its slot: deletes with the same key columns
that reach the same partition, or everything. Positions come back, file by file, and are written down as vectors.

Nothing here grows with the number of keys: delete files and data files are read row group by row group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icepact.execute.assemble.errors import NotAssembled, one_line
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.key_reader import KeyReader
from icepact.execute.assemble.messages import (
    InputFile,
    JoinContext,
    JoinDelete,
    JoinedKeys,
    JoinFile,
    TaskContext,
    Unjoined,
)
from icepact.execute.assemble.new_deletes import new_file
from icepact.execute.assemble.ranges import default_of
from icepact.execute.assemble.target import no_columns
from icepact.execute.deletes.claims import check_keys
from icepact.execute.deletes.equality import comparable_columns, read_key_batches
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.execute.deletes.files import Bytes
from icepact.execute.deletes.key_bytes import key_batches
from icepact.execute.deletes.kinds import comparable
from icepact.execute.deletes.writing import write_vectors
from icepact.execute.parquet.errors import Damaged
from icepact.execute.storage.base import FileDamaged, FileMissing, Storage
from icepact.model.errors import TemporaryError
from icepact.model.files import DeleteFile, DeleteKind, ManifestBounds, Partition

Note = Callable[[Unjoined], None]
DELETED_KEYS = pa.schema([("key", pa.binary()), ("number", pa.int64()), ("source", pa.int32())])
"""Of each delete row: its key, its data sequence number, and the number of its file, or -1 if it does not matter."""
ROW_KEYS = pa.schema([("key", pa.binary()), ("number", pa.int64()), ("file", pa.int32()), ("pos", pa.int64())])
"""Of each row of a data file, once for each slot: its key, its data sequence number, and where it is."""
MOST_WAITING = 4_000_000
"""Positions that wait for a file of vectors to be written."""
_FOR_GOOD = (BrokenDelete, Damaged, FileMissing, FileDamaged)
_ANOTHER_CAN = (NotAssembled, UnsupportedDelete, pa.ArrowInvalid, pa.ArrowNotImplementedError)


def make_join(
    files: Sequence[InputFile], task: TaskContext, bounds: Mapping[str, ManifestBounds], output: str
) -> JoinContext:
    """What the tasks of a join are told, but for who reads what: the equality deletes of these data files, and in which
    slots the rows of each are looked for.

    Deletes of one spec and partition reach the same data files, but for newer ones: those of that partition, or if the
    spec has no partitions, all. So the rows of a file to which one of them applies are compared with all of them.
    """
    slots: dict[tuple[tuple[int, ...], int, Partition], int] = {}
    joined: dict[str, JoinDelete] = {}
    number_of: dict[str, int] = {}
    for delete in (delete for file in files for delete in file.deletes):
        if delete.kind is DeleteKind.EQUALITY and delete.path not in joined:
            reach = (tuple(sorted(set(delete.equality_ids))), delete.spec_id, delete.partition)
            slot = slots.setdefault(reach, len(slots))
            number_of[delete.path] = len(joined)
            joined[delete.path] = JoinDelete(delete=delete, slot=slot, distinct=_stays_distinct(delete, task))
    searched: list[JoinFile] = []
    for file in files:
        mine = [delete.path for delete in file.deletes if delete.path in joined]
        searched.append(
            JoinFile(
                file=replace(file, deletes=()),
                slots=tuple(sorted({joined[path].slot for path in mine})),
                attached=frozenset(number_of[path] for path in mine if joined[path].distinct),
            )
        )
    return JoinContext(
        task=task,
        bounds=bounds,
        slots=[field_ids for field_ids, _, _ in slots],
        deletes=list(joined.values()),
        files=searched,
        output=output,
    )


def _stays_distinct(delete: DeleteFile, task: TaskContext) -> bool:
    """Whether a delete must be kept distinct from others: readers pass one with NaN over where its bounds, which leave
    NaN out, miss those of a data file."""
    return any(task.types.get(i) in ("float", "double") for i in delete.equality_ids)


def deleted_keys(
    numbers: Iterable[int], context: JoinContext, fetch: Callable[[DeleteFile], Bytes], note: Note
) -> Iterator[pa.RecordBatch]:
    """The keys of delete files, given by their numbers. What is wrong with one of them is noted."""
    for number in numbers:
        delete = context.deletes[number]
        try:
            yield from _keys_of_delete(delete, number if delete.distinct else -1, context, fetch)
        except TemporaryError:
            raise
        except (*_FOR_GOOD, *_ANOTHER_CAN) as error:
            note(_unjoined(delete.delete.path, error))


def _keys_of_delete(
    delete: JoinDelete, source: int, context: JoinContext, fetch: Callable[[DeleteFile], Bytes]
) -> Iterator[pa.RecordBatch]:
    types = key_types(context, delete.slot)
    file, task = delete.delete, context.task
    constants = {i: comparable(text, default_of(task, i)) for i, text in types.items()}
    for columns in read_key_batches(file, fetch(file), types, constants):
        if file.path in context.bounds:
            check_keys(file, types, columns, context.bounds[file.path])
        for _, keys in key_batches(columns, delete.slot):
            numbers = np.full(len(keys), file.sequence_number, dtype=np.int64)
            yield _batch(DELETED_KEYS, keys, numbers, np.full(len(keys), source, dtype=np.int32))


def row_keys(numbers: Iterable[int], context: JoinContext, storage: Storage, note: Note) -> Iterator[pa.RecordBatch]:
    """The keys of all rows of data files, given by their numbers. What is wrong with one of them is noted."""
    for number in numbers:
        file = context.files[number]
        try:
            yield from _keys_of_file(file, number, context, storage)
        except TemporaryError:
            raise
        except (*_FOR_GOOD, *_ANOTHER_CAN) as error:
            note(_unjoined(file.file.path, error))


def _keys_of_file(file: JoinFile, number: int, context: JoinContext, storage: Storage) -> Iterator[pa.RecordBatch]:
    choices = sorted({context.slots[slot] for slot in file.slots})
    source = storage.open(file.file.path, file.file.size)
    try:
        view = InputView(file.file, source, no_columns(), context.task)
        reader = KeyReader(view)
        for group, row_group in enumerate(view.input.footer.row_groups):
            for field_ids in choices:
                slots = [slot for slot in file.slots if context.slots[slot] == field_ids]
                types = key_types(context, slots[0])
                columns = comparable_columns(types, reader.columns(field_ids, group), row_group.rows)
                for slot in slots:
                    for first, keys in key_batches(columns, slot):
                        sequence = np.full(len(keys), file.file.sequence_number, dtype=np.int64)
                        where = np.arange(len(keys), dtype=np.int64) + row_group.first_row + first
                        yield _batch(ROW_KEYS, keys, sequence, np.full(len(keys), number, dtype=np.int32), where)
    except Damaged as error:
        raise Damaged(f"{file.file.path}: {error}") from None
    finally:
        source.close()
        pa.default_memory_pool().release_unused()


def key_types(context: JoinContext, slot: int) -> dict[int, str]:
    """Types of the key columns of a slot, by field id."""
    unknown = [i for i in context.slots[slot] if i not in context.task.types]
    if unknown:
        raise UnsupportedDelete(f"the types of key columns {unknown} are not known")
    return {i: context.task.types[i] for i in context.slots[slot]}


def write_found(
    found: Iterable[pa.RecordBatch], context: JoinContext, storage: Storage, stem: str
) -> Iterator[JoinedKeys]:
    """Write down which rows are deleted: one vector for each data file that has any, many to a file.

    `found` has the columns `file`, `pos` and `source`, in the order of the first two. Nothing is left if it fails.
    """
    writer = _Vectors(context, storage, stem)
    try:
        for batch in found:
            files, positions = batch.column("file").to_numpy(), batch.column("pos").to_numpy()
            sources = batch.column("source").to_numpy()
            edges = [0, *(np.flatnonzero(files[1:] != files[:-1]) + 1).tolist(), len(files)]
            for start, end in pairwise(edges):
                if start < end:
                    number = int(files[start])
                    kept = _applying(context.files[number], sources[start:end])
                    yield from writer.take(number, positions[start:end][kept])
        yield from writer.finish()
    except BaseException:
        writer.abort()
        raise


def _applying(file: JoinFile, sources: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of the deletes that were kept distinct apply to a data file."""
    if (sources < 0).all():
        return np.ones(len(sources), dtype=np.bool_)
    return (sources < 0) | np.isin(sources, np.fromiter(file.attached, np.int32))


class _Vectors:
    """Gathers the positions of one data file after the other."""

    def __init__(self, context: JoinContext, storage: Storage, stem: str) -> None:
        self._context = context
        self._storage = storage
        self._stem = stem
        self._number = -1
        self._parts: list[NDArray[np.int64]] = []
        self._waiting: dict[str, NDArray[np.int64]] = {}
        self._number_of: dict[str, int] = {}
        self._written: list[str] = []

    def take(self, number: int, positions: NDArray[np.int64]) -> Iterator[JoinedKeys]:
        """More positions of a data file, none smaller than those before."""
        if number != self._number:
            yield from self._complete()
            self._number = number
        self._parts.append(positions)

    def finish(self) -> Iterator[JoinedKeys]:
        """Write what is left."""
        yield from self._complete()
        yield from self._write()

    def _complete(self) -> Iterator[JoinedKeys]:
        """No more will come of this data file."""
        parts, self._parts = self._parts, []
        positions = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        if len(positions):
            path = self._context.files[self._number].file.path
            self._waiting[path], self._number_of[path] = positions, self._number
        if sum(map(len, self._waiting.values())) >= MOST_WAITING:
            yield from self._write()

    def _write(self) -> Iterator[JoinedKeys]:
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        with new_file(f"{self._stem}-{len(self._written)}.puffin", self._storage) as sink:
            vectors = write_vectors(sink, waiting, created_by=self._context.task.created_by)
        self._written.append(sink.path)
        for vector in vectors:
            yield JoinedKeys(file=self._number_of.pop(vector.referenced), vector=vector)

    def abort(self) -> None:
        """Leave nothing behind."""
        for path in self._written:
            with suppress(Exception):
                self._storage.delete(path)


def _batch(schema: pa.Schema, *columns: object) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unjoined(path: str, error: Exception) -> Unjoined:
    return Unjoined(path=path, reason=one_line(error), for_good=isinstance(error, _FOR_GOOD))
