"""A worker: takes one job after the other and carries it out in one warm Spark session.

It does one job at a time: a job has all of the session's cores, and more at once is a matter of more workers. What it
holds it says in the record store only, so that any number of workers, anywhere, share a queue.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from icepact.model.documents import document_of
from icepact.model.errors import (
    BadInput,
    Cancelled,
    Conflict,
    IcepactError,
    JobLost,
    StoreUnusable,
    TableNotFound,
    Unsupported,
)
from icepact.model.job import Job, JobStatus, Operation
from icepact.model.status import Status
from icepact.policy.options import Options
from icepact.record.pauses import forget_pause, job_failed, pause_of
from icepact.record.process import is_gone, this_process
from icepact.record.store import RecordStore
from icepact.schedule.answers import (
    WORKER,
    KnownWorker,
    forget_answers,
    keep_health,
    keep_plan,
    keep_ranking,
    keep_tables,
    keep_worker,
)
from icepact.schedule.audit import Audit
from icepact.schedule.bell import Bell
from icepact.schedule.holding import Holding
from icepact.schedule.operations import Answer, Task, answer_of, carry_out, cut
from icepact.schedule.put_policies import CurrentPolicies
from icepact.schedule.queue import JobEnd, after_death, after_error, after_outcome, is_late
from icepact.schedule.quotas import Quotas
from icepact.schedule.requests import options_of
from icepact.schedule.tenants import Tenants
from icepact.schedule.tracing import carried_out, named
from icepact.telemetry.trace import Span

if TYPE_CHECKING:
    from icepact.app import Application

_BEAT = 1.0
"""Seconds between two renewals of a claim: as fast a request to cancel is heard."""
_SAID_AGAIN = timedelta(seconds=15)
"""A worker says so often that it is there."""
_SEEN_LATELY = timedelta(days=1)
_FIRST_IDLE, _LONGEST_IDLE = 0.25, 2.0
"""Seconds between two looks into an empty queue."""
_SEARCH_EVERY = 5.0
"""Seconds between two looks for jobs of workers that died."""
_QUIET = 1.0
"""Seconds without a job before a worker does what can wait."""
_FORGET = 3600.0
_STORE_FIRST_WAIT, _STORE_LONGEST_WAIT = 0.2, 5.0
_MOST_TO_LOOK_AT = 50
"""Tables whose health is found anew once there is time."""
_OF_THE_REQUEST = frozenset(kind.__name__ for kind in (BadInput, Cancelled, Conflict, TableNotFound, Unsupported))
"""Errors for which a table is not to blame."""
_log = logging.getLogger("icepact")


def storable(text: str | None) -> str | None:
    """A text as every store takes it: PostgreSQL has no place for a null character, and none for half a character."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


