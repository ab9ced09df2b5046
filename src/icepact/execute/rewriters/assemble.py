"""Method `assemble`: row groups are copied where nothing speaks against it, and encoded anew where it does.

This is the driver's part: it gathers what tasks need to know, runs units as Spark tasks, many in one job,
and turns their reports into results. The kernel is in `execute/assemble`.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from pyspark.accumulators import _accumulatorRegistry

from icepact.economics.speeds import MOST_LANES
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import InputFile, Output, TaskContext, UnitReport, UnitWork
from icepact.execute.assemble.target import make_target
from icepact.execute.rewriters.anti_join import KeyJoiner
from icepact.execute.rewriters.base import Failed, OnUnitDone, Refused, Task, TaskResult, UnitResult, largest_output
from icepact.execute.rewriters.job import Job, ReportAccumulator, attempts_of, in_workers, is_local, packed
from icepact.execute.rewriters.shipping import ship_package
from icepact.execute.rewriters.writing import facts_for_tasks, input_file, small_deletes, task_context
from icepact.execute.storage.open import refusal
from icepact.iceberg.java.bridge import missing_module
from icepact.iceberg.table.scan import bounds_of_deletes
from icepact.iceberg.table.staging import FileDocument, Staging, column_facts
from icepact.model.errors import BadInput
from icepact.model.files import DataFile, DeleteFile, ManifestBounds
from icepact.model.key_join import is_joined
from icepact.model.masking import masked
from icepact.model.methods import METHODS, Method
from icepact.model.plan import Plan
from icepact.model.policy import JobOrder, Policy
from icepact.model.rewrite import WrittenFile

_TASKS_PER_CORE = 2
_BYTES_PER_CORE = 256 * 1024**2
"""A job has at least so many units, or tasks, and so many bytes for each core: few enough to show progress, enough
to keep the cores busy and not to pay for many jobs."""


class AssembleRewriter:
    """Runs units as tasks of few Spark jobs."""

    def __init__(self, staging: Staging, plan: Plan, on_unit_done: OnUnitDone) -> None:
        self._staging = staging
        self._plan = plan
        self._on_unit_done = on_unit_done
        self._tasks: dict[str, Task] = {}
        """Tasks handed over so far, by unit."""
        self._spark = staging.table.session.sparkContext
        self._shared: Any = None
        self._context: TaskContext | None = None
        self._lock = Lock()
        self._unjoined: dict[str, Task] = {}
        """Tasks that may need a join of keys, by unit: the first of them joins for all."""
        self._joiner: KeyJoiner | None = None
        self._reports: Any = self._spark.accumulator([], ReportAccumulator(self._on_reports))
        speculation = self._spark._conf.get("spark.speculation", "false")  # `getConf` asks Java for every setting
        self._clean = str(speculation).lower() != "true"
        self._lanes = 1
        self._refusal = self._prepare()

    def _prepare(self) -> str | None:
        """Send to the workers what all units have in common; the reason if this method cannot work here at all."""
        facts = facts_for_tasks(self._staging.table)
        reason = refusal(facts.io, facts.credentials)
        if reason is not None:
            return reason
        try:
            make_target(facts.schema, lineage=False)
            inline = small_deletes(facts, self._deletes())
            plan, run_id = self._plan, self._staging.run_id
            shared = task_context(facts, plan.policy, run_id, inline, format_version=plan.format_version)
        except NotAssembled as error:
            return str(error)
        except (BadInput, ValueError) as error:
            if self._plan.policy.compression_level is not None:
                raise
            return f"a table property is odd: {error}"
        ship_package(self._spark)
        self._context = shared
        self._shared = self._spark.broadcast(shared)
        return None

    @property
    def clean(self) -> bool:
        """False if an attempt may have died while writing."""
        return self._clean and (self._joiner is None or self._joiner.clean)

    def _deletes(self) -> list[DeleteFile]:
        """What applies to any input."""
        files = (f for step in self._plan.rewrites if METHODS[step.method].copies for f in step.files)
        return [self._plan.deletes[i] for i in sorted({i for f in files for i in f.deletes})]

    def close(self) -> None:
        """Take back what was sent to the workers, which holds secrets, and delete what was written for them alone."""
        if self._joiner is not None:
            self._joiner.close()
        if self._shared is not None:
            with suppress(OSError):  # a scratch disk that has become read-only keeps its file
                self._shared.destroy()
        _accumulatorRegistry.pop(self._reports.aid, None)

    def _on_reports(self, reports: Sequence[UnitReport]) -> None:
        """Called by Spark's own thread when a task has ended: its units are done, whatever becomes of the job."""
        for report in reports:
            task = self._tasks.get(report.unit_id)
            result = None if task is None else self._result(task, report)
            if task is not None and isinstance(result, UnitResult):
                self._on_unit_done(task, result)

    def batches(self, tasks: Sequence[Task]) -> Sequence[Sequence[Task]]:
        """A few units for each core in one job: the largest first, or group by group if somebody asked for an order.

        Where money or time is limited, groups are many to a job only if they are small: each job is a chance to stop.
        """
        plan = self._plan
        cores = plan.policy.parallelism or self._spark.defaultParallelism
        batches: list[list[Task]] = []
        room = 0
        with self._lock:
            self._unjoined |= {task.unit_id: task for task in tasks}
        if not plan.paced and plan.policy.job_order is JobOrder.MOST_GAIN:
            tasks = sorted(tasks, key=lambda task: -task.unit.bytes)
        for task in tasks:
            enough = bool(batches) and room <= 0 and len(batches[-1]) >= _TASKS_PER_CORE * cores
            if plan.paced and batches and len(batches[-1]) >= cores:
                enough = enough or batches[-1][-1].step.group_id != task.step.group_id
            if not batches or enough:
                batches.append([])
                room = _BYTES_PER_CORE * cores
            batches[-1].append(task)
            room -= task.unit.bytes
        at_once = sum(self.at_once(batch, plan.policy) for batch in batches)
        self._lanes = lanes_of(cores, _cores_of_executor(self._spark), at_once)
        return batches

    def at_once(self, tasks: Sequence[Task], policy: Policy) -> int:
        """Several units share a task if there are many."""
        return min(len(tasks), policy.parallelism or _TASKS_PER_CORE * self._spark.defaultParallelism)

    def rewrite(self, tasks: Sequence[Task], policy: Policy) -> Sequence[TaskResult]:
        """Write the surviving rows of each unit into new files."""
        if self._refusal is not None:
            return [Refused(self._refusal) for _ in tasks]
        refused, inputs = self._inputs(tasks)
        able = [task for task in tasks if task.unit_id not in refused]
        if not able:
            return [refused[task.unit_id] for task in tasks]
        works = packed([self._work(task, policy, inputs[task.unit_id]) for task in able], self.at_once(able, policy))
        self._tasks |= {task.unit_id: task for task in tasks}
        job = Job(self._shared, self._reports, attempts_of(self._spark) - 1)
        try:
            reports = {r.unit_id: r for r in in_workers(self._spark, works, job).collect()}
        except Exception as error:
            module = missing_module(error)
            if module is None:
                raise
            self._refusal = f"the executors' Python lacks {module}"
            return [Refused(self._refusal) for _ in tasks]
        if any(report.retried for report in reports.values()):
            self._clean = False
        done = {task.unit_id: self._result(task, reports[task.unit_id]) for task in able}
        return [refused.get(task.unit_id) or done[task.unit_id] for task in tasks]

    def _inputs(self, tasks: Sequence[Task]) -> tuple[dict[str, Refused | Failed], dict[str, list[InputFile]]]:
        """The inputs of units, and why some of these cannot be done. Where equality deletes are more than a task can
        look up, they are positions from here on."""
        inputs = {task.unit_id: [input_file(f, self._plan.deletes) for f in task.unit.files] for task in tasks}
        answers = self._joined([file for files in inputs.values() for file in files])
        refused: dict[str, Refused | Failed] = {}
        for unit_id, files in inputs.items():
            for number, file in enumerate(files):
                match answers.get(file.path):
                    case InputFile() as joined:
                        files[number] = joined
                    case Refused() | Failed() as reason:
                        refused[unit_id] = type(reason)(masked(reason.reason))
        return refused, inputs

    def _joined(self, files: Sequence[InputFile]) -> dict[str, InputFile | Refused | Failed]:
        """What became of files that need a join of keys. The first to need one joins for all that are known to come, so
        that deletes are read once; if that fails, each batch of tasks joins for itself."""
        policy, plan = self._plan.policy, self._plan
        if not any(is_joined(file.deletes, policy.task_memory) for file in files):
            return {}
        assert self._context is not None
        with self._lock:
            if self._joiner is None:
                stem = self._staging.output_path(next(iter(self._unjoined)))
                self._joiner = KeyJoiner(self._staging.table, policy, stem)
            more = [input_file(f, plan.deletes) for task in self._unjoined.values() for f in task.unit.files]
            self._unjoined.clear()
            every = {file.path: file for file in [*more, *files]}
            return self._joiner.joined(list(every.values()), self._context, self._bounds)

    def _bounds(self, paths: Collection[str]) -> Mapping[str, ManifestBounds]:
        table = self._staging.table
        snapshot = table.table.snapshot(self._plan.snapshot_id)
        return bounds_of_deletes(table.java, table.table, snapshot, paths)

    def _work(self, task: Task, policy: Policy, inputs: Sequence[InputFile]) -> UnitWork:
        return UnitWork(
            unit_id=task.unit_id,
            inputs=tuple(inputs),
            output=self._staging.output_path(task.unit_id),
            max_file_size=largest_output(task.unit, policy),
            lanes=self._lanes,
            carries=task.step.carries,
        )

    def _result(self, task: Task, report: UnitReport) -> TaskResult:
        if report.refused is not None:
            return Refused(masked(report.refused))
        if report.failed is not None:
            return Failed(masked(report.failed))
        first = task.unit.files[0]
        documents = [_document(first, output) for output in report.outputs]
        return UnitResult(
            rows_observed=report.rows_read - report.rows_deleted,
            files=[WrittenFile.described(document, columns=column_facts(document)) for document in documents],
            documents=documents,
            method=Method.ASSEMBLE,
            effort=report.effort,
            row_map=report.row_map,
            deletes=[delete.to_json(first.spec_id, first.partition) for delete in report.deletes],
        )


def _document(first: DataFile, output: Output) -> FileDocument:
    """An output as Iceberg describes it: in the partition of its inputs."""
    return {
        "spec-id": first.spec_id,
        "content": "data",
        "file-path": output.path,
        "file-format": "parquet",
        "partition": list(first.partition),
        "record-count": output.rows,
        "file-size-in-bytes": output.size,
        "sort-order-id": 0,  # unsorted: row groups stand as they came
        **output.metrics,
    }


def lanes_of(cores: int, cores_of_executor: int, at_once: int) -> int:
    """Threads that encode in each task: the cores that would be idle, as far as they are where the task is."""
    return max(1, min(cores // max(1, at_once), cores_of_executor, MOST_LANES))


def _cores_of_executor(spark: Any) -> int:
    """Cores of the process that a task runs in; one if nobody says so."""
    return int(spark.defaultParallelism if is_local(spark) else spark.getConf().get("spark.executor.cores", "1"))
