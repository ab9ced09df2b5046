"""Reconciling attempts with the table: what became of commits that nobody saw the end of."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from icepact.iceberg.commit.replace import (
    CARRIED_DELETES,
    LATE_DELETES,
    HistoryCut,
    find_commit,
    may_still_land,
    was_taken_back,
)
from icepact.iceberg.commit.run_files import referenced
from icepact.iceberg.table.table import IcebergTable, SnapshotLine
from icepact.model.run import Attempt, CommittedBatch, groups_of
from icepact.record.process import is_gone

COMMIT_WINDOW = timedelta(minutes=35)
"""How long a commit may be on its way to the catalog at least: Iceberg's own limit for its retries, and the last one
takes a while."""
_RETRIES = "commit.retry.total-timeout-ms"
_LONGEST = timedelta(days=7)
EXPIRED = 0
"""Instead of the id of a snapshot that landed and has expired since."""


class Fate(StrEnum):
    """What is known of an attempt that is not in the table."""

    TAKEN_BACK = "it landed, and was rolled back"
    MOVED = "the table has moved on from where it could land, but somebody might roll it back"
    GONE = "whoever made it is gone, but it might still be on its way"
    UNKNOWN = "it may still land"
    BEHIND = "the table is seen here as it was before that: this may not be the catalog that the run knew"


def reconcile(
    table: IcebergTable,
    attempts: Sequence[Attempt],
    *,
    branch: str,
    landed: Sequence[CommittedBatch],
    outputs: Mapping[str, frozenset[str]],
) -> list[tuple[Attempt, CommittedBatch | Fate]]:
    """What became of all attempts of one run. `landed` are the commits that it is known to have made, and `outputs` the
    files of its groups.

    Landed: its id is found in the history; or files of its groups are referred to, and no other commit of the run has
    added them.
    """
    found = [(attempt, _by_id(table, attempt, branch)) for attempt in attempts]
    ends = [end for _, end in found if isinstance(end, CommittedBatch)]
    known = groups_of([*landed, *ends, *(attempt for attempt, end in found if end is Fate.TAKEN_BACK)])
    return [(attempt, end or _otherwise(table, attempt, branch, known, outputs)) for attempt, end in found]


def _by_id(table: IcebergTable, attempt: Attempt, branch: str) -> CommittedBatch | Fate | None:
    try:
        snapshot_id = find_commit(table, branch, attempt.commit_id, since=attempt.head)
    except HistoryCut:
        snapshot_id = None  # it may have expired: its files tell
    if snapshot_id is None:
        back = was_taken_back(table, attempt.commit_id, since=attempt.head)
        return Fate.TAKEN_BACK if back else None
    return CommittedBatch(
        commit_id=attempt.commit_id,
        snapshot_id=snapshot_id,
        parent_id=table.parent_of(snapshot_id),
        sequence_number=table.sequence_number_of(snapshot_id),
        groups=attempt.groups,
        deletes_carried=int(table.fact(snapshot_id, CARRIED_DELETES) or 0),
        late_deletes=int(table.fact(snapshot_id, LATE_DELETES) or 0),
    )


def _otherwise(
    table: IcebergTable, attempt: Attempt, branch: str, known: frozenset[str], outputs: Mapping[str, frozenset[str]]
) -> CommittedBatch | Fate:
    """The fate of an attempt whose id no snapshot has: it may have landed and expired."""
    files = referenced(table, attempt.run_id) if known.isdisjoint(attempt.groups) else frozenset[str]()
    groups = [group for group in attempt.groups if outputs.get(group, frozenset()) & files]
    if groups:
        return CommittedBatch(
            commit_id=attempt.commit_id, snapshot_id=EXPIRED, parent_id=None, sequence_number=0, groups=groups
        )
    if table.last_sequence_number < attempt.head_sequence:
        return Fate.BEHIND
    if not may_still_land(table, branch, attempt.head):
        return Fate.MOVED
    gone = attempt.ended or (attempt.maker is not None and is_gone(attempt.maker))
    return Fate.GONE if gone else Fate.UNKNOWN


def rolled_back(table: IcebergTable, landed: CommittedBatch, ancestry: Sequence[SnapshotLine]) -> bool:
    """Whether a commit is certainly not part of its branch any more; `ancestry` are its snapshots, newest first.

    Its own snapshot need not be there: a catalog that takes a compaction back for another writer may remove it, and
    give its sequence number to that writer. A history that has expired, or that is older than the commit, says nothing.
    """
    if landed.snapshot_id == EXPIRED or landed.sequence_number > table.last_sequence_number:
        return False
    if not landed.sequence_number and not table.has_snapshot(landed.snapshot_id):
        return False  # format version 1 does not tell whether this is an older state
    for snapshot in ancestry:
        if landed.snapshot_id in (snapshot.id, snapshot.parent):
            return False
        if snapshot.number <= landed.sequence_number and landed.sequence_number:  # numbers only grow along a history
            return True
        if snapshot.parent is None or snapshot.parent == landed.parent_id:
            return True
    return False


def commit_window(properties: Mapping[str, str]) -> timedelta:
    """How long a commit on a table with these properties may be on its way."""
    timeout = properties.get(_RETRIES, "")
    seconds = min(int(timeout) / 1000, _LONGEST.total_seconds()) if timeout.isdecimal() else 0
    return max(COMMIT_WINDOW, timedelta(seconds=seconds) + COMMIT_WINDOW / 7)


def cannot_land(fate: Fate, attempt: Attempt, now: datetime) -> bool:
    """Whether it is certain that an attempt will not land any more."""
    if fate is Fate.TAKEN_BACK:
        return True
    until = attempt.until or attempt.started_at + COMMIT_WINDOW
    return fate not in (Fate.UNKNOWN, Fate.BEHIND) and now > until
