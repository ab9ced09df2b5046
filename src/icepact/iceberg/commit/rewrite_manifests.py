"""Rewriting manifests: new ones are staged in the table's metadata folder, then take the place of the old ones.

Entries are listed as before, with the snapshot, the sequence numbers and the row ids that they have; so the commit may
go on top of whatever others have committed, as long as every manifest that it replaces is still there. That is what
Iceberg looks at, at every attempt.
"""

import struct
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from icepact.iceberg.commit.replace import (
    COMMIT_ID,
    HistoryCut,
    UnusedFiles,
    classified,
    find_commit,
    manifests_of,
    start_callbacks,
    was_taken_back,
)
from icepact.iceberg.commit.run_files import delete_files, unknown_files
from icepact.iceberg.java.bridge import JavaError, error_line, is_missing, retry_reads, through_a_file
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.manifest_facts import CLUSTERED, staged_prefix
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitUnknown, HeadMoved
from icepact.model.manifests import PartitionWeight

_THREADS = 8
"""Manifests that are read at the same time."""
_LOOKS = 4
"""How often a commit is looked for whose answer never came."""
_FIRST_WAIT = 0.2
"""Seconds before the second look; doubles from there."""
_WEIGHT = struct.Struct("<3q")


class Written(NamedTuple):
    """Manifests that were written in the place of others."""

    manifests: int
    entries: int
    bytes: int


