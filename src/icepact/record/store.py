"""The interfaces of a record store, one for each job. One behaviour suite in the tests runs over all stores."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from icepact.model.document import StoredDocument
from icepact.model.job import Job, JobClaim, JobProgress, JobStatus, Operation, Queue, QueueSize
from icepact.model.outcome import Outcome
from icepact.model.run import Attempt, Checkpoint, Claim, CommittedBatch, Failure, Lease, Owner, RunRecord
from icepact.model.status import Status
from icepact.record.hearing import Heard
from icepact.record.rows import Row


class RunStore(Protocol):
    """Store of runs: their states and plans, how they ended, and checkpoints of their finished units."""

    def begin(self, record: RunRecord, plan: bytes = b"") -> Claim:
        """Record the intent, before the first byte is written."""

    def take(self, record: RunRecord, owner: Owner, *, to: Status) -> Claim:
        """Take a run over from whoever had it; RunLost if it is not as the record says any more."""

    def move(
        self,
        claim: Claim,
        to: Status,
        *,
        attempts: Sequence[Attempt] | None = None,
        landed: Sequence[CommittedBatch] | None = None,
    ) -> None:
        """Go on to another state; RunLost if somebody took the run over, or if it cannot go there from where it is.

        `attempts` are all whose end is not known, and `landed` all commits of the run, from now on; `None` leaves them
        as they are.
        """

    def finish(
        self, claim: Claim, outcome: Outcome, *, landed: Sequence[CommittedBatch] = (), attempts: Sequence[Attempt] = ()
    ) -> None:
        """Record how a run ended, with all its commits, and the attempts whose end nobody knows; RunLost if somebody
        took it over."""

    def reconciled(self, record: RunRecord, *, attempts: Sequence[Attempt], landed: Sequence[CommittedBatch]) -> None:
        """Record the fate of attempts of a run that has ended; RunLost if it is not as the record says any more."""

    def run(self, run_id: str) -> RunRecord | None:
        """One run; `None` if there is none of that id."""

    def runs(
        self,
        *,
        catalog: str,
        table: str | None = None,
        limit: int = 100,
        open_only: bool = False,
        worked_only: bool = False,
        outcomes: bool = True,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[RunRecord]:
        """The newest runs on a catalog, or on one of its tables; newest first, and without outcomes if nobody needs
        them. `worked_only` leaves out those that go on, or had nothing to do; `before` is when the run began, and its
        id, after which the list is to go on."""

    def recent(self, *, catalog: str, since: datetime) -> Sequence[RunRecord]:
        """Runs on a catalog that ended since a moment, or began since then and are still open; newest first."""

    def plan(self, run_id: str) -> bytes:
        """What a run began with; empty if it is not kept any more."""

    def ask_to_cancel(self, run_id: str) -> bool:
        """Ask whoever works on a run to stop; false if it has ended."""

    def swept(self, run_id: str, at: datetime) -> None:
        """Remember that a run's folder was cleaned up."""

    def rename_catalog(self, old: str, new: str, *, table: str, uuid: str) -> None:
        """Runs on a table, and what was forgotten about it, are recorded under another name of its catalog."""

    def checkpoint(self, claim: Claim, units: Sequence[Checkpoint]) -> None:
        """Remember finished units; RunLost if somebody took the run over."""

    def checkpoints(self, run_id: str) -> Sequence[Checkpoint]:
        """Finished units of a run."""

    def forget(self, *, before: datetime) -> int:
        """Drop plans and checkpoints of runs that ended before a moment; returns of how many runs."""


