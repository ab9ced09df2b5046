"""What became of a commit that nobody saw the end of."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from icepact.iceberg.leftovers import referenced
from icepact.iceberg.replace import HistoryCut, find_commit, may_still_land, was_taken_back
from icepact.iceberg.table import IcebergTable
from icepact.model.run import Attempt, Landed, groups_of

COMMIT_WINDOW = timedelta(minutes=35)
"""How long a commit may be on its way to the catalog at least: Iceberg's own limit for its retries, and the last one
takes a while."""
_RETRIES = "commit.retry.total-timeout-ms"
_LONGEST = timedelta(days=7)
EXPIRED = 0
"""In place of the id of a snapshot that landed and has expired since."""


class Settled(StrEnum):
    """What can be said of an attempt that is not in the table."""

    TAKEN_BACK = "it landed, and was rolled back"
    MOVED = "the table has moved on from where it could land, but somebody might roll it back"
    GONE = "whoever made it is gone, but it might still be on its way"
    UNKNOWN = "it may still land"
    BEHIND = "the table is seen here as it was before that: this may not be the catalog that the run knew"


def settle(
    table: IcebergTable,
    attempts: Sequence[Attempt],
    *,
    branch: str,
    landed: Sequence[Landed],
    outputs: Mapping[str, frozenset[str]],
) -> list[tuple[Attempt, Landed | Settled]]:
    """What became of all attempts of one run. `landed` are the commits that it is known to have made, and `outputs` the
    files of its groups.

    Landed: its id is found in the history; or files of its groups are referred to, and no other commit of the run has
    added them.
    """
    found = [(attempt, _by_id(table, attempt, branch)) for attempt in attempts]
    ends = [end for _, end in found if isinstance(end, Landed)]
    known = groups_of([*landed, *ends, *(attempt for attempt, end in found if end is Settled.TAKEN_BACK)])
    return [(attempt, end or _otherwise(table, attempt, branch, known, outputs)) for attempt, end in found]


def _by_id(table: IcebergTable, attempt: Attempt, branch: str) -> Landed | Settled | None:
    try:
        snapshot_id = find_commit(table, branch, attempt.commit_id, since=attempt.head)
    except HistoryCut:
        snapshot_id = None  # it may have expired: its files tell
    if snapshot_id is None:
        back = was_taken_back(table, attempt.commit_id, since=attempt.head)
        return Settled.TAKEN_BACK if back else None
    return Landed(
        commit_id=attempt.commit_id,
        snapshot_id=snapshot_id,
        parent_id=table.parent_of(snapshot_id),
        sequence_number=table.sequence_number_of(snapshot_id),
        groups=attempt.groups,
    )


def _otherwise(
    table: IcebergTable, attempt: Attempt, branch: str, known: frozenset[str], outputs: Mapping[str, frozenset[str]]
) -> Landed | Settled:
    """What can be said of an attempt that no snapshot tells of: it may have landed and expired."""
    files = referenced(table, attempt.run_id) if known.isdisjoint(attempt.groups) else frozenset[str]()
    groups = [group for group in attempt.groups if outputs.get(group, frozenset()) & files]
    if groups:
        return Landed(
            commit_id=attempt.commit_id, snapshot_id=EXPIRED, parent_id=None, sequence_number=0, groups=groups
        )
    if table.last_sequence_number < attempt.head_sequence:
        return Settled.BEHIND
    if not may_still_land(table, branch, attempt.head):
        return Settled.MOVED
    gone = attempt.ended or (attempt.maker is not None and attempt.maker.gone)
    return Settled.GONE if gone else Settled.UNKNOWN


def window(properties: Mapping[str, str]) -> timedelta:
    """How long a commit on a table with these properties may be on its way."""
    told = properties.get(_RETRIES, "")
    seconds = min(int(told) / 1000, _LONGEST.total_seconds()) if told.isdecimal() else 0
    return max(COMMIT_WINDOW, timedelta(seconds=seconds) + COMMIT_WINDOW / 7)


def over(settled: Settled, attempt: Attempt, now: datetime) -> bool:
    """Whether it is certain that an attempt will not land any more."""
    if settled is Settled.TAKEN_BACK:
        return True
    until = attempt.until or attempt.started_at + COMMIT_WINDOW
    return settled not in (Settled.UNKNOWN, Settled.BEHIND) and now > until
