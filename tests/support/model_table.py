"""A small model of Iceberg: snapshots, sequence numbers, delete files, and the dangerous parts of its commits.

It behaves like the real thing where that can hurt:

- a commit drops delete files that are older than every data file that stays, whatever number the new files get;
- a rewrite looks for new deletes of what it replaces, but not in `replace` snapshots, and not for equality deletes if
  it is given a sequence number;
- nothing is asked about the delete files that a rewrite removes, except that they are there;
- a commit that lost a race is tried again on top of the newer head;
- an input that is gone fails the commit.

`ModelTable` and the functions below it are what icepact's own code sees in place of Spark and Iceberg. `Others` are
the writers around it; they also remember what readers must see.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError

from icepact.execute.rewriters.base import UnitResult
from icepact.execute.run import Executed, Listener, unit_ids
from icepact.iceberg.table import HeadView
from icepact.model.plan import Method, Plan, RewriteFiles, Unit
from icepact.model.progress import Progress
from icepact.model.rewrite import Written, WrittenFile
from icepact.model.table import DataFile, DeleteFile, DeleteKind, Partition, PartitionSpec
from tests.support.states import SPECS, applies, attach, data_file, delete_file, in_partition

Place = tuple[int, Partition]
EVERYWHERE: Place = (0, ())
"""The old spec, which is unpartitioned: its equality deletes reach every file."""
DAYS: tuple[Place, ...] = ((1, ("d1",)), (1, ("d2",)))
TASK_TIMEOUT = timedelta(hours=1)
"""A task that stood still for longer writes nothing any more."""


class Violation(AssertionError):
    """Readers see something wrong, or soon will."""


class Refusal(Py4JJavaError):
    """An error of Iceberg's, as it arrives in Python."""

    def __init__(self, kind: str, message: str) -> None:
        Exception.__init__(self, message)
        kinds = SimpleNamespace(getSimpleName=lambda: kind)
        self.java_exception = SimpleNamespace(getClass=lambda: kinds, getMessage=lambda: message)

    def __str__(self) -> str:
        return str(self.args[0])


# -- what is in a table ---------------------------------------------------------------------------


class Row(NamedTuple):
    """One logical row."""

    name: int
    """Never used again."""
    key: int
    """What equality deletes ask for."""
    day: str


class Data(NamedTuple):
    """A data file."""

    path: str
    place: Place
    rows: tuple[Row, ...]
    ids: tuple[int | None, ...]
    """Row ids that are written into the file; null: the row inherits one."""
    number: int = 0
    """Data sequence number."""
    first_row_id: int | None = None

    @property
    def row_ids(self) -> list[int | None]:
        """What readers see as `_row_id`."""
        first = self.first_row_id
        return [told if told is not None or first is None else first + n for n, told in enumerate(self.ids)]

    @property
    def value(self) -> DataFile:
        """As icepact has it."""
        return data_file(
            self.path,
            10 * len(self.rows),
            rows=len(self.rows),
            spec_id=self.place[0],
            partition=self.place[1],
            sequence_number=self.number,
            first_row_id=self.first_row_id,
        )


