"""Real tables under every strategy and tier, with their clocks. The partitions of one table are the cases."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.maintain import inspect
from icepact.maintain.stats_cache import StatsCache
from icepact.model.cost import Cost, Gain
from icepact.model.plan import Plan, RewriteFiles
from icepact.policy.options import options
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from tests.support.oracle import data_files, seen
from tests.support.tables import create

HOUR = timedelta(hours=1)
MANY, WAITING, DELETED, FRAGMENTED, CALM = (f"day=2026-01-0{n}" for n in range(1, 6))
WORTH_IT: dict[str, Any] = {"scans_per_day": 1_000_000, "reader_parallelism": 1}


def fill(spark: SparkSession, table: str) -> str:
    """Partitions with 12 small files, with 3, with deletes on a fifth of the rows, with a delete file on one of four
    data files, and with a single file."""
    create(spark, table, "id bigint, day date", "day")
    rows = spark.range(0, 6000, 1, 12).selectExpr(
        "id",
        "date_add(date'2026-01-01', cast(case when id % 10 < 5 then 0 when id < 1500 and id % 10 < 6 then 1"
        " when id < 500 and id % 10 < 8 then 2 when id < 2000 and id % 10 < 9 then 3 when id < 500 then 4"
        " else 0 end as int)) AS day",
    )
    rows.writeTo(table).option("fanout-enabled", "true").append()
    spark.sql(
        f"DELETE FROM {table} WHERE (day = '2026-01-03' AND id % 50 IN (6, 17)) OR (day = '2026-01-04' AND id = 8)"
    )
    return table


def add(spark: SparkSession, table: str, day: str, files: int = 1) -> None:
    """A commit with more rows of a day."""
    more = spark.range(10_000, 10_400, 1, files).selectExpr("id", f"date'{day.removeprefix('day=')}' AS day")
    more.writeTo(table).append()


def planned(compactor: Compactor, table: str, *, later: timedelta = timedelta(), **given: Any) -> Plan:
    """As of some time from now."""
    now = datetime.now(UTC) + later
    return inspect.plan(compactor.application.context(table), table, options(given), now=now)


def steps(plan: Plan) -> dict[str, tuple[str, int]]:
    """By partition: the tier and how many inputs."""
    return {step.partition: (step.tier.value, step.input_files) for step in plan.rewrites}


def reasons(plan: Plan) -> dict[str, str]:
    """Of the partitions that are left alone."""
    return {entry.partition: entry.reason for entry in plan.left_out}


def agreed(compactor: Compactor, table: str, **given: Any) -> Plan:
    """A plan that tells the same price and gain as a judgement."""
    plan, judgement = compactor.plan(table, **given), compactor.judge(table, **given)
    steps: dict[str, list[RewriteFiles]] = defaultdict(list)
    for step in plan.rewrites:
        steps[step.partition].append(step)
    assert {d.partition_group.name for d in judgement.chosen} == set(steps)
    for decision in judgement.chosen:
        mine = steps[decision.partition_group.name]
        assert decision.cost == Cost.sum(step.cost for step in mine)
        assert decision.gain == Gain.sum(step.gain for step in mine)
    return plan


def apply(compactor: Compactor, plan: Plan) -> None:
    """Carried out as a whole, with the same rows afterwards."""
    before = seen(compactor.spark, plan.table)
    outcome = compactor.apply(plan)
    assert (outcome.status, outcome.complete) == ("committed", True)
    assert seen(compactor.spark, plan.table) == before


def test_tiers_and_what_is_worth_it(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = fill(spark, f"{namespace}.t")
    # how deep, whatever the strategy
    asked = {"min_input_files": 2, "target_file_size": "1MB"}
    minor = agreed(compactor, table, tier="minor", **asked)
    assert steps(minor) == {MANY: ("minor", 12), WAITING: ("minor", 3), FRAGMENTED: ("minor", 4)}
    [merged] = [step for step in minor.rewrites if step.partition == FRAGMENTED]
    assert merged.delete_records == 1  # small files are merged without their deleted rows
    assert reasons(minor)[DELETED] == "20 delete records on 100 rows, but only small files were asked for"
    assert steps(agreed(compactor, table, tier="major", **asked))[DELETED] == ("major", 1)
    full = agreed(compactor, table, tier="full", **asked)
    assert {partition: tier for partition, (tier, _) in steps(full).items()} == dict.fromkeys(
        (MANY, WAITING, DELETED, FRAGMENTED), "full"
    )
    # by what it brings
    assert steps(agreed(compactor, table, strategy="cost-optimized", **WORTH_IT)).keys() == {
        *(MANY, WAITING, DELETED, FRAGMENTED)
    }
    for strategy in ("cost-optimized", "auto"):
        refused = agreed(compactor, table, strategy=strategy, scans_per_day=0.001, reader_parallelism=1)
        assert refused.rewrites == ()
        assert reasons(refused)[MANY].startswith("not worth it: ")
    # by what is due
    auto = agreed(compactor, table, strategy="auto", **WORTH_IT)
    assert steps(auto) == {MANY: ("minor", 12), DELETED: ("major", 1), FRAGMENTED: ("major", 4)}
    assert [step.reason for step in auto.rewrites if step.partition == FRAGMENTED] == ["1 delete file on 4 data files"]
    assert reasons(auto)[WAITING].startswith("only 3 files below")
    apply(compactor, auto)
    assert planned(compactor, table, strategy="auto", **WORTH_IT).rewrites == ()
    later = planned(compactor, table, later=HOUR, strategy="auto", **WORTH_IT)
    assert steps(later) == {WAITING: ("minor", 3)}
    apply(compactor, later)
    assert planned(compactor, table, later=2 * HOUR, strategy="auto", **WORTH_IT).rewrites == ()
    # everything from time to time, if something came since
    every_day: dict[str, Any] = {"strategy": "auto", "full_trigger_interval": "1d", **WORTH_IT}
    add(spark, table, CALM)
    never = planned(compactor, table, **every_day)
    assert steps(never) == {CALM: ("full", 2)}
    apply(compactor, never)
    add(spark, table, CALM)
    assert planned(compactor, table, **every_day).rewrites == ()
    assert steps(planned(compactor, table, later=25 * HOUR, minor_trigger_interval="2d", **every_day)) == {
        CALM: ("full", 2)
    }
    assert len(data_files(spark, table)) == 6


def test_a_fleet_says_of_each_table_what_a_plan_says(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = fill(spark, f"{namespace}.t")

    def told(strategy: str) -> Any:
        spark.sql(
            f"ALTER TABLE {table} SET TBLPROPERTIES ('icepact.strategy' = '{strategy}',"
            " 'icepact.scans-per-day' = '0.001', 'icepact.reader-parallelism' = '1')"
        )
        [entry], plan = compactor.fleet(table).tables, compactor.plan(table)
        assert entry.summary.input_files == plan.predicted.input_files
        assert entry.summary.seconds == pytest.approx(plan.predicted.seconds.likely)
        assert entry.summary.money == pytest.approx(plan.predicted.money.likely, abs=1e-6)
        return entry

    assert (told("auto").chosen, told("auto").summary.doubt) == (False, "")
    entry = told("small-files")
    assert entry.chosen
    assert entry.reason.startswith("small-files asks for it, auto would leave 4 of 4 partitions alone: not worth it: ")


def test_a_time_series(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    table = fill(spark, f"{namespace}.t")
    series: dict[str, Any] = {"strategy": "time-series", "target_file_size": "1MB"}
    still_open = agreed(compactor, table, **series)
    assert steps(still_open) == {MANY: ("minor", 12)}
    assert reasons(still_open)[FRAGMENTED].startswith("still open: last commit on ")
    apply(compactor, still_open)
    closed = planned(compactor, table, later=25 * HOUR, **series)
    assert steps(closed) == {WAITING: ("full", 3), DELETED: ("full", 1), FRAGMENTED: ("full", 4)}
    apply(compactor, closed)
    assert planned(compactor, table, later=26 * HOUR, **series).rewrites == ()
    add(spark, table, WAITING)
    assert planned(compactor, table, **series).rewrites == ()
    assert steps(planned(compactor, table, later=25 * HOUR, **series)) == {WAITING: ("full", 2)}
    best = agreed(compactor, table, strategy="cost-optimized", **WORTH_IT)
    assert steps(best) == {WAITING: ("minor", 2)}
    apply(compactor, best)
    assert planned(compactor, table, strategy="cost-optimized", **WORTH_IT).rewrites == ()


SMALL_OUTPUTS = {"target_file_size": 4500, "min_input_files": 2, "max_file_count_per_partition": 1}
"""Inputs are footers for the most part, so that outputs are much smaller: packing alone would take them once more."""


def expire(spark: SparkSession, table: str) -> None:
    """All snapshots but the newest."""
    spark.sql(
        f"CALL local.system.expire_snapshots(table => '{table}', retain_last => 1,"
        f" older_than => TIMESTAMP '{datetime.now(UTC) + 24 * HOUR:%Y-%m-%d %H:%M:%S}')"
    )


@pytest.mark.parametrize("wanted", [SMALL_OUTPUTS, {**SMALL_OUTPUTS, "where": "id > 0"}], ids=["all", "where"])
def test_the_fixed_point_survives_the_expiry_of_the_runs_snapshot(
    compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day date", "day")
    add(spark, table, MANY, files=12)
    add(spark, table, CALM, files=12)
    outcome = compactor.compact(table, **wanted)
    assert 2 < outcome.files_after < 24
    add(spark, table, WAITING)
    assert compactor.plan(table, **wanted).rewrites == ()
    expire(spark, table)
    assert not compactor.application.spark_catalog.table(table).has_snapshot(outcome.snapshot_id)
    assert compactor.plan(table, **wanted).rewrites == ()
    forgetful = replace(
        compactor.application.context(table), store=SqlStore.in_file(tmp_path / "empty.db"), cache=StatsCache()
    )
    again = inspect.plan(forgetful, table, options(wanted))
    assert {step.partition for step in again.rewrites} == {MANY, CALM}
    add(spark, table, CALM)
    assert {step.partition for step in compactor.plan(table, **wanted).rewrites} == {CALM}


def test_snapshots_tell_a_store_that_has_lost_it_when_partitions_were_compacted(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day date", "day")
    add(spark, table, MANY, files=12)
    add(spark, table, CALM, files=12)
    made = compactor.plan(table, **SMALL_OUTPUTS)
    compactor.apply(made)
    context = compactor.application.context(table)
    known = context.store.last_compacted(made.uuid, "main")
    assert set(known) == {MANY, CALM}
    empty = KvStore.in_memory()
    inspect.plan(replace(context, store=empty, cache=StatsCache()), table, options(SMALL_OUTPUTS))
    assert empty.last_compacted(made.uuid, "main") == known


def test_a_run_that_was_taken_back_and_has_expired_settles_nothing(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    table = create(spark, f"{namespace}.t", "id bigint, day date", "day")
    add(spark, table, MANY, files=12)
    before = compactor.plan(table, **SMALL_OUTPUTS)
    compactor.apply(before)
    spark.sql(f"CALL local.system.rollback_to_snapshot('{table}', {before.snapshot_id})")
    expire(spark, table)
    again = compactor.plan(table, **SMALL_OUTPUTS)
    assert {f.path for step in again.rewrites for f in step.files} == {
        f.path for step in before.rewrites for f in step.files
    }
