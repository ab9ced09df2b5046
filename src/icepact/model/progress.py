"""Progress: one method to implement, and a silent one to start with."""

from dataclasses import dataclass
from typing import Protocol

STEPS = (
    "held",
    "recorded",
    "listed",
    "deleted",
    "staged",
    "written",
    "checkpointed",
    "proven",
    "waiting",
    "judged",
    "attempting",
    "landed",
    "committed",
    "executed",
    "finished",
    "cleaned",
)
"""Where a run can be said to be, in order; some are passed more than once.

held: the table's lease is taken. recorded: the intent is in the record store. listed: what an
expiry is to delete is recorded. deleted: a portion of it is gone. staged: inputs are at hand. written:
units are written. checkpointed: and recorded. proven: a group holds what readers saw. waiting: what is
ready waits for a quiet moment, if there is none now. judged: groups were compared
with the head. attempting: a commit is recorded as under way. landed: it is in the table. committed: and recorded.
executed: nothing is left to write. finished: the end is recorded. cleaned: what was written for nothing is gone."""
BEGUN = frozenset(STEPS[STEPS.index("recorded") :])
"""Steps of a run that is on record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitDone:
    """One unit is finished, well or not."""

    partition: str
    files: int
    bytes: int


class Progress(Protocol):
    """Listener to a run: called for every finished unit and every step."""

    def advance(self, done: UnitDone) -> None:
        """Called from the run's own thread."""

    def step(self, name: str) -> None:
        """The run has come to a named step; see `STEPS`."""


class Silent:
    """Progress that shows nothing."""

    def advance(self, done: UnitDone) -> None:
        """Nothing is shown."""

    def step(self, name: str) -> None:
        """Nothing is shown."""
