"""When a commit disturbs other writers least, judged by the moments at which they changed rows. Pure.

Whoever deletes or updates rows reads files first and commits later; if a compaction replaces these files in between,
that commit fails. It is safest right after such a commit, when its writer has just finished, and as long as the next
one is not to be expected yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from icepact.model.formatting import format_duration, format_seconds

COMMITS = 20
"""The newest changes of others that are looked at."""
_FEWEST = 3
"""Changes below which nothing is predicted."""
_JUST = 0.1
"""Share of the usual gap for which a change counts as one that has just come."""
_AT_WORK = 0.5
"""Share of the usual gap, before the next change, in which its writer may already be at work."""
_LONGEST_WORK = timedelta(minutes=15)
"""No writer is taken to be at work for longer than this before it commits."""
_STOPPED = 2.0
"""Usual gaps without a change after which none is waited for any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """What a ready commit does, and why: it is made now, or the next change of others is waited for."""

    until: datetime | None
    """So long at most; `None`: it is made now."""
    why: str


def quiet_moment(changes: Sequence[datetime], now: datetime, *, takes: timedelta, longest: timedelta) -> Moment:
    """Judge a moment by when others changed rows, oldest first. A commit `takes` so long, and waits no longer than
    `longest`."""
    seen = [min(at, now) for at in changes[-COMMITS:]]  # the clock of a writer may be ahead
    if len(seen) < _FEWEST:
        return Moment(until=None, why="others changed rows too seldom to foresee when they do so next")
    gap = timedelta(seconds=median((later - earlier).total_seconds() for earlier, later in pairwise(seen)))
    ago, every = now - seen[-1], f"others change rows every {_formatted(gap)}"
    if ago <= gap * _JUST:
        return Moment(until=None, why=f"{every}, and just did")
    if ago >= gap * _STOPPED:
        return Moment(until=None, why=f"{every}, and did not for {_formatted(ago)}")
    ahead = gap - ago
    if ahead >= takes + min(gap * _AT_WORK, _LONGEST_WORK):
        return Moment(until=None, why=f"{every}, and next in {_formatted(ahead)}")
    if ahead > longest or not longest:
        return Moment(until=None, why=f"{every}, and next in {_formatted(ahead)}: later than may be waited for")
    until = min(now + longest, seen[-1] + gap * _STOPPED)
    expected = f"next in {_formatted(ahead)}" if ahead > timedelta() else f"{_formatted(-ahead)} ago they should have"
    return Moment(until=until, why=f"{every}, and {expected}")


def _formatted(span: timedelta) -> str:
    seconds = span.total_seconds()
    return format_seconds(seconds) if seconds < 60 else format_duration(round(seconds))
