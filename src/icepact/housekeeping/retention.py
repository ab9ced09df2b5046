"""Which snapshots and refs a table's retention lets go, and why the other old ones stay. A pure function."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from icepact.model.history import SnapshotNode, SnapshotRef, TableHistory, age_of
from icepact.model.housekeeping import Kept

DEFAULT_AGE = timedelta(days=5)
DEFAULT_KEPT = 1
MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
MAIN = "main"


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """What goes, and what is old and stays."""

    snapshot_ids: tuple[int, ...]
    """Oldest first."""
    refs: tuple[str, ...]
    """Branches and tags that have outlived their own age."""
    kept: tuple[Kept, ...]
    """Old snapshots that stay; young ones need no reason."""


def decide_retention(
    history: TableHistory,
    *,
    older_than: datetime,
    retain_last: int,
    needed: Mapping[int, str],
    now: datetime,
) -> Retention:
    """Decide which snapshots go: those older than `older_than` that no ref keeps. Every branch keeps its newest
    `retain_last`, unless it says itself how many, or how old; a tag keeps its snapshot. `needed` are snapshots that
    somebody works with, and who."""
    by_id = history.by_id
    gone = {ref.name for ref in history.refs if _outlived(ref, by_id, history.properties, now)}
    why: dict[int, str] = {}
    reached: set[int] = set()
    for ref in history.refs:
        if ref.name not in gone:
            reached.update(node.snapshot_id for node in _line(by_id, ref.snapshot_id))
            for snapshot_id, reason in _kept_by(ref, by_id, older_than, retain_last, now):
                why.setdefault(snapshot_id, reason)
    for node in history.snapshots:
        if node.snapshot_id not in reached and node.at >= older_than:
            why.setdefault(node.snapshot_id, "young, though no branch leads to it")
        if node.staged is not None:
            why.setdefault(node.snapshot_id, f"staged as {node.staged}, and not published yet")
    for snapshot_id, reason in needed.items():
        why.setdefault(snapshot_id, reason)
    in_order = sorted(history.snapshots, key=lambda node: (node.sequence_number, node.at, node.snapshot_id))
    return Retention(
        snapshot_ids=tuple(node.snapshot_id for node in in_order if node.snapshot_id not in why),
        refs=tuple(sorted(gone)),
        kept=tuple(
            Kept(what=f"snapshot {node.snapshot_id} of {node.at:%Y-%m-%d %H:%M}", why=why[node.snapshot_id])
            for node in in_order
            if node.at < older_than and node.snapshot_id in why
        ),
    )


def _kept_by(
    ref: SnapshotRef, by_id: Mapping[int, SnapshotNode], older_than: datetime, retain_last: int, now: datetime
) -> Iterator[tuple[int, str]]:
    """Snapshots that a ref keeps, and why."""
    if ref.tag:
        yield ref.snapshot_id, str(ref)
        return
    oldest = older_than if ref.max_snapshot_age is None else before(now, ref.max_snapshot_age)
    least = retain_last if ref.min_snapshots is None else ref.min_snapshots
    for count, node in enumerate(_line(by_id, ref.snapshot_id), start=1):
        if count == 1:
            yield node.snapshot_id, f"the head of {ref}"
        elif count <= least:
            yield node.snapshot_id, f"one of the newest {least} of {ref}"
        elif node.at >= oldest:
            yield node.snapshot_id, f"{ref} keeps what is younger than {oldest:%Y-%m-%d %H:%M} UTC"


def retention_settings(properties: Mapping[str, str]) -> tuple[timedelta, int]:
    """How long a table keeps snapshots, and how many at least, by its own properties or as everybody does."""
    age, least = properties.get(MAX_SNAPSHOT_AGE, ""), properties.get(MIN_SNAPSHOTS, "")
    return (
        age_of(int(age)) if age.isdecimal() else DEFAULT_AGE,
        max(1, int(least)) if least.isdecimal() else DEFAULT_KEPT,
    )


def _outlived(
    ref: SnapshotRef, by_id: Mapping[int, SnapshotNode], properties: Mapping[str, str], now: datetime
) -> bool:
    """Whether a ref has outlived its own age; `main` has none."""
    table_wide = properties.get(MAX_REF_AGE, "")
    age = ref.max_age or (age_of(int(table_wide)) if table_wide.isdecimal() else None)
    node = by_id.get(ref.snapshot_id)
    return ref.name != MAIN and age is not None and node is not None and node.at < before(now, age)


def before(now: datetime, age: timedelta) -> datetime:
    """The moment so long ago; the first there is where people write the largest number, for ever."""
    return now - min(age, now - datetime.min.replace(tzinfo=UTC))


def _line(by_id: Mapping[int, SnapshotNode], newest: int) -> Iterator[SnapshotNode]:
    """A snapshot and its ancestors, as far as they are there."""
    node, seen = by_id.get(newest), set[int]()
    while node is not None and node.snapshot_id not in seen:
        seen.add(node.snapshot_id)
        yield node
        node = None if node.parent_id is None else by_id.get(node.parent_id)
