"""Batches of groups that are committed together, and the journal of every attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from icepact.commit.judge import DeleteKey, InputAtPin, Verdict
from icepact.iceberg.table.staging import FileDocument
from icepact.model.files import DeleteFile
from icepact.model.late_deletes import HeadDeletes, NotCarried
from icepact.model.run import Attempt, CommittedBatch, groups_of

DeleteDocument: TypeAlias = Mapping[str, Any]
"""Iceberg's JSON of one delete file, or of one vector in a Puffin file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvenGroup:
    """A group whose outputs are written and proven."""

    group_id: str
    inputs: Sequence[InputAtPin]
    outputs: Sequence[FileDocument]
    regroup: bool
    """True if the outputs are in other partitions than the inputs: later deletes of those would miss them."""
    rows_in: int
    rows_out: int
    """Deleted ones that the outputs hold all the same included."""
    columns_compared: int
    row_sum: int | None = None
    """Sum of the hashes of all rows, if the proof made one."""
    deletes: Sequence[DeleteDocument] = ()
    """Of rows that the outputs hold and readers do not see."""

    @property
    def paths(self) -> list[str]:
        """Paths of all inputs."""
        return [i.path for i in self.inputs]

    @property
    def written(self) -> frozenset[str]:
        """Paths of all outputs."""
        return frozenset(str(document["file-path"]) for document in self.outputs)

    @property
    def delete_files(self) -> frozenset[str]:
        """Paths of the deletes of its outputs."""
        return frozenset(str(document["file-path"]) for document in self.deletes)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitBatch:
    """The pin, the outputs and the summary that the commits of one batch have in common."""

    run_id: str
    number: str
    """Of the batch within the run."""
    branch: str
    pinned_snapshot: int
    pinned_sequence: int
    pinned_version: int
    columns: frozenset[int]
    """Field ids that all outputs hold."""
    interpretation: str | None
    """`IcebergTable.interpretation` when the inputs were read; `None` if it was not the same for all of them."""
    facts: Mapping[str, str]
    """Properties of the snapshot's summary, without their prefix."""
    last: frozenset[str]
    """Groups that the plan waits for: the run is complete with the last of them. Empty if it will not be."""
    may_be_rolled_back: bool = False
    """Whether the catalog may take it back for another writer."""
    earlier: Sequence[int] = ()
    """Sequence numbers of the run's commits so far."""


class Carrier(Protocol):
    """Takes deletes along that reached inputs while they were rewritten."""

    def carry(self, group_id: str, changed: Mapping[str, HeadDeletes]) -> Sequence[DeleteDocument] | NotCarried:
        """All deletes of the group's outputs: those that it carries, and those of these inputs; or why that cannot be
        done. Raises what ends the run.

        Called anew at every head: what it wrote for an earlier one is of no use any more.
        """

    def copy(self, delete: DeleteFile, group_id: str) -> str:
        """Copy a delete file as it is to the files of a group; returns the path. Raises if that cannot be done."""


class Journal(Protocol):
    """Hears of every attempt before it is made, and of its end."""

    def now(self) -> datetime:
        """The time, by a clock that whoever looks at the attempt later goes by, too."""

    def judged(self) -> None:
        """Groups were compared with the head."""

    def attempting(self, attempt: Attempt) -> None:
        """A commit is about to be attempted. Raises if this process must not commit any more."""

    def refused(self) -> None:
        """The last attempt certainly did not land, and never will."""

    def unanswered(self) -> None:
        """Nobody knows what became of the last attempt: it stays on record."""

    def landed(self, landed: CommittedBatch) -> None:
        """The last attempt is in the table, or one before it that was not answered."""

    def broken(self, why: str) -> None:
        """The last attempt is in the table and did something else than it should; it is rolled back next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What became of a batch: commits that landed, and groups that were given up."""

    landed: Sequence[CommittedBatch]
    given_up: Mapping[str, Verdict]
    delete_files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By group: files of deletes that are in the table with it."""
    moved: Mapping[DeleteKey, DeleteKey] = field(default_factory=dict)
    """Deletes that are in the table under another key now."""

    @property
    def groups(self) -> frozenset[str]:
        """Groups that are in the table."""
        return groups_of(self.landed)
