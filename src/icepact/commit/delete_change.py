"""The protocol of a commit that changes deletes alone: recorded before it is made, bound to the head that it was judged
at, looked for where nobody answers, and checked."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icepact.commit.batches import DeleteDocument, Journal
from icepact.commit.post_commit import check_after, delete_digest
from icepact.commit.protocol import delete_leftovers
from icepact.commit.reconcile import commit_window
from icepact.iceberg.commit.change_deletes import change_deletes, java_deletes, new_operation
from icepact.iceberg.commit.delete import landed_snapshot
from icepact.iceberg.commit.replace import COMMIT_ID, UnusedFiles, manifest_prefix_of, manifests_of
from icepact.iceberg.commit.run_files import delete_files, unknown_files, vanished
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved, IcepactError, StorageFull
from icepact.model.files import DeleteFile
from icepact.model.run import Attempt, CommittedBatch
from icepact.record.process import this_process

_log = logging.getLogger("icepact")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteChange:
    """What one commit does to the deletes of a branch, as it is right at one head."""

    view: HeadView
    added: Sequence[DeleteDocument]
    removed: Sequence[DeleteFile]

    @property
    def files(self) -> list[DeleteDocument]:
        """New files: vectors share one."""
        return list({str(document["file-path"]): document for document in self.added}.values())


def commit_delete_change(
    table: IcebergTable,
    change: DeleteChange,
    journal: Journal,
    *,
    commit_id: str,
    branch: str,
    group: str,
    facts: Mapping[str, str],
    sleep: Callable[[float], None] = time.sleep,
) -> CommittedBatch:
    """Make the commit, unless the table moves on. `group` is the name under which it is recorded what it did, and
    `facts` are properties of the snapshot's summary, without their prefix.

    Raises HeadMoved if it is to be judged again, CommitRefused and StorageFull if it certainly did not land, and
    CommitUnknown if nobody can tell: then nothing may be deleted.
    """
    view, run_id = change.view, commit_id.partition("/")[0]
    gone = _vanished(table, run_id, change)
    if gone:
        raise CommitRefused(f"{len(gone)} of the new delete files are not on storage any more, first {min(gone)}")
    operation, unused, added = _prepared(table, change)
    attempt = _recorded(table, change, journal, commit_id, group, manifest_prefix_of(table, operation))
    journal.attempting(attempt)
    failure: IcepactError | None = None
    try:
        change_deletes(
            table,
            view,
            operation,
            branch=branch,
            added=added,
            written=frozenset(str(document["file-path"]) for document in change.added),
            removed=change.removed,
            facts={COMMIT_ID: commit_id, **{FACT_PREFIX + name: value for name, value in facts.items()}},
            in_time=lambda: attempt.until is None or journal.now() <= attempt.until,
        )
    except (HeadMoved, CommitRefused, StorageFull, CommitUnknown) as error:
        failure = error
    try:
        landed = landed_snapshot(table, branch, view.snapshot_id, commit_id, failure, sleep)
    except CommitUnknown:
        journal.unanswered()
        raise
    if landed is None:
        assert failure is not None
        _did_not_land(table, failure, attempt, unused, journal)
        raise failure
    check_after(table, branch, attempt, landed, missing=lambda: _vanished(table, run_id, change), stop=journal.broken)
    committed = CommittedBatch(
        commit_id=commit_id,
        snapshot_id=landed,
        parent_id=table.parent_of(landed),
        sequence_number=table.sequence_number_of(landed),
        groups=[group],
        delete_files_removed=len(change.removed),
    )
    _tidy(table, unused, landed)
    journal.landed(committed)
    return committed


def _prepared(table: IcebergTable, change: DeleteChange) -> tuple[Any, UnusedFiles, Any]:
    """Java's own commit, what it will call unused, and Java's own delete files."""
    try:
        operation = new_operation(table, adds=bool(change.added))
        added = java_deletes(table, change.view, change.added)
        return operation, UnusedFiles(table.java, operation), added
    except IcepactError:
        raise
    except Exception as error:
        raise CommitRefused(f"the commit on {table.name} cannot be prepared: {error_line(error)}") from error


def _recorded(
    table: IcebergTable, change: DeleteChange, journal: Journal, commit_id: str, group: str, prefix: str
) -> Attempt:
    """The attempt as the store records it, with all that is needed to check it later."""
    view, now = change.view, journal.now()
    gone = {delete.key for delete in change.removed}
    stay = [delete for delete in view.deletes if delete.key not in gone]
    oldest = view.oldest_without([])  # Iceberg may drop what is older than every data file
    since = view.sequence_number + 1 if oldest is None else oldest
    added = [(str(document["file-path"]), document.get("content-offset")) for document in change.added]
    return Attempt(
        commit_id=commit_id,
        head=view.snapshot_id,
        head_sequence=view.sequence_number,
        groups=[group],
        started_at=now,
        until=now + commit_window(table.properties),
        maker=this_process(),
        mark=prefix,
        deletes_since=since,
        deletes=delete_digest([delete.key for delete in stay if delete.sequence_number >= since] + added),
        added_rows=0,
    )


def _did_not_land(
    table: IcebergTable, failure: IcepactError, attempt: Attempt, unused: UnusedFiles, journal: Journal
) -> None:
    """Take away what an attempt left that is certainly not in the table, as long as it is on record."""
    if isinstance(failure, CommitRefused):
        journal.unanswered()  # an earlier request of it, which a gateway repeated, may still be on its way
        return
    _tidy(table, unused, None)
    if isinstance(failure, StorageFull):
        delete_leftovers(table, attempt, lost=[attempt.commit_id])
    journal.refused()


def _vanished(table: IcebergTable, run_id: str, change: DeleteChange) -> frozenset[str]:
    """New files that are not on storage as they were written."""
    try:
        return vanished(table, run_id, change.files) if change.added else frozenset[str]()
    except Exception as error:
        raise CommitRefused(f"the new files of {table.name} cannot be looked at: {error_line(error)}") from error


def _tidy(table: IcebergTable, unused: UnusedFiles, landed: int | None) -> None:
    """Delete manifests that were written for nothing. No harm if it fails."""
    try:
        paths = unused.paths()
        if paths:
            needed = frozenset[str]() if landed is None else manifests_of(table, landed)
            delete_files(table, unknown_files(paths, needed))
    except Exception as error:
        _log.warning("manifests of a commit on %s could not be deleted: %s", table.name, error_line(error))