class Delete(NamedTuple):
    """A delete file; a deletion vector has one of its own."""

    path: str
    kind: DeleteKind
    place: Place
    hits: frozenset[tuple[str, int]] = frozenset()
    """Data files and names of rows in them; for positions and vectors."""
    key: int | None = None
    """For equality deletes."""
    referenced: str | None = None
    number: int = 0

    @property
    def value(self) -> DeleteFile:
        """As icepact has it."""
        return delete_file(
            self.path,
            self.kind,
            spec_id=self.place[0],
            partition=self.place[1],
            sequence_number=self.number,
            referenced=self.referenced,
        )

    def reaches(self, file: Data) -> bool:
        """Whether it can take rows from a file: INVARIANTS 5."""
        if self.kind is DeleteKind.EQUALITY:
            return self.number > file.number and self.place in (file.place, EVERYWHERE)
        return self.number >= file.number and any(path == file.path for path, _ in self.hits)

    def takes(self, file: Data, row: Row) -> bool:
        """Whether it takes a row from a file that it reaches."""
        if self.kind is DeleteKind.EQUALITY:
            return self.key == row.key
        return (file.path, row.name) in self.hits


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One state of the table; the methods are named as Java names them."""

    id: int
    parent: int | None
    kind: str
    number: int
    files: Mapping[str, Data]
    deletes: Mapping[str, Delete]
    news: frozenset[str] = frozenset()
    """Delete files that came with it."""
    facts: Mapping[str, str] = field(default_factory=dict)

    def snapshotId(self) -> int:
        return self.id

    def parentId(self) -> int | None:
        return self.parent

    def operation(self) -> str:
        return self.kind

    def summary(self) -> Mapping[str, str]:
        return self.facts

    @property
    def paths(self) -> set[str]:
        """Everything that it refers to."""
        return {*self.files, *self.deletes}

    def read(self, file: Data) -> list[tuple[Row, int | None]]:
        """What readers see of a file: rows and their ids."""
        mine = [d for d in self.deletes.values() if d.reaches(file)]
        if any(d.kind is DeleteKind.DV for d in mine):  # a vector stands in for all position deletes of its file
            mine = [d for d in mine if d.kind is not DeleteKind.POSITION]
        pairs = zip(file.rows, file.row_ids, strict=True)
        return [(row, row_id) for row, row_id in pairs if not any(d.takes(file, row) for d in mine)]

    def read_all(self) -> list[tuple[Row, int | None]]:
        """What readers see."""
        return [seen for file in self.files.values() for seen in self.read(file)]


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a commit does."""

    kind: str
    added: Sequence[Data] = ()
    removed: frozenset[str] = frozenset()
    added_deletes: Sequence[Delete] = ()
    removed_deletes: frozenset[str] = frozenset()
    number: int | None = None
    """Data sequence number of what is added; null: the new snapshot's."""
    facts: Mapping[str, str] = field(default_factory=dict)


_FIRST = Snapshot(id=1000, parent=None, kind="append", number=0, files={}, deletes={})


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The table at one moment, as a catalog points to it."""

    version: int = 2
    snapshots: Mapping[int, Snapshot] = field(default_factory=lambda: {_FIRST.id: _FIRST})
    head_id: int = _FIRST.id
    last_number: int = 0
    next_row_id: int = 0

    @property
    def head(self) -> Snapshot:
        """The newest snapshot."""
        return self.snapshots[self.head_id]

    def history(self) -> Iterator[Snapshot]:
        """The head and its ancestors, as far as they are known."""
        at: int | None = self.head_id
        while at is not None and at in self.snapshots:
            yield self.snapshots[at]
            at = self.snapshots[at].parent

    def after(self, change: Change) -> "Metadata":
        """The table after a commit on top of the head."""
        head, number, following = self.head, self.last_number + 1, self.next_row_id
        staying = [f for f in head.files.values() if f.path not in change.removed]
        # Iceberg looks at what stays, not at the numbers that new files are given
        oldest = min([self.last_number, *(f.number for f in staying)])
        deletes = {
            d.path: d
            for d in head.deletes.values()
            if d.number >= oldest
            and d.path not in change.removed_deletes
            and not (d.kind is DeleteKind.DV and d.referenced in change.removed)
        }
        deletes |= {d.path: d._replace(number=number) for d in change.added_deletes}
        of_added = number if change.number is None else change.number
        files: dict[str, Data] = {}
        for file in (*staying, *(f._replace(number=of_added) for f in change.added)):
            if file.path in files:
                raise Violation(f"{file.path} is live twice")
            if self.version > 2 and file.first_row_id is None:
                file = file._replace(first_row_id=following)
                following += len(file.rows)
            files[file.path] = file
        snapshot = Snapshot(
            id=_FIRST.id + number,
            parent=head.id,
            kind=change.kind,
            number=number,
            files=files,
            deletes=deletes,
            news=frozenset(d.path for d in change.added_deletes),
            facts=change.facts,
        )
        return replace(
            self,
            snapshots={**self.snapshots, snapshot.id: snapshot},
            head_id=snapshot.id,
            last_number=number,
            next_row_id=following,
        )


class Catalog:
    """The table as it really is, and the storage below it."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.metadata = Metadata()
        self.storage: set[str] = set()
        self.contents: dict[str, Data] = {}
        """Of every data file that was ever written."""

    def store(self, files: Sequence[Data]) -> None:
        """Write data files."""
        self.contents |= {f.path: f for f in files}
        self.storage |= {f.path for f in files}

    def commit(self, change: Change) -> None:
        """A commit of a writer, on top of the head and together with its files."""
        self.store(change.added)
        self.storage |= {d.path for d in change.added_deletes}
        self.metadata = self.metadata.after(change)

    def expire(self, keep: int) -> None:
        """Forget all but the newest snapshots, and delete what only the others referred to."""
        kept = {s.id: s for n, s in enumerate(self.metadata.history()) if n < keep}
        gone = {path for s in self.metadata.snapshots.values() if s.id not in kept for path in s.paths}
        self.metadata = replace(self.metadata, snapshots=kept)
        self.storage -= gone.difference(*(s.paths for s in kept.values()))

    def roll_back(self, *, bad: int, good: int) -> bool:
        """Go back to a snapshot, if the head is the one that is named."""
        if self.metadata.head_id == bad:
            self.metadata = replace(self.metadata, head_id=good)
        return self.metadata.head_id == good


