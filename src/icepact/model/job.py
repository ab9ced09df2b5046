"""Jobs: operations of the application that somebody has asked for, waiting in a queue until a worker takes them.

A job is one request. It is carried out once, by whichever worker holds it in the end: every time it is taken it gets a
new token, and what an earlier holder says is not listened to any more. Where a job can go from a state,
`JOB_TRANSITIONS` says.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainSerializer

from icepact.model.documents import HIDDEN, Document, Moment, to_json
from icepact.model.limits import Limit
from icepact.model.run import Owner

DEFAULT_TENANT = "default"
MOST_FAILURES = 5
"""After so many a job has failed, unless it says otherwise."""
HIGHEST_PRIORITY = 100


class Operation(StrEnum):
    """What a job does: a use case of the application."""

    COMPACT = "compact"
    MAINTAIN = "maintain"
    APPLY = "apply"
    """Carry out a saved plan."""
    EXPIRE = "expire"
    ORPHANS = "orphans"
    MANIFESTS = "manifests"
    DELETES = "deletes"
    """Convert and merge deletes; no data is rewritten."""
    TTL = "ttl"
    TAGS = "tags"
    STATISTICS = "statistics"
    HEALTH = "health"
    PLAN = "plan"
    POLICY = "policy"
    TABLES = "tables"
    """List the tables of the catalog; like the next one, it is on no table."""
    FLEET = "fleet"
    """Rank tables by what compacting them brings and costs."""
    RESUME = "resume"
    """Carry on with a run whose process died."""
    UNBLOCK = "unblock"
    """Forget what failed on a table."""

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing."""
        return self in (Operation.HEALTH, Operation.PLAN, Operation.POLICY) or self.of_all

    @property
    def of_all(self) -> bool:
        """Whether it is on no table, but on all that there are for its tenant."""
        return self in (Operation.TABLES, Operation.FLEET)

    @property
    def leaves_tables(self) -> bool:
        """Whether it leaves tables as they are: such jobs on one table need not wait for each other, or for others."""
        return self.only_reads or self is Operation.UNBLOCK

    @property
    def may_compact(self) -> bool:
        """Whether data files may be rewritten."""
        return self in (Operation.COMPACT, Operation.MAINTAIN, Operation.APPLY, Operation.RESUME)


class JobStatus(StrEnum):
    """Where a job is, or how it ended."""

    QUEUED = "queued"
    """It waits for a worker, or until it is tried again."""
    RUNNING = "running"
    """A worker holds it, or died over it."""
    SUCCEEDED = "succeeded"
    """Its result says what was done, which may be nothing."""
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """True once nothing happens to it any more by itself."""
        return self not in (JobStatus.QUEUED, JobStatus.RUNNING)


