"""Holding a job while it is carried out: its worker is heard of, says how far it is, and hears when it is to stop."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icepact.economics.spending import planned_spending
from icepact.model.errors import Cancelled, IcepactError, JobLost, QuotaUsed
from icepact.model.job import Job, JobProgress
from icepact.model.progress import BEGUN, UnitDone
from icepact.model.run import Owner
from icepact.record.store import RecordStore
from icepact.schedule.queue import is_late

if TYPE_CHECKING:
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan

_RUNS_READ = 5
_log = logging.getLogger("icepact")


@dataclass(frozen=True, kw_only=True, slots=True)
class StopReason:
    """Why a job is to stop."""

    message: str
    lost: bool = False
    """True if somebody else has the job by now."""


CheckPlan = Callable[[Job, "Plan", Callable[[], object]], None]


def _any_plan(job: Job, plan: "Plan", announce: Callable[[], object]) -> None:
    """Every plan may be carried out."""
    del job, plan, announce


class Holding:
    """Holds one job, and is what its operation reports to.

    It stops an operation where it stands before its run has begun; a run is stopped by its own means, so that it ends
    in order.
    """

    def __init__(
        self,
        store: RecordStore,
        job: Job,
        worker: Owner,
        *,
        seconds: float,
        check_plan: CheckPlan = _any_plan,
    ) -> None:
        """`check_plan` raises QuotaUsed if the plan of the job may not be carried out now; what it is given besides
        records what the job has planned."""
        self.job = job
        self._store = store
        self._worker = worker
        self._seconds = seconds
        self._check_plan = check_plan
        self._lock = threading.Lock()
        self._progress = JobProgress()
        self._run_id: str | None = None
        """The run that was begun last."""
        self._unrecorded: JobProgress | None = self._progress
        """Progress that the store has not heard of: at first that nothing of what an earlier holder said holds."""
        self._stop: StopReason | None = None
        self._asked: str | None = None
        """The run that was asked to stop."""
        self.stopped_at: float | None = None
        """By the monotonic clock, when it was found that the job is to stop."""

    @property
    def stop(self) -> StopReason | None:
        """Why the job is to stop; `None` if it is not."""
        return self._stop

    @property
    def run_id(self) -> str | None:
        """The run that was begun last; `None` if none was."""
        return self._run_id

    # -- what the operation says ------------------------------------------------------------------

    def on_resumed(self, outcome: "Outcome | None") -> None:
        """Go on, unless the job is to stop."""
        del outcome
        self.check()

    def on_operation(self, operation: str) -> None:
        """The next operation of maintenance begins, unless the job is to stop."""
        self.check()
        self._now(JobProgress(operation=operation))

    def on_table(self, table: str, total: int) -> None:
        """One more table of so many is looked at, unless the job is to stop."""
        self.check()
        before = self._progress
        units = before.units + 1 if before.operation else 0
        self._now(JobProgress(operation=table, units=units, planned_units=total))

    def confirm(self, plan: "Plan") -> bool:
        """Yes; it raises Cancelled if the job is to stop, and QuotaUsed if its tenant has to wait."""
        self.check()
        before, planned = self._progress, planned_spending(plan)
        units = sum(len(step.units) for step in plan.rewrites)
        self._now(
            replace(
                before,
                step="",  # its run has not begun
                planned_units=units,
                planned_bytes=planned.bytes,
                planned_money=float(planned.money),
            )
        )
        try:
            self._check_plan(self.job, plan, self.beat)
        except QuotaUsed:
            self._now(before)
            raise
        return True

    def advance(self, done: UnitDone) -> None:
        """One unit more."""
        p = self._progress
        self._now(replace(p, units=p.units + 1, files=p.files + done.files, bytes=p.bytes + done.bytes))

    def step(self, name: str) -> None:
        """The run is at another step; as soon as it has begun, the job tells of it."""
        self._now(replace(self._progress, step=name))
        if name == "recorded":
            try:
                self._find_run()
                self.beat()
            except IcepactError as error:  # found and recorded later
                _log.warning("job %s: %s", self.job.job_id, error)

    def check(self) -> None:
        """Raise if the job is to stop."""
        if self._stop is not None:
            raise JobLost(self._stop.message) if self._stop.lost else Cancelled(self._stop.message)

    def _now(self, progress: JobProgress) -> None:
        with self._lock:
            self._progress = self._unrecorded = progress

    # -- what the worker's clock does -------------------------------------------------------------

    def beat(self) -> None:
        """Renew the claim, record progress, and see whether the job is to stop; it raises if the store is away."""
        if self._stop is not None and self._stop.lost:
            return self._stop_run()
        if self._run_id is None and self._progress.step in BEGUN:
            self._find_run()
        with self._lock:
            progress, self._unrecorded = self._unrecorded, None
        try:
            seen = self._store.renew_job(
                self.job.claim, seconds=self._seconds, progress=progress, run_id=self._new_run()
            )
        except IcepactError:
            with self._lock:
                self._unrecorded = self._unrecorded or progress
            raise
        if seen is None:
            self.stop_for(StopReason(message=f"job {self.job.job_id} is in other hands", lost=True))
        else:
            self.job = seen
            self._see(seen)
        return self._stop_run()

    def last_word(self) -> None:
        """Record how far the job has come when its operation has ended, and hear whether it was cancelled, if that is
        possible."""
        with suppress(IcepactError):
            self.beat()

    def stop_for(self, reason: StopReason) -> None:
        """Have the job stop; a reason that there is already stays, unless the job is lost."""
        if self._stop is None or (reason.lost and not self._stop.lost):
            self._stop = reason
            self.stopped_at = self.stopped_at or time.monotonic()

    def _see(self, seen: Job) -> None:
        if seen.cancel_asked:
            self.stop_for(StopReason(message=f"job {seen.job_id} was cancelled"))
        elif is_late(seen, self._store.now()):
            self.stop_for(StopReason(message=f"the deadline of job {seen.job_id} passed while it was under way"))

    def _new_run(self) -> str | None:
        return self._run_id if self._run_id != self.job.run_id else None

    def _find_run(self) -> None:
        """The run that this process has begun on the table of the job, or carries on with."""
        if self.job.request.table is None:
            return
        runs = self._store.runs(
            catalog=self.job.catalog,
            table=self.job.request.table,
            limit=_RUNS_READ,
            open_only=True,
            outcomes=False,
        )
        self._run_id = next((run.run_id for run in runs if run.owner == self._worker), self._run_id)

    def _stop_run(self) -> None:
        """Ask the run to stop, once, if the job is to stop and the run is still that of this process."""
        run_id = self._run_id
        if self._stop is None or run_id is None or run_id == self._asked:
            return
        run = self._store.run(run_id)
        if run is not None and run.status.open and run.owner == self._worker:
            self._store.ask_to_cancel(run_id)
        self._asked = run_id
