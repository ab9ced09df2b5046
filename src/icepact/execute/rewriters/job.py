"""What Spark runs in a worker: it is found there by its name, so it imports only what workers have."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark import TaskContext

from icepact.execute.assemble.task import run_units
from icepact.execute.assemble.work import UnitReport, UnitWork

ENVIRONMENT = {
    "MIMALLOC_PURGE_DELAY": "1000",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024**2),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 1024**2),
}
"""Of Python workers during a run: memory that was let go of is used again, instead of being returned and fetched
anew for every page. Spark keeps workers with another environment apart from those it had before."""


class Job:
    """Rewrites the units of one partition of an RDD, each element of which is a list of them."""

    def __init__(self, shared: Any, last: int) -> None:
        self._shared = shared
        self._last = last

    def __call__(self, parts: Iterable[Sequence[UnitWork]]) -> Iterator[UnitReport]:
        """Called by Spark, in the worker."""
        spark = TaskContext.get()
        assert spark is not None
        number = spark.attemptNumber()
        attempt = str(spark.taskAttemptId())
        works = [work for part in parts for work in part]
        for report in run_units(works, self._shared.value, attempt, last=number >= self._last):
            yield replace(report, retried=number > 0)
