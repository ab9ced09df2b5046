"""Writers of the model of `reach_model`: they do to its manifests what Iceberg's do to real ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.support.reach_model import ADDED, DELETED, EXISTING, Entry, History, Manifest, Snapshot

_T = TypeVar("_T")
Choose = Callable[[int], int]
"""A number below this one."""


class Writers:
    """A table, and all that may happen to it; what cannot happen now does not."""

    def __init__(self, choose: Choose, *, version: int = 2) -> None:
        self.history = History()
        self.heads: dict[str, int] = {}
        """Branches and tags."""
        self._choose = choose
        self._version = version
        self._number = 0
        self._clock = 0

    @property
    def events(self) -> Mapping[str, Callable[[], object]]:
        """By name."""
        return {
            "append": self.append,
            "add again": self.add_again,
            "add twice": self.add_twice,
            "remove": self.remove,
            "remove once": lambda: self.remove(once=True),
            "rewrite": lambda: self.remove(outputs=1),
            "delete rows": self.delete_rows,
            "share a Puffin file": lambda: self.delete_rows(shared=2),
            "remove deletes": lambda: self.remove(deletes=True),
            "rewrite manifests": self.rewrite_manifests,
            "branch": lambda: self.name(f"b{self._choose(2)}"),
            "tag": lambda: self.name(f"t{self._choose(2)}"),
            "drop": self.drop,
            "roll back": self.roll_back,
            "stage": self.stage,
            "publish": self.publish,
            "replace the table": self.replace_table,
            "upgrade": self.upgrade,
        }

    # -- events -------------------------------------------------------------------------------------

    def append(self, branch: str = "") -> None:
        """One or two new files, perhaps with the last manifests merged."""
        branch = branch or self._branch()
        head = self._head(branch)
        new = self._manifest([self._entry(self._new("f")) for _ in range(1 + self._choose(2))])
        carried = list(head.manifests if head else ())
        if self._choose(3) == 0:
            carried, merged = self._merge(carried)
            new = replace(new, entries=(*new.entries, *merged))
        self._commit(branch, [new, *carried])

    def add_again(self) -> None:
        """A file that was removed; nobody minds."""
        branch = self._branch()
        head = self._head(branch)
        live = {entry.path for m in (head.manifests if head else ()) for entry in m.live}
        known = {e.path for s in self.history.snapshots.values() for m in s.manifests if not m.deletes for e in m.live}
        if head and (old := sorted(known - live)):
            self._commit(branch, [self._manifest([self._entry(self._any(old))]), *head.manifests])

    def add_twice(self) -> None:
        """A file that is there."""
        branch = self._branch()
        head = self._head(branch)
        live = [entry for m in (head.manifests if head else ()) if not m.deletes for entry in m.live]
        if head and live:
            self._commit(branch, [self._manifest([self._entry(self._any(live).path)]), *head.manifests])

    def remove(self, *, outputs: int = 0, deletes: bool = False, once: bool = False) -> None:
        """Some files go, wherever they are or only where they were found, and perhaps one comes."""
        branch = self._branch()
        head = self._head(branch)
        live = [entry for m in (head.manifests if head else ()) if m.deletes is deletes for entry in m.live]
        if head is None or not live:
            return
        chosen = {self._any(live) for _ in range(1 + self._choose(2))}
        paths, numbers = {entry.path for entry in chosen}, {entry.number for entry in chosen}

        def goes(manifest: Manifest, entry: Entry) -> bool:
            by_number = deletes or once
            return manifest.deletes is deletes and (entry.number in numbers if by_number else entry.path in paths)

        left = self._without(head, goes)
        new = [self._manifest([self._entry(self._new("f"))])] if outputs else []
        self._commit(branch, [*new, *left])

    def delete_rows(self, shared: int = 1) -> None:
        """New delete files, or several vectors in one file."""
        branch = self._branch()
        head = self._head(branch)
        if head is not None and self._version > 1:
            path = self._new("p")
            entries = [self._entry(path) for _ in range(shared)]
            self._commit(branch, [self._manifest(entries, deletes=True), *head.manifests])

    def rewrite_manifests(self) -> None:
        """Of one kind, into one."""
        branch, deletes = self._branch(), self._choose(4) == 0
        head = self._head(branch)
        if head is not None:
            old = [m for m in head.manifests if m.deletes is deletes]
            live = [replace(entry, status=EXISTING) for m in old for entry in m.live]
            new = [self._manifest(live, deletes=deletes)] if live else []
            self._commit(branch, [*new, *(m for m in head.manifests if m.deletes is not deletes)])

    def name(self, name: str) -> None:
        """A branch or tag at some snapshot; tags do not move."""
        if self.history.snapshots:
            self.heads.setdefault(name, self._any(sorted(self.history.snapshots)))

    def drop(self) -> None:
        """A branch or tag."""
        names = sorted(self.heads.keys() - {"main"})
        if names:
            del self.heads[self._any(names)]

    def roll_back(self) -> None:
        """To any ancestor, or to any snapshot."""
        if "main" in self.heads:
            way = list(self.history.ancestors(self.heads["main"]))
            self.heads["main"] = self._any(way if self._choose(2) else sorted(self.history.snapshots))

    def stage(self) -> None:
        """An append that no branch shows."""
        head = self.heads.get("main")
        if head is not None:
            self.append("main")
            self.heads["main"] = head

    def publish(self) -> None:
        """Files of some snapshot that is not on main, once more; or that one itself, if it follows the head."""
        head = self._head("main")
        if head is None:
            return
        way = set(self.history.ancestors(head.snapshot_id))
        others = sorted(self.history.snapshots.keys() - way)
        if not others:
            return
        staged = self.history.snapshots[self._any(others)]
        if staged.parent_id == head.snapshot_id:
            self.heads["main"] = staged.snapshot_id
            return
        own = [manifest for manifest in staged.manifests if manifest.snapshot_id == staged.snapshot_id]
        added = [entry for manifest in own for entry in manifest.live if entry.status == ADDED]
        live = {entry.path for m in head.manifests for entry in m.live}
        fresh = [self._entry(entry.path) for entry in added if entry.path not in live and entry.path.startswith("f")]
        if fresh:
            self._commit("main", [self._manifest(fresh), *head.manifests])

    def replace_table(self) -> None:
        """What comes has no parent."""
        if self._choose(3) == 0:
            self.heads.pop("main", None)
            self._commit("main", [self._manifest([self._entry(self._new("f"))])])

    def upgrade(self) -> None:
        """Version 1 has no sequence numbers."""
        self._version = 2

    def expire(self, expired: Sequence[int]) -> None:
        """These snapshots leave the history; refs on them, too."""
        for number in expired:
            del self.history.snapshots[number]
        self.heads = {name: head for name, head in self.heads.items() if head not in expired}

    # -- how ----------------------------------------------------------------------------------------

    def _any(self, things: Sequence[_T]) -> _T:
        return things[self._choose(len(things))]

    def _branch(self) -> str:
        names = sorted(name for name in self.heads if name.startswith("b"))
        return self._any(["main", "main", *names])

    def _head(self, branch: str) -> Snapshot | None:
        number = self.heads.get(branch)
        return None if number is None else self.history.snapshots[number]

    def _new(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _entry(self, path: str) -> Entry:
        self._number += 1
        return Entry(status=ADDED, path=path, number=self._number, partition=int(path[1:]) % 3)

    def _sequence(self) -> int:
        return self._clock + 1 if self._version > 1 else 0

    def _manifest(self, entries: Sequence[Entry], *, deletes: bool = False) -> Manifest:
        """Of the snapshot that comes next."""
        return Manifest(
            path=self._new("m"),
            deletes=deletes,
            snapshot_id=self._clock + 1,
            sequence_number=self._sequence(),
            entries=tuple(entries),
        )

    def _merge(self, manifests: Sequence[Manifest]) -> tuple[list[Manifest], list[Entry]]:
        """The data manifests go, and their live entries are what is left of them."""
        live = [replace(e, status=EXISTING) for m in manifests if not m.deletes for e in m.live]
        return [m for m in manifests if m.deletes], live

    def _without(self, head: Snapshot, goes: Callable[[Manifest, Entry], bool]) -> list[Manifest]:
        """Manifests with entries taken out, as Iceberg filters them: those that have none are as they were, and those
        in which nothing was live are left out."""
        found = []
        for manifest in head.manifests:
            if any(goes(manifest, entry) for entry in manifest.live):
                entries = [
                    replace(entry, status=DELETED if goes(manifest, entry) else EXISTING) for entry in manifest.live
                ]
                found.append(self._manifest(entries, deletes=manifest.deletes))
            elif manifest.live:
                found.append(manifest)
        return found

    def _commit(self, branch: str, manifests: Sequence[Manifest]) -> None:
        sequence = self._sequence()
        self._clock += 1
        self.history.snapshots[self._clock] = Snapshot(
            snapshot_id=self._clock,
            parent_id=self.heads.get(branch),
            sequence_number=sequence,
            manifests=tuple(manifests),
        )
        self.heads[branch] = self._clock
