"""When a table's next job is due, by its policy and by what came to pass: functions of values. Pure.

A schedule (cron or interval), a number of commits, or both make a table due at a *planned moment*. That moves by the
table's jitter, to the next open window, behind a backoff after failures, and, if there is slack, to a quiet time. What
was missed meanwhile is caught up with once. The clock is the store's; if it goes back, nothing fires a second time,
since a planned moment counts only if it is after the one that fired last.
"""

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo

from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_duration, plural
from icepact.model.job import Operation
from icepact.model.schedule import Due, Trigger
from icepact.policy.layers import TablePolicy
from icepact.policy.schedules import Schedule
from icepact.policy.windows import Windows, next_open, parse_zone

COMMIT_DELAY = timedelta(minutes=1)
"""Writers must have been still for so long, unless the policy says otherwise."""
_LONGEST_DELAY = 10
"""Writers that are never still keep a table waiting for so many of these delays at most."""
_AHEAD = timedelta(hours=1)
"""Moments that are further ahead were told by a clock that has been set back since."""
_LONG_AGO = timedelta(days=1)
_FIRST_BACKOFF = timedelta(minutes=15)
_LONGEST_BACKOFF = timedelta(days=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """When jobs on a table are wanted, as its policy says."""

    schedule: Schedule | None = None
    check_interval: int | None = None
    """After so many commits; `None`: commits do not matter."""
    commit_delay: timedelta = COMMIT_DELAY
    operation: Operation = Operation.MAINTAIN
    zone: tzinfo = UTC
    windows: Windows | None = None
    blackouts: Windows | None = None
    jitter: timedelta = timedelta()
    slack: timedelta = timedelta()
    priority: int = 0
    off: str | None = None
    """Why the table is left alone, if it is."""

    @staticmethod
    def of(policy: TablePolicy) -> "Timing":
        """What a policy says."""
        operation = Operation.MAINTAIN if policy.operation is None else Operation(policy.operation.value)
        return Timing(
            schedule=policy.schedule,
            check_interval=policy.check_interval,
            commit_delay=COMMIT_DELAY if policy.commit_delay is None else timedelta(seconds=policy.commit_delay),
            operation=operation,
            zone=parse_zone(policy.timezone or "UTC"),
            windows=policy.windows,
            blackouts=policy.blackouts,
            jitter=timedelta(seconds=policy.jitter or 0),
            slack=timedelta(seconds=policy.slack or 0),
            priority=policy.priority or 0,
            off=policy.policy.off,
        )

    @property
    def wanted(self) -> bool:
        """Whether anything ever happens by itself."""
        return self.off is None and (self.schedule is not None or self.check_interval is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitsSeen(Document):
    """Commits of writers since the last job."""

    count: int = 0
    first_at: Moment | None = None
    last_at: Moment | None = None


NO_COMMITS = CommitsSeen()


@dataclass(frozen=True, kw_only=True, slots=True)
class Past(Document):
    """What came to pass on a table, as far as its next job depends on it."""

    since: Moment
    """From when on its schedule counts: it was seen then for the first time, or fired last."""
    commits: CommitsSeen = NO_COMMITS
    failures: int = 0
    """Jobs that failed, one after the other, without one that succeeded."""
    failed_at: Moment | None = None
    """When the last of them did."""


def next_due(table: str, timing: Timing, past: Past, now: datetime) -> Due | None:
    """What is due on a table, or will be next; `None` if that depends on commits that are yet to come, or if nothing
    ever happens."""
    if timing.off is not None:
        return None
    past = _sane(past, now)
    found = [due for due in (_by_schedule(table, timing, past, now), _by_commits(timing, past, now)) if due]
    return min(found, key=lambda due: (due.earliest, due.trigger is Trigger.COMMITS), default=None)


def fired(table: str, timing: Timing, past: Past, due: Due, now: datetime) -> Past:
    """The past once a job was begun for what is due: commits count anew, and so does a schedule that was due, too."""
    by_schedule = due if due.trigger is Trigger.SCHEDULE else _by_schedule(table, timing, past, now)
    since = past.since
    if by_schedule is not None and by_schedule.earliest <= max(now, due.earliest):
        since = by_schedule.planned
    return replace(past, since=since, commits=NO_COMMITS)


def share_of(table: str) -> float:
    """A number between 0 and 1 that is always the same for a table, and another one for others."""
    return int.from_bytes(hashlib.sha256(table.encode()).digest()[:8]) / 2**64


def backoff(failures: int) -> timedelta:
    """How long a table is left alone whose jobs failed so often, one after the other."""
    doubled: int = 1 << min(max(failures - 1, 0), 16)
    return min(_FIRST_BACKOFF * doubled, _LONGEST_BACKOFF) if failures else timedelta()


def _sane(past: Past, now: datetime) -> Past:
    """The past without moments that a clock has told which was far ahead."""
    soon = now + _AHEAD
    commits = past.commits
    if commits.last_at is not None and commits.last_at > soon:
        commits = replace(commits, first_at=now - _LONG_AGO, last_at=now - _LONG_AGO)
    failed_at = None if past.failed_at is not None and past.failed_at > soon else past.failed_at
    since = now if past.since > soon else past.since
    return replace(past, since=since, commits=commits, failed_at=failed_at)


def _by_schedule(table: str, timing: Timing, past: Past, now: datetime) -> Due | None:
    if timing.schedule is None:
        return None
    share = share_of(table)
    late = timing.jitter * share if timing.schedule.cron is not None else timedelta()
    planned = timing.schedule.latest(past.since, now - late, timing.zone, share)
    missed = planned is not None
    if planned is None:
        planned = timing.schedule.after(past.since, timing.zone, share)
    every = f"every {timing.schedule.text}" if timing.schedule.interval else f"cron {timing.schedule.text}"
    return _due(Trigger.SCHEDULE, timing, past, planned, planned + late, every, now if missed else None)


def _by_commits(timing: Timing, past: Past, now: datetime) -> Due | None:
    seen = past.commits
    if timing.check_interval is None or seen.count < timing.check_interval:
        return None
    if seen.first_at is None or seen.last_at is None:
        return None
    planned = min(seen.last_at + timing.commit_delay, seen.first_at + _LONGEST_DELAY * timing.commit_delay)
    planned = max(planned, past.since)  # a clock that went back
    why = f"{plural(seen.count, 'commit')} since the last job"
    return _due(Trigger.COMMITS, timing, past, planned, planned, why, now if planned <= now else None)


def _due(
    trigger: Trigger, timing: Timing, past: Past, planned: datetime, ready: datetime, why: str, now: datetime | None
) -> Due | None:
    """`now` if the planned moment has come: whatever keeps it from being begun is looked for from there on, so that
    what was missed comes when it may, not when it might have."""
    kept = past.failed_at + backoff(past.failures) if past.failures and past.failed_at else None
    if kept is not None and kept > max(ready, now or ready):
        ready = kept
        why += f"; left alone for {format_duration(backoff(past.failures).total_seconds())} after a failure"
        now = None
    start = ready if now is None else max(ready, now)
    opened = next_open(timing.windows, timing.blackouts, timing.zone, start)
    if opened is None:
        return None
    if opened > start:
        why += "; waits for its window"
        ready = opened
    return Due(trigger=trigger, planned=planned, earliest=ready, latest=ready + timing.slack, why=why)
