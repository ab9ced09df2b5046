"""What Spark runs in a worker: it is found there by its name, so it imports only what workers have."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from icepact.execute.assemble.task import run_units
from icepact.execute.assemble.work import UnitReport, UnitWork

ENVIRONMENT = {
    "MIMALLOC_PURGE_DELAY": "1000",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024**2),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 1024**2),
}
"""Of Python workers during a run: memory that was let go of is used again, instead of being returned and fetched
anew for every page. Spark keeps workers with another environment apart from those it had before."""


class Told(AccumulatorParam[list[UnitReport]]):
    """Carries the reports of a task to the driver as soon as that task has ended, long before its job has."""

    def __init__(self, heard: Callable[[Sequence[UnitReport]], None] | None = None) -> None:
        self._heard = heard

    def __reduce__(self) -> tuple[type["Told"], tuple[()]]:
        return Told, ()  # the listener stays with the driver

    def zero(self, value: list[UnitReport]) -> list[UnitReport]:
        """No reports."""
        del value
        return []

    def addInPlace(self, value1: list[UnitReport], value2: list[UnitReport]) -> list[UnitReport]:
        """In a worker, one more; at the driver, passed on and not kept."""
        if self._heard is None:
            return [*value1, *value2]
        self._heard(value2)
        return value1


class Job:
    """Rewrites the units of one partition of an RDD, each element of which is a list of them."""

    def __init__(self, shared: Any, told: Any, last: int) -> None:
        self._shared = shared
        self._told = told
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
            self._told.add([finished])
            yield finished
