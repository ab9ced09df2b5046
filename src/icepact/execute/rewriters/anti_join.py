"""Equality deletes beyond a task's memory become positions before any task needs them: the driver's part.

Spark reads the keys of deletes and of data files in Python workers, keeps the newest delete of each key, and brings
both together by a sort-merge join, which spills to disk. Python workers write the positions down as vectors below the
run's folder, where tasks read those of their data files. The driver hears of one vector for each data file.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from icepact.execute.assemble.anti_join import make_join
from icepact.execute.assemble.messages import InputFile, JoinContext, TaskContext, Unjoined
from icepact.execute.rewriters.base import Failed, Refused
from icepact.execute.rewriters.job import own_environment, packed
from icepact.execute.rewriters.key_jobs import DELETED, ROWS, WRITTEN, Notes, ReadDeletedKeys, ReadRowKeys, WriteFound
from icepact.execute.storage.open import storage_for
from icepact.iceberg.table.staging import own_session
from icepact.iceberg.table.table import IcebergTable
from icepact.model.files import DeleteFile, DeleteKind, ManifestBounds
from icepact.model.key_join import is_joined
from icepact.model.policy import Policy

Bounds: TypeAlias = Callable[[Collection[str]], Mapping[str, ManifestBounds]]
"""What manifests say of delete files, by path."""
_Key: TypeAlias = tuple[str, frozenset[str]]
"""A data file, and the equality deletes that apply to it, by path."""
_TASKS_PER_CORE = 2
_BYTES_PER_TASK = 1024**3
"""Of files that one task reads keys of, at most, unless tasks are limited."""
_KEYS_PER_TASK = 2_000_000
_MOST_TASKS = 2000
_CLEANED = "spark.sql.classic.shuffleDependency.fileCleanup.enabled"
"""Setting by which what was shuffled goes from disks at the end, and not when Java happens to collect garbage."""


class _Numbered(NamedTuple):
    number: int
    size: int


class KeyJoiner:
    """Joins keys for one run; safe to use from several threads. What it wrote goes when it is closed."""

    def __init__(self, table: IcebergTable, policy: Policy, stem: str) -> None:
        """`stem` is the path of new files, up to what makes them unique."""
        self._table = table
        self._policy = policy
        self._stem = stem
        self._spark = table.session.sparkContext
        self._lock = Lock()
        self._numbers = count()
        self._known: dict[_Key, DeleteFile | Refused | Failed | None] = {}
        self._written: dict[str, TaskContext] = {}
        """Files of vectors, and how they are reached."""
        self.clean = True
        """False if an attempt may have died while writing, or a file could not be deleted."""

    def needs(self, files: Iterable[InputFile]) -> list[InputFile]:
        """Those files whose deletes are too many to be looked up."""
        return [file for file in files if is_joined(file.deletes, self._policy.task_memory)]

    def joined(
        self, files: Sequence[InputFile], context: TaskContext, bounds: Bounds
    ) -> dict[str, InputFile | Refused | Failed]:
        """Those of the files that need it, with a vector in place of their equality deletes, or why there is none; by
        path. The caller's thread has tagged what Spark does."""
        some = self.needs(files)
        with self._lock:
            missing = [file for file in some if _key(file) not in self._known]
            if missing:
                self._join(missing, context, bounds)
            return {file.path: _answered(file, self._known[_key(file)]) for file in some}

    def close(self) -> None:
        """Delete what was written."""
        with self._lock:
            for path, context in self._written.items():
                try:
                    storage_for(context.properties, context.credentials).delete(path)
                except Exception:  # whoever finds the run unclean looks for its files
                    self.clean = False
            self._written.clear()
            self._known.clear()

    def _join(self, files: Sequence[InputFile], task: TaskContext, bounds: Bounds) -> None:
        context = self._context(files, task, bounds)
        clean, self.clean = self.clean, False
        vectors, notes = self._run(context)
        self.clean = self.clean and clean
        found = {file.path: vectors.get(number) for number, file in enumerate(files)}
        self._written |= {vector.path: context.task for vector in vectors.values()}
        reasons = {note.path: Failed(note.reason) if note.for_good else Refused(note.reason) for note in notes}
        for file in files:
            concerned = [file.path, *(delete.path for delete in _by_key(file))]
            why = [reasons[path] for path in concerned if path in reasons]
            failed = next((reason for reason in why if isinstance(reason, Failed)), None)
            self._known[_key(file)] = failed or (why[0] if why else found[file.path])

    def _context(self, files: Sequence[InputFile], task: TaskContext, bounds: Bounds) -> JoinContext:
        number = next(self._numbers)
        paths = {delete.path for file in files for delete in _by_key(file)}
        own = replace(task, run_id=f"{task.run_id}/keys-{number}", inline_deletes={})
        context = make_join(files, own, bounds(paths), f"{self._stem}-keys-{number}")
        return replace(
            context,
            delete_parts=self._parts([each.delete.size for each in context.deletes]),
            file_parts=self._parts([each.file.size for each in context.files]),
        )

    def _parts(self, sizes: Sequence[int]) -> list[list[int]]:
        """Numbers of files, in as many tasks as read them."""
        most = self._policy.parallelism
        if most is None:
            most = max(_TASKS_PER_CORE * self._spark.defaultParallelism, sum(sizes) // _BYTES_PER_TASK)
        some = packed([_Numbered(number, size) for number, size in enumerate(sizes)], most)
        return [[each.number for each in part] for part in some]

    def _run(self, context: JoinContext) -> tuple[dict[int, DeleteFile], list[Unjoined]]:
        """Vectors by the number of the data file, and what could not be read."""
        shared = self._spark.broadcast(context)
        notes = self._spark.accumulator([], Notes())
        try:
            with own_environment(self._spark):
                written = self._frame(context, shared, notes)
            rows = written.collect()
            problems = list(notes.value)
        finally:
            with suppress(OSError):  # it holds secrets
                shared.destroy()
            _accumulatorRegistry.pop(notes.aid, None)
        self.clean = not any(row["retried"] for row in rows)
        return {row["file"]: _vector(context.files[row["file"]].file, row) for row in rows}, problems

    def _frame(self, context: JoinContext, shared: Any, notes: Any) -> DataFrame:
        tasks = self._tasks(context)
        session = own_session(self._table.java, self._table.session, tasks)
        session.conf.set(_CLEANED, "true")

        def parts(number: int) -> DataFrame:
            return session.range(0, number, 1, number)

        def by_hash(frame: DataFrame) -> DataFrame:
            return frame.withColumn("hash", F.xxhash64("key")).repartition(tasks, "hash", "key")

        deleted = _mapped(parts(len(context.delete_parts)), ReadDeletedKeys(shared, notes), DELETED)
        rows = _mapped(parts(len(context.file_parts)), ReadRowKeys(shared, notes), ROWS)
        newest = by_hash(deleted).groupBy("hash", "key", "source").agg(F.max("number").alias("newest"))
        found = by_hash(rows).join(newest.hint("merge"), ["hash", "key"]).where("newest > number")
        by_file = found.select("file", "pos", "source").repartition(min(tasks, len(context.files)), "file")
        return _mapped(by_file.sortWithinPartitions("file", "pos"), WriteFound(shared), WRITTEN)

    def _tasks(self, context: JoinContext) -> int:
        """Into how many parts keys are shuffled."""
        keys = sum(each.delete.records for each in context.deletes)
        keys += sum(each.file.rows * len(each.slots) for each in context.files)
        cores = self._spark.defaultParallelism
        return self._policy.parallelism or max(cores, min(_MOST_TASKS, keys // _KEYS_PER_TASK))


def _mapped(frame: DataFrame, function: Callable[..., Any], schema: str) -> DataFrame:
    """What `DataFrame.mapInArrow` does, but that it asks for pandas, of which nothing is used."""
    mapping = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns: Any = mapping(*(frame[name] for name in frame.columns))
    java: Any = frame._jdf
    return DataFrame(java.mapInArrow(columns._jc, False, None), frame.sparkSession)


def _by_key(file: InputFile) -> list[DeleteFile]:
    return [delete for delete in file.deletes if delete.kind is DeleteKind.EQUALITY]


def _key(file: InputFile) -> _Key:
    return file.path, frozenset(delete.path for delete in _by_key(file))


def _vector(file: InputFile, row: Any) -> DeleteFile:
    """What a row of `WRITTEN` says, as tasks read it."""
    return DeleteFile(
        path=row["path"],
        offset=row["offset"],
        kind=DeleteKind.DV,
        size=row["size"],
        records=row["positions"],
        spec_id=file.spec_id,
        partition=file.partition,
        sequence_number=file.sequence_number,
        referenced=file.path,
        format="puffin",
        file_size=row["file_size"],
    )


def _answered(file: InputFile, found: DeleteFile | Refused | Failed | None) -> InputFile | Refused | Failed:
    if isinstance(found, Refused | Failed):
        return found
    others = tuple(delete for delete in file.deletes if delete.kind is not DeleteKind.EQUALITY)
    return replace(file, deletes=others, by_key=found)
