"""Judging and planning a table of a million described files against Java's own `planFiles`: cold, after an append, in
full, and within a budget."""

import datetime
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.result import Result
from bench.session import neutral_compactor
from icepact import Compactor
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.stats_cache import StatsCache
from icepact.record.kv.store import KvStore

FILES = 1_000_000
PARTITIONS = 1000
COLUMNS = 10
MANIFEST_FILES = 10_000
MANIFESTS = 20
"""Of the table that has nothing but small files."""
TINY, SMALL, LARGE = 1_000_000, 4_000_000, 500_000_000
BUDGET = 50
"""A plan may take one of so many files."""
APPENDED = 10
NAME = "bench.million"
APPENDS = 7
"""After each cold look; Java and Python still tidy up behind it during the first of them."""


def million(rounds: int, files: int = FILES) -> list[Result]:
    """Both shapes; of the worst table people come with a tenth of it too, and of the other also a hundredth, to see how
    cost grows."""
    return [*_mixed(rounds, files), *_small(rounds, files)]


def _mixed(rounds: int, files: int) -> list[Result]:
    fewer = {count: _measured(rounds, count, "mixed")["judge"] for count in (files // 100, files // 10)}
    middle = _measured(rounds, files, "mixed")
    seconds = {**fewer, files: middle["judge"]}
    detail = f"median {{:.2f}} s against {middle['plan_files']:.2f} s, {files:,} files, a tenth with deletes"
    return [
        Result(
            f"judging {files:,} files cold / Java's planFiles",
            middle["judge"] / middle["plan_files"],
            "x",
            2.5,
            detail.format(middle["judge"]),
            headline=True,
        ),
        Result(
            f"planning {files:,} files in full, cold / Java's planFiles",
            middle["plan"] / middle["plan_files"],
            "x",
            None,
            detail.format(middle["plan"]) + ", a third of them listed",
            headline=True,
        ),
        Result(
            f"judging {files:,} files after an append",
            1000 * middle["again"],
            "ms",
            100.0,
            f"median of {APPENDS} appends, of rounds",
            headline=True,
        ),
        Result(
            f"cold judging per file, {files:,} / {files // 10:,} files",
            middle["judge"] / (10 * fewer[files // 10]),
            "x",
            1.2,
            ", ".join(f"{count:,} files: {took:.2f} s" for count, took in seconds.items()),
        ),
        Result(
            f"driver Python memory while judging {files:,} files",
            middle["judge_mb"],
            "MB",
            1000.0,
            "peak resident size",
        ),
    ]


def _small(rounds: int, files: int) -> list[Result]:
    """A budget allows a fiftieth of them."""
    tenth, middle = _measured(rounds, files // 10, "small"), _measured(rounds, files, "small")
    detail = f"median {{:.2f}} s against {middle['plan_files']:.2f} s, {files // BUDGET:,} files of {files:,} allowed"
    after = f"median of {APPENDS} appends of {APPENDED} files, of rounds"
    return [
        Result(
            f"planning {files:,} small files within a budget, cold / Java's planFiles",
            middle["plan"] / middle["plan_files"],
            "x",
            2.5,
            detail.format(middle["plan"]),
            headline=True,
        ),
        Result(f"health of {files:,} small files after an append", 1000 * middle["again"], "ms", 100.0, after),
        Result(f"planning {files:,} small files after an append", 1000 * middle["plan_again"], "ms", 300.0, after),
        Result(
            f"cold planning per file, {files:,} / {files // 10:,} small files",
            middle["plan"] / (10 * tenth["plan"]),
            "x",
            1.2,
            f"{files // 10:,} files: {tenth['plan']:.2f} s, {files:,} files: {middle['plan']:.2f} s",
        ),
        Result(
            f"driver Python memory while planning {files:,} small files",
            middle["mb"],
            "MB",
            700.0,
            "peak resident size",
        ),
    ]


def _measured(rounds: int, files: int, shape: str) -> dict[str, float]:
    """Medians, from a process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "bench.million", str(min(rounds, 3)), str(files), shape]
    facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {name: statistics.median(found) for name, found in facts.items()}


def measure_small(rounds: int, files: int) -> dict[str, list[float]]:
    """One warm-up of each side, then all in turn."""
    with tempfile.TemporaryDirectory() as folder:
        compactor = neutral_compactor(folder)
        describe_small(compactor, files)
        table = compactor.application.spark_catalog.table(NAME)
        found: dict[str, list[float]] = {"plan_files": [], "plan": [], "again": [], "plan_again": []}
        numbers = itertools.count(files, 37)

        def late(work: Callable[[], object]) -> float:
            location = str(table.table.location())
            _append(table, [_data(location, next(numbers), TINY) for _ in range(APPENDED)])
            return _timed(work)

        def plan() -> object:
            return compactor.plan(NAME, max_files=files // BUDGET)

        for number in range(rounds + 1):
            times = {"plan_files": _timed(lambda: _plan_files(table))}
            _forget(compactor)
            times["plan"] = _timed(plan)
            times["again"] = statistics.median(late(lambda: compactor.health(NAME)) for _ in range(APPENDS))
            times["plan_again"] = statistics.median(late(plan) for _ in range(APPENDS))
            for name, seconds in times.items():
                found[name] += [seconds] if number else []
        return {**found, "mb": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]}


def measure(rounds: int, files: int) -> dict[str, list[float]]:
    """One warm-up of each side, then all in turn."""
    with tempfile.TemporaryDirectory() as folder:
        compactor = neutral_compactor(folder)
        describe_table(compactor, files)
        table = compactor.application.spark_catalog.table(NAME)
        found: dict[str, list[float]] = {"plan_files": [], "judge": [], "plan": [], "again": []}
        peak = 0.0
        for number in range(rounds + 1):
            times = {"plan_files": _timed(lambda: _plan_files(table))}
            _forget(compactor)
            times["judge"] = _timed(lambda: compactor.judge(NAME))
            again = []
            for late in range(APPENDS):
                _append(table, [_data(str(table.table.location()), files + number * APPENDS + late, SMALL)])
                again.append(_timed(lambda: compactor.judge(NAME)))
            times["again"] = statistics.median(again)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if number == 0 else peak
            if number > 0:
                _forget(compactor)
                times["plan"] = _timed(lambda: compactor.plan(NAME))
                for name, seconds in times.items():
                    found[name].append(seconds)
        return {**found, "judge_mb": [peak]}


def _timed(work: Any) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _forget(compactor: Compactor) -> None:
    compactor.application.cache = StatsCache()
    compactor.application.store = KvStore.in_memory()


def _plan_files(table: IcebergTable) -> int:
    table.refresh()
    iterable = table.table.newScan().ignoreResiduals().planFiles()
    tasks = table.java.listed(iterable)
    iterable.close()
    return int(tasks.size())


def describe_table(compactor: Compactor, files: int) -> None:
    """Files exist in manifests only. A third of the partitions have small files, a tenth of the files have deletes."""
    table = _create(compactor)
    location = str(table.table.location())
    for start in range(0, files, MANIFEST_FILES):
        numbers = range(start, min(files, start + MANIFEST_FILES))
        described = [_data(location, n, SMALL if n % PARTITIONS % 3 == 0 else LARGE) for n in numbers]
        _append(table, described)
        _delete(table, [_delete_of(file, n) for file, n in zip(described, numbers, strict=True) if n % 10 == 0])


def describe_small(compactor: Compactor, files: int) -> None:
    """The worst table that people come with: nothing but small files, in few manifests that have files of every
    partition, and no deletes."""
    table = _create(compactor)
    location = str(table.table.location())
    step = files // MANIFESTS
    for start in range(0, files, step):
        _append(table, [_data(location, n, TINY) for n in range(start, min(files, start + step))])


def _create(compactor: Compactor) -> IcebergTable:
    columns = ", ".join(f"c{n} bigint" for n in range(COLUMNS))
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS bench")
    compactor.spark.sql(
        f"CREATE TABLE {NAME} (day date, {columns}) USING iceberg PARTITIONED BY (day)"
        " TBLPROPERTIES ('format-version' = '2', 'commit.manifest-merge.enabled' = 'false')"
    )
    return compactor.application.spark_catalog.table(NAME)


def _append(table: IcebergTable, described: Sequence[Mapping[str, Any]]) -> None:
    java = table.java
    files = described_files(java, table.table, described)
    append = table.table.newFastAppend()
    add = java.bind(
        java.method("org.apache.iceberg.AppendFiles", "appendFile", "org.apache.iceberg.DataFile"), 0, append
    )
    files.forEach(java.as_interface("java.util.function.Consumer", add))
    append.commit()


def _delete(table: IcebergTable, described: Sequence[Mapping[str, Any]]) -> None:
    java = table.java
    task = {
        "data-file": _data("x", 0, SMALL),
        "delete-file-references": list(range(len(described))),
        "residual-filter": True,
    }
    document = {"delete-files": described, "file-scan-tasks": [task]}
    node = java.mapper.readTree(json.dumps(document))
    parser = java.iceberg.rest.responses.FetchScanTasksResponseParser
    deletes = parser.fromJson(node, table.table.specs(), True).fileScanTasks().get(0).deletes()
    delta = table.table.newRowDelta()
    add = java.bind(java.method("org.apache.iceberg.RowDelta", "addDeletes", "org.apache.iceberg.DeleteFile"), 0, delta)
    deletes.forEach(java.as_interface("java.util.function.Consumer", add))
    delta.commit()


def _data(location: str, number: int, size: int) -> dict[str, Any]:
    day = (datetime.date(2026, 1, 1) + datetime.timedelta(days=number % PARTITIONS)).isoformat()
    fields = list(range(1, COLUMNS + 2))
    low, high = number.to_bytes(8, "little").hex(), (number + 1000).to_bytes(8, "little").hex()
    return {
        "spec-id": 0,
        "content": "data",
        "file-path": f"{location}/data/day={day}/{number:07d}-0-0c0ffee0-1111-2222-3333-444455556666-00001.parquet",
        "file-format": "parquet",
        "partition": [day],
        "record-count": 100_000,
        "file-size-in-bytes": size + number % 1000,
        "column-sizes": {"keys": fields, "values": [40_000] * len(fields)},
        "value-counts": {"keys": fields, "values": [1000] * len(fields)},
        "null-value-counts": {"keys": fields, "values": [0] * len(fields)},
        "lower-bounds": {"keys": fields[1:], "values": [low] * COLUMNS},
        "upper-bounds": {"keys": fields[1:], "values": [high] * COLUMNS},
        "split-offsets": [4],
        "sort-order-id": 0,
    }


def _delete_of(file: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {
        "spec-id": 0,
        "content": "position-deletes",
        "file-path": f"{file['file-path'].removesuffix('.parquet')}-deletes-{number}.parquet",
        "file-format": "parquet",
        "partition": file["partition"],
        "record-count": 100,
        "file-size-in-bytes": 2000,
        "referenced-data-file": file["file-path"],
    }


if __name__ == "__main__":
    measured = measure_small if sys.argv[3] == "small" else measure
    print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))))
