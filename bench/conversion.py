"""Equality deletes converted while data stays, against Spark's `rewrite_data_files`, on the tables of (d1) and (d2)."""

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.result import Result
from bench.rewrite.measure import Subject, messy_subject, open_workshop, timed
from bench.rewrite.results import Effort, Run
from bench.rewrite.sides import rewrite_by_spark
from bench.rewrite.tables import layout
from bench.rewrite.workloads import TARGET, Workload, chosen
from icepact.model.delete_files import ConvertDeletesResult
from icepact.model.status import Status

SPEED_BAR, BYTES_BAR, SCANS_BAR = 1 / 15, 0.02, 1.15
_CONVERT, _SPARK = "convert", "spark"


def conversion(rounds: int, scale: float, folder: Path, heap: str) -> list[Result]:
    """The sides in turn, in one session; the rows must be the same after each, and the table is rolled back."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="convert-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        for kept in chosen("d1,d2"):
            for version in (2, 3):
                workload = replace(kept, version=version)
                tiny = workload.tiny()
                with messy_subject(workshop, workload, tiny, scale=0.001) as subject:
                    for work in _sides(subject, workload).values():
                        work()
                with messy_subject(workshop, workload, workload.pile(workshop, scale), scale=scale) as subject:
                    size = layout(workshop, subject.table).bytes
                    runs: dict[str, list[Run]] = {_CONVERT: [], _SPARK: []}
                    for _ in range(rounds):
                        for side, work in _sides(subject, workload).items():
                            runs[side].append(work())
                    results += _results(workload, scale, size, runs)
    return results


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


def _results(workload: Workload, scale: float, size: int, runs: dict[str, list[Run]]) -> list[Result]:
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
            f"five queries, {scans[_CONVERT]:.2f} s against {scans[_SPARK]:.2f} s, {how}",
        ),
    ]


def _scans(run: Run) -> float:
    """Seconds of all queries, each by its median."""
    return sum(map(statistics.median, run.scans))
