"""A small model of Iceberg: snapshots, sequence numbers, delete files, manifests, and a catalog that swaps metadata.

It behaves like the real thing where that can hurt:

- a commit drops delete files that are older than every data file that stays, whatever number the new files get;
- the first commit after an upgrade gives ids to all rows, old ones included, whoever makes it;
- files that are picked from another snapshot keep their paths and get new numbers and ids;
- equality deletes ask for a column by its id: rows that were written without it have no value there;
- a snapshot is read through manifests, which are files like any other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError

from icepact.model.files import DataFile, DeleteFile, DeleteKind, Partition
from tests.support.states import SPECS, applies, data_file, delete_file

Place = tuple[int, Partition]
EVERYWHERE: Place = (0, ())
"""The old spec, which is unpartitioned: its equality deletes reach every file."""
DAYS: tuple[Place, ...] = ((1, ("d1",)), (1, ("d2",)))
METADATA = "metadata"
"""The folder of manifests and lists of them."""


class Violation(AssertionError):
    """Readers see something wrong, or soon will."""


class Refusal(Py4JJavaError):
    """An error of Iceberg's, as it arrives in Python."""

    def __init__(self, kind: str, message: str) -> None:
        Exception.__init__(self, message)
        self.kind = kind
        kinds = SimpleNamespace(getSimpleName=lambda: kind)
        self.java_exception = SimpleNamespace(getClass=lambda: kinds, getMessage=lambda: message, getCause=lambda: None)

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


class Seen(NamedTuple):
    """A row as readers see it."""

    row: Row
    row_id: int | None
    held: int | None
    """Id of the column under which its file has the row's key; null if the file has no such column."""


