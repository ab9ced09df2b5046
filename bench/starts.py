"""What people wait for besides the work: help, cold commands, the first run of a process, a run after a pause."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.result import Result
from bench.rewrite.measure import open_workshop
from bench.rewrite.sides import rewrite_by_icepact
from bench.rewrite.workloads import TARGET, chosen
from icepact import Compactor

HELP_BAR, COLD_BAR, FIRST_BAR, PAUSE_BAR = 1.5, 1.3, 1.6, 1.5
_IDLE = 70.0
"""Seconds: Spark ends Python workers that waited for a minute."""
_SHORTER = 5
"""Help is asked for so much more often than everything else is measured."""

_MAKE = """
import sys
from icepact import Compactor
spark = Compactor(warehouse=sys.argv[1]).spark
spark.sql("CREATE NAMESPACE bench")
for n in range(int(sys.argv[2])):
    spark.sql(f"CREATE TABLE bench.t{n} (id bigint, text string, x double) USING iceberg")
    rows = spark.range(0, 100000, 1, 20).selectExpr("id", "concat(uuid(), uuid()) text", "rand() x")
    rows.writeTo(f"bench.t{n}").append()
"""

_TWICE = """
import sys, time
from icepact import Compactor
compactor = Compactor(warehouse=sys.argv[1])
compactor.spark
for table in sys.argv[2:]:
    started = time.monotonic()
    compactor.compact(table)
    print(time.monotonic() - started)
"""


def starts(rounds: int, scale: float, folder: Path, heap: str) -> list[Result]:
    """All of them, sides in turn; medians."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_help(rounds * _SHORTER), *_small(rounds), _after_a_pause(rounds, scale, folder, heap)]


def _help(rounds: int) -> Result:
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_seconds([sys.executable, "-c", "import typer"]))
        ours.append(_seconds([_icepact(), "--help"]))
    return _ratio("`icepact --help` / `import typer` in Python", ours, theirs, HELP_BAR)


def _small(rounds: int) -> list[Result]:
    """Tables of 20 files, 5 MB in all."""
    health, compact = [], []
    first: list[float] = []
    second: list[float] = []
    with tempfile.TemporaryDirectory() as warehouse:
        subprocess.run([sys.executable, "-c", _MAKE, warehouse, str(3 * rounds)], check=True, capture_output=True)
        for n in range(0, 3 * rounds, 3):
            cold, *warm = (f"bench.t{n + k}" for k in range(3))
            health.append(_seconds([_icepact(), "health", cold, "--warehouse", warehouse]))
            compact.append(_seconds([_icepact(), "compact", cold, "--yes", "--warehouse", warehouse]))
            told = subprocess.run([sys.executable, "-c", _TWICE, warehouse, *warm], check=True, capture_output=True)
            for times, line in zip((first, second), told.stdout.split(), strict=True):
                times.append(float(line))
    return [
        _ratio("cold `icepact compact` of 20 files / cold `icepact health`", compact, health, COLD_BAR),
        _ratio("first run of a process / second, 20 files", first, second, FIRST_BAR),
    ]


def _after_a_pause(rounds: int, scale: float, folder: Path, heap: str) -> Result:
    """Workload (a): a new `Compactor` in the session, no history, idle workers ended; against the warm one."""
    [workload] = chosen("a")
    paused, warm = [], []
    with tempfile.TemporaryDirectory(dir=folder, prefix="starts-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        pile = workload.pile(workshop, scale)

        def timed(someone: Callable[[], Compactor]) -> float:
            table = workload.make(workshop, pile, scale)
            os.sync()  # what was written before must not be written to disk now
            started = time.monotonic()
            rewrite_by_icepact(someone(), table, TARGET)
            seconds = time.monotonic() - started
            workshop.drop(table)
            return seconds

        timed(lambda: workshop.compactor)  # warms up
        for number in range(rounds):
            warm.append(timed(lambda: workshop.compactor))
            config = Path(place) / f"new-{number}.yaml"
            config.write_text(f"state: {place}/state-{number}\n")
            new = partial(Compactor, config=config, catalog="local", warehouse=Path(place) / "warehouse")
            time.sleep(_IDLE)
            paused.append(timed(new))
    return _ratio(f"run of a new `Compactor` after a pause / warm run, (a) at scale {scale:g}", paused, warm, PAUSE_BAR)


def _icepact() -> str:
    return str(Path(sys.executable).parent / "icepact")


def _seconds(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - started


def _ratio(what: str, ours: list[float], theirs: list[float], bar: float) -> Result:
    above, below = statistics.median(ours), statistics.median(theirs)
    detail = f"median {above:.2f} s against {below:.2f} s, {len(ours)} rounds"
    return Result(what, above / below, "x", bar, detail)
