"""Writers, compactors and people around icepact, on the model of Iceberg. They also remember what readers must see."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from icepact.model.files import DeleteKind
from tests.support.model_iceberg import (
    DAYS,
    EVERYWHERE,
    Catalog,
    Change,
    Data,
    Delete,
    Place,
    Row,
    Seen,
    Snapshot,
    Violation,
)
from tests.support.model_table import written

PICKED = "source-snapshot-id"
"""In the summary of a snapshot that was picked: which one it was."""


class Others:
    """Each change is one commit, and right. Knows what readers must see: now, and at every snapshot that was a head."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names = count(1)
        self._growing = count(100)
        self._compaction: Change | None = None
        self.rows: frozenset[Row] = frozenset()
        """What readers must see."""
        self.row_ids: dict[Row, int] = {}
        """Row ids that readers saw once."""
        self._truth: dict[int, frozenset[Row]] = {self.head.id: frozenset()}
        """What readers must see of any snapshot."""

    @property
    def head(self) -> Snapshot:
        return self._catalog.metadata.head

    # -- what readers must see --------------------------------------------------------------------

    def _commit(self, change: Change, rows: frozenset[Row]) -> Snapshot:
        snapshot = self._catalog.commit(change)
        self._truth[snapshot.id] = self.rows = rows
        return snapshot

    def landed(self, snapshot: Snapshot) -> None:
        """A compactor has committed: readers must not notice."""
        self._truth[snapshot.id] = self.rows

    def point(self, snapshot_id: int) -> None:
        """Readers are to see another snapshot from now on, and ids of rows as they are there."""
        self._catalog.point(snapshot_id)
        self.rows = self._truth[snapshot_id]
        self.row_ids = {seen.row: seen.row_id for seen in self.head.read_all() if seen.row_id is not None}

    def check(self) -> None:
        """Readers see every row once and no other, with the row id it had; all that snapshots refer to is there."""
        storage = self._catalog.storage.keys()
        for snapshot in self._catalog.metadata.snapshots.values():
            if missing := snapshot.paths - storage:
                raise Violation(f"not on storage: {sorted(missing)} of snapshot {snapshot.id}")
        seen = self.head.read_all()
        times = Counter(one.row for one in seen)
        for what, rows in (
            ("lost", self.rows - times.keys()),
            ("back", times.keys() - self.rows),
            ("there twice", {row for row, n in times.items() if n > 1}),
        ):
            if rows:
                raise Violation(f"{what}: {sorted(rows)}")
        for row, row_id, _ in seen:
            if row_id is not None and self.row_ids.setdefault(row, row_id) != row_id:
                raise Violation(f"another row id: {row} had {self.row_ids[row]} and has {row_id}")
            if row_id is None and row in self.row_ids:
                raise Violation(f"no row id any more: {row}")

    # -- writers ----------------------------------------------------------------------------------

    def _file(self, place: Place, seen: Sequence[Seen]) -> Data:
        return written(f"f{next(self._names)}", place, seen, self._catalog.metadata.column)

    def _new(self, place: Place, *keys: int) -> Data:
        days = place[1] or ("d1", "d2")
        rows = [Row(next(self._names), key, days[n % len(days)]) for n, key in enumerate(keys)]
        return self._file(place, [Seen(row, None, self._catalog.metadata.column) for row in rows])

    def append(self, place: Place, *keys: int) -> str:
        """New rows."""
        file = self._new(place, *keys)
        self._commit(Change(kind="append", added=[file]), self.rows | set(file.rows))
        return file.path

    def delete_equal(self, place: Place, key: int, *, insert: bool = False, old: bool = False) -> str | None:
        """Delete by a key, in one partition or everywhere; with `insert`, put a new row there in the same commit.

        Null if there is no column to ask for; `old`: the writer does not know yet that there is another one now.
        """
        metadata = self._catalog.metadata
        column = metadata.last_column if old else metadata.column
        if column is None:
            return None
        delete = Delete(path=f"eq{next(self._names)}", kind=DeleteKind.EQUALITY, place=place, key=key, column=column)
        reached = [f for f in self.head.files.values() if place in (f.place, EVERYWHERE)]
        gone = {
            seen.row for file in reached for seen in self.head.read(file) if (seen.held, seen.row.key) == (column, key)
        }
        added = [self._new(place if place in DAYS else DAYS[0], key)] if insert else []
        change = Change(kind="overwrite" if insert else "delete", added=added, added_deletes=[delete])
        self._commit(change, self.rows - gone | {row for file in added for row in file.rows})
        return delete.path

    def upsert_growing(self, place: Place) -> None:
        """A row with a key that is larger than all before; as Flink does it, together with a delete of that key."""
        self.delete_equal(place, next(self._growing), insert=True)

    def delete_row(self, path: str, n: int = 0, *, shared: bool = False) -> None:
        """Delete by position: with a vector, or a file that may speak of several data files of a partition."""
        place = self.head.files[path].place
        more = [f.path for f in self.head.files.values() if shared and f.place == place and f.path != path][:1]
        gone: dict[str, Row] = {}
        for name in (path, *more):
            seen = [one.row for one in self.head.read(self.head.files[name])]
            if seen:
                gone[name] = seen[n % len(seen)]
        hits = {name: {(name, row.name)} for name, row in gone.items()}
        self._commit(self._positions("delete", hits, bound=not shared), self.rows - set(gone.values()))

    def _positions(self, kind: str, hits: Mapping[str, set[tuple[str, int]]], *, bound: bool) -> Change:
        if self._catalog.metadata.version > 2:
            return self._vectors(kind, hits)
        added: list[Delete] = []
        for place in sorted({self.head.files[path].place for path in hits}):
            here = [path for path in hits if self.head.files[path].place == place]
            added.append(
                Delete(
                    path=f"pos{next(self._names)}",
                    kind=DeleteKind.POSITION,
                    place=place,
                    hits=frozenset(hit for path in here for hit in hits[path]),
                    referenced=here[0] if bound else None,
                )
            )
        return Change(kind=kind, added_deletes=added)

    def _vectors(self, kind: str, hits: Mapping[str, set[tuple[str, int]]]) -> Change:
        """One for each file, with all that was deleted from it before."""
        head = self.head
        added: list[Delete] = []
        removed: set[str] = set()
        for path, new in hits.items():
            old = [d for d in head.deletes.values() if d.hits and d.reaches(head.files[path])]
            removed |= {d.path for d in old if d.kind is DeleteKind.DV}
            added.append(
                Delete(
                    path=f"dv{next(self._names)}",
                    kind=DeleteKind.DV,
                    place=head.files[path].place,
                    hits=frozenset(new | {hit for d in old for hit in d.hits if hit[0] == path}),
                    referenced=path,
                )
            )
        return Change(kind=kind, added_deletes=added, removed_deletes=frozenset(removed))

    def overwrite(self, path: str) -> None:
        """Replace a file by one with its first row changed."""
        file = self.head.files[path]
        seen = self.head.read(file)
        added, rows = [], self.rows
        if seen:
            first, *rest = seen
            changed = first.row._replace(name=next(self._names))
            added = [self._file(file.place, [Seen(changed, None, first.held), *rest])]
            rows = self.rows - {first.row} | {changed}
        self._commit(Change(kind="overwrite", added=added, removed=frozenset({path})), rows)

    def drop(self, path: str) -> None:
        """Delete a whole file."""
        gone = {seen.row for seen in self.head.read(self.head.files[path])}
        self._commit(Change(kind="delete", removed=frozenset({path})), self.rows - gone)

    # -- compactors -------------------------------------------------------------------------------

    def convert(self, path: str) -> None:
        """Turn an equality delete into position deletes, in a `replace` snapshot."""
        delete = self.head.deletes[path]
        hits = {
            file.path: {(file.path, row.name) for n, row in enumerate(file.rows) if delete.takes(file, n)}
            for file in self.head.files.values()
            if delete.reaches(file)
        }
        change = self._positions("replace", {name: some for name, some in hits.items() if some}, bound=False)
        self._commit(replace(change, removed_deletes=change.removed_deletes | {path}), self.rows)

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
        before = {seen.row: seen.row_id for seen in self.head.read_all()}
        after = self._catalog.metadata.prepared(change, "").read_all()
        same = Counter(seen.row for seen in after) == Counter(list(before))
        if same and all(before[seen.row] in (None, seen.row_id) for seen in after):
            self._commit(change, self.rows)
            return True
        return False

    # -- people -----------------------------------------------------------------------------------

    def point_to(self, n: int, *, ancestors: bool) -> None:
        """Roll back, or make any other snapshot the head that was one, or the head of a branch, and is known."""
        metadata = self._catalog.metadata
        known = metadata.history() if ancestors else sorted(metadata.snapshots.values(), key=lambda s: -s.id)
        found = [s.id for s in known if s.id != metadata.head_id and s.id in self._truth]
        if found:
            self.point(found[n % len(found)])

    def pick(self, n: int) -> bool:
        """Cherry-pick: appends of any snapshot are made once more, with the same files; what follows the head becomes
        it. Not if rows would be there twice."""
        metadata = self._catalog.metadata
        mine = {s.id for s in metadata.history()}
        done = mine | {int(s.facts[PICKED]) for s in metadata.history() if PICKED in s.facts}
        following = [s for s in metadata.snapshots.values() if s.parent == metadata.head_id and s.id in self._truth]
        appends = [s for s in metadata.snapshots.values() if s.kind == "append" and s.added and s.id not in done]
        found = [s for s in (*following, *appends) if s.id not in mine]
        if not found:
            return False
        picked = found[n % len(found)]
        if picked in following:
            self.point(picked.id)
            return True
        rows = frozenset(row for file in picked.added for row in file.rows)
        if rows & self.rows or {f.path for f in picked.added} & self.head.files.keys():
            return False
        again = [file._replace(first_row_id=None) for file in picked.added]
        self._commit(Change(kind="append", added=again, facts={PICKED: str(picked.id)}), self.rows | rows)
        self.row_ids = {row: row_id for row, row_id in self.row_ids.items() if row not in rows}
        return True

    def stage(self, place: Place, *keys: int) -> None:
        """Write, audit, publish: rows that nobody sees until their snapshot is picked."""
        file = self._new(place, *keys)
        snapshot = self._catalog.commit(Change(kind="append", added=[file], facts={"wap.id": "w"}), branch="staged")
        self._truth[snapshot.id] = self.rows | set(file.rows)

    def branch(self, place: Place, key: int) -> None:
        """Begin a branch, or append to it."""
        metadata = self._catalog.metadata
        if metadata.audit_id is None:
            self._catalog.point(metadata.head_id, branch="audit")
            return
        file = self._new(place, key)
        before = self._truth[metadata.audit_id]
        snapshot = self._catalog.commit(Change(kind="append", added=[file]), branch="audit")
        self._truth[snapshot.id] = before | set(file.rows)

    def publish(self) -> None:
        """The head is now what the branch has: fast-forward, or replace."""
        audit = self._catalog.metadata.audit_id
        if audit is not None:
            self.point(audit)
            self._catalog.metadata = replace(self._catalog.metadata, audit_id=None)
