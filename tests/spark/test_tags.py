"""Automatic tags on real tables: made once, on the right snapshot, and never moved."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping.tags import carry_out_tags, plan_tags
from icepact.iceberg.table.refs import history_of, refs_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput, CommitRefused, CommitUnknown
from icepact.model.tags import CreateTags, TagsResult
from tests.support.lying import lying
from tests.support.tables import create


def loaded(compactor: Compactor, name: str) -> IcebergTable:
    return compactor.application.spark_catalog.table(name)


def planned(compactor: Compactor, name: str, **wishes: Any) -> CreateTags:
    step = plan_tags(loaded(compactor, name), **wishes)
    assert isinstance(step, CreateTags), step
    return step


def carry_out(
    compactor: Compactor, name: str, step: CreateTags, *, lie: str = "", check: Callable[[], None] = lambda: None
) -> TagsResult:
    table = loaded(compactor, name)
    if lie:
        table = lying(table, lie)
    return carry_out_tags(table, step, commit_id="run1/0/1", check=check, sleep=lambda _: None)


def append(spark: SparkSession, name: str) -> datetime:
    """One more snapshot; when it was committed."""
    spark.range(1).selectExpr("int(id) AS id").writeTo(name).append()
    times = spark.sql(f"SELECT committed_at FROM {name}.snapshots ORDER BY committed_at DESC LIMIT 1").collect()
    at: datetime = times[0][0]
    return at.astimezone(UTC)


def just_after(at: datetime) -> dict[str, Any]:
    """Wishes by which the tag of the hour before has been due since a commit, and not longer."""
    return {"period": "hourly", "offset": at - at.replace(minute=0, second=0, microsecond=0), "max_delay": None}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_tag_is_made_once_and_never_moved(
    compactor: Compactor, spark: SparkSession, namespace: str, version: int
) -> None:
    name = create(spark, f"{namespace}.t", "id int", version=version)
    append(spark, name)
    at = append(spark, name)
    append(spark, name)
    first, second, third = (snapshot_id for snapshot_id, _ in history_of(loaded(compactor, name), "main"))
    wishes = {**just_after(at), "now": at + timedelta(seconds=1), "max_age": timedelta(days=3)}
    step = planned(compactor, name, **wishes)
    expected = f"tag-{at - timedelta(hours=1):%Y%m%d%H}"
    assert [(tag.name, tag.snapshot_id) for tag in step.tags] == [(expected, second)]
    result = carry_out(compactor, name, step)
    assert (result.created, result.reason) == (step.tags, "")
    found = refs_of(loaded(compactor, name))[expected]
    assert (found.snapshot_id, found.is_tag, found.max_age_ms) == (second, True, 3 * 86_400_000)
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF '{expected}'").count() == 2

    assert plan_tags(loaded(compactor, name), **wishes) == f"{expected} is there already"
    spark.sql(f"ALTER TABLE {name} REPLACE TAG `{expected}` AS OF VERSION {third}")  # somebody else may
    again = carry_out(compactor, name, step)
    assert (again.created, again.reason) == ((), f"there is a tag {expected} by now, on snapshot {third}")
    assert refs_of(loaded(compactor, name))[expected].snapshot_id == third
    assert first in {snapshot_id for snapshot_id, _ in history_of(loaded(compactor, name), "main")}


def test_only_the_history_of_main_counts(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", "id int")
    empty = plan_tags(loaded(compactor, name), now=datetime(2026, 1, 1, tzinfo=UTC))
    assert str(empty).startswith("nothing was committed since 2026-01-01T00:00:00")
    append(spark, name)
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    at = _append_to_branch(spark, name)
    wishes = {**just_after(at), "now": at + timedelta(seconds=1)}
    assert isinstance(plan_tags(loaded(compactor, name), **wishes), str)
    append(spark, name)
    step = planned(compactor, name, **wishes)
    assert step.tags[0].snapshot_id == loaded(compactor, name).head_id("main")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH `{step.tags[0].name}`")
    assert plan_tags(loaded(compactor, name), **wishes) == f"{step.tags[0].name} is there already"
    assert "there is a branch" in carry_out(compactor, name, step).reason


def _append_to_branch(spark: SparkSession, name: str) -> datetime:
    spark.sql(f"INSERT INTO {name}.branch_audit VALUES (5)")
    times = spark.sql(f"SELECT max(committed_at) FROM {name}.snapshots").collect()
    at: datetime = times[0][0]
    return at.astimezone(UTC)


def test_a_snapshot_that_is_gone_gets_no_tag(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", "id int")
    append(spark, name)
    before = loaded(compactor, name).head_id("main")
    at = append(spark, name)
    step = planned(compactor, name, **just_after(at), now=at + timedelta(seconds=1))
    spark.sql(f"CALL local.system.rollback_to_snapshot('{name}', {before})").collect()
    assert "is not in the history of main any more" in carry_out(compactor, name, step).reason
    late = at + timedelta(hours=3)
    append(spark, name)
    spark.sql(
        f"CALL local.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '{late:%Y-%m-%d %H:%M:%S}')"
    ).collect()
    assert "has expired since" in carry_out(compactor, name, step).reason
    assert set(refs_of(loaded(compactor, name))) == {"main"}


def test_whoever_is_faster_makes_the_tag(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Commits and tags of others between looking and making are no error."""
    name = create(spark, f"{namespace}.t", "id int")
    at = append(spark, name)
    step = planned(compactor, name, **just_after(at), now=at + timedelta(seconds=1))
    assert carry_out(compactor, name, step, lie="failed").created == step.tags
    spark.sql(f"ALTER TABLE {name} DROP TAG `{step.tags[0].name}`")
    table = loaded(compactor, name)
    append(spark, name)
    result = carry_out_tags(table, step, commit_id="r", check=lambda: None, sleep=lambda _: None)
    assert result.created == step.tags


def test_answers_that_are_lost(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", "id int")
    at = append(spark, name)
    step = planned(compactor, name, **just_after(at), now=at + timedelta(seconds=1))
    for lie, error in (("unknown", CommitUnknown), ("forbidden", CommitRefused)):
        with pytest.raises(error):
            carry_out(compactor, name, step, lie=lie)
        assert set(refs_of(loaded(compactor, name))) == {"main"}
    for lie in ("landed-unknown", "landed-and-broke"):
        assert carry_out(compactor, name, step, lie=lie).created == step.tags
        spark.sql(f"ALTER TABLE {name} DROP TAG `{step.tags[0].name}`")


def test_bad_input_is_one_line(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    name = create(spark, f"{namespace}.t", "id int")
    append(spark, name)
    for wishes, complaint in (
        ({"period": "weekly"}, "unknown period"),
        ({"pattern": "'x'"}, "has no year"),
        ({"zone": "Mars"}, "is not known"),
        ({"max_age": timedelta(0)}, "must be above zero"),
        ({"offset": timedelta(hours=-1)}, "from 0 to 366 days"),
    ):
        with pytest.raises(BadInput, match=complaint) as refused:
            plan_tags(loaded(compactor, name), now=datetime(2026, 1, 1, tzinfo=UTC), **wishes)
        assert "\n" not in str(refused.value)
