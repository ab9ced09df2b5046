"""A look at a table that was looked at before costs no more than what has changed, and no more than was asked."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.maintain import inspect
from icepact.model.health import PartitionGroup
from icepact.plan import decide


def test_health_decides_nothing_and_the_next_plan_packs_only_what_has_changed(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id bigint, p bigint) USING iceberg PARTITIONED BY (p)")

    def append(partition: int) -> None:
        spark.range(10).selectExpr("id", f"{partition}L AS p").coalesce(1).writeTo(name).append()

    for partition in (0, 1, 2) * 2:
        append(partition)
    packed: list[str] = []
    real: Any = vars(decide)["candidate_of"]

    def candidate_of(group: PartitionGroup, *rest: Any) -> Any:
        packed.append(group.name)
        return real(group, *rest)

    monkeypatch.setattr(decide, "candidate_of", candidate_of)
    assert len(compactor.plan(name).rewrites) == 3
    assert sorted(packed) == ["p=0", "p=1", "p=2"]
    packed.clear()
    append(1)
    with monkeypatch.context() as patched:
        patched.delattr(inspect, "decide")
        assert compactor.health(name).facts.data_files == 7
    steps = compactor.plan(name).rewrites
    assert {step.partition: len(step.files) for step in steps} == {"p=0": 2, "p=1": 3, "p=2": 2}
    assert packed == ["p=1"]