# -- what icepact's code sees of it ---------------------------------------------------------------


class _Tasks:
    """Stands in for `ScanTasks`."""

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        self.tasks = SimpleNamespace(size=lambda: len(files))

    def paths(self) -> list[str]:
        return [f.path for f in self._files]

    def sequence_numbers(self) -> list[int]:
        return [f.sequence_number for f in self._files]

    def with_paths(self, paths: Sequence[str]) -> "_Tasks":
        return _Tasks([f for f in self._files if f.path in paths])

    def data_files(self) -> set[str]:
        return set(self.paths())


class _Iterated:
    """A Java iterable, and its iterator."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = list(items)

    def iterator(self) -> "_Iterated":
        return self

    def hasNext(self) -> bool:
        return bool(self._items)

    def next(self) -> Any:
        return self._items.pop(0)


class Rewrite:
    """Stands in for Iceberg's `RewriteFiles`."""

    def __init__(self, send: "Callable[[Rewrite], None]") -> None:
        self._send = send
        self._start = 0
        self._validator: Any = None
        self.change = Change(kind="replace")

    def validateFromSnapshot(self, snapshot_id: int) -> "Rewrite":
        self._start = snapshot_id
        return self

    def rewriteFiles(self, inputs: set[str], deletes: set[str], outputs: Sequence[Data], more: set[str]) -> None:
        assert not more
        self.change = replace(
            self.change, removed=frozenset(inputs), removed_deletes=frozenset(deletes), added=tuple(outputs)
        )

    def dataSequenceNumber(self, number: int) -> None:
        self.change = replace(self.change, number=number)

    def set(self, key: str, value: str) -> None:
        self.change = replace(self.change, facts={**self.change.facts, key: value})

    def validateWith(self, validator: Any) -> "Rewrite":
        self._validator = validator
        return self

    def toBranch(self, branch: str) -> None:
        assert branch == "main"

    def commit(self) -> None:
        self._send(self)

    def land(self, catalog: Catalog) -> None:
        """One more attempt, on top of whatever the head is now."""
        self._validate(catalog.metadata)
        catalog.metadata = catalog.metadata.after(self.change)

    def _validate(self, metadata: Metadata) -> None:
        head, history = metadata.head, list(metadata.history())
        if not self._validator.validate(_Iterated(iter(history))):
            raise Refusal("ValidationException", self._validator.errorMessage())
        if not self.change.removed <= head.files.keys() or not self.change.removed_deletes <= head.deletes.keys():
            raise Refusal("ValidationException", "Missing required files to delete")
        ids = [s.id for s in history]
        if self._start not in ids:
            raise Refusal("ValidationException", "Cannot determine history")
        for snapshot in history[: ids.index(self._start)]:
            if snapshot.kind in ("delete", "overwrite") and any(self._hurts(snapshot, path) for path in snapshot.news):
                raise Refusal("ValidationException", "Cannot commit, found new delete for replaced data file")

    def _hurts(self, snapshot: Snapshot, path: str) -> bool:
        delete = snapshot.deletes[path].value
        if delete.kind is DeleteKind.EQUALITY and self.change.number is not None:
            return False
        inputs = [snapshot.files[p].value for p in self.change.removed if p in snapshot.files]
        return any(applies(delete, file, SPECS) for file in inputs)


