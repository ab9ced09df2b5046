"""Groups whose equality deletes are too many to be looked up: planned with a join of keys, explained and priced."""

import pytest

from icepact.economics.key_join import join_seconds
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.plan import Plan
from tests.support.planning import decided, make_plan
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

MEMORY = 64 * MB


def keys(records: int, *, day: str = "d1") -> DeleteFile:
    return delete_file(
        f"e-{day}", DeleteKind.EQUALITY, records=records, size=records, equality_ids=(1,), partition=(day,)
    )


def planned(*deletes: DeleteFile, **given: object) -> Plan:
    """Ten small files of each of two days, as statistics decide it and as the files are packed."""
    days = [data_file(f"{day}-{n}", 11 * MB, rows=10_000, partition=(day,)) for day in ("d1", "d2") for n in range(10)]
    state, policy = make_state(attach(days, deletes), deletes), make_policy(task_memory=MEMORY, **given)
    plan = make_plan(state, policy)
    chosen = decided(state, policy).decisions.chosen
    assert sum(d.cost.seconds.likely for d in chosen) == pytest.approx(plan.predicted.seconds.likely, abs=0.01)
    return plan


def test_the_join_is_made_where_keys_are_too_many_and_told() -> None:
    plan = planned(keys(2_000_000), keys(100, day="d2"))
    joined, looked_up = sorted(plan.rewrites, key=lambda step: step.partition)
    assert looked_up.joined is None
    assert joined.joined is not None
    assert (joined.joined.data_files, joined.joined.rows, joined.joined.keys) == (10, 100_000, 2_000_000)
    assert joined.joined.lookup_bytes > joined.joined.memory == MEMORY // 2
    assert plan.explain().count("2,000,000 keys are joined with those of 10 data files by Spark") == 1
    assert [step.to_dict()["joined"] is None for step in (joined, looked_up)] == [False, True]
    assert Plan.from_json(plan.to_json()).rewrites == plan.rewrites


def test_a_join_has_its_price() -> None:
    [few], [many] = (planned(keys(records), partition="*d1*").rewrites for records in (100, 2_000_000))
    extra = many.cost.seconds.likely - few.cost.seconds.likely
    assert extra == pytest.approx(join_seconds(2_000_000 + 110 * MB // 100).likely, rel=0.01)
    assert many.cost.money.likely > few.cost.money.likely


def test_spark_looks_up_by_itself() -> None:
    plan = planned(keys(2_000_000), method="spark")
    assert [step.joined for step in plan.rewrites] == [None] * len(plan.rewrites)
