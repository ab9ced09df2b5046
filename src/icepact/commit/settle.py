"""What became of a commit that nobody saw the end of."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from icepact.iceberg.leftovers import referenced
from icepact.iceberg.replace import appends_only_since, find_commit, was_taken_back
from icepact.iceberg.table import IcebergTable
from icepact.model.run import Attempt, Landed

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


def settle(
    table: IcebergTable, attempt: Attempt, *, branch: str, landed: Sequence[Landed], outputs: frozenset[str]
) -> Landed | Settled:
    """The end of an attempt. `landed` are the commits that its run is known to have made, and `outputs` the files that
    this one would have added.

    Landed: its id is found in the history, or one of its files is referred to and no other commit of the run has
    added it.
    """
    found = find_commit(table, branch, attempt.commit_id, since=attempt.head)
    if found is not None:
        return Landed(
            commit_id=attempt.commit_id,
            snapshot_id=found,
            parent_id=table.parent_of(found),
            sequence_number=table.sequence_number_of(found),
            groups=attempt.groups,
        )
    if was_taken_back(table, attempt.commit_id, since=attempt.head):
        return Settled.TAKEN_BACK
    elsewhere = {group for commit in landed for group in commit.groups}
    if elsewhere.isdisjoint(attempt.groups) and outputs & referenced(table, attempt.run_id):
        return Landed(
            commit_id=attempt.commit_id, snapshot_id=EXPIRED, parent_id=None, sequence_number=0, groups=attempt.groups
        )
    if not appends_only_since(table, branch, attempt.head):
        return Settled.MOVED
    gone = attempt.ended or (attempt.maker is not None and attempt.maker.gone)
    return Settled.GONE if gone else Settled.UNKNOWN


def window(properties: Mapping[str, str]) -> timedelta:
    """How long a commit on a table with these properties may be on its way."""
    told = properties.get(_RETRIES, "")
    seconds = min(int(told) / 1000, _LONGEST.total_seconds()) if told.isdecimal() else 0
    return max(COMMIT_WINDOW, timedelta(seconds=seconds) + COMMIT_WINDOW / 7)


def over(settled: Settled, attempt: Attempt, now: datetime | None = None) -> bool:
    """Whether it is certain that an attempt will not land any more."""
    if settled is Settled.TAKEN_BACK:
        return True
    until = attempt.until or attempt.started_at + COMMIT_WINDOW
    return settled is not Settled.UNKNOWN and (now or datetime.now(UTC)) > until
