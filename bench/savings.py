"""What choosing well saves: `cost-optimized` against a rewrite of everything, on a table that is mostly healthy."""

import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.result import Result
from bench.session import neutral_compactor
from icepact import Compactor
from icepact.model.outcome import Outcome

HEALTHY, SMALL, DELETED = 150, 30, 20
"""Partitions: one good file each; many small files each; a good file each with 15% of its rows deleted."""
SMALL_FILES = 20
ROWS = 40_000
"""Of a partition."""
FRESH, NAME = "bench.fresh", "bench.mixed"
QUERIES = (
    f"SELECT count(*), sum(amount), max(length(note)) FROM {NAME}",
    f"SELECT part, avg(amount) FROM {NAME} GROUP BY part",
    f"SELECT count(*) FROM {NAME} WHERE amount < 10 AND note LIKE '%7%'",
)
TARGET = "64MB"
TWO_DAYS = 2 * 24 * 3600 * 1000
WARM_UP = 8
"""Scans before the first that counts: Java gets faster for about as long."""


def savings(rounds: int) -> list[Result]:
    """Scans before, after `cost-optimized`, and after everything was rewritten, in turn on the same table."""
    with tempfile.TemporaryDirectory() as folder:
        compactor = neutral_compactor(folder)
        _make(compactor)
        _two_days_later(compactor)
        [(before,)] = compactor.spark.sql(f"SELECT snapshot_id FROM {NAME}.refs WHERE name = 'main'").collect()
        for _ in range(WARM_UP):
            _scan(compactor)
        untouched = _scans(compactor, rounds)
        chosen = compactor.compact(NAME, strategy="cost-optimized", target_file_size=TARGET)
        after_chosen = _scans(compactor, rounds)
        compactor.spark.sql(f"CALL system.rollback_to_snapshot('{NAME}', {before})")
        everything = compactor.compact(NAME, rewrite_all=True, target_file_size=TARGET)
        after_everything = _scans(compactor, rounds)
        detail = f"scans {untouched:.2f} s before, {after_chosen:.2f} s after ours, {after_everything:.2f} s after all"
        share = _bytes(chosen) / max(1, _bytes(everything))
        return [
            Result(
                "scans after cost-optimized / after a full rewrite", after_chosen / after_everything, "x", 1.11, detail
            ),
            Result(
                "bytes rewritten by cost-optimized / by a full rewrite",
                share,
                "x",
                0.5,
                f"{_groups(chosen)} of {_groups(everything)} groups",
            ),
        ]


def _make(compactor: Compactor) -> None:
    spark = compactor.spark
    spark.sql("CREATE NAMESPACE IF NOT EXISTS bench")
    spark.sql(
        f"CREATE TABLE {FRESH} (id bigint, part int, amount double, note string) USING iceberg PARTITIONED BY (part)"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read',"
        " 'write.distribution-mode' = 'hash')"
    )
    good = HEALTHY + DELETED
    _append(compactor, good * ROWS, f"cast(id % {good} as int)")
    for number in range(SMALL_FILES):
        _append(compactor, SMALL * ROWS // SMALL_FILES, f"cast({good} + id % {SMALL} as int)", seed=number)
    spark.sql(f"DELETE FROM {FRESH} WHERE part < {DELETED} AND id % 100 < 15")


def _two_days_later(compactor: Compactor) -> None:
    """The same table as if all of it was committed two days ago: to one that was just written to, more is expected to
    come, and rewriting it at once is not worth it."""
    metadata = compactor.application.spark_catalog.table(FRESH).table.operations().current().metadataFileLocation()
    fresh = Path(urlsplit(str(metadata)).path)
    aged = re.sub(r'(-ms" ?: ?)(\d{13})', lambda told: f"{told[1]}{int(told[2]) - TWO_DAYS}", fresh.read_text())
    older = fresh.with_name("00000-aged.metadata.json")
    older.write_text(aged)
    compactor.spark.sql(f"CALL system.register_table('{NAME}', '{older}')")


def _append(compactor: Compactor, rows: int, part: str, seed: int = 99) -> None:
    columns = ("id", f"{part} AS part", f"rand({seed}) * 1000 AS amount", "concat('note ', hash(id)) AS note")
    compactor.spark.range(rows).selectExpr(*columns).writeTo(FRESH).append()


def _scan(compactor: Compactor) -> float:
    started = time.monotonic()
    for query in QUERIES:
        compactor.spark.sql(query).collect()
    return time.monotonic() - started


def _scans(compactor: Compactor, rounds: int) -> float:
    compactor.spark.sql(f"REFRESH TABLE {NAME}")
    _scan(compactor)
    times: Sequence[float] = [_scan(compactor) for _ in range(max(3, rounds))]
    return statistics.median(times)


def _bytes(outcome: Outcome) -> int:
    return sum(group.bytes_in for group in outcome.groups if group.committed)


def _groups(outcome: Outcome) -> int:
    return sum(group.committed for group in outcome.groups)