class ModelTable:
    """Stands in for `IcebergTable`, and for Java's own table: one loaded table, which knows what it last saw."""

    name = "db.events"
    schema = '{"type": "struct", "fields": []}'
    specs: Mapping[int, PartitionSpec] = SPECS
    properties: Mapping[str, str] = {}
    java = SimpleNamespace(
        gateway=None,
        jvm=SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(HashSet=lambda: set[str]()))),
    )

    def __init__(
        self, catalog: Catalog, stop: Callable[[str, Sequence[Any]], timedelta], send: Callable[[Rewrite], None]
    ) -> None:
        self.catalog = catalog
        self.uuid = catalog.uuid
        self.stop = stop
        """Called before everything that others can see or that sees others; says how long it took to go on."""
        self.table = self
        self.metadata = catalog.metadata
        self._send = send

    @property
    def format_version(self) -> int:
        return self.metadata.version

    def refresh(self) -> None:
        self.stop("refresh", ())
        self.metadata = self.catalog.metadata

    def has_branch(self, branch: str) -> bool:
        return branch == "main"

    def snapshots(self) -> Any:
        found = sorted(self.metadata.snapshots.values(), key=lambda s: s.id)
        return SimpleNamespace(toArray=lambda: found)

    def head(self, branch: str) -> Snapshot:
        assert branch == "main"
        return self.metadata.head

    def snapshot(self, snapshot_id: int) -> Snapshot | None:
        return self.metadata.snapshots.get(snapshot_id)

    def newRewrite(self) -> Rewrite:
        return Rewrite(self._send)

    def view(self, branch: str, paths: Sequence[str]) -> HeadView:
        self.refresh()
        return self.view_of(self.head(branch), paths)

    def view_of(self, snapshot: Snapshot, paths: Sequence[str]) -> HeadView:
        """What is live around these paths at any snapshot."""
        deletes = [d.value for d in snapshot.deletes.values()]
        everything = attach([f.value for f in snapshot.files.values()], deletes)
        places = {in_partition(f) for f in everything if f.path in paths}
        around = [f for f in everything if in_partition(f) in places]
        tasks: Any = _Tasks(around)
        return HeadView(
            snapshot_id=snapshot.id,
            sequence_number=snapshot.number,
            format_version=self.format_version,
            files=around,
            deletes=deletes,
            everything=_Tasks(everything),  # type: ignore[arg-type]
            tasks=tasks,
            java_deletes=None,
        )

    def _known(self, snapshot_id: int) -> Snapshot:
        return self.metadata.snapshots[snapshot_id]

    def deletes_of(self, snapshot_id: int) -> list[DeleteFile]:
        return [d.value for d in self._known(snapshot_id).deletes.values()]

    def has_snapshot(self, snapshot_id: int | None) -> bool:
        return snapshot_id in self.metadata.snapshots

    def is_ancestor(self, snapshot_id: int, *, of: int) -> bool:
        return any(s.id == snapshot_id for s in replace(self.metadata, head_id=of).history())

    def newest(self, branch: str, count: int) -> list[int]:
        return [s.id for s in self.metadata.history()][:count]

    def parent_of(self, snapshot_id: int) -> int | None:
        return self._known(snapshot_id).parent

    def sequence_number_of(self, snapshot_id: int) -> int:
        return self._known(snapshot_id).number

    def committed_at(self, snapshot_id: int | None) -> None:
        """Nobody knows: snapshots of a model have no time."""

    def total_rows(self, snapshot_id: int) -> int | None:
        known = self.metadata.snapshots.get(snapshot_id)
        return None if known is None else sum(len(f.rows) for f in known.files.values())

    def paths_in_position_deletes(self, snapshot_id: int, delete_paths: Sequence[str]) -> dict[str, set[str]]:
        deletes = self._known(snapshot_id).deletes
        return {path: {data for data, _ in deletes[path].hits} for path in delete_paths}


def referenced(table: ModelTable, run_id: str) -> frozenset[str]:
    """Files of a run that any snapshot refers to."""
    table.refresh()
    return frozenset(path for s in table.metadata.snapshots.values() for path in s.files if run_id in path)


