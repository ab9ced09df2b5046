"""Carrying out the steps of a plan: all units of all groups, several at a time in one Spark application."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, TypeAlias, assert_never

from icepact.execute.rewriters.assemble import AssembleRewriter
from icepact.execute.rewriters.base import Ended, Failed, Refused, Rewriter, Task, UnitResult
from icepact.execute.rewriters.spark import SparkRewriter
from icepact.iceberg.java import error_line
from icepact.iceberg.room import places_of, remedy
from icepact.iceberg.staging import Staging
from icepact.model.plan import Method, Plan, RewriteFiles, Unit
from icepact.model.progress import Progress, UnitDone
from icepact.model.rewrite import Written
from icepact.model.room import is_full

_LONGEST_REASON = 190
_SECONDS_BETWEEN_LOOKS = 0.5
_Future: TypeAlias = Future[Sequence[Ended]]
_Batch: TypeAlias = tuple[Method, Sequence[Task]]


class Listener(Protocol):
    """Told of what is finished, from the run's own thread."""

    def going_on(self) -> None:
        """Asked again and again; raises if the run must stop."""
        ...

    def refusal(self, step: RewriteFiles) -> str | None:
        """Asked before a unit of a group is begun: why it must not be; null if it may."""
        ...

    def units_done(self, units: Mapping[str, UnitResult]) -> None:
        """These units are written."""
        ...

    def group_done(self, written: Written) -> None:
        """All units of a group are written."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Executed:
    """What came of the steps: groups that failed, with the reason; the others were told to the listener."""

    failed: Mapping[str, str]
    clean: bool = True
    """False if a task may have died while writing: its files are not known by name."""


def unit_ids(step: RewriteFiles) -> list[str]:
    """Names of a group's units, unique within the run; they are used as paths."""
    return [f"{step.group_id}-{n}" for n in range(len(step.units))]


def group_of(unit_id: str) -> str:
    """The group that a unit belongs to."""
    return unit_id.rpartition("-")[0]


def unit_of(step: RewriteFiles, unit_id: str) -> Unit:
    """The unit of that name."""
    return step.units[int(unit_id.rpartition("-")[2])]


def unit_of_path(plan: Plan) -> dict[str, str]:
    """Which unit each input belongs to."""
    return {
        file.path: unit_id
        for step in plan.steps
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True)
        for file in unit.files
    }


def execute(
    plan: Plan, staging: Staging, progress: Progress, listener: Listener, done: Mapping[str, UnitResult]
) -> Executed:
    """Run every unit that is not done yet; a unit that fails costs its group, never the run."""
    run = _Run(plan, staging, progress, listener, done)
    run.carry_out()
    clean = all(rewriter.clean for rewriter in run.rewriters.values()) and not run.failed
    return Executed(failed=run.failed, clean=clean and run.clean)


