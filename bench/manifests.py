"""Rewriting the manifests of a table of 100,000 described files and 1,000 snapshots against Spark's procedure, and what
a scan of one partition opens afterwards."""

import datetime
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bench.result import Result
from bench.session import neutral_compactor
from icepact import Compactor
from icepact.housekeeping.manifests import carry_out_manifests, plan_manifests
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.table import IcebergTable
from icepact.model.manifests import RewriteManifests

FILES = 100_000
COMMIT_FILES = 100
"""Of each snapshot, in as many partitions."""
PARTITIONS = 100
COLUMNS = 10
SHAPES = {"as writers leave it": "true", "every commit in a manifest of its own": "false"}
"""Whether appends merge manifests."""


def manifests(rounds: int, files: int = FILES) -> list[Result]:
    """Measured in a process of its own, both shapes."""
    results = []
    for shape in SHAPES:
        command = [sys.executable, "-m", "bench.manifests", str(rounds), str(files), shape]
        facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        ours, theirs = statistics.median(facts["ours"]), statistics.median(facts["theirs"])
        opened = {side: max(facts[f"{side}_opened"]) for side in ("ours", "theirs")}
        table = f"{files:,} files, {facts['before']:,} manifests, {shape}"
        results += [
            Result(
                f"rewriting manifests / Spark's rewrite_manifests, {shape}",
                ours / theirs,
                "x",
                1.0,
                f"median {ours:.2f} s against {theirs:.2f} s, {rounds} rounds, {table}",
                headline=True,
            ),
            Result(
                f"manifests that a scan of one partition opens after it / after Spark's, {shape}",
                opened["ours"] / opened["theirs"],
                "x",
                1.0,
                f"{opened['ours']} of {facts['ours_manifests']} against {opened['theirs']} of "
                f"{facts['theirs_manifests']}, at most; {facts['before_opened']:,} before",
            ),
        ]
    return results


def measure(rounds: int, files: int, shape: str) -> dict[str, Any]:
    """One warm-up of each side, then both in turn, each on a copy of its own."""
    with tempfile.TemporaryDirectory() as folder:
        compactor = neutral_compactor(folder)
        original = describe_table(compactor, files, merging=SHAPES[shape])
        found: dict[str, Any] = {name: [] for name in ("ours", "theirs", "ours_opened", "theirs_opened")}
        found["before"] = len(_manifests(original))
        found["before_opened"] = max(_opened(original))
        sides: dict[str, Callable[[IcebergTable], object]] = {"ours": _ours, "theirs": _theirs}
        for number in range(rounds + 1):
            for side, rewrite in list(sides.items())[:: 1 if number % 2 else -1]:
                table = _copy(compactor, original, f"{side}{number}")
                started = time.monotonic()
                rewrite(table)
                seconds = time.monotonic() - started
                table.refresh()
                if number > 0:
                    found[side].append(seconds)
                    found[f"{side}_opened"].append(max(_opened(table)))
                    found[f"{side}_manifests"] = len(_manifests(table))
        return found


def _ours(table: IcebergTable) -> None:
    step = plan_manifests(table, branch="main", now=datetime.datetime.now(datetime.UTC))
    assert isinstance(step, RewriteManifests), step
    result = carry_out_manifests(table, step, commit_id=f"{table.name}/1/1", check=lambda: None)
    assert result.snapshot_id is not None, result.reason


def _theirs(table: IcebergTable) -> None:
    table.session.sql(f"CALL local.system.rewrite_manifests('{table.name}')").collect()


def _manifests(table: IcebergTable) -> list[Any]:
    return table.java.items(table.head("main").allManifests(table.table.io()))


def _opened(table: IcebergTable) -> list[int]:
    """By partition: how many manifests a scan of it opens."""
    java, manifests = table.java, _manifests(table)
    expressions = java.iceberg.expressions
    evaluators = [
        expressions.ManifestEvaluator.forRowFilter(
            expressions.Expressions.equal("day", _day(number)), table.table.spec(), True
        )
        for number in range(0, PARTITIONS, 7)
    ]
    return [sum(bool(evaluator.eval(manifest)) for manifest in manifests) for evaluator in evaluators]


def _copy(compactor: Compactor, original: IcebergTable, name: str) -> IcebergTable:
    """A table that begins with the same metadata: nothing that is written is ever changed."""
    location = str(original.table.operations().current().metadataFileLocation())
    compactor.spark.sql(f"CALL local.system.register_table('bench.{name}', '{location}')").collect()
    return compactor.application.spark_catalog.table(f"bench.{name}")


def describe_table(compactor: Compactor, files: int, *, merging: str) -> IcebergTable:
    """Every commit has files of every partition, which exist in manifests only."""
    columns = ", ".join(f"c{n} bigint" for n in range(COLUMNS))
    compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS bench")
    compactor.spark.sql(
        f"CREATE TABLE bench.many (day date, {columns}) USING iceberg PARTITIONED BY (day)"
        f" TBLPROPERTIES ('format-version' = '2', 'commit.manifest-merge.enabled' = '{merging}')"
    )
    table = compactor.application.spark_catalog.table("bench.many")
    java = table.java
    kind = "org.apache.iceberg.AppendFiles", "appendFile", "org.apache.iceberg.DataFile"
    for start in range(0, files, COMMIT_FILES):
        append = table.table.newAppend()
        add = java.bind(java.method(*kind), 0, append)
        numbers = range(start, min(files, start + COMMIT_FILES))
        files_of = described_files(java, table.table, [described(str(table.table.location()), n) for n in numbers])
        files_of.forEach(java.as_interface("java.util.function.Consumer", add))
        append.commit()
    return table


def _day(number: int) -> str:
    return (datetime.date(2026, 1, 1) + datetime.timedelta(days=number % PARTITIONS)).isoformat()


def described(location: str, number: int) -> dict[str, Any]:
    """A data file with statistics as a writer leaves them."""
    fields = list(range(1, COLUMNS + 2))
    noise = itertools.accumulate(
        range(COLUMNS), lambda seed, _: (seed * 6364136223846793005 + 1) % 2**62, initial=number
    )
    bounds = [value.to_bytes(8, "little").hex() for value in itertools.islice(noise, 1, None)]
    return {
        "spec-id": 0,
        "content": "data",
        "file-path": f"{location}/data/day={_day(number)}/{number:05d}-0-{bounds[0]}-0001.parquet",
        "file-format": "parquet",
        "partition": [_day(number)],
        "record-count": 1000 + number % 97,
        "file-size-in-bytes": 1_000_000 + number,
        "column-sizes": {"keys": fields, "values": [40_000 + number % 1009] * len(fields)},
        "value-counts": {"keys": fields, "values": [1000 + number % 97] * len(fields)},
        "null-value-counts": {"keys": fields, "values": [0] * len(fields)},
        "lower-bounds": {"keys": fields[1:], "values": bounds},
        "upper-bounds": {"keys": fields[1:], "values": bounds[::-1]},
        "split-offsets": [4],
        "sort-order-id": 0,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
