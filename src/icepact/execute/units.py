"""Execution of the steps of a plan: all units of all groups, several at a time in one Spark application."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeAlias, assert_never

from icepact.execute.methods import REWRITERS
from icepact.execute.rewriters.base import Failed, Refused, Rewriter, Task, TaskResult, UnitResult
from icepact.iceberg.disk import folders_of, full_disk_remedy
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.staging import Staging
from icepact.model.effort import Effort
from icepact.model.errors import is_full
from icepact.model.methods import METHODS, Method
from icepact.model.plan import Plan, RewriteFiles, Unit
from icepact.model.rewrite import Written

_LONGEST_REASON = 190
_SECONDS_BETWEEN_LOOKS = 0.5
_Future: TypeAlias = Future[Sequence[TaskResult]]
_Batch: TypeAlias = tuple[Method, Sequence[Task]]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitsDone:
    """Units are written."""

    units: Mapping[str, UnitResult]
    """By unit id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitFailed:
    """A unit is given up, and with it its group."""

    unit_id: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupDone:
    """All units of a group are written."""

    written: Written


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Jobs are under way: whoever listens may look around, and stop the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Executed:
    """Nothing is left to do: the last event."""

    clean: bool
    """False if a task may have died while writing: its files are not known by name."""


Event: TypeAlias = UnitsDone | UnitFailed | GroupDone | Waiting | Executed
WhyNot: TypeAlias = Callable[[RewriteFiles], str | None]


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
        for step in plan.rewrites
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True)
        for file in unit.files
    }


def execute(
    plan: Plan, staging: Staging, *, done: Mapping[str, UnitResult], why_not: WhyNot
) -> Generator[Event, None, None]:
    """Run every unit that is not done yet; a unit that fails costs its group, never the run.

    `why_not` is asked before a unit of a group is begun: the reason why it must not be, `None` if it may. Whoever stops
    listening closes the generator: that cancels the jobs that are under way.
    """
    return _Execution(plan, staging, done, why_not).events()


