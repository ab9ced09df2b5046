"""The replace commit itself, and the search for one in a history. What may be committed is decided in `commit`."""

import json
from collections.abc import Callable, Collection, Iterator
from threading import Lock
from typing import Any, Protocol

from pyspark.java_gateway import ensure_callback_server_started

from icepact.iceberg.disk import full_disk_remedy, not_carried_out
from icepact.iceberg.java.bridge import Java, JavaError, error_class, error_line, retry_reads, with_cause
from icepact.iceberg.table.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved, IcepactError, StorageFull

COMMIT_ID = f"{FACT_PREFIX}commit-id"
MAY_BE_ROLLED_BACK = {"polaris.internal.conflict-resolution.by-operation-type.replace": "rollback"}
"""By this property of a snapshot catalogs such as Polaris know that they may take it back for a writer that it made
lose."""
CARRIED_DELETES = "carried-deletes"
"""Without its prefix: rows of the outputs that the commit deletes, because they were deleted from the inputs."""
LATE_DELETES = "late-deletes"
"""Those of them that were deleted while the outputs were written."""


class HistoryCut(Exception):
    """The history of a branch ends before the snapshot that was looked for: older ones have expired."""


class _MetItself(Exception):
    """The commit is in the table already."""


class _TakenBack(Exception):
    """The commit was in the table already, and somebody has taken it back."""


