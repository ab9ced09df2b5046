"""The interface of rewriters, and the results of units."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from icepact.iceberg.table.staging import FileDocument
from icepact.model.effort import NO_EFFORT, Effort
from icepact.model.methods import Method
from icepact.model.plan import RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.rewrite import WrittenFile
from icepact.model.row_map import RowMap

LEEWAY = 1.1
"""How far above an equal share a piece of a split file may grow, so that no tiny rest remains."""


class Task(NamedTuple):
    """One unit of a group, to be rewritten."""

    step: RewriteFiles
    unit: Unit
    unit_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitResult:
    """Files that one unit wrote, and the effort it took."""

    rows_observed: int
    """Rows that readers see of the inputs."""
    files: Sequence[WrittenFile]
    documents: Sequence[FileDocument]
    """The same files as Iceberg's JSON has them, for the commit."""
    method: Method
    effort: Effort = NO_EFFORT
    row_map: RowMap | None = None
    """Where the rows of the unit's files are now, in their order and that of `files`; `None` if the method does not
    know, or an earlier version did it."""
    deletes: Sequence[FileDocument] = ()
    """Of rows that are in these files although readers do not see them: Iceberg's JSON of one for each file."""

    @property
    def paths(self) -> frozenset[str]:
        """All that it wrote."""
        return frozenset(f.path for f in self.files) | {str(document["file-path"]) for document in self.deletes}

    @property
    def deletes_carried(self) -> int:
        """Rows of these files that readers do not see."""
        return sum(int(document["record-count"]) for document in self.deletes)


class Refused(NamedTuple):
    """A unit that this method cannot do; another one can."""

    reason: str


class Failed(NamedTuple):
    """A unit that failed for good."""

    reason: str


TaskResult = UnitResult | Refused | Failed

OnUnitDone: TypeAlias = Callable[[Task, UnitResult], None]
"""Called with a unit that is done before the others it was handed over with, from any thread."""


class Rewriter(Protocol):
    """Rewrites units; called from several threads at once."""

    @property
    def clean(self) -> bool:
        """False if an attempt may have died while writing."""

    def close(self) -> None:
        """Called once, after the last unit."""

    def batches(self, tasks: Sequence[Task]) -> Sequence[Sequence[Task]]:
        """Which tasks are handed over together: one Spark job each."""

    def at_once(self, tasks: Sequence[Task], policy: Policy) -> int:
        """How many Spark tasks the job of these tasks has at the same time, at most."""

    def rewrite(self, tasks: Sequence[Task], policy: Policy) -> Sequence[TaskResult]:
        """Write the surviving rows of each unit into new files; one result for each task, in order."""


def largest_output(unit: Unit, policy: Policy) -> int:
    """The maximum; for a lone input above it, an equal share of the fewest pieces below the maximum."""
    pieces = math.ceil(unit.predicted_bytes / policy.max_file_size)
    equal = int(unit.predicted_bytes / max(1, pieces) * LEEWAY)
    return min(policy.max_file_size, equal) if pieces > 1 else policy.max_file_size