class Data(NamedTuple):
    """A data file."""

    path: str
    place: Place
    rows: tuple[Row, ...]
    ids: tuple[int | None, ...]
    """Row ids that are written into the file; null: the row inherits one."""
    held: tuple[int | None, ...]
    """Ids of the column under which it has the keys of its rows."""
    number: int = 0
    """Data sequence number."""
    first_row_id: int | None = None
    manifest: str = ""
    """That tells of it."""

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
    column: int = 0
    """Its id, for equality deletes."""
    referenced: str | None = None
    number: int = 0
    manifest: str = ""
    """That tells of it."""

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
            equality_ids=(self.column,) if self.kind is DeleteKind.EQUALITY else (),
        )

    def reaches(self, file: Data) -> bool:
        """Whether it can take rows from a file: INVARIANTS 5."""
        if self.kind is DeleteKind.EQUALITY:
            return self.number > file.number and self.place in (file.place, EVERYWHERE)
        return self.number >= file.number and any(path == file.path for path, _ in self.hits)

    def attached(self, file: Data) -> bool:
        """Whether a scan finds it for a file: statistics may say that none of its keys is there."""
        if not applies(self.value, file.value, SPECS):
            return False
        keys = [row.key for row, held in zip(file.rows, file.held, strict=True) if held == self.column]
        return self.key is None or not keys or min(keys) <= self.key <= max(keys)

    def takes(self, file: Data, n: int) -> bool:
        """Whether it takes a row from a file that it reaches."""
        row = file.rows[n]
        if self.kind is DeleteKind.EQUALITY:
            return (self.column, self.key) == (file.held[n], row.key)
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
    manifest_list: str = ""
    """A file, too."""
    added: Sequence[Data] = ()
    """Data files that came with it."""
    removed: frozenset[str] = frozenset()
    """Data files that went with it."""
    news: frozenset[str] = frozenset()
    """Delete files that came with it."""
    facts: Mapping[str, str] = field(default_factory=dict)
    first_row_id: int | None = None
    """Null before format version 3."""
    given_ids: int = 0
    """Rows that got an id with it."""

    def snapshotId(self) -> int:
        return self.id

    def parentId(self) -> int | None:
        return self.parent

    def operation(self) -> str:
        return self.kind

    def sequenceNumber(self) -> int:
        return self.number

    def firstRowId(self) -> int | None:
        return self.first_row_id

    def addedRows(self) -> int | None:
        return None if self.first_row_id is None else self.given_ids

    def summary(self) -> Mapping[str, str]:
        return self.facts

    @property
    def manifests(self) -> set[str]:
        """What it is read through."""
        told = {f.manifest for f in self.files.values()} | {d.manifest for d in self.deletes.values()}
        return {self.manifest_list, *told} - {""}

    @property
    def paths(self) -> set[str]:
        """Everything that it refers to."""
        return {*self.files, *self.deletes, *self.manifests}

    def read(self, file: Data) -> list[Seen]:
        """What readers see of a file."""
        mine = [d for d in self.deletes.values() if d.reaches(file)]
        if any(d.kind is DeleteKind.DV for d in mine):  # a vector stands in for all position deletes of its file
            mine = [d for d in mine if d.kind is not DeleteKind.POSITION]
        rows = map(Seen, file.rows, file.row_ids, file.held)
        return [seen for n, seen in enumerate(rows) if not any(d.takes(file, n) for d in mine)]

    def read_all(self) -> list[Seen]:
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
    kept_deletes: Sequence[Delete] = ()
    """Added with the sequence numbers that they have."""
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
    audit_id: int | None = None
    """The head of another branch; null if there is none."""
    last_number: int = 0
    next_row_id: int = 0
    column: int | None = 1
    """Id of the column with the keys; null while there is none."""
    last_column: int = 1

    @property
    def head(self) -> Snapshot:
        """The newest snapshot."""
        return self.snapshots[self.head_id]

    def history(self, of: int | None = None) -> Iterator[Snapshot]:
        """The head, or another snapshot, and its ancestors, as far as they are known."""
        at: int | None = self.head_id if of is None else of
        while at is not None and at in self.snapshots:
            yield self.snapshots[at]
            at = self.snapshots[at].parent

    def prepared(self, change: Change, word: str, *, onto: int | None = None, attempt: int = 1) -> Snapshot:
        """The snapshot that a commit makes on top of the head, or of another one."""
        head, number, following = self.snapshots[onto or self.head_id], self.last_number + 1, self.next_row_id
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
        manifest = f"{METADATA}/{word}-m0"
        deletes |= {d.path: d._replace(number=number, manifest=manifest) for d in change.added_deletes}
        deletes |= {d.path: d._replace(manifest=manifest) for d in change.kept_deletes}
        of_added = number if change.number is None else change.number
        files: dict[str, Data] = {}
        added = [f._replace(number=of_added, manifest=manifest) for f in change.added]
        for file in (*staying, *added):
            if file.path in files:
                raise Violation(f"{file.path} is live twice")
            if self.version > 2 and file.first_row_id is None:
                file = file._replace(first_row_id=following)
                following += len(file.rows)
            files[file.path] = file
        return Snapshot(
            id=_FIRST.id + number,
            parent=head.id,
            kind=change.kind,
            number=number,
            files=files,
            deletes=deletes,
            manifest_list=f"{METADATA}/snap-{_FIRST.id + number}-{attempt}-{word}",
            added=tuple(added),
            removed=change.removed,
            news=frozenset(d.path for d in change.added_deletes),
            facts=change.facts,
            first_row_id=self.next_row_id if self.version > 2 else None,
            given_ids=following - self.next_row_id,
        )

    def with_snapshot(self, snapshot: Snapshot) -> "Metadata":
        """With one more snapshot, which no branch points to yet."""
        return replace(
            self,
            snapshots={**self.snapshots, snapshot.id: snapshot},
            last_number=snapshot.number,
            next_row_id=self.next_row_id + snapshot.given_ids,
        )


class Compares(StrEnum):
    """What a catalog compares before it swaps metadata."""

    EVERYTHING = "all of the metadata"
    """As JDBC, Hive and file systems do."""
    BRANCH = "the head of the branch"
    """As REST servers do: all else may have changed."""


