"""Jobs in a database. A job changes only if its token is what its holder was given; that one job holds a table is
guarded by an index."""

import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    union_all,
    update,
)

from icepact.model.documents import to_json
from icepact.model.errors import Conflict, JobLost
from icepact.model.job import (
    JOB_TRANSITIONS,
    Job,
    JobClaim,
    JobProgress,
    JobStatus,
    Operation,
    Queue,
    QueueSize,
    TenantTurn,
    WaitingJob,
)
from icepact.model.run import Owner
from icepact.record.database import insert_if_absent
from icepact.record.documents import (
    COMPACTING,
    KNOWN_OPERATIONS,
    job_columns,
    job_of,
    jobs_of,
    owner_document,
    owner_of,
)
from icepact.record.sql_hearing import SqlHearing, tell
from icepact.record.tables import JOBS, TURNS, UtcTimestamp

_LEAN_COLUMNS = [column for column in JOBS.c if column.name not in ("plan", "result")]
_RUNNING, _QUEUED = JobStatus.RUNNING.value, JobStatus.QUEUED.value


class SqlJobs(SqlHearing):
    """The part of a store that keeps jobs."""

    def submit_job(self, job: Job, plan: bytes = b"") -> Job:
        """Put a job into the queue, unless it is there under its idempotency key already."""
        with self._writing() as connection:
            if job.idempotency_key is not None:
                _lock_turn(connection, job)  # two that come with one key are one after the other
                mine = (JOBS.c.catalog == job.catalog) & (JOBS.c.tenant == job.tenant)
                known = connection.execute(
                    select(*_LEAN_COLUMNS, JOBS.c.result).where(mine, JOBS.c.idempotency_key == job.idempotency_key)
                ).one_or_none()
                if known is not None:
                    if known.fingerprint != job.fingerprint:
                        raise Conflict(
                            f"the idempotency key stands for job {known.job_id}, which was asked to do something else"
                        )
                    return job_of(known._mapping)
            insert_if_absent(connection, TURNS, {"catalog": job.catalog, "tenant": job.tenant, "taken_at": None})
            connection.execute(insert(JOBS).values(**job_columns(job), plan=zlib.compress(plan, 1) if plan else None))
            tell(connection, job.job_id)
        return job

    def take_job(
        self, catalog: str, worker: Owner, *, seconds: float, choose: Callable[[Queue], str | None]
    ) -> Job | None:
        """Have the next job chosen among those that are due, and take it."""
        waits = (JOBS.c.catalog == catalog) & (JOBS.c.status == _QUEUED)
        if not self._rows(select(JOBS.c.job_id).where(waits, JOBS.c.due_at <= self.now()).limit(1)):
            return None  # known without a lock
        now = self.now()
        with self._writing() as connection:
            taken = _lock_turns(connection, catalog)
            chosen = choose(_queue(connection, catalog, taken, now))
            if chosen is None:
                return None
            mine = JOBS.c.job_id == chosen
            changed = connection.execute(
                update(JOBS)
                .where(mine, JOBS.c.status == _QUEUED)
                .values(
                    status=_RUNNING,
                    token=JOBS.c.token + 1,
                    attempts=JOBS.c.attempts + 1,
                    started_at=func.coalesce(JOBS.c.started_at, literal(now, UtcTimestamp)),
                    worker=owner_document(worker),
                    expires_at=now + timedelta(seconds=seconds),
                )
            )
            if changed.rowcount != 1:
                return None  # cancelled meanwhile
            job = job_of(connection.execute(select(*_LEAN_COLUMNS).where(mine)).one()._mapping)
            turn = (TURNS.c.catalog == catalog) & (TURNS.c.tenant == job.tenant)
            connection.execute(update(TURNS).where(turn).values(taken_at=now))
        return job

    def renew_job(
        self, claim: JobClaim, *, seconds: float, progress: JobProgress | None = None, run_id: str | None = None
    ) -> Job | None:
        """Go on holding a job, and record how far it has come."""
        values: dict[str, Any] = {"expires_at": self.now() + timedelta(seconds=seconds)}
        if progress is not None:
            values["progress"] = to_json(progress).decode()
        if run_id is not None:
            values["run_id"] = run_id
        with self._writing() as connection:
            if connection.execute(update(JOBS).where(_held(claim)).values(values)).rowcount != 1:
                return None
            return job_of(connection.execute(select(*_LEAN_COLUMNS).where(_held(claim))).one()._mapping)

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
        """Record how a job ended."""
        ended = {"finished_at": self.now(), "result": None if result is None else json.dumps(result)}
        self._leave(claim, status, {**ended, "error": error, "error_type": error_type}, failed=failed)

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
        """Put a job back into the queue."""
        values: dict[str, Any] = {"due_at": due_at, "error": error, "error_type": error_type}
        self._leave(claim, JobStatus.QUEUED, values | ({"run_id": None, "worker": None} if begin_anew else {}), failed)

    def _leave(self, claim: JobClaim, to: JobStatus, values: Mapping[str, Any], failed: bool) -> None:
        with self._writing() as connection:
            left = update(JOBS).where(_held(claim)).values(**_left(to, failed), **values)
            if connection.execute(left).rowcount != 1:
                row = connection.execute(
                    select(JOBS.c.status, JOBS.c.worker).where(JOBS.c.job_id == claim.job_id)
                ).one_or_none()
                raise JobLost(
                    f"there is no job {claim.job_id}"
                    if row is None
                    else f"job {claim.job_id} is {row.status} by now, last in the hands of {owner_of(row.worker)}"
                )
            tell(connection, claim.job_id)

    def take_back_job(
        self,
        seen: Job,
        status: JobStatus,
        *,
        due_at: datetime | None = None,
        error: str | None = None,
        failed: bool = False,
    ) -> bool:
        """Take a job from a worker that is taken for dead, unless it was heard of meanwhile."""
        values: dict[str, Any] = {"error": error, "error_type": None}
        values |= {"finished_at": self.now()} if status.ended else {"due_at": due_at or self.now()}
        as_seen = _held(seen.claim) & (JOBS.c.expires_at == seen.expires_at)
        with self._writing() as connection:
            if connection.execute(update(JOBS).where(as_seen).values(**_left(status, failed), **values)).rowcount != 1:
                return False
            tell(connection, seen.job_id)
        return True

    def job(self, job_id: str) -> Job | None:
        """One job, with its result."""
        rows = self._rows(select(*_LEAN_COLUMNS, JOBS.c.result).where(JOBS.c.job_id == job_id))
        return job_of(rows[0]._mapping) if rows else None

    def job_plan(self, job_id: str) -> bytes:
        """The saved plan that a job applies."""
        rows = self._rows(select(JOBS.c.plan).where(JOBS.c.job_id == job_id))
        return zlib.decompress(rows[0].plan) if rows and rows[0].plan else b""

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
        """The newest jobs first."""
        wanted = select(JOBS.c.job_id).where(JOBS.c.catalog == catalog)
        if tenant is not None:
            wanted = wanted.where(JOBS.c.tenant == tenant)
        if table is not None:
            wanted = wanted.where(JOBS.c.table_name == table)
        if operation is not None:
            wanted = wanted.where(JOBS.c.operation == operation.value)
        if before is not None:
            wanted = wanted.where(JOBS.c.job_id < before)
        # one list for each status: an index has the jobs of one in their order, and has none for those of several
        lists = [wanted.where(JOBS.c.status == status.value) for status in statuses] or [wanted]
        ids = union_all(*(select(_newest(one, limit).subquery().c.job_id) for one in lists))
        columns = [*_LEAN_COLUMNS, JOBS.c.result] if results else _LEAN_COLUMNS
        rows = self._rows(_newest(select(*columns).where(JOBS.c.job_id.in_(ids)), limit))
        return jobs_of(row._mapping for row in rows)

    def queue_sizes(self, catalog: str) -> Sequence[QueueSize]:
        """How many jobs of each tenant wait and run."""
        kind = (JOBS.c.tenant, JOBS.c.status, JOBS.c.operation)
        open_jobs = (
            select(*kind, func.count().label("jobs"), func.min(JOBS.c.due_at).label("first_due_at"))
            .where(JOBS.c.catalog == catalog, JOBS.c.status == status)
            .group_by(*kind)
            for status in (_QUEUED, _RUNNING)
        )
        rows = self._rows(union_all(*open_jobs))

        def size(tenant: str) -> QueueSize:
            queued, running = (
                [row for row in rows if (row.tenant, row.status) == (tenant, status)] for status in (_QUEUED, _RUNNING)
            )
            return QueueSize(
                tenant=tenant,
                queued=sum(row.jobs for row in queued),
                running=sum(row.jobs for row in running),
                queued_compactions=sum(row.jobs for row in queued if row.operation in COMPACTING),
                running_compactions=sum(row.jobs for row in running if row.operation in COMPACTING),
                first_due_at=min((row.first_due_at for row in queued), default=None),
            )

        return [size(tenant) for tenant in sorted({row.tenant for row in rows})]

    def ask_to_cancel_job(self, job_id: str) -> Job | None:
        """Cancel a job that waits, or ask whoever holds it to stop."""
        with self._writing() as connection:
            job = _locked(connection, job_id)
            if job is None:
                return None
            if job.status.ended:
                raise Conflict(f"job {job_id} has ended ({job.status}): there is nothing to cancel")
            values: dict[str, Any] = {"cancel_asked": True}
            if job.status is JobStatus.QUEUED:
                values |= {"status": JobStatus.CANCELLED.value, "finished_at": self.now(), "token": JOBS.c.token + 1}
            connection.execute(update(JOBS).where(JOBS.c.job_id == job_id).values(values))
            tell(connection, job_id)
            return _locked(connection, job_id)

    def resume_job(self, job_id: str) -> Job | None:
        """Put a job that failed or was cancelled back into the queue."""
        with self._writing() as connection:
            job = _locked(connection, job_id)
            if job is None:
                return None
            if JobStatus.QUEUED not in JOB_TRANSITIONS[job.status] or not job.status.ended:
                raise Conflict(f"job {job_id} is {job.status}: only one that failed or was cancelled can be resumed")
            connection.execute(
                update(JOBS)
                .where(JOBS.c.job_id == job_id)
                .values(
                    status=_QUEUED,
                    due_at=self.now(),
                    deadline=None,
                    finished_at=None,
                    failures=0,
                    cancel_asked=False,
                    token=JOBS.c.token + 1,
                    run_id=None,
                    worker=None,
                )
            )
            tell(connection, job_id)
            return _locked(connection, job_id)

    def forget_jobs(self, *, before: datetime) -> int:
        """Drop jobs that ended before a moment."""
        ended = [status.value for status in JobStatus if status.ended]
        return self._changed(delete(JOBS).where(JOBS.c.status.in_(ended), JOBS.c.finished_at < before))