class LeaseStore(Protocol):
    """Store of leases on tables, and the clock that they go by."""

    def now(self) -> datetime:
        """The time, by a clock that is the same for all who share the store."""

    def acquire(self, key: str, run_id: str, owner: Owner, *, seconds: float, over: Lease | None = None) -> Lease:
        """Acquire the lease on a table, if nobody holds it or the lease has expired; TableBusy otherwise.

        `over` is a lease whose holder is known to be dead.
        """

    def renew(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Renew a lease; `None` if somebody else holds the table by now."""

    def release(self, lease: Lease) -> None:
        """Release a lease; no error if somebody else holds the table by now."""

    def lease(self, key: str) -> Lease | None:
        """The lease on a table, expired or not; `None` if nobody holds it."""


class FailureStore(Protocol):
    """Store of what failed on tables."""

    def failed(self, uuid: str, failure: Failure) -> None:
        """A group of a table failed once more; the count that is given does not matter."""

    def failures(self, uuid: str) -> Sequence[Failure]:
        """Groups of a table that failed, and whose failures are not forgotten."""

    def forget_failures(self, uuid: str, signatures: Sequence[str] | None = None) -> int:
        """Forget failures: of these groups, or of all; returns how many."""


class StatsStore(Protocol):
    """Cache of manifest statistics."""

    def stats_by_manifest(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Statistics of these manifests, as far as they are kept."""

    def keep_manifest_stats(
        self, uuid: str, stats_by_manifest: Mapping[str, bytes], *, live: Collection[str], room: int
    ) -> None:
        """Keep statistics of manifests of a table. Those of manifests that are not `live` any more go a day later; if
        all that is kept needs more than `room` bytes, the oldest go."""


class ClockStore(Protocol):
    """Store of moments that the next plan goes by: when partition groups were last compacted, and since when lessons
    count."""

    def last_compacted(self, uuid: str, branch: str) -> Mapping[str, Mapping[str, datetime]]:
        """When each partition group of a table was last compacted, by tier."""

    def mark_compacted(self, uuid: str, branch: str, tiers: Mapping[str, str], at: datetime) -> None:
        """Remember that partition groups were compacted, each by a tier."""

    def forget_compacted(self, uuid: str, branch: str, groups: Collection[str]) -> None:
        """Forget that partition groups were compacted: what was done was rolled back."""

    def forget_lessons(self, catalog: str, table: str) -> None:
        """From now on, only what later runs teach about a table counts."""

    def lessons_since(self, catalog: str, table: str) -> datetime | None:
        """Since when what runs teach about a table counts; `None` if that was never forgotten."""


class JobStore(Protocol):
    """Store of jobs: those that wait for a worker, those that a worker holds, and how they ended.

    What is next, and what becomes of a job, is decided by whoever asks; the store sees to it that one worker holds a
    job and one job a table.
    """

    def now(self) -> datetime:
        """The time, by a clock that is the same for all who share the store."""

    def submit_job(self, job: Job, plan: bytes = b"") -> Job:
        """Put a job into the queue, with the saved plan that it is to apply if there is one. If its tenant has used its
        idempotency key before, the answer is the job of then; Conflict if that was asked to do something else."""

    def take_job(
        self, catalog: str, worker: Owner, *, seconds: float, choose: Callable[[Queue], str | None]
    ) -> Job | None:
        """Have the next job chosen among those that are due, and take it for so long; `None` if none is chosen."""

    def renew_job(
        self, claim: JobClaim, *, seconds: float, progress: JobProgress | None = None, run_id: str | None = None
    ) -> Job | None:
        """Go on holding a job, and record how far it has come, and its run if there is a new one. Returns the job
        without its result; `None` if somebody else has it by now."""

    def end_job(
        self,
        claim: JobClaim,
        status: JobStatus,
        *,
        result: Mapping[str, Any] | None = None,
        error: str | None = None,
        error_type: str | None = None,
        failed: bool = False,
    ) -> None:
        """Record how a job ended, and count a failure if it was one; JobLost if somebody else has it by now."""

    def return_job(
        self,
        claim: JobClaim,
        *,
        due_at: datetime,
        error: str | None = None,
        error_type: str | None = None,
        failed: bool = False,
        begin_anew: bool = True,
    ) -> None:
        """Put a job back into the queue; JobLost if somebody else has it by now. Unless it is to begin anew, whoever
        takes it next is told of the run that was begun."""

    def take_back_job(
        self,
        seen: Job,
        status: JobStatus,
        *,
        due_at: datetime | None = None,
        error: str | None = None,
        failed: bool = False,
    ) -> bool:
        """Take a job from a worker that is taken for dead: back into the queue, or to an end. False if the worker was
        heard of meanwhile, or if somebody else was faster."""

    def job(self, job_id: str) -> Job | None:
        """One job, with its result; `None` if there is none of that id."""

    def job_plan(self, job_id: str) -> bytes:
        """The saved plan that a job applies; empty if it applies none."""

    def jobs(
        self,
        *,
        catalog: str,
        tenant: str | None = None,
        table: str | None = None,
        operation: Operation | None = None,
        statuses: Collection[JobStatus] = (),
        before: str | None = None,
        limit: int = 100,
        results: bool = False,
    ) -> Sequence[Job]:
        """The newest jobs on a catalog, newest first; only those with smaller ids than `before`, and without results if
        nobody needs them. No `statuses` means all."""

    def queue_sizes(self, catalog: str) -> Sequence[QueueSize]:
        """How many jobs of each tenant wait and run, those that are not due yet included."""

    def ask_to_cancel_job(self, job_id: str) -> Job | None:
        """Cancel a job that waits, or ask whoever holds it to stop; returns it as it is then. `None` if there is none;
        Conflict if it has ended."""

    def resume_job(self, job_id: str) -> Job | None:
        """Put a job that failed or was cancelled back into the queue, its failures forgotten; returns it as it is then.
        `None` if there is none; Conflict if it did not end so."""

    def watch(self, heard: Heard) -> AbstractContextManager[object]:
        """Have `heard` called, from any thread, with the id of a job that anybody who shares the store has submitted,
        ended, put back into the queue or asked to cancel, until the answer is left; and with nothing if something may
        have been missed. It is a hint: not all stores tell, none always does, and who waits asks all the same."""

    def forget_jobs(self, *, before: datetime) -> int:
        """Drop jobs that ended before a moment; returns how many."""


class DocumentStore(Protocol):
    """Store of small documents of the service: tenants, keys, schedules, what was changed by whom, cached answers. Each
    has a kind, a key, and a version that grows with every change; nothing in it is a secret."""

    def document(self, kind: str, key: str) -> StoredDocument | None:
        """One document; `None` if there is none."""

    def documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[StoredDocument]:
        """The first documents of a kind whose keys begin so and are greater than `after`, sorted by their keys as
        bytes."""

    def put_document(
        self, kind: str, key: str, body: Mapping[str, Any], *, version: int | None = None
    ) -> StoredDocument:
        """Write a document. `version` is that of the one that was seen, 0 if none was: Conflict if that is not so any
        more. `None` writes whatever is there."""

    def remove_document(self, kind: str, key: str, *, version: int | None = None) -> bool:
        """Remove a document; false if there is none. Conflict if it is not of that version any more."""

    def forget_documents(self, kind: str, *, before: datetime) -> int:
        """Drop documents of a kind that were changed last before a moment; returns how many."""


class RowStore(Protocol):
    """All that is in a store, as rows of tables, to be copied to another one."""

    def count_rows(self, table: str) -> int:
        """How many rows of a table there are."""

    def rows(self, table: str) -> Iterator[Row]:
        """All rows of a table, page by page: those that come and go meanwhile may be among them or not."""

    def put_rows(self, table: str, rows: Sequence[Row], *, replace: bool) -> int:
        """Write rows; those whose keys are there already only if they are to be replaced. Returns how many."""

    def concerns(self) -> Sequence[str]:
        """What of the settings endangers what is kept, in one line each."""

    def close(self) -> None:
        """Close all connections; the store can be used again."""


class RunsAndLeases(RunStore, LeaseStore, Protocol):
    """Runs, and who holds the tables that they work on: who knows both, knows whether a run is alive."""


class RunsLeasesAndJobs(RunsAndLeases, JobStore, Protocol):
    """The same with jobs: who knows all of it can stop a run for good."""


class RecordStore(RunsLeasesAndJobs, FailureStore, StatsStore, ClockStore, DocumentStore, RowStore, Protocol):
    """All that is on record, in one store."""
