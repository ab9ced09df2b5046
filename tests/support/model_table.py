"""What icepact's own code sees in place of Spark and Iceberg.

A commit behaves like the real thing where that can hurt:

- a rewrite looks for new deletes of what it replaces, but not in `replace` snapshots, and not for equality deletes if
  it is given a sequence number; it asks no statistics, and asks this before it asks icepact;
- nothing is asked about the delete files that a rewrite removes, except that they are there;
- a commit that lost a race is tried again on top of the newer head, four times;
- after a failure that speaks against the commit, its manifests are deleted: those of all its tries, though one of them
  may have landed;
- an input that is gone fails the commit, and so do deletes that are added where none is removed.
"""

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

from icepact.execute.rewriters.base import UnitResult
from icepact.execute.units import Event, Executed, GroupDone, UnitFailed, UnitsDone, Waiting, WhyNot, unit_ids
from icepact.iceberg.commit.run_files import StoredFile
from icepact.iceberg.table.table import HeadView, SnapshotLine
from icepact.model.files import DataFile, DeleteFile, DeleteKind, PartitionSpec
from icepact.model.late_deletes import HeadDeletes, NotCarried
from icepact.model.methods import Method
from icepact.model.plan import Plan, RewriteFiles, Unit
from icepact.model.rewrite import Written, WrittenFile
from icepact.model.row_map import RowMap
from tests.support.model_iceberg import (
    METADATA,
    Catalog,
    Change,
    Data,
    Delete,
    Metadata,
    Place,
    Refusal,
    Row,
    Seen,
    Snapshot,
)
from tests.support.states import SPECS, applies, in_partition

TASK_TIMEOUT = timedelta(hours=1)
"""A task that stood still for longer writes nothing any more."""
FOLDERS = "data/icepact-"
"""With a run's id behind it: where it writes."""
MANIFESTS = f"{METADATA}/c"
"""With a number behind it: manifests of icepact's commits."""
RETRIES = 4
"""Of a commit that lost a race: Iceberg's own."""
CLEANABLE = frozenset(
    {
        *("ValidationException", "CommitFailedException", "NoSuchTableException", "ForbiddenException"),
        *("NotAuthorizedException", "BadRequestException", "ServiceUnavailableException"),
    }
)
"""Failures after which Iceberg deletes what a commit has written."""


class Tried(NamedTuple):
    """One try of a commit."""

    base: Metadata
    snapshot: Snapshot
    number: int
    """From 1 on."""


class Wire(Protocol):
    """The way to the catalog and back."""

    def load(self, number: int) -> Metadata:
        """The table is read before each try of a commit."""
        ...

    def write(self, manifests: Sequence[str]) -> None:
        """What a commit consists of is written before the catalog is asked."""
        ...

    def swap(self, tried: Tried) -> None:
        """The catalog is asked to make the new snapshot the head."""
        ...


class _Tasks:
    """Stands in for `ScanTasks`."""

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        self.tasks = SimpleNamespace(size=lambda: len(files))

    def paths(self) -> list[str]:
        return [f.path for f in self._files]

    def oldest_without(self, paths: Collection[str]) -> int | None:
        return min((f.sequence_number for f in self._files if f.path not in paths), default=None)

    def with_paths(self, paths: Sequence[str]) -> "_Tasks":
        return _Tasks([f for f in self._files if f.path in paths])

    def data_files(self) -> set[str]:
        return set(self.paths())