class Catalog:
    """The table as it really is, and the storage below it."""

    def __init__(self, uuid: str, now: Callable[[], datetime], compares: Compares = Compares.EVERYTHING) -> None:
        self.uuid = uuid
        self.compares = compares
        self.metadata = Metadata()
        self.storage: dict[str, datetime] = {}
        """Files, and when they were written."""
        self.contents: dict[str, Data] = {}
        """Of every data file that was ever written."""
        self.deletes: dict[str, Delete] = {}
        """Delete files of icepact that were ever written."""
        self._now = now

    def write(self, *paths: str) -> None:
        """Put files on storage."""
        self.storage |= dict.fromkeys(paths, self._now())

    def store(self, files: Sequence[Data]) -> None:
        """Write data files."""
        self.contents |= {f.path: f for f in files}
        self.write(*(f.path for f in files))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files from storage."""
        for path in paths:
            self.storage.pop(path, None)

    # -- commits ----------------------------------------------------------------------------------

    def commit(self, change: Change, *, branch: str = "main") -> Snapshot:
        """A commit of a writer, together with its files; `staged` belongs to no branch."""
        self.store(change.added)
        self.write(*(d.path for d in change.added_deletes))
        onto = self.metadata.audit_id if branch == "audit" else None
        snapshot = self.metadata.prepared(change, f"w{self.metadata.last_number + 1}", onto=onto)
        self.write(snapshot.manifest_list, *({f"{METADATA}/w{snapshot.number}-m0"} & snapshot.manifests))
        self.metadata = self.metadata.with_snapshot(snapshot)
        if branch != "staged":
            self.point(snapshot.id, branch=branch)
        return snapshot

    def swap(self, base: Metadata, snapshot: Snapshot) -> None:
        """A commit arrives that was prepared on top of some metadata."""
        now = self.metadata
        same = now is base if self.compares is Compares.EVERYTHING else now.head_id == base.head_id
        if not same or snapshot.number <= now.last_number:
            raise Refusal("CommitFailedException", "the table has changed")
        if now.version > 2 and (snapshot.first_row_id is None or snapshot.first_row_id < now.next_row_id):
            raise Refusal("BadRequestException", "Cannot add a snapshot: first-row-id is null")
        self.metadata = replace(now.with_snapshot(snapshot), head_id=snapshot.id)

    def point(self, snapshot_id: int, *, branch: str = "main") -> None:
        """Let a branch end at any snapshot that is known."""
        assert snapshot_id in self.metadata.snapshots
        which: dict[str, Any] = {"audit_id" if branch == "audit" else "head_id": snapshot_id}
        self.metadata = replace(self.metadata, **which)

    # -- maintenance ------------------------------------------------------------------------------

    def expire(self, keep: int, *, aside: bool = True) -> None:
        """Forget all but the newest snapshots, and delete what only the others referred to.

        `aside`: snapshots that no branch leads to go, too.
        """
        now = self.metadata
        heads = [now.head_id, *([now.audit_id] if now.audit_id else [])]
        lines = {s.id for head in heads for s in now.history(head)}
        kept = {s.id for head in heads for n, s in enumerate(now.history(head)) if n < keep}
        kept |= set() if aside else now.snapshots.keys() - lines
        known = {s.id: s for s in now.snapshots.values() if s.id in kept}
        gone = {path for s in now.snapshots.values() if s.id not in kept for path in s.paths}
        self.metadata = replace(now, snapshots=known)
        self.delete(sorted(gone.difference(*(s.paths for s in known.values()))))

    def remove_orphans(self, older_than: timedelta) -> None:
        """Delete what no snapshot refers to and was not written just now."""
        limit = self._now() - older_than
        needed = set[str]().union(*(s.paths for s in self.metadata.snapshots.values()))
        self.delete([path for path, written in self.storage.items() if written <= limit and path not in needed])

    def upgrade(self) -> None:
        """To format version 3; files get row ids with the next commit."""
        self.metadata = replace(self.metadata, version=3)

    def drop_column(self) -> None:
        """The column with the keys."""
        self.metadata = replace(self.metadata, column=None)

    def add_column(self) -> None:
        """One for the keys of new rows; it is another one than before."""
        if self.metadata.column is None:
            number = self.metadata.last_column + 1
            self.metadata = replace(self.metadata, column=number, last_column=number)
