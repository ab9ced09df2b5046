"""Budgets on real tables: what a plan leaves out, and what a run does not begin any more."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.economics.overhead import learned_overhead
from icepact.maintain.first_run import is_first
from icepact.model.effort import Estimate
from icepact.model.limits import Limit, Resource
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.status import Status
from tests.support.oracle import data_files

DAYS = 6


@pytest.fixture
def days(spark: SparkSession, namespace: str) -> str:
    """Six partitions of three small files each."""
    name = f"{namespace}.days"
    spark.sql(f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day)")
    for batch in range(3):
        rows = spark.range(batch * 60, batch * 60 + 60, 1, 1).selectExpr("id", f"cast(id % {DAYS} as int) AS day")
        rows.sortWithinPartitions("day").writeTo(name).append()
    assert len(data_files(spark, name)) == 3 * DAYS
    return name


def ids(spark: SparkSession, table: str) -> list[int]:
    """All rows."""
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {table}").collect())


def complete(spark: SparkSession, table: str) -> list[str]:
    """What the snapshots of runs say about being complete."""
    rows = spark.sql(f"SELECT summary['icepact.complete'] FROM {table}.snapshots ORDER BY committed_at").collect()
    return [row[0] for row in rows if row[0] is not None]


def dear(plan: Plan, money: float, limit: float) -> Plan:
    """The plan as if each group cost so much and work were a thousand times as slow as predicted."""
    steps = []
    for step in plan.rewrites:
        seconds = step.cost.seconds.each(lambda predicted: predicted / 1000)
        steps.append(replace(step, cost=replace(step.cost, money=Estimate(likely=money), seconds=seconds)))
    budget = (Limit(resource=Resource.MONEY, amount=limit, name="max_cost 1.00"),)
    return replace(plan, steps=tuple(steps), budget=budget)


def not_done(outcome: Outcome) -> list[str]:
    """The reasons of groups that are not committed."""
    return [group.reason for group in outcome.groups if not group.committed]


@pytest.mark.parametrize("method", ["assemble", "spark"])
@pytest.mark.parametrize("max_commits", [1, DAYS])
def test_time_that_is_spent(
    compactor: Compactor, spark: SparkSession, days: str, method: str, max_commits: int
) -> None:
    """Preparing alone takes longer than is allowed: one group is done, and the others wait for the next run."""
    before = ids(spark, days)
    options: dict[str, Any] = {"method": method, "max_commits": max_commits}
    plan = compactor.plan(days, max_duration="1d", **options)
    [time] = plan.budget
    assert (len(plan.rewrites), plan.complete) == (DAYS, True)
    hurried = replace(
        plan,
        policy=replace(plan.policy, max_duration=0.001),
        budget=(replace(time, amount=time.amount / 86_400_000, name="max_duration 0.001s"),),
    )
    outcome = compactor.apply(hurried)
    assert outcome.status is Status.PARTLY_COMMITTED
    assert not_done(outcome) == ["the budget is spent (max_duration 0.001s)"] * (DAYS - 1)
    assert outcome.groups[0].committed  # the first in the order of jobs
    assert ids(spark, days) == before
    assert len(data_files(spark, days)) == 3 * DAYS - 2
    assert complete(spark, days) == ["false"]

    rest = compactor.compact(days, **options)
    assert (rest.status, len(rest.groups)) == (Status.COMMITTED, DAYS - 1)
    assert ids(spark, days) == before
    assert compactor.plan(days, **options).rewrites == ()


def test_money_that_is_spent(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Work costs much more than was predicted: what was begun by then is committed, the rest is not begun."""
    before = ids(spark, days)
    outcome = compactor.apply(dear(compactor.plan(days), money=0.1, limit=1.0))
    assert outcome.status is Status.PARTLY_COMMITTED
    left = not_done(outcome)
    assert left
    assert set(left) == {"the budget is spent (max_cost 1.00)"}
    assert ids(spark, days) == before
    assert len(data_files(spark, days)) == 3 * DAYS - 2 * (DAYS - len(left))
    assert complete(spark, days) == ["false"]
    again = compactor.compact(days)
    assert (again.status, len(again.groups)) == (Status.COMMITTED, len(left))


def test_a_budget_that_lasts_changes_nothing(compactor: Compactor, spark: SparkSession, days: str) -> None:
    before = ids(spark, days)
    none = compactor.plan(days, max_duration="0.01s")
    assert none.rewrites == ()
    assert {re.sub(r"\d+\.\d", "0.0", entry.reason) for entry in none.left_out} == {
        "over the budget (max_duration 0.01s, of which a run takes 0.0 s besides its work)"
    }
    plan = compactor.plan(days, max_duration="1h", max_cost=1000, job_order="oldest")
    foreseen, [_, time] = plan.predicted, sorted(plan.budget, key=lambda limit: limit.resource)
    assert time.amount == pytest.approx((3600 - foreseen.overhead) * foreseen.cores, abs=0.01)
    assert foreseen.duration.likely == pytest.approx(
        foreseen.overhead + foreseen.seconds.likely / foreseen.cores, abs=0.01
    )
    first = is_first(spark.sparkContext)
    outcome = compactor.apply(plan)
    assert (outcome.first_run, is_first(spark.sparkContext)) == (first, False)
    assert outcome.predicted_duration == foreseen.duration
    assert 0 < outcome.overhead_seconds < outcome.seconds
    [record] = compactor.runs(days)
    assert record.outcome is not None
    assert (outcome.status, len(outcome.groups)) == (Status.COMMITTED, DAYS)
    assert learned_overhead([record.outcome], first=False) != learned_overhead([], first=False)
    assert ids(spark, days) == before
    assert complete(spark, days) == ["true"]
    assert compactor.plan(days, max_duration="1h", max_cost=1000).rewrites == ()


def test_an_hour_that_is_spent(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """What the first run read counts against the second."""
    size = sum(row[0] for row in spark.sql(f"SELECT file_size_in_bytes FROM {days}.files").collect())
    first = compactor.compact(days, max_bytes_per_hour=size * 2 // 3)
    read = sum(group.bytes_in for group in first.groups)
    assert size // 3 < read <= size * 2 // 3
    plan = compactor.plan(days, max_bytes_per_hour=size * 2 // 3)
    assert sum(step.bytes for step in plan.rewrites) <= size * 2 // 3 - read
    assert any(
        entry.reason.startswith("over the budget (max_bytes_per_hour ") and f"of table {days}: " in entry.reason
        for entry in plan.left_out
    )
    assert not plan.complete


def test_budgets_of_the_configuration(compactor: Compactor, spark: SparkSession, days: str, tmp_path: Path) -> None:
    """Another process with a budget for the namespace sees what this one spent."""
    namespace = days.split(".")[0]
    config = tmp_path / "icepact.yaml"
    config.write_text(f"budgets:\n  namespaces:\n    {namespace}:\n      max_bytes_per_hour: 1GB\n")
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    other = Compactor(warehouse=warehouse, config=config)
    [limit] = other.plan(days).budget
    assert (limit.amount, limit.name) == (
        1024**3,
        f"max_bytes_per_hour 1.0 GB of namespace {namespace}: 0 B spent",
    )
    read = sum(group.bytes_in for group in compactor.compact(days).groups)
    [limit] = other.plan(days).budget
    assert limit.amount == 1024**3 - read
