"""A writer as a stream has it: a commit every so often that deletes rows in every data file and appends others.

Its commits are what Spark's merge-on-read MERGE makes: one row delta with the appended file and one delete for each
data file, which replaces the one before (a vector on format version 3, a file of positions on 2), validated as Spark
validates it. Spark itself would scan the table for each; here positions are drawn, and only deletes and one small file
are written. It has a catalog of its own, as another engine would.

It keeps its own record of which rows there are, by their ids, and knows nothing of what others did.
"""

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.rewrite.rows import LINES_PER_ORDER, lineitem
from bench.rewrite.tables import Workshop, local
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.writing import WrittenDelete, write_positions, write_vectors
from icepact.iceberg.java.bridge import Java, JavaError, error_class, error_line
from icepact.iceberg.table.scan import described_deletes
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.model.files import DataFile, DeleteFile

EVERY = 2.0
"""Seconds from one commit to the next."""
PER_FILE = 25
"""Rows that are deleted in each data file."""
APPENDED = 2_000
"""Rows that come with each commit."""
MERGE = "bench.merge"
"""In the summary of its snapshots: the number of the commit."""
ID = f"l_orderkey * {LINES_PER_ORDER} + l_linenumber - 1"
"""What tells rows apart, in SQL."""
SUMS = f"count(*), sum(({ID}) * 2654435761 % 4294967291), sum(({ID}) * ({ID}) % 2147483647)"
"""`Rows`, in SQL."""
_VECTORS_FROM = 3
_CONFLICTS = {"ValidationException", "CommitFailedException"}
_Positions = NDArray[np.int64]


class Rows(NamedTuple):
    """Which rows there are: how many, and two sums over their ids that no other rows have."""

    rows: int = 0
    first: int = 0
    second: int = 0

    def plus(self, ids: NDArray[np.uint64]) -> "Rows":
        """With these rows as well."""
        first = ids * np.uint64(2654435761) % np.uint64(4294967291)
        second = ids * ids % np.uint64(2147483647)
        return Rows(self.rows + len(ids), self.first + int(first.sum()), self.second + int(second.sum()))

    def minus(self, ids: NDArray[np.uint64]) -> "Rows":
        """Without these rows."""
        others = Rows().plus(ids)
        return Rows(self.rows - others.rows, self.first - others.first, self.second - others.second)


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """One commit of the writer."""

    number: int
    seconds: float
    """From its beat until it was in the table."""
    deleted: int
    refused: int
    """How often it was refused because others had replaced its files, and done again."""


