"""The delete commit: whole data files leave a branch, by name, and only as long as they are all live."""

import logging
import time
from collections.abc import Callable
from typing import Any

from icepact.iceberg.commit.replace import (
    COMMIT_ID,
    HistoryCut,
    UnusedFiles,
    classified,
    find_commit,
    manifests_of,
    roll_back,
    start_callbacks,
    was_taken_back,
)
from icepact.iceberg.commit.run_files import delete_files, unknown_files
from icepact.iceberg.java.bridge import JavaError, error_line
from icepact.iceberg.table.scan import ScanTasks
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitBroken, CommitUnknown, HeadMoved, IcepactError
from icepact.model.files import DeleteKind

LOOKS = 5
"""How often a commit is looked for that nobody answered for."""
FIRST_WAIT = 0.1
"""Seconds before the second look; doubles from there."""
_log = logging.getLogger("icepact")


class _BoundToHistory:
    """Accepts only a history that comes from the judged head, of a table whose columns mean what they meant.

    Whatever else was committed since does no harm: what is known of a file holds as long as it is live, and Iceberg
    makes sure that every one of them is. So a commit that has landed already, and is tried again, meets itself.
    """

    def __init__(self, table: IcebergTable, branch: str, head: int, interpretation: str) -> None:
        self._table, self._branch, self._head = table, branch, head
        self._interpretation = interpretation
        self.failed: Exception | None = None
        """What kept this from being found out."""
        self.tries = 0
        """How often Iceberg has begun to make the commit: all but the last were sent."""

    def validate(self, snapshots: Any) -> bool:
        """Called by Java at every attempt: the branch's history, newest first."""
        self.tries += 1
        try:
            return self._holds(snapshots)
        except Exception as error:  # the table cannot be read: Java tells nothing but where
            self.failed = error
            raise

    def _holds(self, snapshots: Any) -> bool:
        if not self._table.has_branch(self._branch) or self._table.interpretation != self._interpretation:
            return False
        iterator = snapshots.iterator()
        while iterator.hasNext():
            if int(iterator.next().snapshotId()) == self._head:
                return True
        return False

    def errorMessage(self) -> str:
        """Called by Java for its exception."""
        return f"the table is not what it was at snapshot {self._head}"

    class Java:
        """What py4j needs to present this class to Java."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


def delete_data_files(
    table: IcebergTable,
    *,
    branch: str,
    head: int,
    interpretation: str,
    files: Any,
    commit_id: str,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """One commit by which these data files, Java's own as the head has them, leave a branch; its snapshot's id.

    `interpretation` is that of the table when they were judged, before anything was read.

    Raises HeadMoved if some are gone or the table is another: judge again; CommitRefused and StorageFull if it
    certainly did not land; CommitUnknown if nobody can tell.
    """
    java = table.java
    start_callbacks(java)
    bound = _BoundToHistory(table, branch, head, interpretation)
    location = str(table.table.location())
    operation = table.table.newDelete().validateFilesExist()
    unused = UnusedFiles(java, operation)
    each = java.method("org.apache.iceberg.DeleteFiles", "deleteFile", "org.apache.iceberg.DataFile")
    try:
        files.forEach(java.as_interface("java.util.function.Consumer", java.bind(each, 0, operation)))
        operation.set(COMMIT_ID, commit_id)
        operation.validateWith(bound).toBranch(branch)
    except JavaError as error:  # nothing was sent
        raise HeadMoved(error_line(error)) from error
    failure: IcepactError | None = None
    try:
        operation.commit()
    except Exception as error:
        failure = classified(error, location, bound)
    landed = landed_snapshot(table, branch, head, commit_id, failure, sleep)
    _tidy(table, unused, landed)
    if landed is None:
        assert failure is not None
        raise failure
    return landed


def landed_snapshot(
    table: IcebergTable,
    branch: str,
    head: int,
    commit_id: str,
    failure: IcepactError | None,
    sleep: Callable[[float], None],
) -> int | None:
    """The snapshot that the commit has become, whatever the catalog said; `None` if it is certainly not in the table.

    A catalog that lost its own answer may report a conflict with itself. Raises CommitUnknown if nobody can tell.
    """
    certain = failure is not None and not isinstance(failure, CommitUnknown)
    for number in range(1 if certain else LOOKS):
        if number:
            sleep(FIRST_WAIT * 2**number)
        try:
            landed = find_commit(table, branch, commit_id, since=head)
            back = landed is None and was_taken_back(table, commit_id, since=head)
        except HistoryCut as error:
            raise CommitUnknown(f"it may have landed and expired: {error}") from error
        except Exception as error:
            if certain or number == LOOKS - 1:
                raise CommitUnknown(f"the table cannot be read: {error_line(error)}") from error
            continue
        if landed is not None:
            return landed
        if back:
            raise CommitUnknown("the commit landed, and somebody rolled it back")
    if failure is None:
        raise CommitUnknown("the catalog accepted the commit, but the branch does not show it")
    if not certain:
        raise failure
    return None


def _tidy(table: IcebergTable, unused: UnusedFiles, landed: int | None) -> None:
    """Delete manifests that were written for nothing. No harm if it fails."""
    try:
        paths = unused.paths()
        if paths:
            needed = frozenset[str]() if landed is None else manifests_of(table, landed)
            delete_files(table, unknown_files(paths, needed))
    except Exception as error:
        _log.warning("manifests of a commit on %s could not be deleted: %s", table.name, error_line(error))


def check_deleted(table: IcebergTable, *, branch: str, snapshot_id: int, paths: frozenset[str], rows: int) -> None:
    """Raises CommitBroken if a commit did anything else than take these files with so many rows away; it is rolled back
    if nothing came since."""
    try:
        parent = table.parent_of(snapshot_id)
        known = parent if parent is not None and table.has_snapshot(parent) else None
        before = None if known is None else table.total_rows(known)
        lost = 0 if known is None else _lost_deletes(table, known, snapshot_id, paths)
        after = table.total_rows(snapshot_id)
        removed, added = table.changed_paths(snapshot_id)
    except Exception as error:
        raise CommitUnknown(f"snapshot {snapshot_id} landed, but cannot be checked: {error_line(error)}") from error
    off = 0 if before is None or after is None else before - after - rows
    if not off and not added and not lost and set(removed) == paths:
        return
    wrong = f"{len(set(removed) ^ paths)} files, {off} rows and {lost} delete files are not what they should be"
    back = parent is not None and roll_back(table, branch, bad=snapshot_id, good=parent)
    raise CommitBroken(
        f"{wrong} since the commit of snapshot {snapshot_id}; "
        + ("it was rolled back" if back else "it could not be rolled back: look at the table now")
    )


def _lost_deletes(table: IcebergTable, parent: int, snapshot_id: int, paths: frozenset[str]) -> int:
    """How many deletes a commit took away that may apply to what is left: not vectors of files that went, and not what
    is older than every data file."""
    before = table.deletes_of(parent)
    if not before:
        return 0
    after = {delete.key for delete in table.deletes_of(snapshot_id)}
    gone = [d for d in before if d.key not in after and not (d.kind is DeleteKind.DV and d.referenced in paths)]
    if not gone:
        return 0
    oldest = ScanTasks.plan(table.java, table.table, snapshot_id).oldest_without([])
    return 0 if oldest is None else sum(1 for delete in gone if delete.sequence_number >= oldest)


def paths_of(table: IcebergTable, files: Any) -> frozenset[str]:
    """Paths of Java's own data files."""
    return frozenset(table.java.texts(files, table.java.method("org.apache.iceberg.ContentFile", "location")))
