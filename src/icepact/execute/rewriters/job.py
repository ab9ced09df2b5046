"""The function that Spark runs in workers: imported there by its name, so it imports only what workers have."""

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from pyspark import RDD, SparkContext, TaskContext
from pyspark.accumulators import AccumulatorParam

from icepact.execute.assemble.messages import ConvertContext, ConvertReport, ConvertWork, UnitReport, UnitWork
from icepact.execute.assemble.task import convert_deletes, run_units

ENVIRONMENT = {
    "ICEPACT_WORKERS": "1",
    "MIMALLOC_PURGE_DELAY": "-1",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024**2),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 1024**2),
}
"""Environment of Python workers during a run: memory that was let go of is used again, instead of being returned and
fetched anew for every page. Spark keeps workers with another environment apart from those it had before."""


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=_Sized)
_KEPT_FOR = 45.0
"""Seconds for which Spark certainly keeps workers that wait for work; it ends them after a minute."""
_lock = threading.Lock()
_used: WeakKeyDictionary[SparkContext, float] = WeakKeyDictionary()
"""Monotonic seconds at which workers of a context were last started or used."""


def in_workers(
    spark: SparkContext, parts: Sequence[Any], function: Callable[[Iterable[Any]], Iterable[Any]]
) -> RDD[Any]:
    """A function over one partition for each part, in Python workers of our own environment."""
    rdd = spark.parallelize(parts, len(parts)).mapPartitions(function)
    with own_environment(spark):
        rdd._jrdd  # noqa: B018 - from here on the environment is part of it
    return rdd


@contextmanager
def own_environment(spark: SparkContext) -> Iterator[None]:
    """What is handed to Java meanwhile is for Python workers of our own environment."""
    with _lock:
        _used[spark] = time.monotonic()
        before = spark.environment
        spark.environment = {**ENVIRONMENT, **before}
        try:
            yield
        finally:
            spark.environment = before


def start_workers(spark: SparkContext) -> None:
    """Have Spark start workers in the background, unless it has some: they take as long as a small run.

    Only where this machine is the cluster: elsewhere that may mean to ask for executors which nobody needs yet.
    """
    if not str(spark.master).startswith("local") or time.monotonic() - _used.get(spark, -_KEPT_FOR) < _KEPT_FOR:
        return

    def start() -> None:
        with suppress(Exception):  # whoever needs them will say what is wrong
            spark.setJobDescription("icepact: starting Python workers")
            in_workers(spark, range(spark.defaultParallelism), _nothing).collect()

    _used[spark] = time.monotonic()
    threading.Thread(target=start, name="icepact-workers", daemon=True).start()


def _nothing(parts: Iterable[Any]) -> Iterator[Any]:
    """Runs in a worker, which has loaded the kernel to find it."""
    del parts
    return iter(())


def packed(works: Sequence[W], most: int) -> list[list[W]]:
    """Work in so many Spark tasks at most, of about the same size; a task by itself costs a tenth of a second."""
    bins: list[list[W]] = [[] for _ in range(min(most, len(works)))]
    sizes = [(0, number) for number in range(len(bins))]
    for work in sorted(works, key=lambda work: -work.size):
        size, number = heapq.heappop(sizes)
        bins[number].append(work)
        heapq.heappush(sizes, (size + work.size, number))
    return bins


def attempts_of(spark: Any) -> int:
    """How often Spark tries a task; a local master says it by its second number, and without one there is one try."""
    if is_local(spark):
        _, _, failures = str(spark.master).removeprefix("local[").rstrip("]").partition(",")
        return int(failures) if failures.strip().isdigit() else 1
    return int(spark.getConf().get("spark.task.maxFailures", "4"))


def is_local(spark: Any) -> bool:
    master = str(spark.master)
    return master.startswith("local") and not master.startswith("local-cluster")


class ReportAccumulator(AccumulatorParam[list[UnitReport]]):
    """Carries the reports of a task to the driver as soon as that task has ended, long before its job has."""

    def __init__(self, on_reports: Callable[[Sequence[UnitReport]], None] | None = None) -> None:
        self._on_reports = on_reports

    def __reduce__(self) -> tuple[type["ReportAccumulator"], tuple[()]]:
        return ReportAccumulator, ()  # the listener stays with the driver

    def zero(self, value: list[UnitReport]) -> list[UnitReport]:
        """No reports."""
        del value
        return []

    def addInPlace(self, value1: list[UnitReport], value2: list[UnitReport]) -> list[UnitReport]:
        """In a worker, one more; at the driver, passed on and not kept."""
        if self._on_reports is None:
            return [*value1, *value2]
        self._on_reports(value2)
        return value1


class Job:
    """Rewrites the units of one partition of an RDD, each element of which is a list of them."""

    def __init__(self, shared: Any, reports: Any, last: int) -> None:
        self._shared = shared
        self._reports = reports
        self._last = last

    def __call__(self, parts: Iterable[Sequence[UnitWork]]) -> Iterator[UnitReport]:
        """Called by Spark, in the worker."""
        spark = TaskContext.get()
        assert spark is not None
        number = spark.attemptNumber()
        attempt = str(spark.taskAttemptId())
        works = [work for part in parts for work in part]
        for report in run_units(works, self._shared.value, attempt, last=number >= self._last):
            finished = replace(report, retried=number > 0)
            self._reports.add([finished])
            yield finished


class ConvertJob:
    """Converts the deletes of the data files of one partition of an RDD, each element of which is a list of them."""

    def __init__(self, shared: Any, last: int) -> None:
        self._shared = shared
        self._last = last

    def __call__(self, parts: Iterable[Sequence[ConvertWork]]) -> Iterator[ConvertReport]:
        """Called by Spark, in the worker."""
        spark = TaskContext.get()
        assert spark is not None
        number = spark.attemptNumber()
        works = [work for part in parts for work in part]
        context: ConvertContext = self._shared.value
        for report in convert_deletes(works, context, str(spark.taskAttemptId()), last=number >= self._last):
            yield replace(report, retried=number > 0)
