"""Method `spark`: a staged Iceberg scan, written back by Spark. Any format, any delete, lineage kept."""

import math
import time
from collections.abc import Sequence

from icepact.execute.rewriters.base import Task, TaskResult, UnitResult, largest_output
from icepact.iceberg.table.staging import Staging
from icepact.model.effort import Effort
from icepact.model.methods import Method
from icepact.model.policy import Policy

MOST_SHUFFLE_TASKS = 2000


class SparkRewriter:
    """One Spark job per unit, with one task, so that a unit becomes one file.

    Files of an old partition spec may spread over many partitions of the current one: their rows are
    shuffled by partition first, so that each partition gets one file and not one from every task.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        # elsewhere executors may be lost, and with them the writers that would have removed their files
        self.clean = str(staging.table.session.sparkContext.master).startswith("local")

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""

    def batches(self, tasks: Sequence[Task]) -> Sequence[Sequence[Task]]:
        """A batch of its own for each task."""
        return [[task] for task in tasks]

    def at_once(self, tasks: Sequence[Task], policy: Policy) -> int:
        """One, or as many as rows are shuffled to."""
        return max(max(1, self._shuffle(task, policy)) for task in tasks)

    def _shuffle(self, task: Task, policy: Policy) -> int:
        if not task.step.regroup:
            return 0
        cores = self._staging.table.session.sparkContext.defaultParallelism
        wanted = max(cores, task.unit.bytes // policy.target_file_size)
        return min(MOST_SHUFFLE_TASKS, wanted, policy.parallelism or MOST_SHUFFLE_TASKS)

    def rewrite(self, tasks: Sequence[Task], policy: Policy) -> Sequence[TaskResult]:
        """Write the surviving rows of each unit into new files."""
        return [self._one(task, policy) for task in tasks]

    def _one(self, task: Task, policy: Policy) -> UnitResult:
        started = time.monotonic()
        shuffle = self._shuffle(task, policy)
        rows, written = self._staging.rewrite(
            task.unit_id,
            output_spec_id=task.step.output_spec_id,
            max_file_size=policy.target_file_size if shuffle else largest_output(task.unit, policy),
            shuffle_tasks=shuffle,
            **({"split_size": _read_by_one(task.unit.bytes, policy)} if shuffle else {}),
        )
        return UnitResult(
            rows_observed=rows,
            files=[file for file, _ in written],
            documents=[document for _, document in written],
            method=Method.SPARK,
            effort=Effort(seconds=time.monotonic() - started, encoded_bytes=task.unit.bytes),
        )


def _read_by_one(size: int, policy: Policy) -> int:
    """Bytes that one task reads before a shuffle: as many as it writes, or more if there may not be so many tasks."""
    if policy.parallelism is None:
        return policy.target_file_size
    # all but one of the tasks are more than half full, by the way in which Iceberg packs them
    return max(policy.target_file_size, math.ceil(2 * size / max(1, policy.parallelism - 1)))