class BoundToHead:
    """Accepts only a history that reaches the judged head through appends alone.

    Java calls this at every attempt of a commit, with the newest history; a delete, an overwrite or
    another replace in between means that our judgement no longer holds. So does a change of the format version or of
    how files are read, and an append that gave ids to rows which had none when we read them. Of a branch that was
    dropped Java tells the history of `main`, and would make it anew.
    """

    def __init__(
        self,
        table: IcebergTable,
        branch: str,
        view: HeadView,
        commit_id: str,
        inputs: list[str],
        written: Collection[str],
        in_time: Callable[[], bool],
    ) -> None:
        wanted = set(inputs)
        self._in_time = in_time
        self._table = table
        self._branch = branch
        self._view = view
        self._commit_id = commit_id
        self._written = frozenset(written)
        self._without_ids = any(f.first_row_id is None for f in view.files if f.path in wanted)
        self.met_itself = self.taken_back = False
        self.failed: Exception | None = None
        """What kept this from being found out."""
        self.tries = 0
        """How often Iceberg has begun to make the commit: all but the last were sent."""

    def validate(self, snapshots: Any) -> bool:
        """Called by Java: the branch's history, newest first."""
        self.tries += 1
        try:
            return self._holds(snapshots)
        except (_MetItself, _TakenBack):
            raise
        except Exception as error:  # the record store or the table cannot be read: Java tells nothing but where
            self.failed = error
            raise

    def _holds(self, snapshots: Any) -> bool:
        if not self._in_time():  # a process that stood still for so long has been given up by others
            return False
        if not self._as_judged():
            return False
        iterator, since = snapshots.iterator(), set[int]()
        while iterator.hasNext():
            snapshot = iterator.next()
            if int(snapshot.snapshotId()) == self._view.snapshot_id:
                return self._never_landed(since)
            if (snapshot.summary() or {}).get(COMMIT_ID) == self._commit_id:
                # A catalog that carried the commit out and lost its answer lets Iceberg try again. `false` would count
                # as a failed commit, after which Iceberg deletes the manifests of what is the table's head by now.
                self.met_itself = True
                raise _MetItself(self._commit_id)
            if not _only_appends(snapshot) or (self._without_ids and snapshot.firstRowId() is not None):
                return False
            since.add(int(snapshot.snapshotId()))
        return False

    def _never_landed(self, since: set[int]) -> bool:
        """Files of a snapshot that somebody has taken back go with it: they must not be committed again, whichever
        attempt of the run it came from. `since` are the snapshots of the branch after the head."""
        mine = f"{self._commit_id.partition('/')[0]}/"
        for snapshot in _made_after(self._table, self._view.snapshot_id):
            number = int(snapshot.snapshotId())
            known = (snapshot.summary() or {}).get(COMMIT_ID) or ""
            if not known.startswith(mine) or number in since:
                continue
            if not self._written.isdisjoint(self._table.added_paths(number)):
                self.taken_back = True
                raise _TakenBack(known)
        return True

    def _as_judged(self) -> bool:
        """Whether what no snapshot tells is as it was, in the metadata that Java has just read."""
        table, view = self._table, self._view
        return (
            table.has_branch(self._branch)
            and table.format_version == view.format_version
            and table.interpretation == view.interpretation
        )

    def errorMessage(self) -> str:
        """Called by Java for its exception."""
        return f"the table moved on from snapshot {self._view.snapshot_id}"

    class Java:
        """What py4j needs to present this class to Java."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


class UnusedFiles:
    """Files that Iceberg calls unused once a commit has ended.

    It would delete them itself: also those of a commit that it takes for failed, although the catalog has carried it
    out. Whoever knows what became of the commit says what really goes.
    """

    def __init__(self, java: Java, rewrite: Any) -> None:
        self._java = java
        self._queue = java.jvm.java.util.concurrent.ConcurrentLinkedQueue()
        add = java.method("java.util.concurrent.ConcurrentLinkedQueue", "add", "java.lang.Object")
        rewrite.deleteWith(java.as_interface("java.util.function.Consumer", java.bind(add, 0, self._queue)))

    def paths(self) -> list[str]:
        """What was called unused so far."""
        return [str(path) for path in self._java.items(self._queue)]


def manifest_prefix_of(table: IcebergTable, rewrite: Any) -> str:
    """Folder and common word of the manifests that a commit writes; empty if this Iceberg keeps that to itself."""
    fields = table.java.iceberg.common.DynFields.builder()
    try:
        word = fields.hiddenImpl(_PRODUCER, "commitUUID").defaultAlwaysNull().build().get(rewrite)
        return str(table.table.operations().metadataFileLocation(word)) if word else ""
    except JavaError:
        return ""


_PRODUCER = "org.apache.iceberg.SnapshotProducer"
_STARTING = Lock()


def start_callbacks(java: Java) -> None:
    """Let Java call Python: it asks for a judgement at every attempt of a commit."""
    with _STARTING:  # the rehearsal does so in a thread of its own
        ensure_callback_server_started(java.gateway)


def replace_files(
    table: IcebergTable,
    view: HeadView,
    rewrite: Any,
    *,
    branch: str,
    inputs: list[str],
    outputs: Any,
    added_deletes: Any,
    written: Collection[str],
    dangling: list[str],
    moved: tuple[str, str] | None,
    sequence: int | None,
    facts: dict[str, str],
    in_time: Callable[[], bool],
) -> int:
    """One atomic commit: inputs and dangling delete files out, outputs and their deletes in. Returns the new snapshot's
    id.

    `rewrite` is Java's own, of this table, new; so are `outputs`, whose paths are `written`, and `added_deletes`.
    `moved` is a delete file that stays, and the path of its copy. `sequence` is the data sequence number of the
    outputs; without it they are as new as the snapshot. Once `in_time` says no, nothing is committed any more.

    Raises HeadMoved if the table moved on and should be looked at again, CommitRefused if the catalog does not want it,
    CommitUnknown if nobody can tell. Whatever a catalog says, the commit may be in the table: look for it. StorageFull
    alone is certain: nothing was sent.
    """
    java = table.java
    start_callbacks(java)
    bound = BoundToHead(table, branch, view, facts[COMMIT_ID], inputs, written, in_time)
    try:
        # What came before the head was judged there, with the statistics that tell which deletes reach an input.
        # Iceberg's own validation has none, and would refuse for ever where keys grow.
        rewrite.validateFromSnapshot(view.snapshot_id)
        rewrite.rewriteFiles(
            view.tasks.with_paths(inputs).data_files(),
            deletes_to_remove(java, view, [*dangling, *(moved or ())[:1]], inputs),
            outputs,
            added_deletes,
        )
        if moved is not None:
            _add_copy(table, view, rewrite, *moved)
        if sequence is not None:
            rewrite.dataSequenceNumber(sequence)
        for key, value in facts.items():
            rewrite.set(key, value)
        rewrite.validateWith(bound).toBranch(branch)
    except JavaError as error:  # nothing was sent; partition specs may not be what they were when it was judged
        raise HeadMoved(error_line(error)) from error
    return send(table, rewrite, bound, branch=branch, head=view.snapshot_id, commit_id=facts[COMMIT_ID])


def send(table: IcebergTable, operation: Any, bound: BoundToHead, *, branch: str, head: int, commit_id: str) -> int:
    """Make a commit that is bound to a head; its snapshot's id. Raises what `replace_files` does."""
    location = str(table.table.location())  # nobody can ask for it once the table is gone
    try:
        operation.commit()
    except Exception as error:
        if bound.taken_back:
            raise CommitUnknown("an earlier commit of the same files landed, and somebody rolled it back") from error
        if not bound.met_itself:
            raise classified(error, location, bound) from error
    try:
        landed = find_commit(table, branch, commit_id, since=head)
    except Exception as error:
        raise CommitUnknown(f"committed, but the table cannot be read: {error_line(error)}") from error
    if landed is None:
        raise CommitUnknown("the catalog accepted the commit, but the branch does not show it")
    return landed


class Bound(Protocol):
    """What Java asks before each attempt of a commit."""

    tries: int
    """How often Iceberg has begun to make the commit: all but the last were sent."""
    failed: Exception | None
    """What kept it from being judged."""


def classified(error: Exception, location: str, bound: Bound) -> IcepactError:
    """What an error of a commit proves about it, as one of icepact's: see `replace_files`."""
    kind = error_class(error)
    sent = bound.tries > 1  # the catalog has heard of the commit before
    if kind == "Py4JException":  # the validator failed, or could not be asked: this time nothing was sent
        message = f"the commit cannot be judged: {error_line(bound.failed or error)}"
        return CommitUnknown(message) if sent else HeadMoved(message)
    if not_carried_out(error):
        message = f"the commit did not land: {full_disk_remedy(with_cause(error), [location])}"
        return CommitRefused(message) if sent else StorageFull(message)
    if kind in _CONFLICTS:
        return HeadMoved(error_line(error))
    if kind == "CommitStateUnknownException":
        return CommitUnknown(error_line(error))
    if kind in REFUSALS:
        return CommitRefused(error_line(error))
    return CommitUnknown(f"{kind}: {error_line(error)}")