@dataclass(slots=True)
class Merger:
    """Merges into one table. Not to be shared by threads."""

    table: IcebergTable
    rows: Rows
    """Those of the snapshot that is current now."""
    random: np.random.Generator
    numbers: Iterator[int]
    """Of appended files: the ids of their rows follow from them."""
    ids: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    """Ids of the rows of a data file, by its path: those that were read so far."""
    record: dict[int, Rows] = field(default_factory=dict)
    """Rows after each commit, by its number."""
    _deleted: dict[str, tuple[frozenset[tuple[str, int | None]], _Positions]] = field(default_factory=dict)
    """What is deleted in a data file, and by which deletes."""

    @property
    def made(self) -> int:
        """Number of the last commit; 0 before the first."""
        return len(self.record)

    def learn(self) -> None:
        """Read the keys of all data files there are, so that the first commit need not."""
        for file in _files(self.table.view("main", [])):
            self._ids_of(file)

    def merge(self) -> Merge:
        """One commit; done again as often as others have replaced files that it deletes in."""
        started, number, refused = time.monotonic(), self.made + 1, 0
        while True:
            try:
                rows, deleted = self._commit(number)
            except JavaError as error:
                if error_class(error) not in _CONFLICTS:
                    raise
                refused += 1
                continue
            self.record[number] = self.rows = rows
            return Merge(number=number, seconds=time.monotonic() - started, deleted=deleted, refused=refused)

    def _commit(self, number: int) -> tuple[Rows, int]:
        table, java = self.table, self.table.java
        view = table.view("main", [])
        files = _files(view)
        old = {file.path: self._deleted_in(file, view) for file in files}
        new = {file.path: self._drawn(file.rows, old[file.path]) for file in files}
        whole = {path: np.union1d(old[path], some) for path, some in new.items() if len(some)}
        gone = np.concatenate([self._ids_of(file)[new[file.path]] for file in files])
        path, appended = self._appended()
        written = self._written(whole)
        own = {delete.referenced: delete for delete in written}
        replaced = [i for f in files if f.path in own for i in f.deletes if view.deletes[i].referenced == f.path]

        delta = table.table.newRowDelta()
        documents = [delete.to_json(0, ()) for delete in written]
        for delete in java.items(described_deletes(java, table.table, documents)):
            delta.addDeletes(delete)
        for index in replaced:
            delta.removeDeletes(view.java_deletes[index])
        delta.addRows(self._described(path, len(appended)))
        delta.validateFromSnapshot(view.snapshot_id)
        delta.conflictDetectionFilter(java.iceberg.expressions.Expressions.alwaysTrue())
        delta.validateDataFilesExist(java.from_json(sorted(whole), "java.util.ArrayList"))
        delta.validateDeletedFiles()
        delta.validateNoConflictingDataFiles()
        delta.validateNoConflictingDeleteFiles()
        delta.set(MERGE, str(number))
        delta.commit()
        for delete in written:
            self._deleted[delete.referenced] = frozenset({(delete.path, delete.offset)}), whole[delete.referenced]
        return self.rows.minus(gone).plus(appended), len(gone)

    # -- what is there ----------------------------------------------------------------------------

    def _ids_of(self, file: DataFile) -> NDArray[np.uint64]:
        if file.path not in self.ids:
            keys = pq.read_table(local(file.path), columns=["l_orderkey", "l_linenumber"])
            ids = pc.add(pc.multiply(keys["l_orderkey"], LINES_PER_ORDER), keys["l_linenumber"]).to_numpy() - 1
            self.ids[file.path] = ids.astype(np.uint64)
        return self.ids[file.path]

    def _deleted_in(self, file: DataFile, view: HeadView) -> _Positions:
        deletes = [view.deletes[index] for index in file.deletes]
        keys = frozenset(delete.key for delete in deletes)
        known = self._deleted.get(file.path)
        if known is None or known[0] != keys:
            known = self._deleted[file.path] = keys, DeleteCache(_bytes_of).positions(deletes, file.path)
        return known[1]

    def _drawn(self, rows: int, deleted: _Positions) -> _Positions:
        """Rows of a file that are deleted next."""
        some = np.unique(self.random.integers(0, rows, PER_FILE))
        return some[~np.isin(some, deleted)]

    # -- what is written --------------------------------------------------------------------------

    def _written(self, whole: Mapping[str, _Positions]) -> list[WrittenDelete]:
        if self.table.format_version >= _VECTORS_FROM:
            with _Sink(self._new_path("puffin")) as sink:
                return write_vectors(sink, whole, created_by="bench")
        written = []
        for path, positions in whole.items():
            with _Sink(self._new_path("parquet")) as sink:
                written.append(write_positions(sink, path, positions))
        return written

    def _appended(self) -> tuple[str, NDArray[np.uint64]]:
        """A file of new rows: its path, and their ids."""
        schema = self.table.table.schema()
        number = next(self.numbers)
        rows = lineitem(number, APPENDED)
        fields = [
            column.with_metadata({"PARQUET:field_id": str(schema.findField(column.name).fieldId())})
            for column in rows.schema
        ]
        path = self._new_path("parquet")
        pq.write_table(rows.cast(pa.schema(fields)), path, compression="zstd", store_decimal_as_integer=True)
        first = number * APPENDED
        return path, np.arange(first, first + APPENDED, dtype=np.uint64)

    def _described(self, path: str, rows: int) -> Any:
        """Java's own description of an appended file."""
        java = self.table.java
        stored, wanted = java.iceberg.Files.localInput(path), java.iceberg.MetricsConfig.getDefault()
        return (
            java.iceberg.DataFiles.builder(self.table.table.spec())
            .withPath(path)
            .withFormat("parquet")
            .withFileSizeInBytes(Path(path).stat().st_size)
            .withRecordCount(rows)
            .withMetrics(java.iceberg.parquet.ParquetUtil.fileMetrics(stored, wanted))
            .build()
        )

    def _new_path(self, ending: str) -> str:
        folder = Path(local(self.table.location)) / "data"
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"merge-{uuid.uuid4()}.{ending}")


class Stream:
    """A merger that commits at every beat, in a thread of its own, until it is stopped."""

    def __init__(self, merger: Merger, every: float = EVERY) -> None:
        self.merges: list[Merge] = []
        self.missed = 0
        """Beats at which the commit before was not yet done."""
        self._merger = merger
        self._every = every
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._flow, name="merges", daemon=True)

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for the commit that is under way; raises what ended the stream before its time."""
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _flow(self) -> None:
        beat = time.monotonic()
        try:
            while not self._stopped.wait(max(0.0, beat - time.monotonic())):
                self.merges.append(self._merger.merge())
                beat += self._every
                while beat < time.monotonic():
                    self.missed += 1
                    beat += self._every
        except BaseException as error:
            self._failure = RuntimeError(f"the stream of merges broke: {type(error).__name__}: {error_line(error)}")


def table_of_its_own(workshop: Workshop, name: str) -> IcebergTable:
    """A table, loaded by a catalog that shares nothing with that of the session but its database."""
    spark, catalog = workshop.spark, workshop.compactor.application.spark_catalog
    java = Java(spark.sparkContext._gateway, spark._jsparkSession)
    prefix = f"spark.sql.catalog.{catalog.catalog}."
    properties = {key.removeprefix(prefix): value for key, value in spark.conf.getAll.items() if key.startswith(prefix)}
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    made = java.iceberg.CatalogUtil.buildIcebergCatalog(
        catalog.catalog, java.from_json(properties, "java.util.HashMap"), conf
    )
    namespace, _, own = name.rpartition(".")
    table = made.loadTable(java.iceberg.catalog.TableIdentifier.parse(f"{namespace}.{own}"))
    return IcebergTable(java=java, session=spark, table=table, name=name, sql_name=name)


def _files(view: HeadView) -> Sequence[DataFile]:
    return view.everything.files(view.deletes)


def _bytes_of(delete: DeleteFile) -> bytes:
    with open(local(delete.path), "rb") as file:
        file.seek(delete.offset or 0)
        return file.read(delete.size)


class _Sink:
    """A new local file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.position = 0

    def __enter__(self) -> "_Sink":
        self._file = open(self.path, "wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes at the end."""
        self.position += self._file.write(data)
