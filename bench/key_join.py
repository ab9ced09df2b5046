"""Equality deletes of four times the memory given to a task: converted by a join on Spark, against Spark's own action
with the same memory. Each side runs in a process of its own, because one of them may not survive it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.result import Result
from bench.rewrite.measure import open_workshop
from bench.rewrite.memory import Watch
from bench.rewrite.rows import LINES_PER_ORDER
from bench.rewrite.sides import Tuning, concurrency, rewrite_by_spark
from bench.rewrite.tables import Pile, Workshop
from bench.rewrite.workloads import TARGET, chosen
from bench.session import neutral_compactor
from icepact.model.key_join import lookup_bytes
from icepact.model.status import Status

TIMES = 4
"""How much more than the memory of a task looking the keys up would take."""
_SHARE_OF_ROWS = 2 / 3
"""Of the rows have their keys deleted."""
_HEAP = 1024
"""MB of Java heap for icepact; Spark's action gets these and the memory of all tasks."""
_LEAST, _LONGER = 600, 10
"""Spark's action is given up after so many seconds, and after so many times what icepact took."""
_CORES = os.cpu_count() or 1
_MB = 1024**2
_CONVERT, _SPARK = "convert", "spark"


def key_join(rounds: int, scale: float, folder: Path, heap: str) -> list[Result]:
    """Once for each format version: what does not end takes its time."""
    del rounds
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="join-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        [workload] = chosen("d2")
        for version in (2, 3):
            pile = workload.pile(workshop, scale)
            keys = round(pile.files * pile.rows * _SHARE_OF_ROWS)
            table = replace(workload, version=version, mess=None).make(workshop, pile, scale)
            expected = _left(_rows(workshop, table), pile, keys)
            workshop.delete_keys(table, pile, keys=keys)
            messy, memory = workshop.java(table).head_id("main"), _memory(workshop, table)
            converted = _side(place, table, _CONVERT, memory)
            if converted["error"]:
                raise AssertionError(f"version {version}: {converted['error']}")
            if _rows(workshop, table) != expected:
                raise AssertionError(f"version {version}: the rows are not the same")
            workshop.java(table).table.manageSnapshots().rollbackTo(messy).commit()
            spark = _side(place, table, _SPARK, memory, limit=max(_LEAST, _LONGER * converted["seconds"]))
            results.append(_result(version, keys, memory, converted, spark))
            workshop.drop(table)
    return results


def _rows(workshop: Workshop, table: str) -> tuple[int, int]:
    """What readers see: how many rows, and a sum of their keys."""
    workshop.spark.sql(f"REFRESH TABLE {table}")
    number = f"l_orderkey * {LINES_PER_ORDER} + l_linenumber - 1"
    [row] = workshop.spark.sql(f"SELECT count(*), sum({number}) FROM {table}").collect()
    return int(row[0]), int(row[1])


def _left(rows: tuple[int, int], pile: Pile, keys: int) -> tuple[int, int]:
    """What readers see once so many keys were deleted by `Workshop.delete_keys`."""
    gone = np.random.default_rng(1).choice(pile.files * pile.rows, keys, replace=False)
    return rows[0] - keys, rows[1] - int(gone.sum())


def _memory(workshop: Workshop, table: str) -> int:
    """MB that make these deletes so many times as large."""
    deletes = workshop.java(table).view("main", []).deletes
    return sum(map(lookup_bytes, deletes)) // TIMES // _MB


def _side(place: str, table: str, side: str, memory: int, limit: float | None = None) -> dict[str, Any]:
    """What a side took, or how it ended."""
    command = [sys.executable, "-m", "bench.key_join", place, table, side, str(memory)]
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"seconds": time.monotonic() - started, "error": "it was given up"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return {"seconds": time.monotonic() - started, "error": f"the process ended with {done.returncode}: {last}"}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _result(version: int, keys: int, memory: int, converted: dict[str, Any], spark: dict[str, Any]) -> Result:
    peak = converted["memory"]
    mine = (
        f"{keys:,} keys, {memory} MB for each of {_CORES} tasks and {_HEAP} MB of heap: {converted['seconds']:.0f} s, "
        f"Python workers {peak['workers']} MB together"
    )
    how = f"after {spark['seconds']:.0f} s: {spark['error']}" if spark["error"] else f"{spark['seconds']:.0f} s"
    return Result(
        f"equality deletes of {TIMES} times a task's memory, version {version}: converting them / Spark's "
        "rewrite_data_files with the same memory (0 if it died)",
        0.0 if spark["error"] else converted["seconds"] / spark["seconds"],
        "x",
        1.0,
        f"{mine}; Spark's action with {_HEAP + _CORES * memory} MB of heap {how}",
    )


# -- in a process of its own ----------------------------------------------------------------------


def _alone(place: str, table: str, side: str, memory: int) -> dict[str, Any]:
    """Run a side, and say what it took."""
    heap = _HEAP if side == _CONVERT else _HEAP + _CORES * memory
    workshop = Workshop(neutral_compactor(place, driver_memory=f"{heap}m"), Path(place))
    watch = Watch(workshop.spark)
    started = time.monotonic()
    try:
        with watch:
            if side == _CONVERT:
                _convert(workshop, table, memory)
            else:
                rewrite_by_spark(workshop, table, TARGET, Tuning(options=concurrency(1)))
    except Exception as error:
        text = str(error)
        line = next((line for line in text.splitlines() if "OutOfMemory" in line), text.strip().partition("\n")[0])
        return {"seconds": time.monotonic() - started, "error": f"{type(error).__name__}: {line[:200]}"}
    taken = time.monotonic() - started
    return {"seconds": taken, "error": None, "memory": {"workers": watch.memory.workers, "heap": watch.memory.heap}}


def _convert(workshop: Workshop, table: str, memory: int) -> None:
    workshop.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('icepact.task-memory' = '{memory * _MB}')")
    outcome = workshop.compactor.deletes(table)
    if outcome.status is not Status.COMMITTED:
        raise RuntimeError(f"{outcome.status}: {outcome.error or outcome.reason}")


if __name__ == "__main__":
    _place, _table, _name, _megabytes = sys.argv[1:]
    print(json.dumps(_alone(_place, _table, _name, int(_megabytes))), flush=True)