class _Iterated:
    """A Java iterable, and its iterator."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = list(items)

    def iterator(self) -> "_Iterated":
        return self

    def hasNext(self) -> bool:
        return bool(self._items)

    def next(self) -> Any:
        return self._items.pop(0)


_WORDS = count(1)


class Rewrite:
    """Stands in for Iceberg's `RewriteFiles`."""

    def __init__(self, catalog: Catalog, wire: Wire, saw: Callable[[Metadata], None]) -> None:
        self._saw = saw
        """The table that it was made by sees what it loads."""
        self.word = f"c{next(_WORDS)}."  # as in `MANIFESTS`
        """Part of the names of all manifests that it writes."""
        self._catalog = catalog
        self._wire = wire
        self._start = 0
        self._validator: Any = None
        self._written: set[str] = set()
        self._delete: Callable[[str], object] = lambda path: catalog.delete([path])
        self.change = Change(kind="replace")

    def validateFromSnapshot(self, snapshot_id: int) -> "Rewrite":
        self._start = snapshot_id
        return self

    def rewriteFiles(
        self, inputs: set[str], deletes: set[str], outputs: Sequence[Data], more: Sequence[Delete]
    ) -> None:
        self.change = replace(
            self.change,
            removed=frozenset(inputs),
            removed_deletes=frozenset(deletes),
            added=tuple(outputs),
            added_deletes=tuple(more),
        )

    def add_copy(self, delete: Delete) -> None:
        self.change = replace(self.change, kept_deletes=(*self.change.kept_deletes, delete))

    def dataSequenceNumber(self, number: int) -> None:
        self.change = replace(self.change, number=number)

    def set(self, key: str, value: str) -> None:
        self.change = replace(self.change, facts={**self.change.facts, key: value})

    def validateWith(self, validator: Any) -> "Rewrite":
        self._validator = validator
        return self

    def deleteWith(self, consumer: Any) -> "Rewrite":
        self._delete = consumer.accept
        return self

    def toBranch(self, branch: str) -> None:
        assert branch == "main"

    # -- Iceberg's `SnapshotProducer` -------------------------------------------------------------

    def commit(self) -> None:
        for number in count(1):
            try:
                base = self._wire.load(number)
                self._saw(base)
                tried = self._apply(base, number)
                self._wire.swap(tried)
            except Refusal as refusal:
                if refusal.kind == "CommitFailedException" and number <= RETRIES:
                    continue
                if refusal.kind in CLEANABLE:
                    self._clean(committed=())
                raise
            saved = self._catalog.metadata.snapshots.get(tried.snapshot.id)
            if saved is not None:
                self._clean(committed=saved.manifests)
            return

    def _apply(self, base: Metadata, number: int) -> Tried:
        self._validate(base)
        head = base.head
        if not self.change.removed <= head.files.keys() or not self.change.removed_deletes <= head.deletes.keys():
            raise Refusal("ValidationException", "Missing required files to delete")
        snapshot = base.prepared(self.change, self.word, attempt=number)
        mine = {path for path in snapshot.manifests if self.word in path}
        self._wire.write(sorted(mine))
        self._written |= mine
        return Tried(base, snapshot, number)

    def _validate(self, base: Metadata) -> None:
        if self.change.added_deletes and not self.change.removed_deletes:
            raise Refusal(
                "ValidationException", "Delete files to add must be empty because there's none to be rewritten"
            )
        history = list(base.history())
        self._no_new_deletes(base, history)
        try:
            valid = self._validator.validate(_Iterated(history))
        except Exception as error:
            raise Refusal("Py4JException", f"An exception was raised by the Python Proxy: {error}") from error
        if not valid:
            raise Refusal("ValidationException", self._validator.errorMessage())

    def _no_new_deletes(self, base: Metadata, history: Sequence[Snapshot]) -> None:
        since = []
        for snapshot in history:
            if snapshot.id == self._start:
                break
            since.append(snapshot)
        if since and since[-1].parent != self._start:
            raise Refusal("ValidationException", "Cannot determine history")
        start = base.snapshots.get(self._start)
        number = start.number if start else 0
        for snapshot in since:
            if snapshot.kind in ("delete", "overwrite") and any(
                self._hurts(snapshot, path, number) for path in snapshot.news
            ):
                raise Refusal("ValidationException", "Cannot commit, found new delete for replaced data file")

    def _hurts(self, snapshot: Snapshot, path: str, number: int) -> bool:
        delete = snapshot.deletes[path].value
        if delete.kind is DeleteKind.EQUALITY and self.change.number is not None:
            return False
        inputs = [self._catalog.contents[path]._replace(number=number).value for path in self.change.removed]
        return any(applies(delete, file, SPECS) for file in inputs)

    def _clean(self, committed: Collection[str]) -> None:
        for path in sorted(self._written.difference(committed)):
            self._delete(path)
        self._written.intersection_update(committed)


class _Spark:
    """Stands in for Spark's context, of which a run asks only whether it is the first."""


