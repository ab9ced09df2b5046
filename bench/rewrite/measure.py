"""Both sides and `cp` in turn, on the same inputs: the table is rolled back after each run."""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from bench.code import code
from bench.rewrite.memory import Watch
from bench.rewrite.queries import Scans, scan
from bench.rewrite.results import Effort, Environment, Measured, Run, Side, keep
from bench.rewrite.sides import Tuning, copy_files, empty, remove, rewrite_by_icepact, rewrite_by_spark
from bench.rewrite.tables import Pile, Workshop, data_paths, layout
from bench.rewrite.workloads import TARGET, Workload
from bench.session import neutral_compactor

TRIAL_ROUNDS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What is measured, and where."""

    workloads: Sequence[Workload]
    scale: float
    repeats: int
    folder: Path
    """Where tables are made; emptied at the end."""
    results: Path
    """The file that keeps the figures."""
    heap: str
    """Java heap."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A messy table, and what it must be again after each run."""

    workshop: Workshop
    table: str
    pile: Pile
    snapshot_id: int
    paths: frozenset[str]
    """Its data files."""
    scans: Scans
    lineage: bool
    options: Mapping[str, Any]
    """What icepact is asked for."""


def run(wishes: Wishes) -> list[Measured]:
    """Measure every workload, keeping figures as they come."""
    wishes.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wishes.folder, prefix="rewrite-", ignore_cleanup_errors=True) as folder:
        workshop = open_workshop(Path(folder), wishes.heap)
        piles: list[Pile] = []
        measured = []
        for place, workload in enumerate(wishes.workloads):
            _say(f"({workload.name}) {workload.title}: making the table")
            _warm_up(workshop, workload)
            pile = workload.pile(workshop, wishes.scale)
            measured.append(_measure(workshop, workload, pile, wishes))
            piles.append(pile)
            later = {w.pile(workshop, wishes.scale) for w in wishes.workloads[place + 1 :]}
            for done in set(piles) - later:
                workshop.forget(done)
        return measured


def open_workshop(folder: Path, heap: str) -> Workshop:
    """A Spark session with an embedded catalog of its own."""
    return Workshop(neutral_compactor(folder, driver_memory=heap), folder)


# -- one workload -------------------------------------------------------------------------------------


def _warm_up(workshop: Workshop, workload: Workload) -> None:
    """Both sides and the queries once on next to nothing, so that no side pays for loading classes."""
    pile = workload.tiny()
    with messy_subject(workshop, workload, pile, scale=0.001) as subject:
        for side in (Side.SPARK, Side.ICEPACT):
            _once(subject, side, workload.trials[0])
    workshop.forget(pile)


def _measure(workshop: Workshop, workload: Workload, pile: Pile, wishes: Wishes) -> Measured:
    with messy_subject(workshop, workload, pile, scale=wishes.scale) as subject:
        tuning = _tuned(subject, workload)
        measured = Measured(
            workload=workload.name,
            scale=wishes.scale,
            repeats=wishes.repeats,
            environment=_environment(workshop, wishes.heap),
            rows=subject.scans.seen[0],
            before=layout(workshop, subject.table),
            scans_before=subject.scans.seconds,
            spark_settings={"target-file-size-bytes": str(TARGET), **tuning.named},
        )
        runs: dict[Side, tuple[Run, ...]] = dict.fromkeys(Side, ())
        for repeat in range(wishes.repeats):
            sides = list(Side)
            for side in sides[repeat % len(sides) :] + sides[: repeat % len(sides)]:
                done = _once(subject, side, tuning)
                _say(f"({workload.name}) {repeat + 1}/{wishes.repeats} {side}: {done.error or f'{done.seconds:.2f} s'}")
                runs[side] += (done,)
            measured = replace(measured, runs=dict(runs))
            keep(wishes.results, measured)
        return measured


@contextmanager
def messy_subject(workshop: Workshop, workload: Workload, pile: Pile, *, scale: float) -> Iterator[Subject]:
    """A messy table of the workload; dropped at the end, unless an error ends everything, folder included."""
    table = workload.make(workshop, pile, scale)
    lineage = workload.version >= 3
    yield Subject(
        workshop=workshop,
        table=table,
        pile=pile,
        snapshot_id=int(workshop.java(table).table.currentSnapshot().snapshotId()),
        paths=frozenset(data_paths(workshop, table)),
        scans=scan(workshop, table, pile, passes=1, lineage=lineage),
        lineage=lineage,
        options=workload.options,
    )
    workshop.drop(table)


