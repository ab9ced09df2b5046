"""A run as it is remembered: its states, who works on it, what is finished, and who holds the table.

A run is always in one state. `TRANSITIONS` says where it can go from there; stores change a state only by
compare-and-set, so that of two processes that want to move one run, one is told that it lost it.
"""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from icepact.model.table import LastRun


class Status(StrEnum):
    """Where a run is, or how it ended."""

    RUNNING = "running"
    """Somebody works on it, or died over it."""
    COMMITTING = "committing"
    """A commit is under way: `RunRecord.attempts` says which. Its files may become part of the table any moment."""
    UNKNOWN = "unknown"
    """Nobody works on it, and it is not known whether its last commit landed."""
    FENCED = "fenced"
    """The clean-up has taken it: nobody may commit for it any more."""
    COMMITTED = "committed"
    PARTLY_COMMITTED = "partly-committed"
    SUPERSEDED = "superseded"
    NOTHING_TO_DO = "nothing-to-do"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    """It died, and its files were cleaned up."""
    ROLLED_BACK = "rolled-back"

    @property
    def open(self) -> bool:
        """True while the run has not ended."""
        return self in _OPEN


NOT_WELL = frozenset({Status.FAILED, Status.UNKNOWN, Status.CANCELLED})
"""Ends that a person should look at."""
_OPEN = frozenset({Status.RUNNING, Status.COMMITTING, Status.UNKNOWN, Status.FENCED})
_ENDS = frozenset(
    {
        *(Status.COMMITTED, Status.PARTLY_COMMITTED, Status.SUPERSEDED),
        *(Status.NOTHING_TO_DO, Status.FAILED, Status.CANCELLED),
    }
)

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.RUNNING: _ENDS | {Status.RUNNING, Status.COMMITTING, Status.UNKNOWN, Status.FENCED},
    Status.COMMITTING: _ENDS | {Status.COMMITTING, Status.RUNNING, Status.UNKNOWN, Status.FENCED},
    Status.UNKNOWN: frozenset({Status.RUNNING, Status.FENCED}),
    Status.FENCED: frozenset(
        {Status.FENCED, Status.ABANDONED, Status.COMMITTED, Status.PARTLY_COMMITTED, Status.CANCELLED}
    ),
    Status.COMMITTED: frozenset({Status.ROLLED_BACK}),
    Status.PARTLY_COMMITTED: frozenset({Status.ROLLED_BACK}),
    **{
        end: frozenset[Status]()
        for end in (
            *(Status.SUPERSEDED, Status.NOTHING_TO_DO, Status.FAILED),
            *(Status.CANCELLED, Status.ABANDONED, Status.ROLLED_BACK),
        )
    },
}


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

    @property
    def gone(self) -> bool:
        """True if the process certainly does not live any more, because the kernel under which it ran says so.

        Of a process under another kernel that cannot be said: a machine that was started again looks like another one
        that has its name, and even `/etc/machine-id` may have come with an image.
        """
        here = this_process()
        same = (self.host, self.boot, self.space) == (here.host, here.boot, here.space)
        return bool(same and self.boot and self.space and has_ended(self.pid, self.born))


_PROC = Path("/proc")


@cache
def _this_process(pid: int) -> Owner:
    seen = _seen(_PROC / "self")
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        space = " ".join(os.readlink(kind) for kind in (_PROC / "self/ns/pid", *_PROC.glob("self/ns/time")))
    except OSError:
        boot = space = ""
    return Owner(host=socket.gethostname(), pid=pid, born=seen.born if seen else 0, boot=boot, space=space)


def this_process() -> Owner:
    """The process that asks."""
    return _this_process(os.getpid())


def has_ended(pid: int, born: int, proc: Path = _PROC) -> bool:
    """Whether the kernel itself says that a process of its own has ended.

    It says so when asked for a signal: it may refuse to send one to somebody else's process, but knows it. That
    `/proc` does not show a process is no proof: it may be mounted so that it hides what others run (`hidepid`), or be
    that of another container.
    """
    if pid <= 0:
        return False  # would mean many processes
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    seen = _seen(proc / str(pid)) if _counts_as_we_do(proc) else None
    return seen is not None and (seen.ended or (born > 0 and seen.born != born))


def _counts_as_we_do(proc: Path) -> bool:
    """Whether a process has the same number in `/proc` as in the namespace of this one: then it has only one there."""
    try:
        lines = (proc / "self/status").read_text().splitlines()
    except OSError:
        return False
    return [line.split()[1:] for line in lines if line.startswith("NSpid:")] == [[str(os.getpid())]]


class _Seen(NamedTuple):
    """A process, as `/proc` shows it."""

    born: int
    ended: bool
    """True if nobody has asked for its exit code yet: it does nothing any more."""


def _seen(folder: Path) -> _Seen | None:
    """Null if it is not there, or not shown."""
    try:
        state, *told = (folder / "stat").read_text().rpartition(")")[2].split()
        threads, born = int(told[16]), int(told[18])
    except (OSError, ValueError, IndexError):
        return None
    return _Seen(born, ended=state in "ZX" and threads <= 1)  # its first thread may have ended before the others


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
class Landed:
    """A commit of a run."""

    commit_id: str
    snapshot_id: int
    parent_id: int | None
    """The snapshot before it."""
    sequence_number: int
    groups: Sequence[str]
    delete_files_removed: int = 0


def groups_of(commits: Iterable[Landed | Attempt]) -> frozenset[str]:
    """All groups of some commits."""
    return frozenset(group for commit in commits for group in commit.groups)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One line of history."""

    run_id: str
    catalog: str
    table: str
    branch: str
    status: Status
    started_at: datetime
    finished_at: datetime | None = None
    outcome: Mapping[str, Any] | None = None
    """The outcome's document; null while the run goes on or if it died."""
    uuid: str = ""
    """Of the table."""
    owner: Owner | None = None
    """Who works on it, or did."""
    epoch: int = 0
    """How often the run changed hands; what an earlier owner says is not listened to."""
    attempts: Sequence[Attempt] = ()
    """Commits that are under way, or whose end is not known: that of whoever works on the run now comes last."""
    landed: Sequence[Landed] = ()
    """Commits that are part of the table."""
    cancel_asked: bool = False
    swept_at: datetime | None = None
    """When its folder was last cleaned up; null if never."""
    folder: str | None = None
    """Where it writes; null if that is not one folder."""

    @property
    def as_last_run(self) -> LastRun | None:
        """What its last snapshot tells as long as it has not expired; null if the run left something over, or nothing
        came of it."""
        told = self.outcome or {}
        if not told.get("complete") or not self.landed:
            return None
        planned_at = told.get("planned_at")
        return LastRun(
            layout=told["layout"],
            snapshot_id=self.landed[-1].snapshot_id,
            own_sequence_numbers=frozenset(landed.sequence_number for landed in self.landed),
            pinned_sequence_number=told["pinned_sequence_number"],
            planned_at=datetime.fromisoformat(planned_at) if planned_at else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The run as it is printed with `--json`."""
        return {
            "run_id": self.run_id,
            "catalog": self.catalog,
            "table": self.table,
            "branch": self.branch,
            "status": self.status.value,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "owner": str(self.owner) if self.owner else None,
            "snapshots": [landed.snapshot_id for landed in self.landed],
            "outcome": dict(self.outcome) if self.outcome else None,
        }


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
