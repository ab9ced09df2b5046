"""Killing those who do the work, in the middle of a unit: Python workers, and whole executors of a cluster.

Nobody waits for a certain time: a worker is killed when it is seen to hold a new file of a run open for writing.
"""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import yaml
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.chaos.faults import tried
from tests.chaos.judge import RECOVERIES, LocalFiles, judge, look, recover
from tests.chaos.kills import PARTITIONS, add_rows, end_of, make_table, start_driver
from tests.support.compactors import short_compactor
from tests.support.servers.cluster import SparkCluster

WORKER = "worker"
EXECUTOR = "executor"
ROWS = 300_000
_NEW = "/data/icepact-"
"""In the path of every new file."""
_SECONDS_BETWEEN_LOOKS = 0.005
_DAEMON = "pyspark.worker"
"""What every daemon is told to run in its children."""
_EXECUTOR = "CoarseGrainedExecutorBackend"
_OPTIONS = {"target_file_size": "64MB", "rewrite_all": True, "method": "assemble"}


def make_large(spark: SparkSession, table: str, version: int, *, rows: int) -> None:
    """Few partitions with rows enough that a unit takes a while, and deletes in every file, so that it is encoded."""
    make_table(spark, table, version)
    add_rows(spark, table, 0, files=2, rows=rows // 2)
    spark.sql(f"DELETE FROM {table} WHERE id % 1000 < {PARTITIONS}")


def writing(process: psutil.Process) -> bool:
    """Whether a process holds a new file of a run open for writing."""
    try:
        for number in os.listdir(f"/proc/{process.pid}/fd"):
            if _NEW in os.readlink(f"/proc/{process.pid}/fd/{number}"):
                flags = Path(f"/proc/{process.pid}/fdinfo/{number}").read_text().split("flags:")[1].split()[0]
                if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
    except (OSError, IndexError):
        pass
    return False


def python_workers() -> list[psutil.Process]:
    """Spark's Python workers below this process: children of a daemon that was started with the same words."""
    return [child for daemon in _family(_DAEMON) for child in _children(daemon)]


def executors() -> list[psutil.Process]:
    """Executors of a cluster below this process."""
    return _family(_EXECUTOR)


def _family(word: str) -> list[psutil.Process]:
    return [process for process in _children(psutil.Process()) if word in _command(process)]


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class Hunter:
    """Kills processes that are writing, until it has killed so many or is told to stop."""

    def __init__(self, prey: Callable[[], Sequence[psutil.Process]], most: int) -> None:
        self.killed: list[int] = []
        self._prey = prey
        self._most = most
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._hunt, daemon=True)

    def __enter__(self) -> "Hunter":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _hunt(self) -> None:
        while len(self.killed) < self._most and not self._stop.wait(_SECONDS_BETWEEN_LOOKS):
            for process in self._prey():
                if any(writing(one) for one in (process, *_children(process))):
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed.append(process.pid)
                    break


def worker_trial(
    compactor: Compactor, table: str, dice: random.Random, *, version: int, most: int, rows: int
) -> dict[str, Any]:
    """A run in local mode that loses Python workers in the middle of units; an entry for the ledger."""
    make_large(compactor.spark, table, version, rows=rows)
    hunter = Hunter(python_workers, most=most)
    told = tried(
        compactor,
        table,
        dict(_OPTIONS),
        dice.choice(RECOVERIES),
        LocalFiles(),
        hunter.__enter__,
        hunter.__exit__,
    )
    compactor.spark.sql(f"DROP TABLE {table} PURGE")
    return {"kind": WORKER, "faults": {"killed": len(hunter.killed)}, "hit": bool(hunter.killed), **told}


def executor_trial(
    compactor: Compactor, warehouse: Path, table: str, cluster: SparkCluster, folder: Path, dice: random.Random
) -> dict[str, Any]:
    """A run on a cluster, in a process of its own, that loses executors or their Python workers."""
    version = dice.choice([2, 3])
    spark = compactor.spark
    make_large(spark, table, version, rows=ROWS)
    before = look(compactor, spark, table)
    config = folder / "cluster.yaml"
    settings = {"master": cluster.master, "conf": cluster.settings}
    config.write_text(yaml.safe_dump({"warehouse": str(warehouse), "spark": settings}))
    prey = dice.choice([executors, executors, python_workers])
    how = {"config": str(config), "options": {**_OPTIONS, "method": dice.choice(["assemble", "assemble", "spark"])}}
    recovery = dice.choice(RECOVERIES)
    with Hunter(prey, most=dice.choice([1, 1, 2])) as hunter:
        driven = end_of(start_driver(warehouse, table, how, {"PYSPARK_PYTHON": str(cluster.python)}))
    recover(compactor, table, recovery)
    verdict = judge(compactor, spark, table, before, LocalFiles())
    spark.sql(f"DROP TABLE {table} PURGE")
    return {
        "kind": EXECUTOR,
        "faults": {prey.__name__: len(hunter.killed)},
        "hit": bool(hunter.killed),
        "options": how["options"],
        "status": driven.told.get("status", "raised"),
        "error": str(driven.told.get("error") or "".join(driven.err.strip().splitlines()[-1:]))[:500],
        "recovery": recovery,
        **asdict(verdict),
        "clean": verdict.clean,
    }


def worker_trials(warehouse: Path, *, first: int, seed: int) -> Iterator[dict[str, Any]]:
    """Trials without end, in local mode."""
    compactor = short_compactor(warehouse=warehouse)
    compactor.spark.conf.set("spark.sql.shuffle.partitions", "2")
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS workers")
    number = first
    while True:
        dice = random.Random(f"{seed}/{WORKER}/{number}")
        most = dice.choice([1, 1, 2, 9])
        name = f"workers.s{seed}n{number}"
        told = worker_trial(compactor, name, dice, version=2 + number % 2, most=most, rows=ROWS)
        yield {"seed": seed, "number": number, **told}
        number += 1


def executor_trials(
    warehouse: Path, cluster: SparkCluster, folder: Path, *, first: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Trials without end, on a cluster."""
    compactor = short_compactor(warehouse=warehouse)
    compactor.spark.conf.set("spark.sql.shuffle.partitions", "2")
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS workers")
    number = first
    while True:
        dice = random.Random(f"{seed}/{EXECUTOR}/{number}")
        told = executor_trial(compactor, warehouse, f"workers.e{seed}n{number}", cluster, folder, dice)
        yield {"seed": seed, "number": number, **told}
        number += 1
