"""The replace commit itself: the mechanism. What may be committed is decided in `commit`."""

from collections.abc import Iterator
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started

from icepact.iceberg.java import Java, JavaError, error_class, error_line, patient
from icepact.iceberg.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved

COMMIT_ID = f"{FACT_PREFIX}commit-id"


class _BoundToHead:
    """Accepts only a history that reaches the judged head through appends alone.

    Java calls this at every attempt of a commit, with the newest history; a delete, an overwrite or
    another replace in between means that our judgement no longer holds.
    """

    def __init__(self, head: int) -> None:
        self.head = head

    def validate(self, snapshots: Any) -> bool:
        """Called by Java: the branch's history, newest first."""
        iterator = snapshots.iterator()
        while iterator.hasNext():
            snapshot = iterator.next()
            if int(snapshot.snapshotId()) == self.head:
                return True
            if not _only_appends(snapshot):
                return False
        return False

    def errorMessage(self) -> str:
        """Called by Java for its exception."""
        return f"the table moved on from snapshot {self.head}"

    class Java:
        """What py4j needs to present this class to Java."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


def mark_of(table: IcebergTable, rewrite: Any) -> str:
    """Folder and common word of the manifests that a commit writes; empty if this Iceberg keeps that to itself."""
    fields = table.java.iceberg.common.DynFields.builder()
    try:
        word = fields.hiddenImpl(_PRODUCER, "commitUUID").defaultAlwaysNull().build().get(rewrite)
        return str(table.table.operations().metadataFileLocation(word)) if word else ""
    except JavaError:
        return ""


_PRODUCER = "org.apache.iceberg.SnapshotProducer"


def replace_files(
    table: IcebergTable,
    view: HeadView,
    rewrite: Any,
    *,
    branch: str,
    pinned: int,
    inputs: list[str],
    outputs: Any,
    dangling: list[str],
    sequence: int | None,
    facts: dict[str, str],
) -> int:
    """One atomic commit: inputs and dangling delete files out, outputs in. Returns the new snapshot's id.

    `rewrite` is Java's own, of this table, new. `sequence` is the data sequence number of the outputs; without it they
    are as new as the snapshot.

    Raises HeadMoved if it certainly did not land and should be judged again, CommitRefused if it
    certainly did not and never will, CommitUnknown if nobody can tell.
    """
    java = table.java
    ensure_callback_server_started(java.gateway)
    # an expired pin, or one that a rollback took out of the history, says nothing about what came since
    known = table.has_snapshot(pinned) and table.is_ancestor(pinned, of=view.snapshot_id)
    rewrite.validateFromSnapshot(pinned if known else view.snapshot_id)
    rewrite.rewriteFiles(
        view.tasks.with_paths(inputs).data_files(),
        _delete_files(java, view, dangling, inputs),
        outputs,
        java.jvm.java.util.HashSet(),
    )
    if sequence is not None:
        rewrite.dataSequenceNumber(sequence)
    for key, value in facts.items():
        rewrite.set(key, value)
    rewrite.validateWith(_BoundToHead(view.snapshot_id)).toBranch(branch)
    try:
        rewrite.commit()
    except JavaError as error:
        raise _classified(error) from error
    try:
        landed = find_commit(table, branch, facts[COMMIT_ID], since=view.snapshot_id)
    except Exception as error:
        raise CommitUnknown(f"committed, but the table cannot be read: {error_line(error)}") from error
    if landed is None:
        raise CommitUnknown("the catalog accepted the commit, but the branch does not show it")
    return landed


def _classified(error: JavaError) -> Exception:
    kind = error_class(error)
    if kind in {"ValidationException", "CommitFailedException"}:
        return HeadMoved(error_line(error))
    if kind == "CommitStateUnknownException":
        return CommitUnknown(error_line(error))
    if kind in _CERTAINLY_FAILED:
        return CommitRefused(error_line(error))
    return CommitUnknown(f"{kind}: {error_line(error)}")


_CERTAINLY_FAILED = {
    "NotAuthorizedException",
    "ForbiddenException",
    "NoSuchTableException",
}


def _only_appends(snapshot: Any) -> bool:
    """Whether a snapshot only added data files. Some writers call more than that an append."""
    summary = snapshot.summary()
    return snapshot.operation() == "append" and not any(
        summary.get(told) not in (None, "0") for told in ("added-delete-files", "deleted-data-files")
    )


@patient
def find_commit(table: IcebergTable, branch: str, commit_id: str, *, since: int) -> int | None:
    """The snapshot that carries a commit id, if one after `since` in the branch's history does."""
    table.table.refresh()
    for snapshot in _history(table, branch):
        if int(snapshot.snapshotId()) == since:
            return None
        if (snapshot.summary() or {}).get(COMMIT_ID) == commit_id:
            return int(snapshot.snapshotId())
    return None


def _history(table: IcebergTable, branch: str) -> Iterator[Any]:
    """The snapshots of a branch, newest first, as far as they are known; none if there is no such branch any more."""
    snapshot = table.head(branch) if table.has_branch(branch) else None
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.table.snapshot(parent)


def was_taken_back(table: IcebergTable, commit_id: str, *, since: int) -> bool:
    """Whether a snapshot after `since` carries a commit id that is not found in the history of its branch."""
    snapshots = table.table.snapshots().toArray()  # in the order in which they were made
    for number in range(len(snapshots) - 1, -1, -1):
        snapshot = snapshots[number]
        if int(snapshot.snapshotId()) == since:
            return False
        if (snapshot.summary() or {}).get(COMMIT_ID) == commit_id:
            return True
    return False


def appends_only_since(table: IcebergTable, branch: str, head: int) -> bool:
    """Whether a commit that is bound to this head would still be accepted: only appends came after it."""
    for snapshot in _history(table, branch):
        if int(snapshot.snapshotId()) == head:
            return True
        if not _only_appends(snapshot):
            return False
    return False


def _delete_files(java: Java, view: HeadView, dangling: list[str], inputs: list[str]) -> Any:
    """Java's own delete files that go: the dangling ones, and what is bound to an input.

    Iceberg would drop the vectors of removed data files by itself, but looks for them only in the
    manifests of the delete files that we name, once we name one.
    """
    chosen = java.jvm.java.util.HashSet()
    for owner, name, paths in (
        ("org.apache.iceberg.ContentFile", "location", dangling),
        ("org.apache.iceberg.DeleteFile", "referencedDataFile", inputs),
    ):
        wanted = java.as_predicate(java.chain(java.method(owner, name), java.among(java.strings(paths))))
        chosen.addAll(java.filtered(view.java_deletes.stream(), wanted))
    return chosen


def roll_back(table: IcebergTable, branch: str, *, bad: int, good: int) -> bool:
    """Take one snapshot back, only if it is still the head: one compare-and-set on checked metadata."""
    try:
        operations = table.table.operations()
        base = operations.refresh()
        head = table.head(branch)
        if head is None or int(head.snapshotId()) != bad:
            return False
        builder = table.java.iceberg.TableMetadata.buildFrom(base)
        operations.commit(base, builder.setBranchSnapshot(good, branch).build())
    except JavaError:
        return False
    table.refresh()
    return True