JOB_TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset({JobStatus.QUEUED, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELLED: frozenset({JobStatus.QUEUED}),
}
"""A job that failed or was cancelled goes back to the queue if somebody resumes it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest(Document):
    """What a job is asked to do."""

    operation: Operation
    table: str | None = None
    """Its full name; `None` for operations that are on no table."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the request, as they were given."""
    exclude: tuple[str, ...] = ()
    """Of orphans: folders that are left alone."""
    columns: tuple[str, ...] | None = None
    """Of statistics: only of these columns; `None` for all that can have some."""
    allow_young: bool = False
    """Ages below the floor are meant."""
    dry_run: bool = False
    """Nothing is done; the result says what would be."""
    budget: tuple[Limit, ...] = ()
    """Of compactions: they keep to this, too, besides to what their policies allow."""
    without: tuple[str, ...] = ()
    """Of maintenance: operations that are left out."""
    run_id: str | None = None
    """Of resuming: the run."""
    pattern: str | None = None
    """Of a ranking: only these tables; `None` for all."""
    by: str | None = None
    """Of a ranking: what comes first; `None` for what brings most for its price."""

    @property
    def holds_table(self) -> bool:
        """Whether no other job that does so may work on the table meanwhile."""
        return self.table is not None and not self.operation.leaves_tables and not self.dry_run

    def fingerprint(self, plan: bytes = b"") -> str:
        """Equal for two requests that ask for the same; `plan` is the saved plan that is to be applied, if one is."""
        document = json.dumps(json.loads(to_json(self)), sort_keys=True).encode()
        return hashlib.sha256(document + b"\0" + plan).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProgress(Document):
    """How far a job has come, as its worker said last."""

    operation: str = ""
    """Of maintenance: what is under way; of a ranking the table that is looked at, which counts as a unit."""
    step: str = ""
    """Where its run is; see `STEPS` of progress. Empty before it has begun one."""
    units: int = 0
    """Units that are finished."""
    files: int = 0
    bytes: int = 0
    """Of the inputs of these units."""
    planned_units: int = 0
    """Units of the plan; 0 while there is none."""
    planned_bytes: int = 0
    planned_money: float = 0.0


NO_PROGRESS = JobProgress()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobClaim:
    """The right to go on with a job: good as long as nobody else has taken it."""

    job_id: str
    token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Job(Document):
    """One job, and what became of it."""

    job_id: str
    """Later jobs have greater ids."""
    catalog: str
    """Name of the catalog in the record store."""
    request: JobRequest
    submitted_at: Moment
    due_at: Moment
    """Not taken before: a job that failed waits until it is tried again."""
    tenant: str = DEFAULT_TENANT
    """For whom it is done."""
    priority: int = 0
    """Among jobs of the same tenant, those with a greater one come first."""
    deadline: Moment | None = None
    """Nothing is begun after it, and what is under way then is stopped; `None` for never."""
    most_failures: int = MOST_FAILURES
    """After so many it has failed."""
    status: JobStatus = JobStatus.QUEUED
    attempts: int = 0
    """How often a worker has taken it."""
    failures: int = 0
    """How many of these ended badly, or with the death of the worker."""
    started_at: Moment | None = None
    """When it was taken for the first time."""
    finished_at: Moment | None = None
    worker: Annotated[Owner | None, PlainSerializer(lambda owner: owner and str(owner), return_type=str | None)] = None
    """Who holds it, or held it last."""
    token: Annotated[int, HIDDEN] = 0
    """Grows each time it is taken or given back."""
    expires_at: Annotated[Moment | None, HIDDEN] = None
    """When its worker is taken for dead unless it is heard of; `None` if nobody holds it."""
    cancel_asked: bool = False
    progress: JobProgress = NO_PROGRESS
    run_id: str | None = None
    """The run that it has begun last; `None` if it has begun none."""
    result: Mapping[str, Any] | None = None
    """What the operation answered; `None` as long as it has not, or if nobody asked for results."""
    error: str | None = None
    """What went wrong the last time; it may have gone well since."""
    error_type: str | None = None
    """Name of that error's class."""
    waits_for: str | None = None
    """Why it is not taken although it is due, if the quota of its tenant is to blame. It is not on record: whoever
    shows the job finds it out."""
    idempotency_key: Annotated[str | None, HIDDEN] = None
    """What its tenant called the request; a second one by that name is this job."""
    fingerprint: Annotated[str, HIDDEN] = ""
    """Of the request."""
    trace: Annotated[str | None, HIDDEN] = None
    """The W3C traceparent of whoever asked for it: what is done for it is a part of that trace. `None` for no trace."""

    def __post_init__(self) -> None:
        for moment in (self.submitted_at, self.due_at, self.deadline):
            if moment is not None and moment.tzinfo is None:
                raise ValueError("moments of a job must carry their time zone")

    @property
    def claim(self) -> JobClaim:
        """The right of whoever holds it now."""
        return JobClaim(job_id=self.job_id, token=self.token)


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingJob:
    """A job that could be taken now: it is due."""

    job_id: str
    tenant: str
    table: str | None
    """That it would hold; `None` if it holds none."""
    priority: int
    submitted_at: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantTurn:
    """What a tenant has of the workers."""

    tenant: str
    running: int
    """Jobs that workers hold."""
    taken_at: Moment | None
    """When a job of this tenant was last taken; `None` if never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantLimit:
    """What holds jobs of a tenant back."""

    tenant: str
    jobs_at_once: int | None = None
    """With workers; `None` for any number."""
    used_up: bool = False
    """True if it may not spend more in this hour: what holds a table waits, what only reads does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """All that decides which job is next."""

    waiting: Sequence[WaitingJob]
    """Those that are due; jobs that could not be next, whoever's turn it is, may be missing."""
    turns: Sequence[TenantTurn]
    held_tables: frozenset[str] = frozenset()
    """Tables that running jobs hold."""
    limits: Sequence[TenantLimit] = ()
    """Of tenants that have some. Stores know of none: whoever chooses does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSize(Document):
    """How many jobs of a tenant there are in the queue and with workers."""

    tenant: str
    queued: int
    running: int
    queued_compactions: int = 0
    """Those that may compact."""
    running_compactions: int = 0
    first_due_at: Moment | None = None
    """The earliest moment at which one that waits can be taken, or could have been; `None` if none waits."""
