"""A process that compacts one table, converts its deletes or expires its snapshots, and falls asleep, or dies, at a
step of the run.

python -m tests.support.sleeper WAREHOUSE TABLE STEP SIGNAL OPERATION

At a step Java does nothing, so whether it sleeps or dies, too, makes no difference: it is the Java of the tests, since
one of its own would take longer to start than all the rest. `tests.chaos.driver` has its own, and takes it along.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from icepact.housekeeping import expire
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.commit.expire import commit_expiry
from icepact.model.progress import UnitDone
from tests.support.compactors import short_compactor

OPTIONS: dict[str, Any] = {"target_file_size": "64KB", "min_row_group_size": "1KB", "rewrite_all": True}


class Stopped:
    """Sends itself a signal when it comes to a step."""

    def __init__(self, step: str, number: signal.Signals) -> None:
        self._step = step
        self._signal = number

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Stop, if it is time."""
        if name == self._step:
            print("there", flush=True)
            os.kill(os.getpid(), self._signal)


@contextmanager
def started(
    warehouse: Path, table: str, step: str, number: signal.Signals, operation: str = "compact"
) -> Iterator["subprocess.Popen[str]"]:
    """The process. It uses the Spark of this one through a gateway of its own, since Java calls back whoever has asked
    the same gateway last."""
    context = SparkContext._active_spark_context
    assert context is not None
    java: Any = context._jvm
    gateway = java.org.apache.spark.api.python.Py4JServer(context._jsc.sc().conf())
    gateway.start()
    address = {"PYSPARK_GATEWAY_PORT": str(gateway.getListeningPort()), "PYSPARK_GATEWAY_SECRET": str(gateway.secret())}
    given = [str(warehouse), table, step, str(int(number)), operation]
    command = [sys.executable, "-m", "tests.support.sleeper", *given]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **address}) as process:
            yield process
    finally:
        gateway.shutdown()


def use_their_spark() -> None:
    """The Spark of whoever has started this process."""
    gateway = launch_gateway()
    java: Any = gateway.jvm
    running = java.org.apache.spark.SparkContext.getOrCreate()
    conf = SparkConf(_jvm=java, _jconf=running.conf())
    context = SparkContext(gateway=gateway, conf=conf, jsc=java.JavaSparkContext(running))
    context.pythonExec = sys.executable


@contextmanager
def asleep(warehouse: Path, table: str, step: str) -> Iterator[dict[str, str]]:
    """While it sleeps at a step. It is woken up at the end; its last words are in what was given."""
    said: dict[str, str] = {}
    with started(warehouse, table, step, signal.SIGSTOP) as process:
        assert process.stdout is not None
        if not any("there" in line for line in iter(process.stdout.readline, "")):
            raise RuntimeError(f"it never came to {step}: {process.communicate()[1][-2000:]}")
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield said
        finally:
            os.kill(process.pid, signal.SIGCONT)
            said["out"], said["err"] = process.communicate(timeout=120)


def killed(warehouse: Path, table: str, step: str, operation: str = "compact") -> None:
    """Started, and killed at a step."""
    with started(warehouse, table, step, signal.SIGKILL, operation) as process:
        _, err = process.communicate(timeout=120)
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"it never came to {step}: {err[-2000:]}")


def with_more_steps(stopped: Stopped) -> None:
    """An expiry has steps, too, that nobody else asks for: `landed`, right after its commit, and `halfway`, when half
    of a portion is deleted."""

    def landed(*args: Any) -> None:
        commit_expiry(*args)
        stopped.step("landed")

    delete = BulkDeletion.delete

    def halfway(self: BulkDeletion, paths: Sequence[str]) -> list[str]:
        left = delete(self, paths[: len(paths) // 2])
        stopped.step("halfway")
        return left + delete(self, paths[len(paths) // 2 :])

    patch = pytest.MonkeyPatch()
    patch.setattr(expire, "commit_expiry", landed)
    patch.setattr(BulkDeletion, "delete", halfway)


def main(warehouse: str, table: str, step: str, number: str, operation: str) -> None:
    """Do it."""
    use_their_spark()
    stopped, compactor = Stopped(step, signal.Signals(int(number))), short_compactor(warehouse=warehouse)
    if operation == "expire":
        with_more_steps(stopped)
        outcome = compactor.expire(table, progress=stopped)
    elif operation == "deletes":
        outcome = compactor.deletes(table, progress=stopped)
    else:
        outcome = compactor.compact(table, progress=stopped, **OPTIONS)
    print(outcome.status, outcome.error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
