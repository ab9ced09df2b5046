"""Method `spark`: a staged Iceberg scan, written back by Spark. Any format, any delete, lineage kept."""

import math

from icepact.execute.rewriters.base import UnitResult
from icepact.iceberg.staging import Staging
from icepact.model.plan import RewriteFiles, Unit
from icepact.model.policy import Policy

MOST_SHUFFLE_TASKS = 2000
LEEWAY = 1.1
"""How far above an equal share a piece of a split file may grow, so that no tiny rest remains."""


class SparkRewriter:
    """One Spark job per unit, with one task, so that a unit becomes one file.

    Files of an old partition spec may spread over many partitions of the current one: their rows are
    shuffled by partition first, so that each partition gets one file and not one from every task.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def rewrite(self, step: RewriteFiles, unit: Unit, unit_id: str, policy: Policy) -> UnitResult:
        """Write the unit's surviving rows into new files."""
        tasks = 0
        if step.regroup:
            cores = self._staging.table.session.sparkContext.defaultParallelism
            tasks = min(MOST_SHUFFLE_TASKS, max(cores, unit.bytes // policy.target_file_size))
        rows = self._staging.rewrite(
            unit_id,
            output_spec_id=step.output_spec_id,
            max_file_size=policy.target_file_size if tasks else _largest_output(unit, policy),
            shuffle_tasks=tasks,
        )
        return UnitResult(self._staging.inputs(unit_id), rows, self._staging.written(unit_id))


def _largest_output(unit: Unit, policy: Policy) -> int:
    """The maximum; for a lone input above it, an equal share of the fewest pieces below the maximum."""
    pieces = math.ceil(unit.bytes / policy.max_file_size)
    return min(policy.max_file_size, int(unit.bytes / pieces * LEEWAY)) if pieces > 1 else policy.max_file_size