# -- choosing -------------------------------------------------------------------------------------


def _lock_turn(connection: Connection, job: Job) -> None:
    turn = {"catalog": job.catalog, "tenant": job.tenant}
    insert_if_absent(connection, TURNS, {**turn, "taken_at": None})
    mine = (TURNS.c.catalog == job.catalog) & (TURNS.c.tenant == job.tenant)
    connection.execute(select(TURNS.c.tenant).where(mine).with_for_update())


def _lock_turns(connection: Connection, catalog: str) -> Mapping[str, datetime | None]:
    """When each tenant last had its turn; nobody else takes a job before this transaction ends."""
    wanted = select(TURNS).where(TURNS.c.catalog == catalog).order_by(TURNS.c.tenant).with_for_update()
    return {row.tenant: row.taken_at for row in connection.execute(wanted)}


def _queue(connection: Connection, catalog: str, taken: Mapping[str, datetime | None], now: datetime) -> Queue:
    """What may be chosen now; of those of a tenant that differ in nothing but their turn, the first."""
    here = JOBS.c.catalog == catalog
    of_running = select(JOBS.c.tenant, JOBS.c.table_name, JOBS.c.holds_table).where(here, JOBS.c.status == _RUNNING)
    running = connection.execute(of_running).all()
    held_tables = frozenset(row.table_name for row in running if row.holds_table)
    turn = (JOBS.c.priority.desc(), JOBS.c.submitted_at, JOBS.c.job_id)
    due = (
        select(
            *(JOBS.c[name] for name in ("job_id", "tenant", "table_name", "holds_table", "priority", "submitted_at")),
            func.row_number().over(partition_by=(JOBS.c.tenant, JOBS.c.holds_table), order_by=turn).label("rank"),
        )
        .where(here, JOBS.c.status == _QUEUED, JOBS.c.due_at <= now, JOBS.c.operation.in_(sorted(KNOWN_OPERATIONS)))
        .where(or_(not_(JOBS.c.holds_table), JOBS.c.table_name.not_in(sorted(held_tables))))
        .subquery()
    )
    waiting = [
        WaitingJob(
            job_id=row.job_id,
            tenant=row.tenant,
            table=row.table_name if row.holds_table else None,
            priority=row.priority,
            submitted_at=row.submitted_at,
        )
        for row in connection.execute(select(due).where(due.c.rank == 1))
    ]
    return Queue(
        waiting=waiting,
        turns=[
            TenantTurn(tenant=name, running=sum(row.tenant == name for row in running), taken_at=at)
            for name, at in taken.items()
        ],
        held_tables=held_tables,
    )


def _newest(wanted: Select[Any], limit: int) -> Select[Any]:
    return wanted.order_by(JOBS.c.job_id.desc()).limit(limit)


# -- values ---------------------------------------------------------------------------------------


def _held(claim: JobClaim) -> ColumnElement[bool]:
    return (JOBS.c.job_id == claim.job_id) & (JOBS.c.token == claim.token) & (JOBS.c.status == _RUNNING)


def _left(to: JobStatus, failed: bool) -> dict[str, Any]:
    """What changes of a job when its holder leaves it: the claim is good for nothing any more."""
    assert to in JOB_TRANSITIONS[JobStatus.RUNNING]
    more = {"failures": JOBS.c.failures + 1} if failed else {}
    return {"status": to.value, "token": JOBS.c.token + 1, "expires_at": None, **more}


def _locked(connection: Connection, job_id: str) -> Job | None:
    row = connection.execute(select(*_LEAN_COLUMNS).where(JOBS.c.job_id == job_id).with_for_update()).one_or_none()
    return None if row is None else job_of(row._mapping)