class StagedManifests:
    """New manifests of one attempt: on storage, but not in the table yet."""

    def __init__(self, table: IcebergTable, snapshot: Any, commit_id: str, wishes: str) -> None:
        self.table = table
        self._wishes = wishes
        self.snapshot_id = int(snapshot.snapshotId())
        self.commit_id = commit_id
        self._prefix = staged_prefix(table, commit_id.partition("/")[0], uuid.uuid4().hex[:8])
        self._listed = snapshot.allManifests(table.table.io())
        self._version = table.format_version
        self._rewriters: list[Any] = []
        self._unused: UnusedFiles | None = None
        self.old, self.new = table.java.jvm.java.util.ArrayList(), table.java.jvm.java.util.ArrayList()

    def write(
        self, paths: Sequence[str], *, overhead: int, cut: Callable[[Sequence[PartitionWeight]], list[int]]
    ) -> Written:
        """Write the entries of some manifests of one kind anew; `cut` says where a further one begins. HeadMoved if
        they were replaced and have expired meanwhile."""
        try:
            return self._write(paths, overhead, cut)
        except JavaError as error:
            if is_missing(error):
                raise HeadMoved(error_line(error)) from error
            raise

    def _write(
        self, paths: Sequence[str], overhead: int, cut: Callable[[Sequence[PartitionWeight]], list[int]]
    ) -> Written:
        java, kind = self.table.java, "org.apache.iceberg.ManifestFile"
        wanted = java.as_predicate(java.chain(java.method(kind, "path"), java.among(java.strings(paths))))
        oldest_first = java.sorted(java.filtered(self._listed.stream(), wanted), java.method(kind, "minSequenceNumber"))
        rewriter = self._read(oldest_first, overhead)
        self._rewriters.append(rewriter)
        weights = [PartitionWeight(*each) for each in _WEIGHT.iter_unpack(through_a_file(rewriter.weights))]
        cuts = java.from_json(cut(weights), "java.util.ArrayList") if weights else java.jvm.java.util.ArrayList()
        files = rewriter.write(cuts, f"{self._prefix}{len(self._rewriters)}-", _THREADS)
        self.old.addAll(oldest_first)
        self.new.addAll(files)
        lengths = java.numbers(files, java.method(kind, "length"))
        return Written(len(lengths), int(rewriter.entries()), sum(length or 0 for length in lengths))

    @retry_reads
    def _read(self, manifests: Any, overhead: int) -> Any:
        rewriter = instance_of(self.table.java, "ManifestRewriter")
        rewriter.read(self.table.table, manifests, self._version, overhead, _THREADS)
        return rewriter

    def commit(self) -> int:
        """Put the new manifests in the place of the old ones; returns the new snapshot's id.

        Raises HeadMoved if the old ones are not there any more, CommitRefused if the catalog does not want it,
        CommitUnknown if nobody can tell, in which case nothing may be deleted.
        """
        table = self.table
        start_callbacks(table.java)
        bound = _OncePerTable(table, self.snapshot_id, self.commit_id, self._version)
        location = str(table.table.location())
        try:
            update = self._update(bound)
        except JavaError as error:  # nothing was sent
            raise HeadMoved(error_line(error)) from error
        try:
            update.commit()
        except Exception as error:
            problem = classified(error, location, bound)
            landed = self._found(looks=_LOOKS if isinstance(problem, CommitUnknown) or bound.met_itself else 1)
            if landed is None:
                raise (
                    CommitUnknown("it landed, and somebody rolled it back") if bound.met_itself else problem
                ) from error
            return landed
        landed = self._found(looks=1)
        if landed is None:
            raise CommitUnknown("the catalog accepted the new manifests, but the table does not show them")
        return landed

    def _update(self, bound: "_OncePerTable") -> Any:
        java, kind = self.table.java, "org.apache.iceberg.RewriteManifests"
        update = self.table.table.rewriteManifests()
        self._unused = UnusedFiles(java, update)
        update.set(COMMIT_ID, self.commit_id).set(CLUSTERED, self._wishes).validateWith(bound)
        for name, manifests in (("deleteManifest", self.old), ("addManifest", self.new)):
            method = java.bind(java.method(kind, name, "org.apache.iceberg.ManifestFile"), 0, update)
            manifests.forEach(java.as_interface("java.util.function.Consumer", method))
        return update

    def _found(self, *, looks: int) -> int | None:
        """The snapshot of this commit, if the table shows it."""
        for number in range(looks):
            time.sleep(_FIRST_WAIT * 2 ** (number - 1) if number else 0)
            try:
                landed = find_commit(self.table, "main", self.commit_id, since=self.snapshot_id)
            except HistoryCut as error:
                raise CommitUnknown(f"the new manifests may be in the table: {error}") from error
            except Exception as error:
                if number == looks - 1:
                    raise CommitUnknown(f"the table cannot be read: {error_line(error)}") from error
                continue
            if landed is not None:
                return landed
        return None

    def delete_unused(self, landed: int | None) -> None:
        """Delete what was written for nothing: all of it if the attempt is certain not to be in the table."""
        staged = [str(path) for rewriter in self._rewriters for path in self.table.java.items(rewriter.paths())]
        unused = self._unused.paths() if self._unused else []
        needed = frozenset[str]() if landed is None else manifests_of(self.table, landed)
        delete_files(self.table, unknown_files(sorted({*staged, *unused}), needed))


class _OncePerTable:
    """Accepts whatever others have committed, but neither another format version nor the commit itself."""

    def __init__(self, table: IcebergTable, head: int, commit_id: str, version: int) -> None:
        self._table = table
        self._head = head
        self._commit_id = commit_id
        self._version = version
        self.tries = 0
        self.met_itself = False
        self.failed: Exception | None = None

    def validate(self, snapshots: Any) -> bool:
        """Called by Java at every attempt, once it has read the table again."""
        del snapshots  # there may be more than the history of one branch
        self.tries += 1
        try:
            # A catalog that carried the commit out and lost its answer lets Iceberg try again.
            self.met_itself = was_taken_back(self._table, self._commit_id, since=self._head)
            return not self.met_itself and self._table.format_version == self._version
        except Exception as error:
            self.failed = error
            raise

    def errorMessage(self) -> str:
        """Called by Java for its exception."""
        return f"the table moved on from snapshot {self._head}"

    class Java:
        """What py4j needs to present this class to Java."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)
