"""Maintenance of real tables: everything that is due, in order, once; and nothing where it is not wanted."""

import json
import os
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.table.statistics import sketch_files
from icepact.maintain import maintenance, steps
from icepact.maintain.runs import hold
from icepact.model.errors import BadInput, Cancelled, JobLost, QuotaUsed
from icepact.model.expiry import ExpireResult
from icepact.model.maintenance import MaintenanceOutcome
from icepact.model.plan import Plan
from icepact.model.policy import OPERATIONS
from icepact.model.status import Status
from icepact.policy.options import Options
from tests.support.oracle import seen
from tests.support.reach import location_of, on_disk, reachable

MANAGED = "gcp.biglake.table-management.enabled"


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Small files, old snapshots, and one orphan."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id bigint, day int) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ("
        "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'history.expire.max-snapshot-age-ms' = '1')"
    )
    for batch in range(6):
        rows = spark.range(batch * 10, batch * 10 + 10, 1, 1).selectExpr("id", "cast(id % 2 as int) AS day")
        rows.writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id = 4")
    lost = location_of(spark, name) / "data" / "lost.parquet"
    lost.write_bytes(b"x" * 10)
    old = time.time() - 10 * 86400
    os.utime(lost, (old, old))
    return name


def said(outcome: MaintenanceOutcome) -> dict[str, str]:
    """By operation: how it ended, or why it was not begun."""
    return {one.operation: one.outcome.status.value if one.outcome else one.reason for one in outcome.operations}


def test_all_that_is_due_is_done_once(compactor: Compactor, spark: SparkSession, table: str) -> None:
    before, there, needed = seen(spark, table), on_disk(spark, table), reachable(spark, table)
    dry = compactor.maintain(table, dry_run=True)
    assert (on_disk(spark, table), reachable(spark, table), compactor.runs(table)) == (there, needed, [])
    assert [one.operation for one in dry.operations] == list(OPERATIONS)
    assert said(dry) | {"compact": "planned", "expire": "planned", "orphans": "planned"} == said(dry)
    assert all(one.explained for one in dry.operations if one.outcome and one.outcome.status is Status.PLANNED)
    assert dry.dry_run

    done = compactor.maintain(table)
    assert [one.operation for one in done.operations] == list(OPERATIONS)
    assert said(done) | {"compact": "committed", "expire": "committed", "orphans": "committed"} == said(done)
    assert done.well
    assert done.bytes_freed > 0
    assert on_disk(spark, table) == reachable(spark, table)
    assert spark.sql(f"SELECT * FROM {table}.snapshots").count() == 1
    assert seen(spark, table) == before
    order = [run.outcome.operation for run in reversed(compactor.runs(table)) if run.outcome]
    assert order == [name for name in OPERATIONS if name in order]
    assert json.loads(json.dumps(done.to_dict()))["table"] == done.table

    there = on_disk(spark, table)
    again = compactor.maintain(table)
    assert on_disk(spark, table) == there
    for one in again.operations:
        assert one.reason or (one.outcome and one.outcome.status is Status.NOTHING_TO_DO and one.outcome.reason), one
    assert "storage was listed on" in said(again)["orphans"]
    assert seen(spark, table) == before


def test_what_the_policy_leaves_out(compactor: Compactor, spark: SparkSession, table: str) -> None:
    there = on_disk(spark, table)
    off = compactor.maintain(table, enabled=False)
    assert {one.outcome for one in off.operations} == {None}
    assert all(one.reason for one in off.operations)
    poor = compactor.maintain(table, max_cost=0.000000001, housekeeping="compact,expire")
    assert [one.operation for one in poor.operations if "over the budget (max_cost" in one.reason] == ["expire"]
    [compacted] = [one.outcome for one in poor.operations if one.operation == "compact"]
    assert compacted is not None
    assert compacted.reason is not None
    assert "max_cost" in compacted.reason
    lease = hold(compactor.application.store, compactor.application.spark_catalog.table(table), "somebody")
    busy = compactor.maintain(table)
    assert all("somebody" in one.reason for one in busy.operations if one.operation in ("compact", "expire")), busy
    compactor.application.store.release(lease)
    assert there <= on_disk(spark, table)
    only = compactor.maintain(table, housekeeping="expire")
    assert [one.operation for one in only.operations if one.outcome] == ["expire"]
    assert all("left out by housekeeping" in one.reason for one in only.operations if not one.outcome)
    assert spark.sql(f"SELECT * FROM {table}.snapshots").count() == 1
    assert (location_of(spark, table) / "data" / "lost.parquet").exists()


