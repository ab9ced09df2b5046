"""Equality deletes converted while data stays, against Spark's `rewrite_data_files`: on the tables of (d1) and (d2), of
small files, and on the same rows in files that need no merging."""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.result import Result
from bench.rewrite.measure import Subject, messy_subject, open_workshop, timed
from bench.rewrite.queries import scan
from bench.rewrite.results import Effort, Run
from bench.rewrite.sides import rewrite_by_spark
from bench.rewrite.tables import Pile, Workshop, layout
from bench.rewrite.workloads import MB, TARGET, Workload, chosen
from icepact.model.delete_files import ConvertDeletesResult
from icepact.model.status import Status

SPEED_BAR, BYTES_BAR, SCANS_BAR = 1 / 15, 0.02, 1.15
_CONVERT, _SPARK = "convert", "spark"


_LARGE = 128 * MB
PARTS = ("small", "large")
"""Files as they are in (d1) and (d2), and files of 128 MB."""


def conversion(rounds: int, scale: float, folder: Path, heap: str, *, parts: tuple[str, ...] = PARTS) -> list[Result]:
    """The sides in turn, in one session; the rows must be the same after each, and the table is rolled back."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="convert-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        for part in parts:
            for kept in chosen("d1,d2"):
                for version in (2, 3):
                    workload = replace(kept, version=version)
                    if part == "large":
                        workload = replace(workload, title=f"{kept.title}, 128 MB files", file_size=_LARGE)
                    results += _measured(workshop, workload, rounds, scale)
    return results


def _measured(workshop: Workshop, workload: Workload, rounds: int, scale: float) -> list[Result]:
    with messy_subject(workshop, workload, workload.tiny(), scale=0.001) as subject:
        for work in _sides(subject, workload).values():
            work()
    pile = workload.pile(workshop, scale)
    with messy_subject(workshop, workload, pile, scale=scale) as subject:
        size = layout(workshop, subject.table).bytes
        runs: dict[str, list[Run]] = {_CONVERT: [], _SPARK: []}
        clean: list[float] = []
        for _ in range(rounds):
            for side, work in _sides(subject, workload).items():
                runs[side].append(work())
            clean.append(_without_deletes(workshop, pile, workload.version))
    return _results(workload, scale, size, runs, statistics.median(clean))


def _without_deletes(workshop: Workshop, pile: Pile, version: int) -> float:
    """Seconds of the scans of the same files as if nothing were deleted: no conversion is below that."""
    table = workshop.table(pile, version=version)
    seconds = sum(map(statistics.median, scan(workshop, table, pile).seconds))
    workshop.drop(table)
    return seconds


def _sides(subject: Subject, workload: Workload) -> dict[str, Callable[[], Run]]:
    def convert() -> Effort:
        outcome = subject.workshop.compactor.deletes(subject.table)
        if outcome.status is not Status.COMMITTED:
            raise RuntimeError(f"{outcome.status}: {outcome.error or outcome.reason}")
        [result] = outcome.steps
        assert isinstance(result, ConvertDeletesResult)
        return Effort(methods={}, copied_bytes=0, encoded_bytes=result.bytes_written, requests=0)

    def by_spark() -> None:
        rewrite_by_spark(subject.workshop, subject.table, TARGET, workload.trials[0])

    return {_CONVERT: lambda: timed(subject, convert), _SPARK: lambda: timed(subject, by_spark)}


def _results(workload: Workload, scale: float, size: int, runs: dict[str, list[Run]], clean: float) -> list[Result]:
    wrong = next((run.error for some in runs.values() for run in some if run.error), None)
    if wrong is not None:
        raise AssertionError(f"({workload.name}) version {workload.version}: {wrong}")
    seconds = {side: statistics.median(run.seconds for run in some) for side, some in runs.items()}
    scans = {side: statistics.median(_scans(run) for run in some) for side, some in runs.items()}
    written = max((run.effort and run.effort.encoded_bytes) or 0 for run in runs[_CONVERT])
    what = f"{workload.title}, version {workload.version}"
    how = f"{len(runs[_SPARK])} rounds, {size / 1e9:.2f} GB at scale {scale:g}"
    return [
        Result(
            f"{what}: converting them / Spark's rewrite_data_files",
            seconds[_CONVERT] / seconds[_SPARK],
            "x",
            SPEED_BAR,
            f"median {seconds[_CONVERT]:.2f} s against {seconds[_SPARK]:.2f} s, {how}",
        ),
        Result(f"{what}: bytes written / bytes of data", written / size, "x", BYTES_BAR, f"{written:,} bytes, {how}"),
        Result(
            f"{what}: scans after that / after Spark's rewrite",
            scans[_CONVERT] / scans[_SPARK],
            "x",
            SCANS_BAR,
            f"five queries, {scans[_CONVERT]:.2f} s against {scans[_SPARK]:.2f} s; the same files without any deletes "
            f"{clean:.2f} s; {how}",
        ),
    ]


def _scans(run: Run) -> float:
    """Seconds of all queries, each by its median."""
    return sum(map(statistics.median, run.scans))