class _Run:
    """The units of a plan under way, several Spark jobs at a time."""

    def __init__(
        self, plan: Plan, staging: Staging, progress: Progress, listener: Listener, done: Mapping[str, UnitResult]
    ) -> None:
        self._plan = plan
        self._staging = staging
        self._progress = progress
        self._listener = listener
        self.rewriters: dict[Method, Rewriter] = {}
        self.results: dict[str, UnitResult] = dict(done)
        self._missing = {step.group_id: set(unit_ids(step)) - done.keys() for step in plan.steps}
        """Units that each group still waits for."""
        self._step_of = {step.group_id: step for step in plan.steps}
        self._early: SimpleQueue[tuple[Task, UnitResult]] = SimpleQueue()
        self.failed: dict[str, str] = {}
        self.clean = True
        self.fallbacks: dict[str, str] = {}
        """Groups of which another method did a part, and why."""
        self._no_room = ""
        """What is to be done once a unit found no room: no other is begun then."""

    def carry_out(self) -> None:
        for group_id in [group_id for group_id, missing in self._missing.items() if not missing]:
            self._group_done(group_id)
        cores = self._plan.policy.parallelism or self._staging.table.session.sparkContext.defaultParallelism
        pool = ThreadPoolExecutor(max_workers=max(2, 2 * cores), thread_name_prefix="icepact")
        try:
            waiting = deque(self._batches(self._tasks()))
            running: dict[_Future, _Batch] = {}
            while waiting or running:
                self._listener.going_on()
                self._begin(pool, waiting, running, cores)
                done, _ = wait(running, timeout=_SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
                self._listener.going_on()
                self._take_early()
                for future in done:
                    waiting.extendleft(self._finish(future, running.pop(future)))
        except BaseException:  # interrupted: the jobs must not go on writing behind our back
            pool.shutdown(wait=False, cancel_futures=True)
            self._staging.cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for rewriter in self.rewriters.values():
                rewriter.close()

    def _hear(self, task: Task, result: UnitResult) -> None:
        """From another thread: a unit is done."""
        self._early.put((task, result))

    def _take_early(self) -> None:
        heard: list[tuple[Task, UnitResult]] = []
        while not self._early.empty():
            heard.append(self._early.get())
        self._take([task for task, _ in heard], {task.unit_id: result for task, result in heard})

    def _tasks(self) -> dict[Method, list[Task]]:
        tasks: dict[Method, list[Task]] = {}
        for step in self._plan.steps:
            for unit, unit_id in zip(step.units, unit_ids(step), strict=True):
                if unit_id not in self.results:
                    tasks.setdefault(step.method, []).append(Task(step, unit, unit_id))
        return tasks

    def _batches(self, tasks: Mapping[Method, list[Task]]) -> Iterator[_Batch]:
        for method, some in tasks.items():
            for batch in self._rewriter(method).batches(some):
                yield method, batch

    def _begin(
        self, pool: ThreadPoolExecutor, waiting: deque[_Batch], running: dict[_Future, _Batch], cores: int
    ) -> None:
        """Hand out what waits: all of it, or where money or time is limited only as much as keeps the cores busy, or as
        may run at once."""
        while waiting and not (self._plan.paced and self._under_way(running) >= cores):
            if running and self._too_many([*running.values(), waiting[0]]):
                return
            method, batch = waiting.popleft()
            if self._no_room:
                for task in batch:
                    self._failed(task, self._no_room)
                continue
            may = [task for task in batch if self._listener.refusal(task.step) is None]
            if may:
                running[pool.submit(self._rewrite, self._rewriter(method), may)] = method, may

    def _under_way(self, running: Mapping[_Future, _Batch]) -> int:
        return sum(task.unit_id not in self.results for _, batch in running.values() for task in batch)

    def _too_many(self, batches: Iterable[_Batch]) -> bool:
        policy = self._plan.policy
        if policy.parallelism is None:
            return False
        return sum(self._rewriter(method).at_once(batch, policy) for method, batch in batches) > policy.parallelism

    def _rewriter(self, method: Method) -> Rewriter:
        if method not in self.rewriters:
            match method:
                case Method.ASSEMBLE:
                    self.rewriters[method] = AssembleRewriter(self._staging, self._plan, self._hear)
                case Method.SPARK:
                    self.rewriters[method] = SparkRewriter(self._staging)
                case _:
                    assert_never(method)
        return self.rewriters[method]

    def _rewrite(self, rewriter: Rewriter, batch: Sequence[Task]) -> Sequence[Ended]:
        if all(task.step.group_id in self.failed for task in batch):
            return [Failed("another unit of this group failed") for _ in batch]
        self._staging.tag_jobs()
        return rewriter.rewrite(batch, self._plan.policy)

    def _finish(self, future: _Future, about: _Batch) -> list[_Batch]:
        """Take a batch's results; what was refused, or failed in company, is to be handed out again."""
        method, batch = about
        error = future.exception()
        if error is not None:
            self.clean = False
            self._take_early()
            left = [task for task in batch if task.unit_id not in self.results]
            # one of them spoilt the job: each gets a job of its own
            if len(batch) > 1 and not is_full(error_line(error)):
                return [(method, [task]) for task in left]
            for task in left:
                self._failed(task, self._told(task, error_line(error)))
            return []
        again: list[Task] = []
        finished: dict[str, UnitResult] = {}
        for task, ended in zip(batch, future.result(), strict=True):
            match ended:
                case UnitResult():
                    finished[task.unit_id] = ended
                case Refused(reason) if is_full(reason):  # another method has no more room
                    self._failed(task, reason)
                case Refused(reason):
                    self.fallbacks.setdefault(task.step.group_id, reason)
                    again.append(task)
                case Failed(reason):
                    self._failed(task, reason)
                case _:
                    assert_never(ended)
        self._take(batch, finished)
        return list(self._batches({Method.SPARK: again})) if again else []

    def _take(self, batch: Sequence[Task], finished: Mapping[str, UnitResult]) -> None:
        """Remember finished units, and tell of them and of the groups that are whole now."""
        news = {unit_id: result for unit_id, result in finished.items() if unit_id not in self.results}
        if not news:
            return
        self.results |= news
        self._listener.units_done(news)
        for task in batch:
            if task.unit_id in news:
                self._done(task)
                missing = self._missing[task.step.group_id]
                missing.discard(task.unit_id)
                if not missing:
                    self._group_done(task.step.group_id)

    def _group_done(self, group_id: str) -> None:
        if group_id not in self.failed:
            self._listener.group_done(
                _of_group(self._step_of[group_id], self.results, self._staging, self.fallbacks.get(group_id, ""))
            )

    def _told(self, task: Task, reason: str) -> str:
        """Why a unit failed; if another method had been tried before, that reason comes first."""
        before = self.fallbacks.get(task.step.group_id)
        if before is None or is_full(reason):
            return reason
        return f"{before[:_LONGEST_REASON]}; by spark: {reason[:_LONGEST_REASON]}"

    def _failed(self, task: Task, reason: str) -> None:
        if is_full(reason):
            reason = self._no_room = remedy(reason, places_of(self._staging.table))
        self.failed.setdefault(task.step.group_id, reason)
        self._done(task)

    def _done(self, task: Task) -> None:
        self._progress.advance(
            UnitDone(partition=task.step.partition, files=len(task.unit.files), bytes=task.unit.bytes)
        )


def _of_group(step: RewriteFiles, results: Mapping[str, UnitResult], staging: Staging, fallback: str) -> Written:
    names = unit_ids(step)
    units = [results[unit_id] for unit_id in names]
    return Written(
        group_id=step.group_id,
        inputs=tuple(i for unit_id in names for i in staging.inputs(unit_id)),
        rows_observed=sum(u.rows_observed for u in units),
        files=tuple(f for u in units for f in u.files),
        seconds=sum(u.seconds for u in units),
        methods=Counter(u.method.value for u in units),
        fallback=fallback,
        copied_bytes=sum(u.copied_bytes for u in units),
        encoded_bytes=sum(u.encoded_bytes for u in units),
        requests=sum(u.requests for u in units),
        write_requests=sum(u.write_requests for u in units),
        transferred_bytes=sum(u.transferred_bytes for u in units),
    )