def run_folder(table: ModelTable, run_id: str) -> str:
    """Where a run writes."""
    return f"icepact-{run_id}"


def listed_files(table: ModelTable, folder: str) -> dict[str, int]:
    """What is below a run's own folder."""
    return {path: 1 for path in sorted(table.catalog.storage) if path.startswith(f"{folder}/")}


def delete_files(table: ModelTable, paths: Sequence[str]) -> None:
    """Delete files from storage."""
    if paths:
        table.stop("delete", paths)
        table.catalog.storage.difference_update(paths)


def deletes_to_remove(java: Any, view: HeadView, dangling: list[str], inputs: list[str]) -> set[str]:
    """The delete files that a rewrite names."""
    return {d.path for d in view.deletes if d.path in dangling or d.referenced in inputs}


class ModelStaging:
    """Stands in for `Staging`: reads inputs as they were at the pin."""

    def __init__(
        self,
        table: ModelTable,
        *,
        snapshot_id: int,
        run_id: str,
        unit_of: Mapping[str, str],
        round_name: str,
        **settings: Any,
    ) -> None:
        self._table = table
        self._catalog = table.catalog
        self._folder = f"icepact-{run_id}"
        self._round = round_name
        self._units = frozenset(unit_of.values())
        found = self._catalog.metadata.snapshots.get(snapshot_id)
        if found is None:
            raise Refusal("NotFoundException", f"snapshot {snapshot_id} has expired")
        self._snapshot = found

    def has(self, unit_id: str) -> bool:
        return unit_id in self._units

    def java_files(self, documents: Sequence[Mapping[str, Any]]) -> list[Data]:
        return [self._catalog.contents[told["file-path"]] for told in documents]

    def stored(self, told: Mapping[str, Any]) -> tuple[WrittenFile, Mapping[str, Any]]:
        if told["file-path"] not in self._catalog.storage:
            raise Refusal("NotFoundException", f"{told['file-path']} is not there")
        size, rows = told["file-size-in-bytes"], told["record-count"]
        file = WrittenFile(
            path=told["file-path"],
            size=size,
            rows=rows,
            spec_id=told["spec-id"],
            partition=tuple(told["partition"]),
            format="parquet",
            stored_size=size,
            stored_rows=rows,
            columns=None,
        )
        return file, told

    def read(self, step: RewriteFiles, unit: Unit, unit_id: str) -> list[Data]:
        """Rows of the inputs that readers saw at the pin, as new files; they are not on storage yet."""
        seen: dict[Place, list[tuple[Row, int | None]]] = {}
        for file in (self._snapshot.files[f.path] for f in unit.files):
            needed = {file.path, *(d.path for d in self._snapshot.deletes.values() if d.reaches(file))}
            if not needed <= self._catalog.storage:
                raise Refusal("NotFoundException", "an input is not there any more")
            for row, row_id in self._snapshot.read(file):
                seen.setdefault((1, (row.day,)) if step.regroup else file.place, []).append((row, row_id))
        return [
            Data(
                path=f"{self._folder}/{unit_id}{self._round}-{n}",
                place=place,
                rows=tuple(row for row, _ in pairs),
                ids=tuple(row_id for _, row_id in pairs),
            )
            for n, (place, pairs) in enumerate(seen.items())
        ]

    def write(self, files: Sequence[Data], listener: Listener) -> UnitResult:
        """Put new files on storage; while that goes on, the run looks whether it must stop."""
        waited = self._table.stop("write", files)
        listener.going_on()
        if waited > TASK_TIMEOUT:
            raise Refusal("SparkException", "the task was lost")
        self._catalog.store(files)
        told = [self.stored(_document(file)) for file in files]
        return UnitResult(
            rows_observed=sum(len(f.rows) for f in files),
            files=[file for file, _ in told],
            documents=[document for _, document in told],
            method=Method.SPARK,
        )


def _document(file: Data) -> dict[str, Any]:
    return {
        "file-path": file.path,
        "file-size-in-bytes": 10 * len(file.rows),
        "record-count": len(file.rows),
        "spec-id": file.place[0],
        "partition": list(file.place[1]),
        "file-format": "PARQUET",
    }


