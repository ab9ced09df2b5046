"""Waiting with a commit that is ready until it disturbs other writers least, as `quiet.py` judges it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from icepact.commit.quiet import COMMITS, quiet_moment
from icepact.iceberg.java.bridge import JavaError, error_line
from icepact.iceberg.table.row_changes import RowChange, RowChanges
from icepact.iceberg.table.table import IcebergTable
from icepact.model.policy import Policy

TAKES = timedelta(seconds=3)
"""From the end of a wait until the commit has landed, about: the head is judged in between."""
_OFTEN, _SELDOM = 0.1, 2.0
"""Seconds between two looks at the table, at least and at most."""
_LOOKS = 40
"""So often the table is looked at in a wait, as far as these allow."""


class Clock(Protocol):
    """What a wait goes by."""

    def now(self) -> datetime:
        """The time, with its zone."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class MachineClock:
    """The clock of this machine."""

    def __init__(self) -> None:
        self._ahead = datetime.now(UTC) - timedelta(seconds=time.monotonic())

    def now(self) -> datetime:
        """The time in UTC; whoever sets the clock meanwhile does not make a wait longer."""
        return self._ahead + timedelta(seconds=time.monotonic())

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


def longest_wait(policy: Policy, *, waited: float, elapsed: float) -> timedelta:
    """How long a run may still wait that has waited and lasted for so many seconds."""
    left = policy.max_commit_wait - waited
    if policy.max_duration is not None:
        left = min(left, policy.max_duration - elapsed - TAKES.total_seconds())
    return timedelta(seconds=max(0.0, left))


@dataclass(frozen=True, kw_only=True, slots=True)
class Waited:
    """A wait that is over."""

    seconds: float
    why: str
    """Why the commit waited, and why no longer; or why it did not."""


def wait_for_others(table: IcebergTable, branch: str, *, longest: timedelta, check: Callable[[], None]) -> Waited:
    """Wait for a quiet moment on a branch of a table."""
    return wait_for_quiet(RowChanges(table, branch, COMMITS).look, longest=longest, check=check)


def wait_for_quiet(
    look: Callable[[], Sequence[RowChange]],
    *,
    longest: timedelta,
    check: Callable[[], None],
    clock: Clock | None = None,
) -> Waited:
    """Wait until others have just changed rows, or until they are not expected to do so for a while; not at all if
    that is so already, and never for longer than `longest`.

    `look` tells the newest changes of others. `check` raises if the run must stop.
    """
    clock = clock or MachineClock()
    began = clock.now()
    try:
        changes = look()
        moment = quiet_moment([change.at for change in changes], clock.now(), takes=TAKES, longest=longest)
        if moment.until is None:
            return Waited(seconds=0.0, why=moment.why)
        last = changes[-1].snapshot_id
        pause = min(max((moment.until - clock.now()).total_seconds() / _LOOKS, _OFTEN), _SELDOM)
        end = "that did not come"
        while (left := (min(moment.until, began + longest) - clock.now()).total_seconds()) > 0:
            check()
            clock.sleep(min(pause, left))
            changes = look()
            if not changes or changes[-1].snapshot_id != last:
                end = "that came" if changes else "the branch has no such history any more"
                break
    except JavaError as error:  # whoever commits next says what is wrong
        return Waited(seconds=_since(began, clock), why=f"the table cannot be looked at: {error_line(error)}")
    return Waited(seconds=_since(began, clock), why=f"{moment.why}; {end}")


def _since(began: datetime, clock: Clock) -> float:
    return max(0.0, (clock.now() - began).total_seconds())
