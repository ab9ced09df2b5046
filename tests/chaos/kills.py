"""Killing the driver: before, make a mess; after, resume or clean up; then the table must be what it was."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.progress import STEPS
from icepact.model.status import Status
from tests.chaos.judge import RECOVERIES, LocalFiles, Verdict, judge, look, recover
from tests.support.compactors import short_compactor
from tests.support.messy import equality_delete

KIND = "kill"
PARTITIONS = 3
TRIALS_PER_TABLE = 12
"""Then there is a new table: every mess makes runs longer."""
LONGEST_WAIT = 120
"""Seconds for a run to be over, or its processes to be gone."""
_BEYOND_THE_END = 1.05
"""Random instants go so far, in runs' lengths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """One kill and what came of it."""

    how: dict[str, Any]
    recovery: str
    """resume or cleanup."""
    version: int
    hit: bool
    """False if the run was over before its time came."""
    status: str
    """Of the run, in the end."""
    verdict: Verdict

    @property
    def clean(self) -> bool:
        """Nothing lost, nothing left over."""
        return self.verdict.clean

    def to_dict(self) -> dict[str, Any]:
        """For the ledger."""
        told = asdict(self)
        verdict = told.pop("verdict")
        return {"kind": KIND, **told, **verdict, "clean": self.clean}


def make_table(spark: SparkSession, name: str, version: int) -> None:
    """Partitioned, with deletes of every kind that the version has."""
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day int, text string, more struct<a: double, b: array<int>>) USING iceberg"
        f" PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',"
        " 'write.distribution-mode' = 'none')"
    )


def add_mess(
    spark: SparkSession, name: str, start: int, *, files: int = 4, rows: int = 400, catalog: str = "local"
) -> int:
    """More small files, and deletes over all of them; returns where the next mess starts."""
    add_rows(spark, name, start, files=files, rows=rows)
    spark.sql(f"DELETE FROM {name} WHERE id % 101 = {start % 101}")
    keys = [{"id": start + 1}, {"id": start + 4}]
    equality_delete(spark, f"{catalog}.{name}", keys, columns=["id"], partition="day=1")
    return start + files * rows


def add_rows(spark: SparkSession, name: str, start: int, *, files: int, rows: int) -> None:
    """So many files in every partition, so many rows in all of a file's partitions."""
    frame = spark.range(start, start + files * rows, 1, files).selectExpr(
        "id",
        f"cast(id % {PARTITIONS} as int) AS day",
        "if(id % 7 = 0, null, concat('row ', md5(cast(id as string)))) AS text",
        "named_struct('a', id / 3, 'b', if(id % 5 = 0, null, array(cast(id as int), null))) AS more",
    )
    frame.writeTo(name).option("fanout-enabled", "true").append()


def kill_once(
    compactor: Compactor, spark: SparkSession, warehouse: Path, table: str, how: dict[str, Any], *, recovery: str
) -> Kill:
    """Start a run in a process of its own, kill it, recover, look."""
    before = look(compactor, spark, table)
    driven = drive(warehouse, table, how)
    if driven.code not in (0, -9):
        raise RuntimeError(f"the driver failed by itself: {driven.err[-2000:]}")
    [*dead] = compactor.runs(table, open_only=True)
    recover(compactor, table, recovery)
    record = compactor.application.store.run(dead[0].run_id) if dead else next(iter(compactor.runs(table)), None)
    return Kill(
        how=how,
        recovery=recovery,
        version=compactor.application.spark_catalog.table(table).format_version,
        hit=driven.hit,
        status=record.status.value if record else Status.NOTHING_TO_DO.value,
        verdict=judge(compactor, spark, table, before, LocalFiles()),
    )


# -- the driver -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Driven:
    """How a driver's process ended."""

    code: int
    out: str
    err: str

    @property
    def hit(self) -> bool:
        """Whether it was killed, and in the middle of a run."""
        return self.code == -9 and "begun" in self.out

    @property
    def told(self) -> dict[str, Any]:
        """What it said at its end, if it came so far."""
        lines = [line for line in self.out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}


def drive(warehouse: Path, table: str, how: dict[str, Any], env: dict[str, str] | None = None) -> Driven:
    """Run the driver until its end, and wait until nothing of it lives."""
    process = start_driver(warehouse, table, how, env)
    return end_of(process)


def start_driver(
    warehouse: Path, table: str, how: dict[str, Any], env: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    """The driver in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.driver", str(warehouse), table, json.dumps(how)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def end_of(process: "subprocess.Popen[str]") -> Driven:
    """Wait until a driver and all it started are gone; Java ends by itself when its driver does."""
    with process:
        try:
            out, err = process.communicate(timeout=LONGEST_WAIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            raise
    deadline = time.monotonic() + LONGEST_WAIT
    while [pid for pid in psutil.pids() if _session(pid) == process.pid]:
        if time.monotonic() > deadline:
            raise RuntimeError("processes of a driver that is gone are still there")
        time.sleep(0.05)
    return Driven(code=process.returncode, out=out, err=err)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


# -- which kills ----------------------------------------------------------------------------------


def named_kills() -> list[dict[str, Any]]:
    """One at every step of a run, and some when a step is passed for the second time."""
    return [{"step": step, "pass": 1} for step in STEPS] + [
        {"step": step, "pass": 2} for step in ("written", "checkpointed", "judged", "attempting", "landed", "committed")
    ]


def random_kill(dice: random.Random, length: float) -> dict[str, Any]:
    """One at any instant of a run of about this length in seconds."""
    return {
        "seconds": round(dice.uniform(0, _BEYOND_THE_END * length), 3),
        "whole": dice.random() < 0.4,
        "options": {
            "method": dice.choice(["auto", "auto", "spark"]),
            "verify": dice.choice(["footers", "footers", "full"]),
            "max_commits": dice.randint(1, 3),
        },
    }


def kills(warehouse: Path, *, first: int, seed: int) -> Iterator[dict[str, Any]]:
    """Trials without end, for the ledger: every named step on both versions, then random instants.

    Each trial is decided by the seed and its number; only what the clock does is its own.
    """
    compactor = short_compactor(warehouse=warehouse)
    spark = compactor.spark
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS kills")
    named = [how for how in named_kills() for _ in (2, 3)]
    tables: dict[int, _Table] = {}
    number = first
    while True:
        dice = random.Random(f"{seed}/{KIND}/{number}")
        version = 2 + number % 2
        table = tables.get(version)
        if table is None or table.trials == TRIALS_PER_TABLE:
            table = tables[version] = _Table(spark, f"kills.v{version}n{number}", version)
            table.mess()
            table.length = drive(warehouse, table.name, {}).told["seconds"]
        table.mess()
        how = named[number] if number < len(named) else random_kill(dice, table.length)
        kill = kill_once(compactor, spark, warehouse, table.name, how, recovery=dice.choice(RECOVERIES))
        yield {"seed": seed, "number": number, **kill.to_dict()}
        number += 1


class _Table:
    """One table of a row of trials."""

    def __init__(self, spark: SparkSession, name: str, version: int) -> None:
        self.name = name
        self.trials = 0
        self.length = 0.0
        """Seconds of a run that nobody kills."""
        self._spark = spark
        self._start = 0
        make_table(spark, name, version)

    def mess(self) -> None:
        """Something to do for the next run."""
        self._start = add_mess(self._spark, self.name, self._start)
        self.trials += 1
