"""Deletion of rows by Spark: its own `DELETE FROM` on one branch, marked so that its commit is found again."""

import time
from collections.abc import Callable

from icepact.iceberg.commit.delete import landed_snapshot
from icepact.iceberg.commit.replace import COMMIT_ID, REFUSALS, HistoryCut, find_commit, was_taken_back
from icepact.iceberg.java.bridge import JavaError, error_class, error_line, to_icepact_error
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.names import quote
from icepact.iceberg.table.staging import session_for_writes
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved, IcepactError

_CONFLICTS = {"ValidationException", "CommitFailedException"}
_MAIN = "main"


def delete_rows(
    table: IcebergTable,
    *,
    branch: str,
    head: int,
    condition: str,
    commit_id: str,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Delete the rows of a branch for which a condition of Spark's SQL holds; the snapshot of its commit, or `None` if
    there was no such row any more.

    Spark reads the branch as it is then, not as it was at `head`, and refuses the commit if somebody wrote rows or
    deletes meanwhile that it should have seen, as the table's isolation level says.

    Raises HeadMoved if somebody did: judge again; CommitRefused if the catalog does not want it; CommitUnknown if
    nobody can tell whether it landed. Whatever it wrote in vain, Spark takes away.
    """
    java = table.java
    failure: IcepactError | None = None
    target = table.sql_name if branch == _MAIN else f"{table.sql_name}.{quote((f'branch_{branch}',))}"
    session = session_for_writes(java, table.session)
    facts = java.from_json({COMMIT_ID: commit_id}, "java.util.HashMap")
    try:
        with java.active(session):
            statement = f"DELETE FROM {target} WHERE {condition}"
            instance_of(java, "MarkedStatement").run(session._jsparkSession, statement, facts)
    except JavaError as error:
        failure = _classified(error, table.location)
    if failure is None:
        return _found(table, branch, head, commit_id)
    landed = landed_snapshot(table, branch, head, commit_id, failure, sleep)
    if landed is None:
        raise failure
    return landed


def _found(table: IcebergTable, branch: str, head: int, commit_id: str) -> int | None:
    """The snapshot of a statement that ended well; `None` if it made none."""
    try:
        landed = find_commit(table, branch, commit_id, since=head)
        if landed is None and was_taken_back(table, commit_id, since=head):
            raise CommitUnknown("the rows were deleted, and somebody rolled that back")
    except HistoryCut as error:
        raise CommitUnknown(f"the rows may have been deleted: {error}") from error
    return landed


def _classified(error: Exception, location: str) -> IcepactError:
    kind = error_class(error)
    if kind in _CONFLICTS:
        return HeadMoved(error_line(error))
    if kind == "CommitStateUnknownException":
        return CommitUnknown(error_line(error))
    if kind in REFUSALS:
        return CommitRefused(error_line(error))
    return to_icepact_error(error, location) or CommitUnknown(f"{kind}: {error_line(error)}")
