"""One table in one catalog: made messy, compacted, judged by what readers see.

Run as a program it does this in a process of its own, for what a Spark context must be started with: another
master, another class path. Then the tasks are in one JSON file, and the answer is put into another.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.table import reachability
from icepact.model.status import Status
from tests.support.checks import keeps_rows
from tests.support.compactors import short_compactor
from tests.support.oracle import data_files, delete_files, seen
from tests.support.servers.process import serving, tail
from tests.support.tables import create

ROOT = Path(__file__).parents[3]
FILES = 12
"""Of a messy table: six in each of two partitions."""
ROWS = 240
DELETED = 24
_COLUMNS = "id bigint, day int, name string, price decimal(12,2), tags array<string>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What came of it."""

    plan: Mapping[str, Any]
    """The plan's document, made before the run."""
    outcome: Mapping[str, Any]
    """The outcome's document."""
    inputs: frozenset[str]
    """Data files before."""
    outputs: frozenset[str]
    """Data files after."""


def configuration(
    folder: Path,
    catalog: Mapping[str, str],
    *,
    master: str = "local[*,4]",
    conf: Mapping[str, str] | None = None,
    state: Path | None = None,
) -> Path:
    """An `icepact.yaml` with one catalog called `lake`, and a run history in the same folder if no other is named."""
    document = {
        "catalog": "lake",
        "catalogs": {"lake": dict(catalog)},
        "state": str(state or folder),
        "spark": {"master": master, "conf": dict(conf or {})},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "icepact.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def make_messy(spark: SparkSession, table: str, *, version: int) -> None:
    """Twelve small files with a delete file for each: position deletes, or deletion vectors with version 3."""
    create(spark, table, _COLUMNS, "day", version=version)
    rows = spark.range(0, ROWS, 1, FILES // 2).selectExpr(
        "id",
        "cast(id % 2 AS int) AS day",
        "if(id % 5 = 0, NULL, concat('é', id)) AS name",
        "cast(id / 4 AS decimal(12,2)) AS price",
        "if(id % 7 = 0, NULL, array('x', NULL, cast(id AS string))) AS tags",
    )
    rows.writeTo(table).option("fanout-enabled", "true").append()
    spark.sql(f"DELETE FROM {table} WHERE id % 20 IN (3, 16)")
    formats = spark.sql(f"SELECT DISTINCT content, file_format FROM {table}.delete_files").collect()
    assert [tuple(row) for row in formats] == [(1, "PUFFIN" if version == 3 else "PARQUET")]


def try_out(compactor: Compactor, table: str, *, version: int, method: str = "assemble") -> Trial:
    """Make a table, compact it by one method, and check that readers see the same."""
    spark = compactor.spark
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.split('.')[0]}")
    make_messy(spark, table, version=version)
    inputs = data_files(spark, table)
    plan = compactor.plan(table, method=method).to_dict()
    outcome = keeps_rows(compactor, table, lineage=version == 3, method=method)
    assert dict(outcome.methods) == {method: 2}
    assert (outcome.files_before, outcome.files_after) == (FILES, 2)
    assert (outcome.rows_before, outcome.rows_deleted, outcome.rows_after) == (ROWS, DELETED, ROWS - DELETED)
    assert delete_files(spark, table) == []
    return Trial(
        plan=plan,
        outcome=outcome.to_dict(),
        inputs=frozenset(inputs),
        outputs=frozenset(data_files(spark, table)),
    )


# -- in a process of its own ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One table for `elsewhere`."""

    config: Path
    table: str
    version: int
    method: str = "assemble"
    expire: bool = False
    """Whether tasks of Spark work out what the compaction has left, and it is deleted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """What came of several trials in one Spark application."""

    trials: tuple[Trial, ...]
    executors: Mapping[str, int]
    """Tasks done, by executor; the driver is one of them only where it executes."""


def elsewhere(tasks: Sequence[Task], *, folder: Path, env: Mapping[str, str] | None = None) -> Elsewhere:
    """Try tables out in a new process; its Spark is started as the first task's configuration says."""
    wanted, answer = folder / "tasks.json", folder / "answer.json"
    wanted.write_text(json.dumps([{**asdict(task), "config": str(task.config)} for task in tasks]))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", __name__, str(wanted), str(answer)]
    with serving("application", command, folder=folder, env={**(env or {}), "PYTHONPATH": path}) as application:
        code = application.guard.wait()
        assert code == 0, f"the application ended with {code}:\n{tail(application.log)}"
    found = json.loads(answer.read_text())
    trials = tuple(
        Trial(
            plan=one["plan"],
            outcome=one["outcome"],
            inputs=frozenset(one["inputs"]),
            outputs=frozenset(one["outputs"]),
        )
        for one in found["trials"]
    )
    return Elsewhere(trials=trials, executors=found["executors"])


def _expire(compactor: Compactor, table: str) -> None:
    rows = seen(compactor.spark, table)
    time.sleep(0.02)
    reachability.MOST_HERE = 0
    outcome = compactor.expire(table, older_than="0.01s", allow_young=True)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None)
    assert seen(compactor.spark, table) == rows


def _executors(spark: SparkSession) -> dict[str, int]:
    found = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    listed = (found.apply(number) for number in range(found.size()))
    return {str(one.id()): int(one.totalTasks()) for one in listed if one.totalTasks()}


def _main(wanted: Path, answer: Path) -> None:
    trials = []
    for task in json.loads(wanted.read_text()):
        compactor, table, expire = short_compactor(config=task.pop("config")), task.pop("table"), task.pop("expire")
        trials.append(asdict(try_out(compactor, table, **task)))
        if expire:
            _expire(compactor, table)
    answer.write_text(json.dumps({"trials": trials, "executors": _executors(compactor.spark)}, default=sorted))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