def execute(
    plan: Plan, staging: ModelStaging, progress: Progress, listener: Listener, done: Mapping[str, UnitResult]
) -> Executed:
    """Stands in for the executor: one unit after the other; what is whole already is told first."""
    results, failed = dict(done), dict[str, str]()
    whole = [step for step in plan.steps if all(unit_id in done for unit_id in unit_ids(step))]
    for step in whole:
        listener.group_done(_written(step, results))
    for step in (s for s in plan.steps if s not in whole):
        try:
            for unit, unit_id in zip(step.units, unit_ids(step), strict=True):
                if unit_id not in results:
                    results[unit_id] = staging.write(staging.read(step, unit, unit_id), listener)
                    listener.units_done({unit_id: results[unit_id]})
        except Refusal as error:
            failed[step.group_id] = str(error)
            continue
        listener.group_done(_written(step, results))
    return Executed(failed=failed, clean=not failed)


def _written(step: RewriteFiles, results: Mapping[str, UnitResult]) -> Written:
    units = [results[unit_id] for unit_id in unit_ids(step)]
    return Written(
        group_id=step.group_id,
        inputs=(),
        rows_observed=sum(u.rows_observed for u in units),
        files=tuple(f for u in units for f in u.files),
        seconds=0.0,
        methods={Method.SPARK.value: len(units)},
    )


# -- everybody else -------------------------------------------------------------------------------