def _tuned(subject: Subject, workload: Workload) -> Tuning:
    """The fastest way to run Spark's action, tried on a part of the table."""
    if len(workload.trials) == 1:
        return workload.trials[0]
    best = dict.fromkeys(range(len(workload.trials)), float("inf"))
    where = workload.quarter(subject.pile)
    for _ in range(TRIAL_ROUNDS):
        for number, tuning in enumerate(workload.trials):
            started = time.monotonic()
            rewrite_by_spark(subject.workshop, subject.table, TARGET, tuning, where=where)
            taken = time.monotonic() - started
            _say(f"({workload.name}) trying {tuning.named}: {taken:.2f} s")
            best[number] = min(best[number], taken)
            _roll_back(subject)
    return workload.trials[min(best, key=best.__getitem__)]


# -- one run ------------------------------------------------------------------------------------------


def _once(subject: Subject, side: Side, tuning: Tuning) -> Run:
    """Time one side; then look at what it left, and put the table back."""
    match side:
        case Side.SPARK:
            return timed(subject, lambda: rewrite_by_spark(subject.workshop, subject.table, TARGET, tuning))
        case Side.ICEPACT:
            workshop, options = subject.workshop, subject.options
            return timed(subject, lambda: rewrite_by_icepact(workshop.compactor, subject.table, TARGET, **options))
        case Side.CP:
            return _copy(subject)


def timed(subject: Subject, work: Callable[[], Effort | None]) -> Run:
    """A side that fails or changes the rows has no time that counts; the benchmark goes on without it."""
    watch = Watch(subject.workshop.spark)
    started = time.monotonic()
    try:
        os.sync()  # what the run before wrote must not be written to disk during this one
        with watch:
            started = time.monotonic()
            effort = work()
            seconds = time.monotonic() - started
        after = layout(subject.workshop, subject.table)
        scans = scan(subject.workshop, subject.table, subject.pile, lineage=subject.lineage)
    except Exception as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else ""
        return Run(seconds=round(time.monotonic() - started, 3), error=f"{type(error).__name__}: {line[:200]}")
    finally:
        _roll_back(subject)
    same = scans.seen == subject.scans.seen
    return Run(
        seconds=round(seconds, 3),
        error=None if same else f"the rows are not the same: {scans.seen} instead of {subject.scans.seen}",
        memory=watch.memory,
        layout=after,
        scans=scans.seconds,
        effort=effort,
    )


def _copy(subject: Subject) -> Run:
    folder = empty(subject.workshop.folder / "copies")
    os.sync()
    started = time.monotonic()
    copy_files(sorted(subject.paths), folder)
    seconds = time.monotonic() - started
    empty(folder)
    return Run(seconds=round(seconds, 3))


def _roll_back(subject: Subject) -> None:
    """The messy snapshot is current again, and what was written since is gone."""
    workshop, table = subject.workshop, subject.table
    workshop.spark.sql(f"REFRESH TABLE {table}")
    written = set(data_paths(workshop, table)) - subject.paths
    java = workshop.java(table)
    if int(java.table.currentSnapshot().snapshotId()) != subject.snapshot_id:
        java.table.manageSnapshots().rollbackTo(subject.snapshot_id).commit()
    workshop.spark.sql(f"REFRESH TABLE {table}")
    remove(sorted(written))
    if frozenset(data_paths(workshop, table)) != subject.paths:
        raise RuntimeError(f"{table} could not be rolled back")


# -- around -------------------------------------------------------------------------------------------


def _environment(workshop: Workshop, heap: str) -> Environment:
    jvm = workshop.spark.sparkContext._jvm
    assert jvm is not None
    return Environment(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=workshop.spark.sparkContext.defaultParallelism,
        memory_gb=round(psutil.virtual_memory().total / 1024**3),
        heap=heap,
        python=platform.python_version(),
        java=str(jvm.java.lang.System.getProperty("java.version")),
        spark=workshop.spark.version,
        iceberg=str(jvm.org.apache.iceberg.IcebergBuild.version()),
        icepact=version("icepact"),
        commit=code(),
    )


def default_heap() -> str:
    """A third of the machine's memory, between 4 and 8 GB."""
    return f"{max(4, min(8, psutil.virtual_memory().total // 1024**3 // 3))}g"


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
