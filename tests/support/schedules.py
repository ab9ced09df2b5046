"""A fleet whose policies, commits and jobs are set by hand, for schedulers on any store with any clock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from icepact.model.job import DEFAULT_TENANT, Job, JobStatus, Queue
from icepact.model.schedule import Chosen, Due
from icepact.record.store import RecordStore
from icepact.schedule.jobs import Jobs
from icepact.schedule.leader import Leader
from icepact.schedule.requests import Names
from icepact.schedule.scheduler import Scheduler
from icepact.schedule.state import TableSchedule
from icepact.schedule.triggers import Timing
from tests.support.jobs import US

CATALOG = "local"


class SetFleet:
    """Tables as they are set."""

    def __init__(self, timings: Mapping[str, Timing]) -> None:
        self.timings = dict(timings)
        self.no_budget: set[str] = set()
        self.quiet_at: dict[str, datetime] = {}
        self.ours: set[int] = set()

    def tables(self, now: datetime) -> Sequence[str] | None:
        """All of them."""
        del now
        return sorted(self.timings)

    def policies(self) -> object:
        """The same for ever."""
        return self

    def timing(self, schedule: TableSchedule) -> Timing:
        """As it is set."""
        return self.timings[schedule.table]

    def look(self, schedules: Collection[TableSchedule], now: datetime) -> Sequence[TableSchedule]:
        """Nothing is to be seen."""
        del schedules, now
        return ()

    def counted(self, table: str) -> Collection[int]:
        """Of icepact."""
        del table
        return self.ours

    def held_back(self, schedule: TableSchedule, now: datetime) -> str:
        """As it is set."""
        del now
        return "no budget" if schedule.table in self.no_budget else ""

    def choose(self, table: str, timing: Timing, due: Due, now: datetime) -> Chosen:
        """As it is set."""
        del timing
        return Chosen(due=due, at=self.quiet_at.get(table, now), why="set")

    def tenant(self, table: str) -> str:
        """One for all."""
        del table
        return DEFAULT_TENANT


class Ticking:
    """The clock of a process, which never jumps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def jobs_on(store: RecordStore) -> Jobs:
    """Jobs on the catalog of these tests."""
    return Jobs(store, CATALOG, names=Names(catalog=CATALOG))


def scheduler_on(store: RecordStore, fleet: SetFleet, ticking: Ticking | None = None) -> Scheduler:
    """A scheduler of its own process."""
    leader = Leader(store, CATALOG, owner=replace(US, boot=""), monotonic=ticking or Ticking())
    return Scheduler(store, jobs_on(store), fleet, catalog=CATALOG, leader=leader)


def work_off(store: RecordStore, status: JobStatus = JobStatus.SUCCEEDED) -> list[Job]:
    """Do all jobs that wait, and return them."""
    done = []
    while job := store.take_job(CATALOG, US, seconds=60, choose=_first):
        store.end_job(job.claim, status, failed=status is JobStatus.FAILED)
        done.append(job)
    return done


def _first(queue: Queue) -> str | None:
    return next((job.job_id for job in queue.waiting), None)
