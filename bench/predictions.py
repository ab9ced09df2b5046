"""How good predictions are after three recorded runs: files, bytes and seconds of the benchmark's workloads."""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from bench.result import Result
from bench.rewrite.measure import _roll_back, default_heap, messy_subject, open_workshop
from bench.rewrite.workloads import WORKLOADS, Workload
from icepact import Compactor
from icepact.model.effort import Estimate
from icepact.model.outcome import Outcome

LEARNED_FROM = 3
"""Runs on a table before it is judged."""
MB = 1024**2


def _sizes(workload: Workload) -> tuple[float, int]:
    """The scale, and a target of two outputs. Of files of 40 MB, neither three nor four are close to 128 MB."""
    return (0.5, 256 * MB) if workload.file_size > 16 * MB else (0.25, 128 * MB)


def predictions(rounds: int) -> list[Result]:
    """Every workload on one table, rolled back after each run."""
    errors: dict[str, list[float]] = {"files": [], "bytes": [], "seconds": []}
    covered: list[bool] = []
    off_target: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        workshop = open_workshop(Path(folder), default_heap())
        for workload in WORKLOADS:
            scale, target = _sizes(workload)
            pile = workload.pile(workshop, scale)
            with messy_subject(workshop, workload, pile, scale=scale) as subject:
                for number in range(LEARNED_FROM + min(rounds, 3)):
                    outcome = workshop.compactor.compact(subject.table, target_file_size=target)
                    if number >= LEARNED_FROM:
                        _compare(workload, outcome, errors, covered)
                        off_target += _off_target(workshop.compactor, subject.table, target)
                    _roll_back(subject)
            workshop.forget(pile)
    runs = len(covered)
    wrong = sum(error > 0 for error in errors["files"])
    return [
        Result("runs whose output files were not predicted exactly", wrong, "", 0, f"{runs} runs of {len(WORKLOADS)}"),
        Result(
            "outputs off target, last of each partition aside",
            max(off_target, default=0.0),
            "x",
            0.1,
            f"the furthest of {len(off_target)}",
        ),
        Result("error of predicted bytes", _median(errors["bytes"]), "x", 0.1, _spread(errors["bytes"])),
        Result("error of predicted seconds", _median(errors["seconds"]), "x", 0.2, _spread(errors["seconds"])),
        Result(
            "runs outside the predicted interval", 1 - sum(covered) / runs, "x", 0.15, f"{sum(covered)} of {runs} in"
        ),
    ]


def _compare(workload: Workload, outcome: Outcome, errors: dict[str, list[float]], covered: list[bool]) -> None:
    groups = [group for group in outcome.groups if group.committed]
    seconds = Estimate.sum(g.predicted_seconds for g in groups)
    pairs = {
        "files": (sum(g.predicted_files for g in groups), sum(g.output_files for g in groups)),
        "bytes": (sum(g.predicted_bytes for g in groups), sum(g.bytes_out for g in groups)),
        "seconds": (seconds.likely, sum(g.effort.seconds for g in groups)),
    }
    told = []
    for name, (predicted, actual) in pairs.items():
        errors[name].append(abs(predicted - actual) / actual)
        told.append(f"{name} {predicted:,.4g} / {actual:,.4g}")
    covered.append(seconds.low <= pairs["seconds"][1] <= seconds.high)
    print(
        f"({workload.name}) {', '.join(told)}, interval {seconds.low:.3g} to {seconds.high:.3g}",
        file=sys.stderr,
        flush=True,
    )


def _off_target(compactor: Compactor, table: str, target: int) -> list[float]:
    """How far new files are from the target, but for the smallest one of each partition."""
    rows = compactor.spark.sql(
        f"SELECT to_json(data_file) FROM {table}.entries "
        f"WHERE status = 1 AND snapshot_id = (SELECT snapshot_id FROM {table}.refs WHERE name = 'main')"
    ).collect()
    sizes: dict[str, list[int]] = {}
    for (text,) in rows:
        file = json.loads(text)
        sizes.setdefault(str(file.get("partition")), []).append(file["file_size_in_bytes"])
    return [abs(size / target - 1) for some in sizes.values() for size in sorted(some)[1:]]


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _spread(values: list[float]) -> str:
    return f"median of {len(values)}; largest {max(values):.2f}"