class ModelTable:
    """Stands in for `IcebergTable`, and for Java's own table: one loaded table, which knows what it last saw."""

    name = "db.events"
    specs: Mapping[int, PartitionSpec] = SPECS
    properties: Mapping[str, str] = {}
    session = SimpleNamespace(sparkContext=_Spark())
    java = SimpleNamespace(
        gateway=None,
        jvm=SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(HashSet=lambda: set[str]()))),
    )

    def __init__(self, catalog: Catalog, stop: Callable[[str, Sequence[Any]], timedelta], wire: Wire) -> None:
        self.catalog = catalog
        self.uuid = catalog.uuid
        self.stop = stop
        """Called before everything that others can see or that sees others; says how long it took to go on."""
        self.table = self
        self.metadata = catalog.metadata
        self._wire = wire

    def location(self) -> str:
        return "memory:"

    @property
    def format_version(self) -> int:
        return self.metadata.version

    @property
    def last_sequence_number(self) -> int:
        return self.metadata.last_number

    @property
    def schema(self) -> str:
        column = self.metadata.column
        keys = [] if column is None else [{"id": column, "name": "key", "type": "int", "required": False}]
        return json.dumps({"type": "struct", "fields": keys})

    @property
    def interpretation(self) -> str:
        return f"{self.metadata.last_column} {self.metadata.column}"

    def refresh(self) -> None:
        self.stop("refresh", ())
        self.metadata = self.catalog.metadata

    def has_branch(self, branch: str) -> bool:
        return branch == "main"

    def made_since(self, number: int) -> list[Snapshot]:
        return [s for s in self.metadata.snapshots.values() if s.number >= number]

    def head(self, branch: str) -> Snapshot:
        assert branch == "main"
        return self.metadata.head

    def snapshot(self, snapshot_id: int) -> Snapshot | None:
        return self.metadata.snapshots.get(snapshot_id)

    def head_id(self, branch: str) -> int:
        return self.head(branch).id

    def new_commit(self) -> Rewrite:
        return Rewrite(self.catalog, self._wire, self._saw)

    def _saw(self, metadata: Metadata) -> None:
        self.metadata = metadata

    def view(self, branch: str, paths: Sequence[str]) -> HeadView:
        self.refresh()
        return self.view_of(self.head(branch), paths)

    def view_of(self, snapshot: Snapshot, paths: Sequence[str]) -> HeadView:
        """What is live around these paths at any snapshot."""
        deletes = list(snapshot.deletes.values())
        everything = [
            f.value._replace(deletes=tuple(i for i, d in enumerate(deletes) if d.attached(f)))
            for f in snapshot.files.values()
        ]
        places = {in_partition(f) for f in everything if f.path in paths}
        around = [f for f in everything if in_partition(f) in places]
        tasks: Any = _Tasks(around)
        all_tasks: Any = _Tasks(everything)
        return HeadView(
            snapshot_id=snapshot.id,
            sequence_number=snapshot.number,
            format_version=self.format_version,
            interpretation=self.interpretation,
            files=around,
            deletes=[d.value for d in deletes],
            everything=all_tasks,
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
        return any(snapshot_id in (s.id, s.parent) for s in self.metadata.history(of))

    def ancestry(self, branch: str) -> list[SnapshotLine]:
        return [SnapshotLine(s.id, s.parent, s.number, 0, ()) for s in self.metadata.history()]

    def newest(self, branch: str, count: int) -> list[int]:
        return [s.id for s in self.metadata.history()][:count]

    def parent_of(self, snapshot_id: int) -> int | None:
        return self._known(snapshot_id).parent

    def changed_paths(self, snapshot_id: int) -> tuple[list[str], list[str]]:
        now = self._known(snapshot_id)
        before = self.metadata.snapshots.get(now.parent or 0)
        old = before.files.keys() if before else set[str]()
        return sorted(old - now.files.keys()), sorted(now.files.keys() - old)

    def added_paths(self, snapshot_id: int) -> list[str]:
        return self.changed_paths(snapshot_id)[1]

    def sequence_number_of(self, snapshot_id: int) -> int:
        return self._known(snapshot_id).number

    def committed_at(self, snapshot_id: int | None) -> None:
        """Nobody knows: snapshots of a model have no time."""

    def fact(self, snapshot_id: int, name: str) -> str | None:
        return self._known(snapshot_id).facts.get(f"icepact.{name}")

    def total_rows(self, snapshot_id: int) -> int | None:
        known = self.metadata.snapshots.get(snapshot_id)
        return None if known is None else sum(len(f.rows) for f in known.files.values())

    def paths_in_position_deletes(self, snapshot_id: int, delete_paths: Sequence[str]) -> dict[str, set[str]]:
        deletes = self._known(snapshot_id).deletes
        return {path: {data for data, _ in deletes[path].hits} for path in delete_paths}


# -- files ----------------------------------------------------------------------------------------


def referenced(table: ModelTable, run_id: str) -> frozenset[str]:
    """Files of a run that any snapshot refers to."""
    table.refresh()
    paths = {path for s in table.metadata.snapshots.values() for path in (*s.files, *s.deletes)}
    return frozenset(path for path in paths if run_id in path)


def run_folder(table: ModelTable, run_id: str) -> str:
    """Where a run writes."""
    return f"{FOLDERS}{run_id}"


def stored_files(table: ModelTable, folder: str) -> list[StoredFile]:
    """What is below a folder."""
    return [
        StoredFile(path, _size(table.catalog, path), 0)
        for path in sorted(table.catalog.storage)
        if path.startswith(f"{folder}/")
    ]


def _size(catalog: Catalog, path: str) -> int:
    if path in catalog.deletes and catalog.deletes[path].key is not None:
        return catalog.deletes[path].value.size  # a copy of somebody's delete
    return 10 * len(catalog.contents[path].rows) if path in catalog.contents else 1


def listed_files(table: ModelTable, folder: str) -> dict[str, int]:
    """What is below a run's own folder."""
    return {file.path: file.size for file in stored_files(table, folder)}


def missing_files(table: ModelTable, paths: Sequence[str]) -> frozenset[str]:
    """Which of these files are not on storage."""
    return frozenset(paths) - table.catalog.storage.keys()


def delete_files(table: ModelTable, paths: Sequence[str]) -> None:
    """Delete files from storage."""
    if paths:
        table.stop("delete", paths)
        table.catalog.delete(paths)


def deletes_to_remove(java: Any, view: HeadView, dangling: list[str], inputs: list[str]) -> set[str]:
    """The delete files that a rewrite names."""
    return {d.path for d in view.deletes if d.path in dangling or d.referenced in inputs}


def add_copy(table: ModelTable, view: HeadView, rewrite: Rewrite, path: str, copy: str) -> None:
    """Add a delete file of the head once more, under another path and as old as it is."""
    rewrite.add_copy(table.catalog.deletes[copy])


def manifest_prefix_of(table: ModelTable, rewrite: Rewrite) -> str:
    """Folder and common word of the manifests that a commit writes."""
    return f"{METADATA}/{rewrite.word}"


def manifests_of(table: ModelTable, snapshot_id: int) -> frozenset[str]:
    """A snapshot's own manifests and their list."""
    return frozenset(table.metadata.snapshots[snapshot_id].manifests)


class UnusedFiles:
    """What a commit calls unused; stands in for icepact's own."""

    def __init__(self, java: Any, rewrite: Rewrite) -> None:
        self._paths: list[str] = []
        rewrite.deleteWith(SimpleNamespace(accept=self._paths.append))

    def paths(self) -> list[str]:
        return self._paths


def referenced_manifests(table: ModelTable, words: Sequence[str]) -> frozenset[str]:
    """Manifests and lists with one of these words in their names that any snapshot needs."""
    table.refresh()
    needed = {path for s in table.metadata.snapshots.values() for path in s.manifests}
    return frozenset(path for path in needed if any(word in path for word in words))


# -- work -----------------------------------------------------------------------------------------


class ModelStaging:
    """Stands in for `Staging`: reads inputs as they were at the pin, writes the columns that there are now."""

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
        self._folder = run_folder(table, run_id)
        self._round = round_name
        self._units = frozenset(unit_of.values())
        self._column = table.metadata.column
        found = self._catalog.metadata.snapshots.get(snapshot_id)
        if found is None:
            raise Refusal("NotFoundException", f"snapshot {snapshot_id} has expired")
        self._snapshot = found

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def version(self) -> int:
        """The table's format version, as it was last loaded."""
        return self._table.format_version

    def stop(self, at: str, what: Sequence[Any]) -> None:
        self._table.stop(at, what)

    def stem(self, unit_id: str) -> str:
        """The beginning of the names of a unit's files."""
        return f"{self._folder}/{unit_id}{self._round}"

    def has(self, unit_id: str) -> bool:
        return unit_id in self._units

    def java_files(self, documents: Sequence[Mapping[str, Any]]) -> list[Data]:
        return [self._catalog.contents[told["file-path"]] for told in documents]

    def java_deletes(self, documents: Sequence[Mapping[str, Any]]) -> list[Delete]:
        return [self._catalog.deletes[told["file-path"]] for told in documents]

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

    def is_stored(self, told: Mapping[str, Any]) -> bool:
        return told["file-path"] in self._catalog.storage

    def read(self, step: RewriteFiles, unit: Unit, unit_id: str) -> list[Data]:
        """Rows of the inputs that readers saw at the pin, as new files; they are not on storage yet. Where deletes are
        carried, all rows that were there."""
        seen: dict[Place, list[Seen]] = {}
        for file in (self._snapshot.files[f.path] for f in unit.files):
            needed = {file.path, *(d.path for d in self._snapshot.deletes.values() if d.reaches(file))}
            if not needed <= self._catalog.storage.keys():
                raise Refusal("NotFoundException", "an input is not there any more")
            every = map(Seen, file.rows, file.row_ids, file.held)
            for one in every if step.carries else self._snapshot.read(file):
                seen.setdefault((1, (one.row.day,)) if step.regroup else file.place, []).append(one)
        return [
            written(f"{self._folder}/{unit_id}{self._round}-{n}", place, some, self._column)
            for n, (place, some) in enumerate(seen.items())
        ]

    def carried(self, step: RewriteFiles, unit: Unit, unit_id: str, files: Sequence[Data]) -> list[Delete]:
        """Deletes of rows that are in new files and that readers did not see at the pin."""
        if not step.carries:
            return []
        inputs = [self._snapshot.files[f.path] for f in unit.files]
        seen = {one.row for file in inputs for one in self._snapshot.read(file)}
        gone = {row for file in files for row in file.rows} - seen
        return [
            self.delete(file, f"{self.stem(unit_id)}-{n}-dead", gone)
            for n, file in enumerate(files)
            if gone & set(file.rows)
        ]

    def delete(self, file: Data, path: str, gone: Collection[Row]) -> Delete:
        """A new delete of those rows of a file that are gone."""
        return Delete(
            path=path,
            kind=DeleteKind.DV if self.version > 2 else DeleteKind.POSITION,
            place=file.place,
            hits=frozenset((file.path, row.name) for row in file.rows if row in gone),
            referenced=file.path,
        )

    def write(self, files: Sequence[Data], deletes: Sequence[Delete]) -> Generator[Event, None, UnitResult]:
        """Put new files on storage; while that goes on, the run looks whether it must stop."""
        yield Waiting()
        waited = self._table.stop("write", files)
        yield Waiting()
        if waited > TASK_TIMEOUT:
            raise Refusal("SparkException", "the task was lost")
        self._catalog.store(files)
        for delete in deletes:
            self._catalog.deletes[delete.path] = delete
            self._catalog.write(delete.path)
        told = [self.stored(_document(file)) for file in files]
        return UnitResult(
            rows_observed=sum(len(f.rows) for f in files),
            files=[file for file, _ in told],
            documents=[document for _, document in told],
            method=Method.SPARK,
            row_map=_ROWS_HAVE_NAMES,
            deletes=[_delete_document(delete) for delete in deletes],
        )


_ROWS_HAVE_NAMES = RowMap(inputs=(), outputs=(), ranges=(), dropped={})
"""Nobody asks it: that there is one says that rows can be found again."""


class ModelLateDeletes:
    """Stands in for `LateDeletes`: rows have names, so that nobody needs a row map."""

    def __init__(
        self,
        staging: ModelStaging,
        plan: Plan,
        results: Mapping[str, UnitResult],
        on_file: Callable[[str], None],
        find_by_key: object,
    ) -> None:
        self._staging = staging
        self._steps = {step.group_id: step for step in plan.rewrites}
        self._results = results
        self._on_file = on_file
        self._numbers = count()

    def carry(self, group_id: str, changed: Mapping[str, HeadDeletes]) -> list[dict[str, Any]] | NotCarried:
        catalog, step = self._staging.catalog, self._steps[group_id]
        known = {path: d for s in catalog.metadata.snapshots.values() for path, d in s.deletes.items()}
        added: list[Delete] = []
        kept: list[Delete] = []
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True):
            outputs = [catalog.contents[told["file-path"]] for told in self._results[unit_id].documents]
            written = frozenset(output.path for output in outputs)
            gone: set[Row] = set()
            for path in (file.path for file in unit.files if file.path in changed):
                deletes, replaced, by_key = changed[path]
                if not {delete.path for delete in deletes} <= known.keys():
                    return NotCarried("a delete has expired")
                hits = {name for delete in deletes for file, name in known[delete.path].hits if file == path}
                here = {row for row in catalog.contents[path].rows if row.name in hits}
                here |= found_by_key(catalog.contents[path], [known[delete.path] for delete in by_key])
                dropped = set(catalog.contents[path].rows).difference(*(output.rows for output in outputs))
                if replaced and not dropped <= here:
                    return NotCarried("rows that were deleted are not any more", written)
                gone |= here
            own = {document["file-path"] for document in self._results[unit_id].deletes}
            if any(file.path in changed for file in unit.files):
                names = {name for path in own for _, name in catalog.deletes[path].hits}
                dead = {row for output in outputs for row in output.rows if row.name in names}
                replaced_in = [file.path for file in unit.files if file.path in changed and changed[file.path].replaced]
                if not dead & {row for path in replaced_in for row in catalog.contents[path].rows} <= gone:
                    return NotCarried("rows that were deleted are not any more", written)
                gone |= dead
                added += [self._delete(output, unit_id, gone) for output in outputs if gone & set(output.rows)]
            else:
                kept += [catalog.deletes[path] for path in sorted(own)]
        self._staging.stop("carry", added)
        for delete in added:
            self._on_file(delete.path)
            catalog.deletes[delete.path] = delete
            catalog.write(delete.path)
        self._staging.stop("carried", added)
        return [_delete_document(delete) for delete in (*kept, *added)]

    def copy(self, delete: DeleteFile, group_id: str) -> str:
        catalog = self._staging.catalog
        path = f"{self._staging.stem(unit_ids(self._steps[group_id])[0])}-moved-{next(self._numbers)}"
        self._on_file(path)
        catalog.deletes[path] = catalog.metadata.head.deletes[delete.path]._replace(path=path)
        catalog.write(path)
        return path

    def _delete(self, output: Data, unit_id: str, gone: Collection[Row]) -> Delete:
        return self._staging.delete(output, f"{self._staging.stem(unit_id)}-deletes-{next(self._numbers)}", gone)


