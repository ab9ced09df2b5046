"""Pinning a table of 100,000 described files against Java's own `planFiles`, and the memory it takes."""

import datetime
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench.result import Result
from bench.session import neutral_compactor
from icepact import Compactor
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.table import IcebergTable

FILES = 100_000
PARTITIONS = 100
COLUMNS = 20
MANIFEST_FILES = 10_000


def pinning(rounds: int) -> list[Result]:
    """Measured in a process of its own, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.pinning", str(rounds)], check=True, capture_output=True, text=True
    )
    facts = json.loads(done.stdout)
    ours, theirs = statistics.median(facts["pin"]), statistics.median(facts["plan_files"])
    detail = f"median {ours:.2f} s against {theirs:.2f} s, {rounds} rounds, {FILES:,} files"
    return [
        Result(f"pinning {FILES:,} files / Java's planFiles", ours / theirs, "x", 6.0, detail, headline=True),
        Result(
            f"driver Python memory while pinning {FILES:,} files", facts["peak_mb"], "MB", 500.0, "peak resident size"
        ),
    ]


def measure(rounds: int) -> dict[str, Any]:
    """One warm-up of each side, then both in turn."""
    with tempfile.TemporaryDirectory() as folder:
        compactor = neutral_compactor(folder)
        describe_table(compactor, "bench.many")
        table = compactor.application.spark_catalog.table("bench.many")
        pin: list[float] = []
        plan_files: list[float] = []
        for number in range(rounds + 1):
            started = time.monotonic()
            files = _plan_files(table)
            middle = time.monotonic()
            state = table.pin(branch="main")
            ended = time.monotonic()
            assert len(state.files) == files == FILES
            del state
            if number > 0:
                plan_files.append(middle - started)
                pin.append(ended - middle)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"pin": pin, "plan_files": plan_files, "peak_mb": peak}


def _plan_files(table: IcebergTable) -> int:
    iterable = table.table.newScan().ignoreResiduals().planFiles()
    tasks = table.java.listed(iterable)
    iterable.close()
    return int(tasks.size())


def describe_table(compactor: Compactor, name: str) -> None:
    """A partitioned table whose files exist in its manifests only, with statistics as a writer leaves them."""
    columns = ", ".join(f"c{n} bigint" for n in range(COLUMNS))
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS bench")
    compactor.spark.sql(f"CREATE TABLE {name} (day date, {columns}) USING iceberg PARTITIONED BY (day)")
    table = compactor.application.spark_catalog.table(name)
    for start in range(0, FILES, MANIFEST_FILES):
        _append_described(table, range(start, start + MANIFEST_FILES))


def _append_described(table: IcebergTable, numbers: range) -> None:
    java = table.java
    location = str(table.table.location())
    files = described_files(java, table.table, [_described(location, n) for n in numbers])
    append = table.table.newFastAppend()
    add = java.bind(
        java.method("org.apache.iceberg.AppendFiles", "appendFile", "org.apache.iceberg.DataFile"), 0, append
    )
    files.forEach(java.as_interface("java.util.function.Consumer", add))
    append.commit()


def _described(location: str, number: int) -> dict[str, Any]:
    day = (datetime.date(2026, 1, 1) + datetime.timedelta(days=number % PARTITIONS)).isoformat()
    fields = list(range(1, COLUMNS + 2))
    low, high = number.to_bytes(8, "little").hex(), (number + 1000).to_bytes(8, "little").hex()
    return {
        "spec-id": 0,
        "content": "data",
        "file-path": f"{location}/data/day={day}/{number:05d}-0-0c0ffee0-1111-2222-3333-444455556666-00001.parquet",
        "file-format": "parquet",
        "partition": [day],
        "record-count": 1000,
        "file-size-in-bytes": 1_000_000 + number,
        "column-sizes": {"keys": fields, "values": [40_000] * len(fields)},
        "value-counts": {"keys": fields, "values": [1000] * len(fields)},
        "null-value-counts": {"keys": fields, "values": [0] * len(fields)},
        "lower-bounds": {"keys": fields[1:], "values": [low] * COLUMNS},
        "upper-bounds": {"keys": fields[1:], "values": [high] * COLUMNS},
        "split-offsets": [4],
        "sort-order-id": 0,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