class Others:
    """Writers and compactors around icepact: each change is one commit, and right. Knows what readers must see."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names = count(1)
        self._compaction: Change | None = None
        self.rows: set[Row] = set()
        """What readers must see."""
        self.row_ids: dict[Row, int] = {}
        """Row ids that readers saw once."""

    @property
    def head(self) -> Snapshot:
        return self._catalog.metadata.head

    def _file(self, place: Place, seen: Sequence[tuple[Row, int | None]]) -> Data:
        rows, ids = [row for row, _ in seen], [row_id for _, row_id in seen]
        return Data(path=f"f{next(self._names)}", place=place, rows=tuple(rows), ids=tuple(ids))

    def _new(self, place: Place, *keys: int) -> Data:
        days = place[1] or ("d1", "d2")
        rows = [Row(next(self._names), key, days[n % len(days)]) for n, key in enumerate(keys)]
        return self._file(place, [(row, None) for row in rows])

    def append(self, place: Place, *keys: int) -> str:
        """New rows."""
        file = self._new(place, *keys)
        self._catalog.commit(Change(kind="append", added=[file]))
        self.rows |= set(file.rows)
        return file.path

    def delete_equal(self, place: Place, key: int, *, insert: bool = False) -> str:
        """Delete by a key, in one partition or everywhere; with `insert`, put a new row there in the same commit."""
        reached = [f for f in self.head.files.values() if place in (f.place, EVERYWHERE)]
        gone = {row for file in reached for row, _ in self.head.read(file) if row.key == key}
        delete = Delete(path=f"eq{next(self._names)}", kind=DeleteKind.EQUALITY, place=place, key=key)
        added = [self._new(place if place in DAYS else DAYS[0], key)] if insert else []
        self._catalog.commit(Change(kind="overwrite" if insert else "delete", added=added, added_deletes=[delete]))
        self.rows = self.rows - gone | {row for file in added for row in file.rows}
        return delete.path

    def delete_row(self, path: str, n: int = 0, *, shared: bool = False) -> None:
        """Delete by position: with a vector, or a file that may speak of several data files of a partition."""
        place = self.head.files[path].place
        more = [f.path for f in self.head.files.values() if shared and f.place == place and f.path != path][:1]
        gone: dict[str, Row] = {}
        for name in (path, *more):
            seen = [row for row, _ in self.head.read(self.head.files[name])]
            if seen:
                gone[name] = seen[n % len(seen)]
        hits = {name: {(name, row.name)} for name, row in gone.items()}
        self._catalog.commit(self._positions("delete", hits, bound=not shared))
        self.rows -= set(gone.values())

    def _positions(self, kind: str, hits: Mapping[str, set[tuple[str, int]]], *, bound: bool) -> Change:
        head = self.head
        added: list[Delete] = []
        removed: set[str] = set()
        if self._catalog.metadata.version > 2:  # one vector for each file, with all that was deleted from it before
            for path, new in hits.items():
                old = [d for d in head.deletes.values() if d.hits and d.reaches(head.files[path])]
                all_hits = new | {hit for d in old for hit in d.hits if hit[0] == path}
                removed |= {d.path for d in old if d.kind is DeleteKind.DV}
                added.append(
                    Delete(
                        path=f"dv{next(self._names)}",
                        kind=DeleteKind.DV,
                        place=head.files[path].place,
                        hits=frozenset(all_hits),
                        referenced=path,
                    )
                )
        else:
            for place in sorted({head.files[path].place for path in hits}):
                here = [path for path in hits if head.files[path].place == place]
                added.append(
                    Delete(
                        path=f"pos{next(self._names)}",
                        kind=DeleteKind.POSITION,
                        place=place,
                        hits=frozenset(hit for path in here for hit in hits[path]),
                        referenced=here[0] if bound else None,
                    )
                )
        return Change(kind=kind, added_deletes=added, removed_deletes=frozenset(removed))

    def overwrite(self, path: str) -> None:
        """Replace a file by one with its first row changed."""
        file = self.head.files[path]
        first, *rest = self.head.read(file) or [None]
        added = []
        if first is not None:
            changed = first[0]._replace(name=next(self._names))
            added = [self._file(file.place, [(changed, None), *rest])]
            self.rows = self.rows - {first[0]} | {changed}
        self._catalog.commit(Change(kind="overwrite", added=added, removed=frozenset({path})))

    def drop(self, path: str) -> None:
        """Delete a whole file."""
        self.rows -= {row for row, _ in self.head.read(self.head.files[path])}
        self._catalog.commit(Change(kind="delete", removed=frozenset({path})))

    def convert(self, path: str) -> None:
        """Turn an equality delete into position deletes, in a `replace` snapshot."""
        delete = self.head.deletes[path]
        hits = {
            file.path: {(file.path, row.name) for row in file.rows if delete.takes(file, row)}
            for file in self.head.files.values()
            if delete.reaches(file)
        }
        change = self._positions("replace", {name: some for name, some in hits.items() if some}, bound=False)
        self._catalog.commit(replace(change, removed_deletes=change.removed_deletes | {path}))

    def begin_compaction(self, *paths: str) -> None:
        """Another compactor reads files of one partition."""
        files = [self.head.files[path] for path in paths]
        seen = [one for file in files for one in self.head.read(file)]
        self._compaction = Change(
            kind="replace",
            added=[self._file(files[0].place, seen)] if seen else [],
            removed=frozenset(paths),
            number=self.head.number,
        )

    def end_compaction(self, *, keep_number: bool = True) -> bool:
        """It commits with the sequence number of its pin, or a new one; not if readers would see it."""
        change, self._compaction = self._compaction, None
        if change is None or not change.removed <= self.head.files.keys():
            return False
        change = change if keep_number else replace(change, number=None)
        before, after = dict(self.head.read_all()), self._catalog.metadata.after(change).head.read_all()
        same = Counter(row for row, _ in after) == Counter(list(before))
        if same and all(before[row] in (None, row_id) for row, row_id in after):
            self._catalog.commit(change)
            return True
        return False

    def upgrade(self) -> None:
        """To format version 3; files get row ids with the next commit."""
        self._catalog.metadata = replace(self._catalog.metadata, version=3)

    def check(self) -> None:
        """Readers see every row once and no other, with the row id it had; all that snapshots refer to is there."""
        seen = self.head.read_all()
        times = Counter(row for row, _ in seen)
        for what, rows in (
            ("lost", self.rows - times.keys()),
            ("back", times.keys() - self.rows),
            ("there twice", {row for row, n in times.items() if n > 1}),
        ):
            if rows:
                raise Violation(f"{what}: {sorted(rows)}")
        for row, row_id in seen:
            if row_id is not None and self.row_ids.setdefault(row, row_id) != row_id:
                raise Violation(f"another row id: {row} had {self.row_ids[row]} and has {row_id}")
            if row_id is None and row in self.row_ids:
                raise Violation(f"no row id any more: {row}")
        for snapshot in self._catalog.metadata.snapshots.values():
            missing = snapshot.paths - self._catalog.storage
            if missing:
                raise Violation(f"not on storage: {sorted(missing)} of snapshot {snapshot.id}")
