"""Progress: one method to implement, and a silent one to start with."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitDone:
    """One unit is finished, well or not."""

    partition: str
    files: int
    bytes: int


class Progress(Protocol):
    """Told of every finished unit."""

    def advance(self, done: UnitDone) -> None:
        """Called from the run's own thread."""
        ...


class Silent:
    """Says nothing."""

    def advance(self, done: UnitDone) -> None:
        """Nothing to say."""
