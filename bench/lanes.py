"""A group that becomes one file, with deleted rows in every row group: encoded by the lanes of its task, against one.

The whole run is measured, as people have it: plan, Spark, proof and commit.
"""

import hashlib
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from bench.result import Result
from bench.rewrite.measure import open_workshop
from bench.rewrite.sides import rewrite_by_icepact
from bench.rewrite.tables import Workshop, data_paths
from bench.rewrite.workloads import MB, TARGET, chosen
from icepact.economics.speeds import MOST_LANES
from icepact.execute.rewriters import assemble

FILES = 24
FILE_SIZE = 9 * MB
_BAR = 1 / 1.7


def lanes(rounds: int, scale: float, folder: Path, heap: str) -> list[Result]:
    """The sides in turn, in one session; the outputs must be the same, byte by byte."""
    del scale  # one output file, whatever it is
    folder.mkdir(parents=True, exist_ok=True)
    count = min(os.cpu_count() or 1, MOST_LANES)
    seconds: dict[int, list[float]] = {1: [], count: []}
    with tempfile.TemporaryDirectory(dir=folder, prefix="lanes-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        _encoded(workshop, count)  # warms up
        for _ in range(rounds):
            found = {side: _encoded(workshop, side) for side in seconds}
            if len({output for _, output in found.values()}) != 1:
                raise AssertionError("lanes changed the output")
            for side, (took, _) in found.items():
                seconds[side].append(took)
    one, several = (statistics.median(found) for found in seconds.values())
    detail = (
        f"{one:.2f} s and {several:.2f} s on {count} cores, the whole run, median of {rounds}: "
        f"{FILES} files of {FILE_SIZE // MB} MB with deletes in each become one"
    )
    return [Result(f"a run with one output, encoded by {count} lanes / by one", several / one, "x", _BAR, detail)]


def _encoded(workshop: Workshop, most: int) -> tuple[float, str]:
    """Seconds of a run with so many lanes at most, and a hash of its one output."""
    [positions] = chosen("c2")
    workload = replace(positions, file_size=FILE_SIZE, total=FILES * FILE_SIZE)
    table = workload.make(workshop, workload.pile(workshop, 1.0), 1.0)
    os.sync()  # what was written before must not be written to disk now
    with patch.object(assemble, "MOST_LANES", most):
        started = time.monotonic()
        effort = rewrite_by_icepact(workshop.compactor, table, TARGET)
        took = time.monotonic() - started
    assert effort.copied_bytes == 0
    [path] = data_paths(workshop, table)
    output = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    workshop.drop(table)
    return took, output