_CONFLICTS = {
    "ValidationException",
    "CommitFailedException",
    "IllegalArgumentException",  # of Iceberg's own validation, before anything is sent
}
REFUSALS = {
    "NotAuthorizedException",
    "ForbiddenException",
    "NoSuchTableException",
}


def _only_appends(snapshot: Any) -> bool:
    """Whether a snapshot only added data files. Some writers call more than that an append."""
    summary = snapshot.summary()
    return snapshot.operation() == "append" and not any(
        summary.get(count) not in (None, "0") for count in ("added-delete-files", "deleted-data-files")
    )


@retry_reads
def find_commit(table: IcebergTable, branch: str, commit_id: str, *, since: int) -> int | None:
    """The snapshot that carries a commit id, if one after `since` in the branch's history does.

    Raises HistoryCut if the history ends before `since`: the snapshot may have expired.
    """
    table.table.refresh()
    for snapshot in _history(table, branch):
        if int(snapshot.snapshotId()) == since:
            return None
        if (snapshot.summary() or {}).get(COMMIT_ID) == commit_id:
            return int(snapshot.snapshotId())
    return None


def _history(table: IcebergTable, branch: str) -> Iterator[Any]:
    """The snapshots of a branch, newest first, to the very first one; none if there is no such branch any more."""
    snapshot = table.head(branch) if table.has_branch(branch) else None
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.table.snapshot(parent)
        if parent is not None and snapshot is None:
            raise HistoryCut(f"the snapshots of {table.name} before {parent} have expired")


def was_taken_back(table: IcebergTable, commit_id: str, *, since: int) -> bool:
    """Whether a snapshot after `since` carries a commit id that is not found in the history of its branch."""
    return any((s.summary() or {}).get(COMMIT_ID) == commit_id for s in _made_after(table, since))


def _made_after(table: IcebergTable, snapshot_id: int) -> Iterator[Any]:
    """All snapshots that may have been made after one, on whichever branch or none; all there are if it has expired."""
    known = table.table.snapshot(snapshot_id)
    for snapshot in table.made_since(0 if known is None else int(known.sequenceNumber())):
        if int(snapshot.snapshotId()) != snapshot_id:
            yield snapshot


def may_still_land(table: IcebergTable, branch: str, head: int) -> bool:
    """Whether a commit that is bound to this head might still be accepted: only appends came after it, or nobody knows
    what did."""
    try:
        for snapshot in _history(table, branch):
            if int(snapshot.snapshotId()) == head:
                return True
            if not _only_appends(snapshot):
                return False
    except HistoryCut:
        return table.has_snapshot(head)  # one that has expired is never met again
    return False


def manifests_of(table: IcebergTable, snapshot_id: int) -> frozenset[str]:
    """A snapshot's own manifests and their list."""
    snapshot = table.table.snapshot(snapshot_id)
    paths = table.manifest_paths(snapshot.allManifests(table.table.io()))
    return frozenset([str(snapshot.manifestListLocation()), *paths])


def deletes_to_remove(java: Java, view: HeadView, dangling: list[str], inputs: list[str]) -> Any:
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


def _add_copy(table: IcebergTable, view: HeadView, rewrite: Any, path: str, copy: str) -> None:
    """Add a delete file of the head once more, under another path and as old as it is."""
    java = table.java
    wanted = java.as_predicate(
        java.chain(java.method("org.apache.iceberg.ContentFile", "location"), java.among(java.strings([path])))
    )
    [delete] = java.items(java.filtered(view.java_deletes.stream(), wanted))
    specs, parser = table.table.specs(), java.iceberg.ContentFileParser
    # a builder's own copy forgets by which columns rows are deleted
    document = {**json.loads(str(parser.toJson(delete, specs[delete.specId()]))), "file-path": copy}
    same = parser.fromJson(java.mapper.readTree(json.dumps(document)), specs)
    rewrite.addFile(same, delete.dataSequenceNumber())


def roll_back(table: IcebergTable, branch: str, *, bad: int, good: int) -> bool:
    """Take one snapshot back, only if it is still the head: one compare-and-set on checked metadata."""
    try:
        operations = table.table.operations()
        base = operations.refresh()
        if table.head_id(branch) != bad:
            return False
        builder = table.java.iceberg.TableMetadata.buildFrom(base)
        operations.commit(base, builder.setBranchSnapshot(good, branch).build())
        table.refresh()
    except JavaError:
        return _ends_with(table, branch, good)  # the answer may be all that failed
    return True


def _ends_with(table: IcebergTable, branch: str, snapshot_id: int) -> bool:
    try:
        table.refresh()
        return table.head_id(branch) == snapshot_id
    except JavaError:
        return False