@pytest.mark.parametrize(("refused", "refusal"), [("compact", QuotaUsed()), ("expire", JobLost()), ("orphans", None)])
def test_every_plan_is_confirmed_right_before_its_run(
    compactor: Compactor, table: str, refused: str, refusal: Exception | None
) -> None:
    """Whoever confirms them may end the round, as the quota of a tenant does."""
    confirmed: list[str] = []

    def ended() -> list[str]:
        return [run.outcome.operation for run in reversed(compactor.runs(table)) if run.outcome]

    def confirm(plan: Plan) -> bool:
        assert ended() == confirmed
        if plan.operation != refused:
            confirmed.append(plan.operation)
        elif refusal is not None:
            raise refusal
        return plan.operation != refused

    policy = Options(housekeeping="compact,expire,orphans")
    with pytest.raises(Cancelled if refusal is None else type(refusal)):
        compactor.application.maintain(table, policy, confirm=confirm)
    operations = ["compact", "expire", "orphans"]
    assert ended() == confirmed == operations[: operations.index(refused)]


def test_housekeeping_is_paid_for(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Out of the budget of the round, of the hour, and in the report of costs."""
    policy = "expire,orphans"
    done = compactor.maintain(table, housekeeping=policy)
    outcomes = {one.operation: one.outcome for one in done.operations if one.outcome}
    prices = compactor.application.context().prices
    for operation, outcome in outcomes.items():
        [cost] = outcome.step_costs
        assert cost.finished
        assert 0 < cost.effort.seconds <= outcome.seconds
        assert cost.effort.requests == 0, operation  # the files are local
        assert outcome.money == cost.money == pytest.approx(prices.compute(cost.effort.seconds), abs=1e-7)
        assert outcome.predicted_money == cost.predicted_money > 0
    assert done.money == round(sum(outcome.money for outcome in outcomes.values()), 9) > 0
    kinds = {cost.method: cost.actual.money for cost in compactor.application.costs(table)}
    assert kinds == {outcome.steps[0].kind: outcome.money for outcome in outcomes.values()}
    spark.range(0, 10, 1, 1).selectExpr("id", "0 AS day").writeTo(table).append()
    spark.range(0, 10, 1, 1).selectExpr("id", "0 AS day").writeTo(table).append()
    poor = compactor.maintain(table, housekeeping=policy, max_cost_per_hour=done.money)
    assert "over the budget (max_cost_per_hour" in said(poor)["expire"]
    assert said(compactor.maintain(table, housekeeping=policy, max_cost_per_hour=1.0))["expire"] == "committed"


def test_what_fails_on_the_way_is_paid_for(compactor: Compactor, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any, **named: Any) -> ExpireResult:
        time.sleep(0.05)
        raise OSError("a disk is gone")

    monkeypatch.setattr(steps, "carry_out_expire", fails)
    with pytest.raises(OSError, match="a disk is gone"):
        compactor.expire(table)
    [run] = compactor.runs(table)
    assert run.outcome is not None
    [cost] = run.outcome.step_costs
    assert (run.outcome.steps, cost.finished) == ((), False)
    assert cost.effort.seconds >= 0.05
    assert run.outcome.money == cost.money > 0


def test_what_fails_does_not_stop_the_others(
    compactor: Compactor, spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> str:
        raise OSError("a disk is gone")

    monkeypatch.setattr(maintenance, "expire_step", fails)
    outcome = compactor.maintain(table)
    [failed] = [one for one in outcome.operations if one.failed]
    assert (failed.operation, "a disk is gone" in failed.reason) == ("expire", True)
    assert not outcome.well
    assert said(outcome) | {"compact": "committed", "orphans": "committed"} == said(outcome)
    assert not (location_of(spark, table) / "data" / "lost.parquet").exists()


def test_statistics_survive_a_compaction(compactor: Compactor, spark: SparkSession, table: str) -> None:
    assert compactor.statistics(table).status is Status.COMMITTED
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED
    loaded = compactor.application.spark_catalog.table(table)
    assert loaded.head_id("main") in sketch_files(loaded)
    assert said(compactor.maintain(table, housekeeping="statistics"))["statistics"] == "nothing-to-do"


def test_a_table_that_others_look_after_is_left_alone(compactor: Compactor, spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{MANAGED}' = 'true')")
    there = on_disk(spark, table)
    assert MANAGED in str(compactor.health(table).to_dict())
    assert MANAGED in str(compactor.plan(table).why_nothing)
    assert compactor.plan(table).steps == ()
    assert compactor.compact(table).status is Status.NOTHING_TO_DO
    outcome = compactor.maintain(table)
    assert all(MANAGED in one.reason for one in outcome.operations), said(outcome)
    assert there == on_disk(spark, table)
    assert compactor.plan(table, enabled=True).steps
    anyway = compactor.maintain(table, enabled=True)
    assert said(anyway) | {"compact": "committed", "expire": "committed"} == said(anyway)
    with pytest.raises(BadInput):
        compactor.maintain(table, housekeeping="everything")
