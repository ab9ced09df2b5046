"""Peak memory of each process while something runs."""

import gc
import threading
from types import TracebackType
from typing import Any, Self

import psutil
from pyspark.sql import SparkSession

from bench.rewrite.results import Memory

INTERVAL = 0.05
LOOK_FOR_CHILDREN = 10
"""Samples between two looks for new processes, which cost more than a sample."""
_MB = 1024**2


class Watch:
    """Samples this process, its JVM and Python workers while a `with` block runs; starts from a collected heap."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._self = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._peaks = {"jvm": 0, "driver": 0, "workers": 0}
        self._heap = 0

    def __enter__(self) -> Self:
        gc.collect()
        self._jvm.java.lang.System.gc()
        for pool in self._heap_pools():
            pool.resetPeakUsage()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._heap = sum(int(pool.getPeakUsage().getUsed()) for pool in self._heap_pools())

    @property
    def memory(self) -> Memory:
        """The peaks, once the block has ended."""
        megabytes = {name: round(peak / _MB) for name, peak in self._peaks.items()}
        return Memory(heap=round(self._heap / _MB), **megabytes)

    def _heap_pools(self) -> list[Any]:
        pools = self._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        return [pool for pool in pools if str(pool.getType().name()) == "HEAP"]

    def _sample(self) -> None:
        jvm = next(child for child in self._self.children() if child.name().startswith("java"))
        watched: list[tuple[str, psutil.Process]] = []
        number = 0
        while True:
            if number % LOOK_FOR_CHILDREN == 0:
                workers = [("workers", child) for child in jvm.children(recursive=True)]
                watched = [("driver", self._self), ("jvm", jvm), *workers]
            number += 1
            now = dict.fromkeys(self._peaks, 0)
            for kind, process in watched:
                try:
                    now[kind] += process.memory_info().rss
                except psutil.Error:  # ended meanwhile
                    continue
            for name, size in now.items():
                self._peaks[name] = max(self._peaks[name], size)
            if self._stop.wait(INTERVAL):
                return
