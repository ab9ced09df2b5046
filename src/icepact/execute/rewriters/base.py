"""What every rewriter does."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from icepact.iceberg.staging import FileDocument
from icepact.model.plan import Method, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.rewrite import WrittenFile

LEEWAY = 1.1
"""How far above an equal share a piece of a split file may grow, so that no tiny rest remains."""


class Task(NamedTuple):
    """One unit of a group, to be rewritten."""

    step: RewriteFiles
    unit: Unit
    unit_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitResult:
    """What one unit read and wrote."""

    rows_observed: int
    """Rows that readers see of the inputs."""
    files: Sequence[WrittenFile]
    documents: Sequence[FileDocument]
    """The same files as Iceberg's JSON has them, for the commit."""
    method: Method
    seconds: float = 0.0
    copied_bytes: int = 0
    encoded_bytes: int = 0
    requests: int = 0
    write_requests: int = 0
    transferred_bytes: int = 0
    """Bytes that passed through the tasks, in either direction, where the method counts them."""


class Refused(NamedTuple):
    """A unit that this method cannot do; another one can."""

    reason: str


class Failed(NamedTuple):
    """A unit that failed for good."""

    reason: str


Ended = UnitResult | Refused | Failed

Early: TypeAlias = Callable[[Task, UnitResult], None]
"""Told of a unit that is done before the others it was handed over with; called from any thread."""


class Rewriter(Protocol):
    """Rewrites units; called from several threads at once."""

    @property
    def clean(self) -> bool:
        """False if an attempt may have died while writing."""
        ...

    def close(self) -> None:
        """Called once, after the last unit."""
        ...

    def batches(self, tasks: Sequence[Task]) -> Sequence[Sequence[Task]]:
        """Which tasks are handed over together: one Spark job each."""
        ...

    def rewrite(self, tasks: Sequence[Task], policy: Policy) -> Sequence[Ended]:
        """Write the surviving rows of each unit into new files; one answer for each task, in order."""
        ...


def largest_output(unit: Unit, policy: Policy) -> int:
    """The maximum; for a lone input above it, an equal share of the fewest pieces below the maximum."""
    pieces = math.ceil(unit.predicted_bytes / policy.max_file_size)
    equal = int(unit.predicted_bytes / max(1, pieces) * LEEWAY)
    return min(policy.max_file_size, equal) if pieces > 1 else policy.max_file_size
