"""Method `spark`: a staged Iceberg scan, written back by Spark. Any format, any delete, lineage kept."""

from icepact.execute.rewriters.base import UnitResult
from icepact.iceberg.staging import Staging
from icepact.model.plan import RewriteFiles, Unit
from icepact.model.policy import Policy

MOST_SHUFFLE_TASKS = 2000


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
            max_file_size=policy.max_file_size if tasks == 0 else policy.target_file_size,
            shuffle_tasks=tasks,
        )
        return UnitResult(self._staging.inputs(unit_id), rows, self._staging.written(unit_id))
