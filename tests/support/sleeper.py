"""A process that compacts one table, or expires its snapshots, and falls asleep, or dies, at a step of the run.

python -m tests.support.sleeper WAREHOUSE TABLE STEP SIGNAL OPERATION
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


def started(
    warehouse: Path, table: str, step: str, number: signal.Signals, operation: str = "compact"
) -> "subprocess.Popen[str]":
    """The process."""
    given = [str(warehouse), table, step, str(int(number)), operation]
    command = [sys.executable, "-m", "tests.support.sleeper", *given]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
    stopped, compactor = Stopped(step, signal.Signals(int(number))), short_compactor(warehouse=warehouse)
    if operation == "expire":
        with_more_steps(stopped)
        outcome = compactor.expire(table, progress=stopped)
    else:
        outcome = compactor.compact(table, progress=stopped, **OPTIONS)
    print(outcome.status, outcome.error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
