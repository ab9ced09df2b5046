"""Which automatic tag is due, and for which snapshot, as Amoro does it. Pure.

When a period is over, and the offset behind it, the first snapshot that is committed from then on gets a tag with the
name of that period: by then all that belongs to the period is in the table. There is at most one tag of a period, only
the newest one is ever due, and a tag that there is stays as it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from icepact.housekeeping.date_patterns import DatePattern, parse_pattern
from icepact.model.errors import BadInput
from icepact.model.formatting import format_duration
from icepact.model.tags import DueTag, TagPeriod
from icepact.policy.windows import parse_zone

PATTERNS: dict[TagPeriod, str] = {
    "hourly": "'tag-'yyyyMMddHH",
    "daily": "'tag-'yyyyMMdd",
    "monthly": "'tag-'yyyyMM",
}
"""Patterns of names by period, as Amoro has them."""
_WANTED: dict[TagPeriod, str] = {"hourly": "hour", "daily": "day", "monthly": "month"}
"""The part of a time that a name must have, so that every period has its own."""
_HOUR = timedelta(hours=1)
_LONGEST_OFFSET = timedelta(days=366)


class Commit(NamedTuple):
    """A snapshot in the history of a branch."""

    snapshot_id: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TagSchedule:
    """When tags are made, and of what name and age."""

    period: TagPeriod
    offset: timedelta
    """From the end of a period until its tag is due."""
    max_delay: timedelta | None
    """How long after that a snapshot may be committed that gets it; `None` for any length of time."""
    pattern: DatePattern
    """Of names, filled with the beginning of the period."""
    max_age: timedelta | None
    """How long a tag is kept; `None` for ever."""
    zone: tzinfo

    def due(self, now: datetime) -> tuple[datetime, datetime]:
        """The newest period that is due: the local time at which it began, and the moment from which on it is due."""
        end = self._begin(now)
        while self._trigger(end) > now:
            end = self._before(end)
        return self._before(end).astimezone(self.zone), self._trigger(end)

    def name(self, start: datetime) -> str:
        """Of the tag of a period."""
        return self.pattern.format(start)

    def _begin(self, moment: datetime) -> datetime:
        """When the period began that a moment is in."""
        local = moment.astimezone(self.zone)
        if self.period == "hourly":  # of absolute time: an hour may come twice
            within = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
            return moment.astimezone(UTC) - within
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return midnight.replace(day=1) if self.period == "monthly" else midnight

    def _before(self, start: datetime) -> datetime:
        """When the period began before the one that begins at `start`."""
        if self.period == "hourly":
            return start - _HOUR
        earlier = start.replace(fold=0) - timedelta(days=1)  # of the clock on the wall
        return earlier.replace(day=1) if self.period == "monthly" else earlier

    def _trigger(self, end: datetime) -> datetime:
        """From when on the tag is due of the period that ends at `end`."""
        return (end + self.offset).astimezone(UTC)


def tag_schedule(
    *,
    period: str,
    offset: timedelta,
    max_delay: timedelta | None,
    pattern: str | None,
    max_age: timedelta | None,
    zone: str,
) -> TagSchedule:
    """A schedule, or one line that says what is wrong with it."""
    known = next((name for name in PATTERNS if name == period), None)
    if known is None:
        raise BadInput(f"unknown period {period!r} of tags; there is: {', '.join(PATTERNS)}")
    if not timedelta(0) <= offset <= _LONGEST_OFFSET:
        raise BadInput("the offset of tags is the time from the end of a period on: from 0 to 366 days")
    for what, given in (("delay", max_delay), ("age", max_age)):
        if given is not None and given <= timedelta(0):
            raise BadInput(f"the longest {what} of tags must be above zero; leave it out for any")
    names = parse_pattern(PATTERNS[known] if pattern is None else pattern)
    if _WANTED[known] not in names.fields:
        raise BadInput(f"pattern {names.text!r} has no {_WANTED[known]}: {period} tags would have the same name")
    return TagSchedule(
        period=known, offset=offset, max_delay=max_delay, pattern=names, max_age=max_age, zone=parse_zone(zone)
    )


def due_tag(schedule: TagSchedule, *, now: datetime, history: Sequence[Commit], refs: Collection[str]) -> DueTag | str:
    """The tag that is to be made, or why there is none. `history` is that of the branch, oldest first, as far as it has
    not expired, and `refs` are the names of all tags and branches."""
    start, trigger = schedule.due(now)
    name = schedule.name(start)
    if name in refs:
        return f"{name} is there already"
    commit = next((commit for commit in history if trigger <= commit.at), None)
    since = f"{trigger.isoformat(timespec='seconds')}, when {name} was due"
    if commit is None:
        return f"nothing was committed since {since}"
    delay = commit.at - trigger
    if schedule.max_delay is not None and delay > schedule.max_delay:
        longest = format_duration(schedule.max_delay.total_seconds())
        return (
            f"the first commit since {since}, came after {format_duration(int(delay.total_seconds()))}, not {longest}"
        )
    if schedule.max_age is not None and now - commit.at >= schedule.max_age:
        return f"{name} would have expired already: its snapshot is older than the age of tags"
    return DueTag(
        name=name,
        snapshot_id=commit.snapshot_id,
        committed_at=commit.at,
        trigger=trigger,
        max_age_seconds=None if schedule.max_age is None else schedule.max_age.total_seconds(),
        why=f"the first commit since {trigger.isoformat(timespec='seconds')}",
    )
