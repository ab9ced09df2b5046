"""Jobs over keys and values. A job changes only if its token is what its holder was given; a key of its own says which
job holds a table."""

import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

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
from icepact.record.documents import (
    COMPACTING,
    KNOWN_OPERATIONS,
    job_columns,
    job_of,
    jobs_of,
    owner_document,
    owner_of,
)
from icepact.record.kv.base import KvBase
from icepact.record.kv.interface import Entry, Span
from icepact.record.kv.keys import all_below, ascending, below, inverted, key, moment_of, parts_of
from icepact.record.kv.rows import index_change, moment_text, row_bytes, row_of
from icepact.record.kv.space import Change

JOB_MOMENTS = ("submitted_at", "due_at", "deadline", "started_at", "finished_at", "expires_at")
_RUNNING, _QUEUED = JobStatus.RUNNING.value, JobStatus.QUEUED.value
_PAGE = 100

Edit = Callable[[dict[str, Any]], Mapping[str, Any]]
"""What changes of a row, by column; raises if nothing may."""


class KvJobs(KvBase):
    """The part of a store that keeps jobs."""

    def submit_job(self, job: Job, plan: bytes = b"") -> Job:
        """Put a job into the queue, unless it is there under its idempotency key already."""
        name = _name(job.job_id)
        row = {**job_columns(job), "result": None, "plan": bool(plan)}
        result = None if job.result is None else {_result(job.job_id): _packed(json.dumps(job.result))}
        more = (result or {}) | ({_plan(job.job_id): _packed(plan)} if plan else {})
        named = job.idempotency_key and key("job-key", job.catalog, job.tenant, job.idempotency_key)
        queued = {_name(job.job_id): row_bytes(row), **job_index(row), **more}

        def decide(values: Mapping[str, bytes]) -> Change[str | None]:
            if named and named in values:
                return Change(result=values[named].decode())
            if name in values:
                raise Conflict(f"there is a job {job.job_id} already")
            return Change(result=None, puts=queued, tells=job.job_id)

        while True:
            known = self._space.change([name, *([named] if named else [])], decide)
            if known is None:
                return job
            found = self.job(known)
            if found is not None:
                if found.fingerprint != job.fingerprint:
                    raise Conflict(f"the idempotency key stands for job {known}, which was asked to do something else")
                return found

    def take_job(
        self, catalog: str, worker: Owner, *, seconds: float, choose: Callable[[Queue], str | None]
    ) -> Job | None:
        """Have the next job chosen among those that are due, and take it."""
        turns = key("job-turns", catalog)
        while True:
            now = self.now()
            due = Span(*below("job-queued", catalog, before=ascending(now + timedelta(microseconds=1))))
            if not self._space.read([Span(due.start, due.end, 1)])[0]:
                return None
            waiting, running, [*seen] = self._space.read([due, all_below("job-running", catalog), Span.of(turns)])
            taken = json.loads(seen[0].value) if seen else {}
            chosen = choose(_queue(waiting, running, taken))
            if chosen is None:
                return None
            name = _name(chosen)
            values, entries = self._space.values([name])
            row = row_of(values[name], JOB_MOMENTS) if values else None
            if row is None or row["status"] != _QUEUED:
                return None  # cancelled meanwhile
            after = row | {
                "status": _RUNNING,
                "token": row["token"] + 1,
                "attempts": row["attempts"] + 1,
                "started_at": row["started_at"] or now,
                "worker": owner_document(worker),
                "expires_at": now + timedelta(seconds=seconds),
            }
            puts, deletes = index_change(job_index(row), job_index(after))
            puts |= {name: row_bytes(after), turns: row_bytes(taken | {row["tenant"]: now})}
            versions = {name: entries[name].version, turns: seen[0].version if seen else 0}
            if row["holds_table"]:
                holds = key("job-holds", catalog, row["table_name"])
                if self._space.read([Span.of(holds)])[0]:
                    return None
                versions[holds] = 0
            if self._space.commit(versions, puts, deletes, over=entries):
                return job_of(after)

    def renew_job(
        self, claim: JobClaim, *, seconds: float, progress: JobProgress | None = None, run_id: str | None = None
    ) -> Job | None:
        """Go on holding a job, and record how far it has come."""

        def edit(row: dict[str, Any]) -> Mapping[str, Any]:
            if not _holds(row, claim):
                return {}
            values: dict[str, Any] = {"expires_at": self.now() + timedelta(seconds=seconds)}
            if progress is not None:
                values["progress"] = to_json(progress).decode()
            return values | ({"run_id": run_id} if run_id is not None else {})

        job = self._edit_job(claim.job_id, edit, tells=False)
        return job if job and (job.token, job.status) == (claim.token, JobStatus.RUNNING) else None

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
        values = {"finished_at": self.now(), "error": error, "error_type": error_type}
        self._leave(claim, status, values, failed, result=result)

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

    def _leave(
        self,
        claim: JobClaim,
        to: JobStatus,
        values: Mapping[str, Any],
        failed: bool,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        def edit(row: dict[str, Any]) -> Mapping[str, Any]:
            if not _holds(row, claim):
                holder = owner_of(row["worker"])
                raise JobLost(f"job {claim.job_id} is {row['status']} by now, last in the hands of {holder}")
            return {**values, **_left(row, to, failed)}

        if self._edit_job(claim.job_id, edit, ends=to.ended, result=result) is None:
            raise JobLost(f"there is no job {claim.job_id}")

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
        done = False

        def edit(row: dict[str, Any]) -> Mapping[str, Any]:
            nonlocal done
            done = _holds(row, seen.claim) and row["expires_at"] == seen.expires_at
            return {**values, **_left(row, status, failed)} if done else {}

        self._edit_job(seen.job_id, edit)
        return done

    def ask_to_cancel_job(self, job_id: str) -> Job | None:
        """Cancel a job that waits, or ask whoever holds it to stop."""

        def edit(row: dict[str, Any]) -> Mapping[str, Any]:
            status = JobStatus(row["status"])
            if status.ended:
                raise Conflict(f"job {job_id} has ended ({status}): there is nothing to cancel")
            if status is JobStatus.RUNNING:
                return {"cancel_asked": True}
            ended = {"status": JobStatus.CANCELLED.value, "finished_at": self.now(), "token": row["token"] + 1}
            return {"cancel_asked": True, **ended}

        return self._edit_job(job_id, edit)

    def resume_job(self, job_id: str) -> Job | None:
        """Put a job that failed or was cancelled back into the queue."""

        def edit(row: dict[str, Any]) -> Mapping[str, Any]:
            status = JobStatus(row["status"])
            if JobStatus.QUEUED not in JOB_TRANSITIONS[status] or not status.ended:
                raise Conflict(f"job {job_id} is {status}: only one that failed or was cancelled can be resumed")
            return {
                **{"status": _QUEUED, "due_at": self.now(), "token": row["token"] + 1},
                **dict.fromkeys(("deadline", "finished_at", "run_id", "worker")),
                **{"failures": 0, "cancel_asked": False},
            }

        return self._edit_job(job_id, edit)

    def _edit_job(
        self,
        job_id: str,
        edit: Edit,
        *,
        ends: bool = False,
        result: Mapping[str, Any] | None = None,
        tells: bool = True,
    ) -> Job | None:
        """Change a row and its index; returns the job without its result, `None` if there is none. Where it `ends`, its
        result is replaced."""
        name, kept = _name(job_id), _result(job_id)

        def decide(values: Mapping[str, bytes]) -> Change[Job | None]:
            if name not in values:
                return Change(result=None)
            row = row_of(values[name], JOB_MOMENTS)
            changed = edit(row)
            if not changed:
                return Change(result=job_of(row))
            after = {**row, **changed}
            puts, deletes = index_change(job_index(row), job_index(after))
            puts[name] = row_bytes(after)
            if ends and result is not None:
                puts[kept] = _packed(json.dumps(result))
            elif ends:
                deletes.append(kept)
            return Change(result=job_of(after), puts=puts, deletes=deletes, tells=job_id if tells else None)

        return self._space.change([name], decide, over=[kept] if ends else [])

    # -- reading ----------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job | None:
        """One job, with its result."""
        return next(iter(self._jobs([job_id], results=True)), None)

    def job_plan(self, job_id: str) -> bytes:
        """The saved plan that a job applies."""
        found = self._space.one(_plan(job_id))
        return zlib.decompress(found) if found else b""

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
        wanted = frozenset(statuses or JobStatus)
        prefixes: list[tuple[str, ...]]
        if table is not None:
            prefixes = [("job-table", catalog, table)]
        elif tenant is not None:
            prefixes = [("job-tenant", catalog, tenant, status) for status in sorted(wanted)]
        else:
            prefixes = [("job-status", catalog, status) for status in sorted(wanted)]
        found: dict[str, Job] = {}
        after = None if before is None else inverted(before)
        while len(found) < limit:
            page = max(min(limit - len(found), _PAGE), 10)
            spans = [Span(*below(*prefix, after=after), page) for prefix in prefixes]
            entries = [entry for some in self._space.read(spans) for entry in some]
            newest = sorted({parts_of(entry.key)[-1]: entry.value.decode() for entry in entries}.items())[:page]
            for job in self._jobs([job_id for _, job_id in newest], results=results):
                of_them = tenant in (None, job.tenant) and operation in (None, job.request.operation)
                if of_them and job.status in wanted:
                    found[job.job_id] = job
            if len(newest) < page:
                break
            after = newest[-1][0]
        return sorted(found.values(), key=lambda job: job.job_id.encode(), reverse=True)[:limit]

    def _jobs(self, job_ids: Sequence[str], *, results: bool) -> list[Job]:
        values = self._space.get([*map(_name, job_ids), *(map(_result, job_ids) if results else ())])

        def row(job_id: str) -> dict[str, Any]:
            result = values.get(_result(job_id))
            more = {"result": None if result is None else zlib.decompress(result)}
            return row_of(values[_name(job_id)], JOB_MOMENTS) | more

        return jobs_of(row(job_id) for job_id in job_ids if _name(job_id) in values)

    def queue_sizes(self, catalog: str) -> Sequence[QueueSize]:
        """How many jobs of each tenant wait and run."""
        queued, running = self._space.read([all_below("job-queued", catalog), all_below("job-running", catalog)])
        waiting, held = ([json.loads(entry.value) for entry in entries] for entries in (queued, running))
        first: dict[str, datetime] = {}
        for entry, (tenant, *_) in zip(queued, waiting, strict=True):
            first.setdefault(tenant, moment_of(parts_of(entry.key)[-2]))

        def size(tenant: str) -> QueueSize:
            queued, running = ([one[-1] for one in some if one[0] == tenant] for some in (waiting, held))
            return QueueSize(
                tenant=tenant,
                queued=len(queued),
                running=len(running),
                queued_compactions=sum(operation in COMPACTING for operation in queued),
                running_compactions=sum(operation in COMPACTING for operation in running),
                first_due_at=first.get(tenant),
            )

        return [size(tenant) for tenant in sorted({one[0] for one in (*waiting, *held)})]

    def forget_jobs(self, *, before: datetime) -> int:
        """Drop jobs that ended before a moment."""
        old = [parts_of(name)[-1] for name, _ in self._space.scan(below("job-ended", before=ascending(before)))]
        return sum(self._forget_job(job_id, before) for job_id in old)

    def _forget_job(self, job_id: str, before: datetime) -> bool:
        name = _name(job_id)
        more = [_plan(job_id), _result(job_id)]

        def decide(values: Mapping[str, bytes]) -> Change[bool]:
            row = row_of(values[name], JOB_MOMENTS) if name in values else {"finished_at": None}
            if row["finished_at"] is None or row["finished_at"] >= before:
                return Change(result=False)
            return Change(result=True, deletes=[name, *more, *job_index(row)])

        return self._space.change([name], decide, over=more)


# -- choosing -------------------------------------------------------------------------------------


def _queue(waiting: Sequence[Entry], running: Sequence[Entry], taken: Mapping[str, str]) -> Queue:
    held = [json.loads(entry.value) for entry in running]
    tenants = {*taken, *(tenant for tenant, *_ in held)}
    return Queue(
        waiting=[_waiting(entry) for entry in waiting if json.loads(entry.value)[-1] in KNOWN_OPERATIONS],
        turns=[
            TenantTurn(
                tenant=name,
                running=sum(tenant == name for tenant, *_ in held),
                taken_at=datetime.fromisoformat(taken[name]) if name in taken else None,
            )
            for name in sorted(tenants)
        ],
        held_tables=frozenset(table for _, table, _ in held if table is not None),
    )


def _waiting(entry: Entry) -> WaitingJob:
    tenant, table, priority, submitted_at, _ = json.loads(entry.value)
    return WaitingJob(
        job_id=parts_of(entry.key)[-1],
        tenant=tenant,
        table=table,
        priority=priority,
        submitted_at=datetime.fromisoformat(submitted_at),
    )


# -- values ---------------------------------------------------------------------------------------


def job_index(row: Mapping[str, Any]) -> dict[str, bytes]:
    """The keys under which a job is found, and what is there without reading it."""
    catalog, tenant, status, job_id = row["catalog"], row["tenant"], row["status"], row["job_id"]
    newest, name = inverted(job_id), job_id.encode()
    table = row["table_name"] if row["holds_table"] else None
    index = {
        key("job-status", catalog, status, newest): name,
        key("job-tenant", catalog, tenant, status, newest): name,
    }
    if row["table_name"] is not None:
        index[key("job-table", catalog, row["table_name"], newest)] = name
    if row["idempotency_key"] is not None:
        index[key("job-key", catalog, tenant, row["idempotency_key"])] = name
    if status == _QUEUED:
        waiting = [tenant, table, row["priority"], moment_text(row["submitted_at"]), row["operation"]]
        index[key("job-queued", catalog, ascending(row["due_at"]), job_id)] = json.dumps(waiting).encode()
    elif status == _RUNNING:
        index[key("job-running", catalog, job_id)] = json.dumps([tenant, table, row["operation"]]).encode()
        if table is not None:
            index[key("job-holds", catalog, table)] = name
    else:
        index[key("job-ended", ascending(row["finished_at"] or row["submitted_at"]), job_id)] = name
    return index


def _name(job_id: str) -> str:
    return key("job", job_id)


def _plan(job_id: str) -> str:
    return key("job-plan", job_id)


def _result(job_id: str) -> str:
    return key("job-result", job_id)


def _packed(document: str | bytes) -> bytes:
    return zlib.compress(document.encode() if isinstance(document, str) else document, 1)


def _holds(row: Mapping[str, Any], claim: JobClaim) -> bool:
    return bool(row["status"] == _RUNNING and row["token"] == claim.token)


def _left(row: Mapping[str, Any], to: JobStatus, failed: bool) -> dict[str, Any]:
    """What changes of a job when its holder leaves it: the claim is good for nothing any more."""
    assert to in JOB_TRANSITIONS[JobStatus.RUNNING]
    failures = row["failures"] + 1 if failed else row["failures"]
    return {"status": to.value, "token": row["token"] + 1, "expires_at": None, "failures": failures}
