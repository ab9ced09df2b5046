"""A run as it is recorded: who works on it, what is finished, and who holds the table.

Stores change its status only by compare-and-set, so that of two processes that want to move one run, one is told that
it lost it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from pydantic import PlainSerializer

from icepact.model.documents import HIDDEN, Document, Moment, key
from icepact.model.outcome import Outcome
from icepact.model.snapshot import LastRun
from icepact.model.status import Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A process that works on something."""

    host: str
    pid: int
    born: int
    """When the process started, in the kernel's ticks since boot, and 0 if that is not known: pids are used again."""
    boot: str = ""
    """Of the machine's last start; pids mean nothing after another one."""
    space: str = ""
    """In which its pid and its start are counted: containers on one machine have their own."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt at a commit."""

    commit_id: str
    """Told in the snapshot's summary if it lands: run/batch/attempt."""
    head: int
    """The snapshot at which it was judged, and to which it is bound."""
    groups: Sequence[str]
    started_at: datetime
    head_sequence: int = 0
    """Sequence number of that snapshot; 0 on format version 1."""
    deletes_since: int = 0
    deletes: str = ""
    """Deletes with that sequence number or a later one that must be live once it has landed, in one word; empty if
    nobody wrote that down."""
    added_rows: int = 0
    """By how much the number of records must have changed then."""
    until: datetime | None = None
    """Later than this it does not arrive at the catalog any more."""
    maker: Owner | None = None
    ended: bool = False
    """True if its maker saw it end, without an answer."""
    mark: str = ""
    """A folder and a word: manifests of the attempt are in the one and have the other in their names. Empty if Iceberg
    does not tell."""

    @property
    def run_id(self) -> str:
        """Of the run that it belongs to."""
        return self.commit_id.partition("/")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommittedBatch:
    """A commit of a run."""

    commit_id: str
    snapshot_id: int
    parent_id: int | None
    """The snapshot before it."""
    sequence_number: int
    groups: Sequence[str]
    delete_files_removed: int = 0
    deletes_carried: int = 0
    """Rows of its outputs that readers do not see: deletes that it added say so."""
    late_deletes: int = 0
    """Those of them that were deleted while the outputs were written."""


_BY_SNAPSHOT = PlainSerializer(lambda commits: [commit.snapshot_id for commit in commits], return_type=list[int])


def groups_of(commits: Iterable[CommittedBatch | Attempt]) -> frozenset[str]:
    """All groups of some commits."""
    return frozenset(group for commit in commits for group in commit.groups)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovered:
    """What the snapshots of a table tell of a run that the record store does not know. Before and after speak of the
    table's branch; `None` is what the snapshots do not say. What the run took and cost, they never do."""

    operation: str
    """What was asked for."""
    committed_at: Moment
    """Of its last commit."""
    files_before: int | None
    files_after: int | None
    rows_before: int | None
    """Records in data files, deleted ones included."""
    rows_after: int | None
    bytes_before: int | None
    """Of all live files, delete files included."""
    bytes_after: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord(Document):
    """One line of history."""

    run_id: str
    catalog: str
    table: str
    branch: str
    status: Status
    started_at: Moment
    finished_at: Moment | None = None
    outcome: Outcome | None = None
    """`None` while the run goes on, if it died, or if it is recovered."""
    recovered: Recovered | None = None
    """`None` of a run that the record store knows; nothing else is kept there."""
    uuid: Annotated[str, HIDDEN] = ""
    """Of the table."""
    owner: Annotated[Owner | None, PlainSerializer(lambda owner: owner and str(owner), return_type=str | None)] = None
    """Who works on it, or did."""
    epoch: Annotated[int, HIDDEN] = 0
    """How often the run changed hands; what an earlier owner says is not listened to."""
    attempts: Annotated[Sequence[Attempt], HIDDEN] = ()
    """Commits that are under way, or whose end is not known: that of whoever works on the run now comes last."""
    landed: Annotated[Sequence[CommittedBatch], _BY_SNAPSHOT, key("snapshots")] = ()
    """Commits that are part of the table."""
    cancel_asked: Annotated[bool, HIDDEN] = False
    swept_at: Annotated[datetime | None, HIDDEN] = None
    """When its folder was last cleaned up; `None` if never."""
    folder: Annotated[str | None, HIDDEN] = None
    """Where it writes; `None` if that is not one folder."""

    @property
    def as_last_run(self) -> LastRun | None:
        """What its last snapshot tells as long as it has not expired; `None` if the run left something over, or nothing
        came of it."""
        if self.outcome is None or not self.outcome.complete or not self.landed:
            return None
        if self.status is Status.ROLLED_BACK:  # others may have the sequence numbers of its snapshots by now
            return None
        if any(landed.late_deletes for landed in self.landed):  # no plan has judged these deletes yet
            return None
        return LastRun(
            layout=self.outcome.layout,
            snapshot_id=self.landed[-1].snapshot_id,
            own_sequence_numbers=frozenset(landed.sequence_number for landed in self.landed),
            pinned_sequence_number=self.outcome.pinned_sequence_number,
            planned_at=self.outcome.planned_at,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The right to move a run on: good as long as nobody else has taken it."""

    run_id: str
    epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """One finished unit."""

    unit_id: str
    document: Mapping[str, Any] = field(repr=False)
    """What is needed to commit it, as JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to work on a table, against wasted work; correctness never depends on it."""

    key: str
    run_id: str
    owner: Owner
    token: int
    """Grows with every new holder."""
    since: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A group of files that failed, once or again and again."""

    signature: str
    """Of the files and what applies to them: another one if they change."""
    partition: str
    reason: str
    """Of the last time."""
    count: int
    last_at: datetime
