"""The functions by which Spark joins keys in workers: imported there by their names, so they import only what workers
have. Each gets batches with numbers of parts, or of what was found, and gives batches of Arrow."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from icepact.execute.assemble.anti_join import deleted_keys, row_keys, write_found
from icepact.execute.assemble.messages import JoinContext, JoinedKeys, Unjoined
from icepact.execute.assemble.task import fetch, storage_of

DELETED = "key binary, number long, source int"
ROWS = "key binary, number long, file int, pos long"
WRITTEN = "file int, path string, file_size long, offset long, size long, positions long, retried boolean"
"""The vector of one data file; whether an earlier attempt at it died."""


class Notes(AccumulatorParam[list[Unjoined]]):
    """Carries to the driver what could not be read."""

    def zero(self, value: list[Unjoined]) -> list[Unjoined]:
        """Nothing."""
        del value
        return []

    def addInPlace(self, value1: list[Unjoined], value2: list[Unjoined]) -> list[Unjoined]:
        """One after the other."""
        return [*value1, *value2]


class ReadDeletedKeys:
    """Reads the keys of delete files."""

    def __init__(self, shared: Any, notes: Any) -> None:
        self._shared = shared
        self._notes = notes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark, in the worker."""
        context: JoinContext = self._shared.value
        storage = storage_of(context.task)
        for part in _parts(batches, context.delete_parts):
            yield from deleted_keys(part, context, partial(fetch, storage), lambda each: self._notes.add([each]))


class ReadRowKeys:
    """Reads the keys of data files."""

    def __init__(self, shared: Any, notes: Any) -> None:
        self._shared = shared
        self._notes = notes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark, in the worker."""
        context: JoinContext = self._shared.value
        storage = storage_of(context.task)
        for part in _parts(batches, context.file_parts):
            yield from row_keys(part, context, storage, lambda each: self._notes.add([each]))


class WriteFound:
    """Writes down which rows are deleted."""

    def __init__(self, shared: Any) -> None:
        self._shared = shared

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark, in the worker."""
        spark = TaskContext.get()
        assert spark is not None
        context: JoinContext = self._shared.value
        stem = f"{context.output}-{spark.taskAttemptId()}"
        retried = spark.attemptNumber() > 0
        for found in write_found(batches, context, storage_of(context.task), stem):
            yield _described(found, retried)


def _parts(batches: Iterable[pa.RecordBatch], parts: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
    """What the numbers of parts stand for."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield parts[number]


def _described(found: JoinedKeys, retried: bool) -> pa.RecordBatch:
    vector = found.vector
    values = [found.file, vector.path, vector.file_size, vector.offset, vector.size, vector.positions, retried]
    return pa.RecordBatch.from_arrays(
        [pa.array([v], f.type) for v, f in zip(values, _ARROW, strict=True)], schema=_ARROW
    )


_ARROW = pa.schema(
    [
        ("file", pa.int32()),
        ("path", pa.string()),
        ("file_size", pa.int64()),
        ("offset", pa.int64()),
        ("size", pa.int64()),
        ("positions", pa.int64()),
        ("retried", pa.bool_()),
    ]
)