def found_by_key(file: Data, deletes: Sequence[Delete]) -> set[Row]:
    """Rows of a file that equality deletes delete."""
    return {row for n, row in enumerate(file.rows) if any(delete.takes(file, n) for delete in deletes)}


def _delete_document(delete: Delete) -> dict[str, Any]:
    offset = delete.value.offset
    return {
        "file-path": delete.path,
        "file-size-in-bytes": 1,
        "record-count": len(delete.hits),
        **({} if offset is None else {"content-offset": offset}),
    }


def written(path: str, place: Place, seen: Sequence[Seen], column: int | None) -> Data:
    """A file with rows that were read before: it has only the columns that there are now."""
    return Data(
        path=path,
        place=place,
        rows=tuple(one.row for one in seen),
        ids=tuple(one.row_id for one in seen),
        held=tuple(one.held if one.held == column else None for one in seen),
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
    plan: Plan, staging: ModelStaging, *, done: Mapping[str, UnitResult], why_not: WhyNot
) -> Generator[Event, None, None]:
    """Stands in for the executor: one unit after the other; what is whole already is told first."""
    results, clean = dict(done), True
    whole = [step for step in plan.rewrites if all(unit_id in done for unit_id in unit_ids(step))]
    for step in whole:
        yield GroupDone(written=_written(step, results))
    for step in (s for s in plan.rewrites if s not in whole):
        for unit, unit_id in zip(step.units, unit_ids(step), strict=True):
            if unit_id in results:
                continue
            try:
                files = staging.read(step, unit, unit_id)
                results[unit_id] = yield from staging.write(files, staging.carried(step, unit, unit_id, files))
            except Refusal as error:
                yield UnitFailed(unit_id=unit_id, reason=str(error))
                clean = False
                break
            yield UnitsDone(units={unit_id: results[unit_id]})
        else:
            yield GroupDone(written=_written(step, results))
    yield Executed(clean=clean)


def _written(step: RewriteFiles, results: Mapping[str, UnitResult]) -> Written:
    units = [results[unit_id] for unit_id in unit_ids(step)]
    return Written(
        group_id=step.group_id,
        inputs=(),
        rows_observed=sum(u.rows_observed for u in units),
        files=tuple(f for u in units for f in u.files),
        methods={Method.SPARK.value: len(units)},
        deletes_carried=sum(u.deletes_carried for u in units),
    )