class Ended(StrEnum):
    """Why a worker has ended."""

    STOPPED = "stopped"
    """It was asked to."""
    AILING = "ailing"
    """Its Spark does not work any more."""
    TOO_LARGE = "too-large"
    """Its memory has grown over the limit."""
    WORKED = "worked"
    """It has done as many jobs as it may."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """How a worker works."""

    lease: float = 60.0
    """Seconds after which a worker that is not heard of is taken for dead."""
    max_jobs: int | None = None
    """After so many it ends; `None` for never."""
    memory_limit: int | None = None
    """Bytes after which it ends, once its job is done; `None` for no limit."""
    keep_jobs: float = 30 * 86400.0
    """Seconds for which jobs that have ended are kept."""
    keep_plans: float = 7 * 86400.0
    """Seconds for which plans that jobs have made are kept."""


class Worker:
    """Takes jobs of one catalog, one at a time."""

    def __init__(
        self,
        application: "Application",
        store: RecordStore,
        *,
        settings: WorkerSettings | None = None,
        bell: Bell | None = None,
        ended: Callable[[str], object] = lambda _: None,
        memory: Callable[[], int] = lambda: 0,
    ) -> None:
        """`bell` rings when there may be a new job, if somebody knows; `ended` is called with the id of a
        job that has ended.
        `memory` tells how many bytes this process holds, with those that it has started."""
        self._application = application
        self._store = store
        self._settings = settings or WorkerSettings()
        self._bell = bell or Bell()
        self._said_ended = ended
        self._memory = memory
        self._catalog = application.catalog.recorded_as
        self._policies = CurrentPolicies(store, self._catalog, application.policies)
        self._owner = this_process()
        self._tenants = Tenants(store, catalog=application.catalog.name, clock=store.now)
        self._quotas = Quotas(
            store,
            self._tenants,
            self._catalog,
            currency=application.prices.currency,
            clock=store.now,
        )
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._holding: Holding | None = None
        self._since = store.now()
        self._state = "starting"
        self._said: tuple[str, str | None] | None = None
        self._said_at = self._since
        self._jobs = 0
        self._dead_sought_at = float("-inf")
        self._forgot = time.monotonic()
        self._stale: dict[str, None] = {}
        """Tables whose health has changed, in the order in which they did."""

    @property
    def holding(self) -> Holding | None:
        """The job that it carries out; `None` if it waits for one."""
        return self._holding

    def stop(self) -> None:
        """Take no more jobs; the one that is under way goes on."""
        self._stopping.set()
        self._bell.ring()

    def run(self) -> Ended:
        """Take jobs and carry them out until it is to end."""
        clock = threading.Thread(target=self._beat_on, name="icepact-worker", daemon=True)
        clock.start()
        try:
            self._warm_up()
            return self._work()
        finally:
            self._over.set()
            clock.join()
            with suppress(IcepactError):
                self._store.remove_document(WORKER, self._key)

    def hand_over(self) -> None:
        """Give the job that is under way back to the queue, for whoever takes it to carry on with its run. This process
        must end right after it."""
        holding = self._holding
        if holding is None:
            return
        with suppress(IcepactError):
            self._store.return_job(
                holding.job.claim,
                due_at=self._store.now() + timedelta(seconds=1),
                error=f"handed over: {self._owner} was stopped",
                begin_anew=False,
            )
        with suppress(IcepactError):
            run = self._store.run(holding.run_id) if holding.run_id else None
            lease = self._store.lease(run.uuid) if run else None
            if run and lease and lease.run_id == run.run_id:
                self._store.release(lease)  # whoever takes it need not wait until it expires

    # -- taking jobs ------------------------------------------------------------------------------

    def _warm_up(self) -> None:
        """Start Spark before the first job needs it. If that fails, jobs will tell."""
        try:
            if self._application.absent is None:
                _ = self._application.spark_catalog
        except IcepactError as error:
            _log.warning("the worker begins without Spark: %s", error)

    def _work(self) -> Ended:
        idle, quiet_since = _FIRST_IDLE, time.monotonic()
        self._state = "idle"
        while not self._stopping.is_set():
            rung = self._bell.rung
            job = self._next()
            if job is not None:
                with carried_out(job) as span:
                    self._do(job, span)
                idle, quiet_since = _FIRST_IDLE, time.monotonic()
                if (ended := self._must_end()) is not None:
                    return ended
                continue
            if time.monotonic() - quiet_since >= _QUIET and self._do_what_can_wait():
                continue
            idle = _FIRST_IDLE if self._bell.wait(idle, since=rung) else min(2 * idle, _LONGEST_IDLE)
        return Ended.STOPPED

    def _next(self) -> Job | None:
        """The next job, if there is one; a store that is away for a while has none."""
        try:
            self._take_back_from_the_dead()
            return self._store.take_job(
                self._catalog, self._owner, seconds=self._settings.lease, choose=self._quotas.choose()
            )
        except IcepactError as error:
            _log.warning("no job can be taken: %s", error)
            self._stopping.wait(_LONGEST_IDLE)
            return None

    def _take_back_from_the_dead(self) -> None:
        """Jobs of workers that died go back into the queue."""
        if time.monotonic() - self._dead_sought_at < _SEARCH_EVERY:
            return
        self._dead_sought_at = time.monotonic()
        now = self._store.now()
        for job in self._store.jobs(catalog=self._catalog, statuses=[JobStatus.RUNNING], limit=1000):
            expired = job.expires_at is not None and job.expires_at <= now
            gone = job.worker is not None and is_gone(job.worker)
            if not expired and not gone:
                continue
            reason = f"{job.worker} is gone" if gone else f"{job.worker} was not heard of any more"
            end = after_death(job, reason, now=now)
            seen = self._with_its_run(job)
            if seen and self._store.take_back_job(
                seen, end.status, due_at=end.due_at, error=end.error, failed=end.failed
            ):
                _log.warning("job %s: %s", job.job_id, end.error)

    def _with_its_run(self, job: Job) -> Job | None:
        """A job of a dead worker with the run that it had begun, if it died before it could say so; `None` if it is in
        other hands by now."""
        if job.run_id is not None or not job.request.holds_table:
            return job
        runs = self._store.runs(catalog=self._catalog, table=job.request.table, limit=5, open_only=True, outcomes=False)
        found = (run.run_id for run in runs if run.owner == job.worker and run.status is not Status.UNKNOWN)
        run_id = next(found, None)
        return job if run_id is None else self._store.renew_job(job.claim, seconds=0.0, run_id=run_id)

    def _must_end(self) -> Ended | None:
        self._jobs += 1
        if not self._application.is_well:
            return Ended.AILING
        limit = self._settings.memory_limit
        if limit is not None and self._memory() > limit:
            return Ended.TOO_LARGE
        if self._settings.max_jobs is not None and self._jobs >= self._settings.max_jobs:
            return Ended.WORKED
        return None

    # -- one job ----------------------------------------------------------------------------------

    def _do(self, job: Job, span: Span) -> None:
        holding = self._holding = Holding(
            self._store, job, self._owner, seconds=self._settings.lease, check_plan=self._quotas.check
        )
        self._state = "busy"
        _log.info("%s: attempt %d", named(job), job.attempts)
        answer: Answer | None = None
        try:
            end = self._refusal(job)
            if end is None:
                answer = self._answer(job, holding)
                holding.last_word()  # its run may have been stopped because the job was cancelled
                end = self._end_of(holding, answer)
        except Exception as error:
            holding.last_word()
            end = self._after(holding, error)
        _log.info("%s: %s%s", named(job), end.status, f" ({end.error})" if end.error else "")
        span.set(status=end.status.value, run=holding.run_id)
        if end.status is not JobStatus.SUCCEEDED:
            span.fail(end.error or end.status.value)
        try:
            listened_to = self._end(holding, end, answer)
        finally:
            self._holding, self._state = None, "idle"
            self._said_ended(job.job_id)
        if listened_to:
            self._afterwards(holding.job, end, answer)

    def _refusal(self, job: Job) -> JobEnd | None:
        """What becomes of a job that is not begun; `None` if it is."""
        now = self._store.now()
        if is_late(job, now):
            return JobEnd(status=JobStatus.FAILED, error="its deadline passed before it was begun")
        if (refused := self._quotas.refusal(job)) is not None:
            return JobEnd(status=JobStatus.FAILED, error=refused, error_type=TableNotFound.__name__)
        table = job.request.table
        if table is None or not job.request.holds_table:
            return None
        pause = pause_of(self._store, self._catalog, table, now)
        if pause is None:
            return None
        if job.deadline is not None and pause.until >= job.deadline:
            return JobEnd(status=JobStatus.FAILED, error=pause.message)
        return JobEnd(status=JobStatus.QUEUED, error=pause.message, due_at=pause.until, begin_anew=False)

    def _answer(self, job: Job, holding: Holding) -> Answer:
        """Carry on with the run that the job had begun, or begin."""
        self._application.policies = self._policies()  # others may have been put since the last job
        known = self._carried_on(job, holding)
        if known is not None:
            return known
        request = job.request
        plan = self._store.job_plan(job.job_id) if request.operation is Operation.APPLY else b""
        options = options_of(request, self._application.policies.strategies)
        if request.operation in (Operation.COMPACT, Operation.MAINTAIN):
            table = request.table or ""
            options = self._quotas.capped(
                job.tenant, options, lambda wanted: self._application.policy(table, wanted).policy
            )
        sees = partial(self._tenants.sees, job.tenant)
        task = Task(request=request, options=options, listener=holding, plan=plan, sees=sees)
        return carry_out(self._application, task)

    def _carried_on(self, job: Job, holding: Holding) -> Answer | None:
        """What the run of a worker that died or stopped has come to; `None` if the job is to begin anew."""
        run = None if job.run_id is None else self._store.run(job.run_id)
        if run is None or job.request.operation is Operation.MAINTAIN:  # which goes on with its run, and with the rest
            return None
        if run.status.open:
            try:
                return answer_of(self._application.resume(run.run_id, progress=holding))
            except (StoreUnusable, TableNotFound):
                raise
            except BadInput as error:
                _log.warning("job %s begins anew: %s", job.job_id, error)
                return None
        if run.outcome is None:
            return None
        answer = answer_of(run.outcome)
        assert answer.status is not None
        end = after_outcome(job, answer.status, None, now=self._store.now(), dice=0.0)
        return answer if end.status is JobStatus.SUCCEEDED else None

    def _end_of(self, holding: Holding, answer: Answer) -> JobEnd:
        if answer.status is None:
            return JobEnd(status=JobStatus.SUCCEEDED)
        error = holding.stop.message if holding.stop is not None else answer.error
        end = after_outcome(holding.job, answer.status, error, now=self._store.now(), dice=random.random())
        return self._unless_ailing(holding.job, end)

    def _after(self, holding: Holding, error: Exception) -> JobEnd:
        message = str(error) if isinstance(error, IcepactError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, IcepactError):
            _log.exception("job %s failed", holding.job.job_id)
        now = self._now()
        end = after_error(holding.job, error, message, now=now, dice=random.random())
        return self._unless_ailing(holding.job, end)

    def _unless_ailing(self, job: Job, end: JobEnd) -> JobEnd:
        """A job that went wrong because Spark has died is as one whose worker has."""
        if end.status is not JobStatus.SUCCEEDED and not self._application.is_well:
            return after_death(job, end.error or "Spark does not work any more", now=self._now())
        return end

    def _end(self, holding: Holding, end: JobEnd, answer: Answer | None) -> bool:
        """Record what became of a job, as soon as the store can be reached; false if the job was lost."""
        wait = _STORE_FIRST_WAIT
        while True:
            try:
                self._record(holding, end, answer)
                return True
            except JobLost as error:
                _log.warning("not listened to: %s", error)
                return False
            except IcepactError as error:
                _log.warning("the end of job %s cannot be recorded yet: %s", holding.job.job_id, error)
                time.sleep(wait)
                wait = min(2 * wait, _STORE_LONGEST_WAIT)

    def _record(self, holding: Holding, end: JobEnd, answer: Answer | None) -> None:
        job = holding.job
        if end.status is JobStatus.QUEUED:
            self._store.return_job(
                job.claim,
                due_at=end.due_at or self._store.now(),
                error=storable(end.error),
                error_type=end.error_type,
                failed=end.failed,
                begin_anew=end.begin_anew,
            )
            return
        if answer is not None and answer.plan and not keep_plan(self._store, job.job_id, answer.plan):
            answer = replace(answer, result={**answer.result, "plan_kept": False})
        if answer is not None and answer.ranking:
            keep_ranking(self._store, job.job_id, answer.ranking)
        self._store.end_job(
            job.claim,
            end.status,
            result=None if answer is None else answer.result,
            error=storable(end.error),
            error_type=end.error_type,
            failed=end.failed,
        )

    def _afterwards(self, job: Job, end: JobEnd, answer: Answer | None) -> None:
        """Remember what the job tells about its table. It has ended well enough without."""
        with suppress(IcepactError):
            table, now = job.request.table, self._store.now()
            if answer is not None and answer.tables is not None:
                keep_tables(self._store, self._catalog, answer.tables, taken_at=now)
            if table is None:
                return
            if answer is not None and answer.health is not None:
                keep_health(self._store, self._catalog, table, answer.health, taken_at=now)
                self._stale.pop(table, None)
            if not job.request.holds_table:
                return
            if end.status is JobStatus.SUCCEEDED:
                forget_pause(self._store, self._catalog, table)
                if len(self._stale) < _MOST_TO_LOOK_AT:
                    self._stale[table] = None
            elif end.failed and end.error_type not in _OF_THE_REQUEST:
                job_failed(self._store, self._catalog, table, end.error or "", now)

    # -- what can wait ----------------------------------------------------------------------------

    def _do_what_can_wait(self) -> bool:
        """One thing for which there is time now; false if there is none."""
        if self._stale:
            table = next(iter(self._stale))
            del self._stale[table]
            with suppress(IcepactError):
                health = cut(document_of(self._application.health(table, Options())))
                keep_health(self._store, self._catalog, table, health, taken_at=self._store.now())
            return True
        if time.monotonic() - self._forgot < _FORGET:
            return False
        self._forgot = time.monotonic()
        with suppress(IcepactError):
            now = self._store.now()
            self._store.forget_jobs(before=now - timedelta(seconds=self._settings.keep_jobs))
            plans = now - timedelta(seconds=self._settings.keep_plans)
            forget_answers(self._store, plans_before=plans, workers_before=now - _SEEN_LATELY)
            Audit(self._store, clock=self._store.now).forget()
        return True

    # -- its clock --------------------------------------------------------------------------------

    def _beat_on(self) -> None:
        away = False
        while True:
            try:
                self._beat()
                away = False
            except IcepactError as error:
                if not away:
                    _log.warning("the record store is away: %s", error)
                away = True
            except Exception:  # whatever it is, the job must not be lost for want of a beat
                _log.exception("a beat of the worker failed")
            if self._over.wait(_BEAT):
                return

    def _beat(self) -> None:
        holding = self._holding
        if holding is not None:
            holding.beat()
        job_id = holding.job.job_id if holding else None
        now = self._store.now()
        if (self._state, job_id) == self._said and now - self._said_at < _SAID_AGAIN:
            return
        known = KnownWorker(
            catalog=self._catalog,
            host=self._owner.host,
            pid=self._owner.pid,
            since=self._since,
            state="stopping" if self._stopping.is_set() else self._state,
            job=job_id,
            jobs=self._jobs,
            seen_at=now,
        )
        keep_worker(self._store, self._key, known)
        self._said, self._said_at = (self._state, job_id), now

    def _now(self) -> datetime:
        """The store's time; this machine's if the store is away."""
        try:
            return self._store.now()
        except IcepactError:
            return datetime.now(UTC)

    @property
    def _key(self) -> str:
        return f"{self._owner.host}/{self._owner.pid}/{self._since:%Y%m%d%H%M%S}"
