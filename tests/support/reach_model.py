"""A small model of tables that have a history, and in it the decision of `Reachability.java`, word by word."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

ADDED, EXISTING, DELETED = "added", "existing", "deleted"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a manifest."""

    status: str
    path: str
    number: int
    """Tells apart entries of one path: deletion vectors that share a Puffin file, a file that was added twice."""
    partition: int = 0

    @property
    def live(self) -> bool:
        """Whether readers read it."""
        return self.status != DELETED


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest, by its path."""

    path: str
    deletes: bool
    snapshot_id: int
    sequence_number: int
    entries: tuple[Entry, ...]

    @property
    def live(self) -> tuple[Entry, ...]:
        """Without what is recorded as removed."""
        return tuple(entry for entry in self.entries if entry.live)

    def may_have(self, partitions: Collection[int]) -> bool:
        """By the bounds that a manifest list knows."""
        own = [entry.partition for entry in self.entries]
        return any(min(own) <= partition <= max(own) for partition in partitions)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A snapshot, and its manifest list."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    manifests: tuple[Manifest, ...]

    @property
    def needs(self) -> frozenset[str]:
        """Every file that its readers open."""
        return frozenset(
            path for manifest in self.manifests for path in (manifest.path, *(entry.path for entry in manifest.live))
        )


@dataclass
class History:
    """Snapshots in the order in which they came."""

    snapshots: dict[int, Snapshot] = field(default_factory=dict)

    def ancestors(self, newest: int) -> Iterator[int]:
        """A snapshot and those before it, as far as they are there."""
        at = self.snapshots.get(newest)
        while at is not None:
            yield at.snapshot_id
            at = None if at.parent_id is None else self.snapshots.get(at.parent_id)


def must_stay(history: History, expired: Collection[int]) -> frozenset[str]:
    """By brute force: what the snapshots need that do not expire."""
    return frozenset[str]().union(*(s.needs for s in history.snapshots.values() if s.snapshot_id not in expired))


def should_go(history: History, expired: Collection[int]) -> frozenset[str]:
    """By brute force: what only the snapshots need that expire."""
    needed = frozenset[str]().union(*(history.snapshots[number].needs for number in expired))
    return needed - must_stay(history, expired)


# -- Reachability.java ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Divided:
    """What `divide` leaves."""

    goes: frozenset[str]
    """Candidates that are left, and manifests that only expired snapshots have."""
    doubtful: frozenset[str]
    """Manifests of snapshots that stay which were read."""


def divide(history: History, expired: Collection[int]) -> Divided:
    """What only these snapshots need, as Java finds it."""
    kept: dict[str, Manifest] = {}
    reached = set[int]()
    for snapshot in history.snapshots.values():
        if snapshot.snapshot_id not in expired:
            kept |= by_path(snapshot.manifests)
            reached |= set(history.ancestors(snapshot.snapshot_id))
    gone: dict[str, Manifest] = {}
    removing, lost, deleting = list[Manifest](), list[Snapshot](), set[int]()
    for snapshot in history.snapshots.values():
        goes = snapshot.snapshot_id in expired
        if goes:
            gone |= by_path(snapshot.manifests)
        if snapshot.snapshot_id not in reached:
            lost.append(snapshot)
        elif goes or snapshot.parent_id in expired:
            for manifest in snapshot.manifests:
                if manifest.snapshot_id == snapshot.snapshot_id and len(manifest.live) < len(manifest.entries):
                    removing.append(manifest)
                    deleting.add(snapshot.snapshot_id)
    gone = {path: manifest for path, manifest in gone.items() if path not in kept}
    whole = {p: m for snapshot in lost for p, m in by_path(snapshot.manifests).items() if p in gone}
    candidates = {entry.path for manifest in removing for entry in manifest.entries if not entry.live}
    candidates |= {entry.path for manifest in whole.values() for entry in manifest.live}
    removed_in = {e.partition for m in removing if not m.deletes for e in m.entries if not e.live}
    read = doubtful(history, kept, expired, deleting, removed_in, any_lost=bool(whole)) if candidates else []
    candidates -= {entry.path for manifest in read for entry in manifest.live}
    return Divided(goes=frozenset(candidates | gone.keys()), doubtful=frozenset(manifest.path for manifest in read))


def doubtful(
    history: History,
    kept: Mapping[str, Manifest],
    expired: Collection[int],
    deleting: Collection[int],
    removed_in: Collection[int],
    *,
    any_lost: bool,
) -> Sequence[Manifest]:
    """Manifests of snapshots that stay in which a candidate may be live."""
    removers = [history.snapshots[number] for number in deleting]
    newest = max(removers, key=lambda snapshot: snapshot.sequence_number, default=None)
    oldest = min((snapshot.sequence_number for snapshot in removers), default=2**63)
    certain = set[str]()
    before = set[int]() if newest is None else set(history.ancestors(newest.snapshot_id))
    if newest is not None and not any_lost and oldest > 0 and set(deleting) <= before:
        others = {
            manifest.path
            for snapshot in history.snapshots.values()
            if snapshot.snapshot_id not in expired and newest.snapshot_id not in history.ancestors(snapshot.snapshot_id)
            for manifest in snapshot.manifests
        }
        certain = set(kept) - others
    return [
        manifest
        for manifest in kept.values()
        if manifest.deletes
        or manifest.sequence_number > oldest
        or manifest.path not in certain
        or manifest.may_have(removed_in)
    ]


def by_path(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Manifests by their paths."""
    return {manifest.path: manifest for manifest in manifests}