class _Execution:
    """The units of a plan under way, several Spark jobs at a time."""

    def __init__(self, plan: Plan, staging: Staging, done: Mapping[str, UnitResult], why_not: WhyNot) -> None:
        self._plan = plan
        self._staging = staging
        self._why_not = why_not
        self._news: deque[Event] = deque()
        """What has happened since the last event."""
        self._rewriters: dict[Method, Rewriter] = {}
        self._results: dict[str, UnitResult] = dict(done)
        self._missing = {step.group_id: set(unit_ids(step)) - done.keys() for step in plan.rewrites}
        """Units that each group still waits for."""
        self._step_of = {step.group_id: step for step in plan.rewrites}
        self._early_results: SimpleQueue[tuple[Task, UnitResult]] = SimpleQueue()
        self._failed_groups: set[str] = set()
        self._clean = True
        self._fallbacks: dict[str, str] = {}
        """Groups of which another method did a part, and why."""
        self._no_room = ""
        """Remedy for a full disk, once a unit met one: no other is begun then."""

    def events(self) -> Generator[Event, None, None]:
        """Hand units out and tell what became of them, until none is left."""
        for group_id in [group_id for group_id, missing in self._missing.items() if not missing]:
            self._group_done(group_id)
        cores = self._plan.policy.parallelism or self._staging.table.session.sparkContext.defaultParallelism
        pool = ThreadPoolExecutor(max_workers=max(2, 2 * cores), thread_name_prefix="icepact")
        try:
            waiting = deque(self._batches(self._tasks()))
            running: dict[_Future, _Batch] = {}
            yield from self._drain()
            while waiting or running:
                yield Waiting()
                self._begin(pool, waiting, running, cores)
                done, _ = wait(running, timeout=_SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
                yield Waiting()
                self._take_early_results()
                yield from self._drain()
                for future in done:
                    waiting.extendleft(self._finish(future, running.pop(future)))
                    yield from self._drain()
        except BaseException:  # interrupted: the jobs must not go on writing behind our back
            pool.shutdown(wait=False, cancel_futures=True)
            self._staging.cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for rewriter in self._rewriters.values():
                rewriter.close()
        clean = all(rewriter.clean for rewriter in self._rewriters.values()) and not self._failed_groups
        yield Executed(clean=clean and self._clean)

    def _drain(self) -> Iterator[Event]:
        while self._news:
            yield self._news.popleft()

    def _on_unit_done(self, task: Task, result: UnitResult) -> None:
        """Called from another thread when a unit is done before its job."""
        self._early_results.put((task, result))

    def _take_early_results(self) -> None:
        early: list[tuple[Task, UnitResult]] = []
        while not self._early_results.empty():
            early.append(self._early_results.get())
        self._take([task for task, _ in early], {task.unit_id: result for task, result in early})

    def _tasks(self) -> dict[Method, list[Task]]:
        tasks: dict[Method, list[Task]] = {}
        for step in self._plan.rewrites:
            some = [Task(step, u, name) for u, name in zip(step.units, unit_ids(step), strict=True)]
            tasks.setdefault(step.method, []).extend(t for t in some if t.unit_id not in self._results)
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
            may = [task for task in batch if self._why_not(task.step) is None]
            if may:
                running[pool.submit(self._rewrite, self._rewriter(method), may)] = method, may

    def _under_way(self, running: Mapping[_Future, _Batch]) -> int:
        return sum(task.unit_id not in self._results for _, batch in running.values() for task in batch)

    def _too_many(self, batches: Iterable[_Batch]) -> bool:
        policy = self._plan.policy
        if policy.parallelism is None:
            return False
        return sum(self._rewriter(method).at_once(batch, policy) for method, batch in batches) > policy.parallelism

    def _rewriter(self, method: Method) -> Rewriter:
        if method not in self._rewriters:
            self._rewriters[method] = REWRITERS[method](self._staging, self._plan, self._on_unit_done)
        return self._rewriters[method]

    def _rewrite(self, rewriter: Rewriter, batch: Sequence[Task]) -> Sequence[TaskResult]:
        if all(task.step.group_id in self._failed_groups for task in batch):
            return [Failed("another unit of this group failed") for _ in batch]
        self._staging.tag_jobs()
        return rewriter.rewrite(batch, self._plan.policy)

    def _finish(self, future: _Future, about: _Batch) -> list[_Batch]:
        """Take a batch's results; what was refused, or failed in company, is to be handed out again."""
        method, batch = about
        error = future.exception()
        if error is not None:
            self._clean = False
            self._take_early_results()
            left = [task for task in batch if task.unit_id not in self._results]
            # one of them spoilt the job: each gets a job of its own
            if len(batch) > 1 and not is_full(error_line(error)):
                return [(method, [task]) for task in left]
            for task in left:
                self._failed(task, self._failure_reason(task, error_line(error)))
            return []
        fallback = METHODS[method].fallback
        again: list[Task] = []
        finished: dict[str, UnitResult] = {}
        for task, result in zip(batch, future.result(), strict=True):
            match result:
                case UnitResult():
                    finished[task.unit_id] = result
                case Refused(reason) if fallback is None or is_full(reason):  # another method has no more room
                    self._failed(task, reason)
                case Refused(reason):
                    self._fallbacks.setdefault(task.step.group_id, reason)
                    again.append(task)
                case Failed(reason):
                    self._failed(task, reason)
                case _:
                    assert_never(result)
        self._take(batch, finished)
        return list(self._batches({fallback: again})) if fallback is not None and again else []

    def _take(self, batch: Sequence[Task], finished: Mapping[str, UnitResult]) -> None:
        """Remember finished units, and tell of them and of the groups that are whole now."""
        news = {unit_id: result for unit_id, result in finished.items() if unit_id not in self._results}
        if not news:
            return
        self._results |= news
        self._news.append(UnitsDone(units=news))
        for task in batch:
            if task.unit_id in news:
                missing = self._missing[task.step.group_id]
                missing.discard(task.unit_id)
                if not missing:
                    self._group_done(task.step.group_id)

    def _group_done(self, group_id: str) -> None:
        if group_id not in self._failed_groups:
            fallback = self._fallbacks.get(group_id, "")
            written = _of_group(self._step_of[group_id], self._results, self._staging, fallback)
            self._news.append(GroupDone(written=written))

    def _failure_reason(self, task: Task, reason: str) -> str:
        """Why a unit failed; if another method had been tried before, that reason comes first."""
        before = self._fallbacks.get(task.step.group_id)
        if before is None or is_full(reason):
            return reason
        method = METHODS[task.step.method].fallback
        return f"{before[:_LONGEST_REASON]}; by {method}: {reason[:_LONGEST_REASON]}"

    def _failed(self, task: Task, reason: str) -> None:
        if is_full(reason):
            reason = self._no_room = full_disk_remedy(reason, folders_of(self._staging.table))
        self._failed_groups.add(task.step.group_id)
        self._news.append(UnitFailed(unit_id=task.unit_id, reason=reason))


def _of_group(step: RewriteFiles, results: Mapping[str, UnitResult], staging: Staging, fallback: str) -> Written:
    names = unit_ids(step)
    units = [results[unit_id] for unit_id in names]
    return Written(
        group_id=step.group_id,
        inputs=tuple(i for unit_id in names for i in staging.inputs(unit_id)),
        rows_observed=sum(u.rows_observed for u in units),
        files=tuple(f for u in units for f in u.files),
        effort=Effort.sum(u.effort for u in units),
        methods=Counter(u.method.value for u in units),
        fallback=fallback,
        deletes_carried=sum(u.deletes_carried for u in units),
    )
