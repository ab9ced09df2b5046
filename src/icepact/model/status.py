"""States of a run. It is always in one of them, and `TRANSITIONS` says where it can go from there."""

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """Where a run is, or how it ended."""

    RUNNING = "running"
    """Somebody works on it, or died over it."""
    COMMITTING = "committing"
    """A commit is under way: `RunRecord.attempts` says which. Its files may become part of the table any moment."""
    UNKNOWN = "unknown"
    """Nobody works on it, and it is not known whether its last commit landed."""
    FENCED = "fenced"
    """The clean-up has taken it: nobody may commit for it any more."""
    COMMITTED = "committed"
    PARTLY_COMMITTED = "partly-committed"
    SUPERSEDED = "superseded"
    NOTHING_TO_DO = "nothing-to-do"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    """It died, and its files were cleaned up."""
    ROLLED_BACK = "rolled-back"
    PLANNED = "planned"
    """A dry run: nothing was done. No run that is recorded has it."""

    @property
    def open(self) -> bool:
        """True while the run has not ended."""
        return self in _OPEN


NOT_WELL = frozenset({Status.FAILED, Status.UNKNOWN, Status.CANCELLED})
"""Ends that a person should look at."""
_OPEN = frozenset({Status.RUNNING, Status.COMMITTING, Status.UNKNOWN, Status.FENCED})
_ENDS = frozenset(
    {
        *(Status.COMMITTED, Status.PARTLY_COMMITTED, Status.SUPERSEDED),
        *(Status.NOTHING_TO_DO, Status.FAILED, Status.CANCELLED),
    }
)

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.RUNNING: _ENDS | {Status.RUNNING, Status.COMMITTING, Status.UNKNOWN, Status.FENCED},
    Status.COMMITTING: _ENDS | {Status.COMMITTING, Status.RUNNING, Status.UNKNOWN, Status.FENCED},
    Status.UNKNOWN: frozenset({Status.RUNNING, Status.FENCED}),
    Status.FENCED: frozenset(
        {Status.FENCED, Status.ABANDONED, Status.COMMITTED, Status.PARTLY_COMMITTED, Status.CANCELLED}
    ),
    Status.COMMITTED: frozenset({Status.ROLLED_BACK}),
    Status.PARTLY_COMMITTED: frozenset({Status.ROLLED_BACK}),
    **{
        end: frozenset[Status]()
        for end in (
            *(Status.SUPERSEDED, Status.NOTHING_TO_DO, Status.FAILED),
            *(Status.CANCELLED, Status.ABANDONED, Status.ROLLED_BACK),
        )
    },
}
