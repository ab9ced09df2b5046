"""What became of a commit that nobody saw the end of."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from icepact.iceberg.leftovers import referenced
from icepact.iceberg.replace import appends_only_since, find_commit
from icepact.iceberg.table import IcebergTable
from icepact.model.run import Attempt, Landed, RunRecord, Status

EXPIRED = 0
"""In place of the id of a snapshot that landed and has expired since."""


class Settled(StrEnum):
    """What can be said of an attempt that is not in the table."""

    NONE = "no attempt is under way"
    REFUSED = "it cannot land any more"
    GONE = "whoever made it is gone, but it might still be on its way"
    UNKNOWN = "it may still land"


def settle(table: IcebergTable, record: RunRecord, outputs: frozenset[str] = frozenset()) -> Landed | Settled:
    """The end of a run's last attempt. `outputs` are the files it would have added.

    Landed: its id is found in the history, or one of its files is referred to. Refused: not found, and the head has
    moved so that the binding refuses it for good.
    """
    attempt = record.commit
    if attempt is None:
        return Settled.NONE
    found = find_commit(table, record.branch, attempt.commit_id, since=attempt.head)
    if found is not None:
        return Landed(
            commit_id=attempt.commit_id,
            snapshot_id=found,
            parent_id=table.parent_of(found),
            sequence_number=table.sequence_number_of(found),
            groups=attempt.groups,
        )
    if outputs & referenced(table, record.run_id):
        return Landed(
            commit_id=attempt.commit_id, snapshot_id=EXPIRED, parent_id=None, sequence_number=0, groups=attempt.groups
        )
    ended = record.status is Status.UNKNOWN  # its process saw the attempt end, without an answer
    return fate(table, record.branch, attempt, gone=ended or (record.owner is not None and record.owner.gone))


def fate(table: IcebergTable, branch: str, attempt: Attempt, *, gone: bool) -> Settled:
    """Whether an attempt that is not in the table can still get there."""
    table.refresh()
    if not appends_only_since(table, branch, attempt.head):
        return Settled.REFUSED
    return Settled.GONE if gone else Settled.UNKNOWN


def over(settled: Settled, attempt: Attempt, window: timedelta, now: datetime | None = None) -> bool:
    """Whether it is certain that an attempt will not land: refused for good, or its time is up and its maker gone."""
    now = now or datetime.now(UTC)
    return settled is Settled.REFUSED or (settled is Settled.GONE and now > attempt.started_at + window)
