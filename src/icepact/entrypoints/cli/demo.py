"""`icepact demo`: a messy table, its health, the plan, the compaction, and the difference it makes. A second messy
table is left for whoever wants to try the commands."""

import statistics
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icepact.app import Application
from icepact.entrypoints.cli.render import Renderer
from icepact.model.errors import BadInput, PermanentError
from icepact.model.formatting import format_size
from icepact.policy.options import Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "demo.events"
LEFT_MESSY = "demo.clicks"
"""Made, and not compacted."""
MARK = "made-by-icepact-demo"
DAYS = 10
BATCHES = 4
FILES_PER_DAY_AND_BATCH = 4
ROWS_PER_BATCH = 150_000
CLICKS = 12_000
CLICK_DAYS, CLICK_FILES = 3, 12
"""Partitions of the second table, and files in each of them."""
ROUNDS = 3
"""Timed queries of each side."""
_EDGES = (16, 64, 256, 1024, 4096, 16384)  # kilobytes


def run_demo(application: Application, renderer: Renderer) -> None:
    """The whole show; raises if a single row differs."""
    if application.catalog.embedded is None:
        raise BadInput("the demo makes and drops its table in the embedded catalog only: run it without --catalog")
    say = renderer.err.print if renderer.as_json else renderer.out.print
    with renderer.working("starting Spark"):
        spark = application.spark
    with renderer.working(f"writing {TABLE}: {BATCHES} batches of small files, then deletes"):
        _make_events(spark)
        _make_clicks(spark)
    with renderer.working("reading it"):
        before = _facts(spark)
    if not renderer.as_json:
        renderer.health(application.health(TABLE, Options()))
        say("")
    plan = application.plan(TABLE, Options())
    if not renderer.as_json:
        renderer.plan(plan)
        say("")
    with renderer.progress(plan) as progress:
        outcome = application.apply(plan, progress=progress)
    if not renderer.as_json:
        renderer.outcome(outcome)
    with renderer.working("reading it again"):
        after = _facts(spark)
        seconds = _alternately(spark, before["snapshot"], after["snapshot"])
    if before["rows"] != after["rows"]:
        raise PermanentError(f"rows differ: {before['rows']} before, {after['rows']} after")
    where = str(application.catalog.embedded)
    if renderer.as_json:
        renderer.document({"warehouse": where, "table": TABLE, "same_rows": True, **outcome.to_dict()})
        return
    say("")
    _histogram(say, before["sizes"], after["sizes"])
    speed = seconds["before"] / seconds["after"]
    say(
        f"one query: {seconds['before']:.2f} s before, {seconds['after']:.2f} s after ({speed:.1f}x;"
        f" both snapshots in turn in this session, medians of {ROUNDS})"
    )
    say(f"every row is the same: {after['rows'][0]:,} rows, equal sums of whole-row hashes")
    say(f"both tables are in {where}; {LEFT_MESSY} is still a mess: icepact plan {LEFT_MESSY} --warehouse {where}")


def _create(spark: "SparkSession", table: str, columns: str) -> None:
    """An empty table in the place of the one that an earlier demo made, and of no other."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo")
    if spark.catalog.tableExists(table):
        found = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
        if found.get(MARK) != "true":
            raise BadInput(f"{table} exists and is not the demo's own: the demo will not drop it")
    spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '2',"
        f" 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none', '{MARK}' = 'true')"
    )


def _make_events(spark: "SparkSession") -> None:
    _create(spark, TABLE, "id bigint, day date, user string, amount decimal(10,2), tags array<string>")
    for batch in range(BATCHES):
        start = batch * ROWS_PER_BATCH
        (
            spark.range(start, start + ROWS_PER_BATCH, 1, FILES_PER_DAY_AND_BATCH)
            .selectExpr(
                "id",
                f"date_add(date '2026-01-01', cast(id % {DAYS} as int)) AS day",
                "concat('user-', id % 5000) AS user",
                "cast(id % 10000 / 100 as decimal(10,2)) AS amount",
                "array(concat('tag-', id % 7), if(id % 3 = 0, null, 'web')) AS tags",
            )
            .writeTo(TABLE)
            .option("fanout-enabled", "true")
            .append()
        )
    spark.sql(f"DELETE FROM {TABLE} WHERE id % 11 = 3 AND day < date '2026-01-04'")
    spark.sql(f"DELETE FROM {TABLE} WHERE user = 'user-42'")


def _make_clicks(spark: "SparkSession") -> None:
    """Small files every day, and deleted rows on the first of them."""
    _create(spark, LEFT_MESSY, "id bigint, day date, page string")
    clicks = spark.range(0, CLICKS, 1, CLICK_FILES).selectExpr(
        "id", f"date_add(date '2026-03-01', cast(id % {CLICK_DAYS} as int)) AS day", "concat('/page/', id % 97) AS page"
    )
    clicks.writeTo(LEFT_MESSY).option("fanout-enabled", "true").append()
    spark.sql(f"DELETE FROM {LEFT_MESSY} WHERE day = date '2026-03-01' AND id % 10 = 3")


def _facts(spark: "SparkSession") -> dict[str, Any]:
    hashed = "cast(xxhash64(id, day, user, amount, tags) as decimal(38,0))"
    rows = tuple(spark.sql(f"SELECT count(*), sum({hashed}) FROM {TABLE}").collect()[0])
    sizes = [row[0] for row in spark.sql(f"SELECT file_size_in_bytes FROM {TABLE}.data_files").collect()]
    snapshot = spark.sql(f"SELECT snapshot_id FROM {TABLE}.refs WHERE name = 'main'").collect()[0][0]
    return {"rows": rows, "sizes": sizes, "snapshot": snapshot}


def _alternately(spark: "SparkSession", before: int, after: int) -> dict[str, float]:
    """Seconds of one query on both snapshots, which a session that is warm by now answers in turn."""
    seconds: dict[str, list[float]] = {"before": [], "after": []}
    for number in range(ROUNDS + 1):  # the first is for warming up
        for side, snapshot in (("before", before), ("after", after)):
            started = time.monotonic()
            spark.sql(
                f"SELECT user, sum(amount) FROM {TABLE} VERSION AS OF {snapshot} GROUP BY user ORDER BY 2 DESC LIMIT 10"
            ).collect()
            seconds[side] += [time.monotonic() - started] if number else []
    return {side: statistics.median(found) for side, found in seconds.items()}


def _histogram(say: Any, before: Sequence[int], after: Sequence[int]) -> None:
    labels = [f"< {format_size(edge * 1024)}" for edge in _EDGES] + [f">= {format_size(_EDGES[-1] * 1024)}"]
    counts = [Counter(bisect_right(_EDGES, size / 1024) for size in sizes) for sizes in (before, after)]
    most = max(1, *counts[0].values(), *counts[1].values())
    say(f"{'file size':>10}   {'before':<34} after")
    for i, label in enumerate(labels):
        if counts[0][i] or counts[1][i]:
            bars = [f"{'█' * max(1, round(24 * c[i] / most)) if c[i] else '':<24} {c[i]:>5}" for c in counts]
            say(f"{label:>10}   {bars[0]:<34} {bars[1]}")
