"""Schedules as people see them: what is due, the job that came of it, what is expected of writers, and when is next."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from icepact.model.documents import Document, Moment, digits
from icepact.model.job import JobRequest


class Trigger(StrEnum):
    """What made a table due."""

    SCHEDULE = "schedule"
    COMMITS = "commits"


@dataclass(frozen=True, kw_only=True, slots=True)
class Due(Document):
    """A job that is wanted."""

    trigger: Trigger
    planned: Moment
    """When the policy wants it."""
    earliest: Moment
    """When it may be begun: windows, blackouts, jitter and backoff are in it."""
    latest: Moment
    """By when it is to be begun at a quiet time; `earliest` without slack."""
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HourForecast(Document):
    """One hour to come."""

    start: Moment
    commits: Annotated[float, digits(2)]
    """As many as often as not."""
    high: Annotated[float, digits(2)]
    """Seldom more: one time in ten."""
    quiet: Annotated[float, digits(3)]
    """How likely nothing is committed during a run that begins in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastError(Document):
    """How far off forecasts were for the newest hours, each made from what was known a day before at the latest."""

    hours: int
    """Hours that were foretold."""
    commits: Annotated[float, digits(4)]
    """Mean absolute error of the commits of an hour."""
    naive: Annotated[float, digits(4)]
    """That of the mean of all hours before."""
    quiet: Annotated[float, digits(4)]
    """Mean square of the difference between the probability that an hour is quiet and what it was, 0 or 1."""
    quiet_naive: Annotated[float, digits(4)]
    """That of the share of quiet hours before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionForecast(Document):
    """What is to be expected of one partition."""

    partition: str
    quiet_since: Moment
    """When it was committed to last."""
    every: Annotated[float | None, digits(1)]
    """Seconds between two commits, half of the time less; `None` if there was one only."""
    quiet: Annotated[float, digits(3)]
    """How likely nothing is committed to it during a run that begins now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenTime(Document):
    """When it is best to begin."""

    at: Moment
    quiet: Annotated[float, digits(3)]
    """How likely nothing is committed during the run."""
    quiet_at_once: Annotated[float, digits(3)]
    """The same at the earliest time."""
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast(Document):
    """What is expected of the writers of a table."""

    table: str
    made_at: Moment
    history_hours: Annotated[float, digits(1)]
    """That are known."""
    commits: int
    """In these."""
    run_seconds: Annotated[float, digits(1)]
    """How long a run takes that should meet no commit."""
    hours: Sequence[HourForecast] = ()
    partitions: Sequence[PartitionForecast] = ()
    """Those that were committed to last come first."""
    error: ForecastError | None = None
    """`None` if there is too little history to tell."""
    chosen: ChosenTime | None = None
    """`None` if no job waits for a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen(Document):
    """When something that is due is begun."""

    due: Due
    at: Moment
    why: str = ""
    """Of the time, if there was a choice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fired(Document):
    """A job that was wanted: what was decided before it is submitted, so that whoever leads next can do so."""

    due: Due
    request: JobRequest
    idempotency_key: str
    priority: int = 0
    at: Moment
    """When it was decided."""
    job_id: str | None = None
    """`None` until it is in the queue."""
    ended: bool = False
    """Whether it has ended, and counts in the past."""
    status: str = ""
    """How."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleView(Document):
    """The schedule of one table."""

    table: str
    schedule: str | None
    """As it was written; `None` if there is none."""
    check_interval: int | None
    operation: str
    timezone: str
    windows: str | None
    blackouts: str | None
    slack_seconds: float
    priority: int
    off: str | None
    """Why nothing is ever done by itself; `None` if something is."""
    next: Due | None
    """`None` while that depends on commits."""
    at: Moment | None
    """When the next job is begun, as far as that is known."""
    why: str
    """Of that time."""
    commits: int
    """By writers since the last job."""
    failures: int
    held_back: str
    last: Fired | None
    """The newest job that a schedule has made."""
    forecast: Forecast | None = None
    """`None` if it was not asked for, or if nothing is known about writers."""
