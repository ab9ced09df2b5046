"""Priorities: which partitions come first, by a formula that can be worked out by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.assess.priority import priority, with_priorities
from icepact.model.errors import BadInput
from icepact.model.files import DeleteKind
from icepact.model.health import Facts, Health
from icepact.model.policy import PriorityWeights
from icepact.policy.options import Options, options
from icepact.policy.resolve import resolve
from icepact.stats.table import file_stats_of
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DEFAULT = make_policy().priority_weights
NO_DELETES = {kind.value: 0 for kind in DeleteKind}


def facts(files: int, *, small: int = 0, delete_files: int = 0) -> Facts:
    return Facts(
        data_files=files,
        small_files=small,
        mergeable_files=0,
        bytes=files,
        rows=files,
        row_groups=files,
        delete_files={**NO_DELETES, "dv": delete_files},
        delete_records=NO_DELETES,
    )


def ago(**length: float) -> dict[str, datetime]:
    return {"minor": NOW - timedelta(**length)}


@pytest.mark.parametrize(
    ("some", "compacted_at", "expected"),
    [
        (facts(0), ago(hours=0), 0.0),
        (facts(10), ago(hours=0), 0.03),
        (facts(100), ago(hours=0), 0.3),
        (facts(100_000), ago(hours=0), 0.3),
        (facts(10, delete_files=5), ago(hours=0), 0.03 + 0.15),
        (facts(10, delete_files=500), ago(hours=0), 0.03 + 0.3),
        (facts(10), ago(hours=6), 0.03 + 0.05),
        (facts(10), ago(days=300), 0.03 + 0.2),
        (facts(10), {}, 0.03 + 0.2),
        (facts(10, small=5), ago(hours=0), 0.03 + 0.1),
        (facts(100, small=100, delete_files=100), {}, 1.0),
    ],
)
def test_exact_priorities(some: Facts, compacted_at: dict[str, datetime], expected: float) -> None:
    assert priority(some, compacted_at, DEFAULT, NOW) == pytest.approx(expected, abs=1e-9)


def test_the_last_compaction_of_any_tier_counts() -> None:
    times = {"minor": NOW - timedelta(hours=12), "full": NOW - timedelta(days=9)}
    assert priority(facts(0), times, DEFAULT, NOW) == pytest.approx(0.1)


def test_a_clock_that_runs_ahead_does_no_harm() -> None:
    assert priority(facts(0), {"minor": NOW + timedelta(hours=2)}, DEFAULT, NOW) == 0


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), st.floats(0, 100), st.integers(1, 50))
def test_worse_never_comes_later(files: int, small: int, deletes: int, hours: float, more: int) -> None:
    small = min(small, files)
    before = priority(facts(files, small=small, delete_files=deletes), ago(hours=hours), DEFAULT, NOW)
    worse = [
        (facts(files, small=min(files, small + more), delete_files=deletes), ago(hours=hours)),
        (facts(files, small=small, delete_files=deletes + more), ago(hours=hours)),
        (facts(files, small=small, delete_files=deletes), ago(hours=hours + more)),
        (facts(files, small=small, delete_files=deletes), {}),
    ]
    assert 0 <= before <= 1
    assert all(priority(some, when, DEFAULT, NOW) >= before for some, when in worse)


def test_only_what_has_weight_counts() -> None:
    some = facts(50, small=10, delete_files=25)
    alone = [PriorityWeights(*(1.0 if n == at else 0.0 for n in range(4))) for at in range(4)]
    assert [priority(some, ago(hours=18), weights, NOW) for weights in alone] == [0.5, 0.5, 0.75, 0.2]


# -- of a table -----------------------------------------------------------------------------------


def ranked(health: Health) -> list[str]:
    return [p.name for p in sorted(health.partitions, key=lambda p: p.priority.rank)]


def test_total_size_breaks_ties() -> None:
    files = [data_file(f"{day}", size * MB, partition=(day,)) for day, size in (("a", 1), ("b", 3), ("c", 2))]
    policy = make_policy()
    health = with_priorities(assess(file_stats_of(make_state(files)), policy), policy.priority_weights, NOW)
    assert {p.priority.value for p in health.partitions} == {0.403}
    assert ranked(health) == ["day=b", "day=c", "day=a"]
    assert [p.name for p in health.worst_first] == ["day=b", "day=c", "day=a"]
    assert [(p["partition"], p["priority"], p["priority_rank"]) for p in health.to_dict()["partitions"]] == [
        ("day=a", 0.403, 3),
        ("day=b", 0.403, 1),
        ("day=c", 0.403, 2),
    ]


def test_what_was_compacted_lately_waits() -> None:
    deletes = [delete_file("x", DeleteKind.POSITION, partition=("b",))]
    files = attach([data_file(day, MB, partition=(day,)) for day in ("a", "b", "c")], deletes)
    policy = make_policy()
    health = assess(file_stats_of(make_state(files, deletes)), policy)
    partition_groups = [
        replace(p, compacted_at=ago(hours=1)) if p.name == "day=c" else p for p in health.partition_groups
    ]
    assert ranked(with_priorities(replace(health, partition_groups=partition_groups), DEFAULT, NOW)) == [
        "day=b",
        "day=a",
        "day=c",
    ]


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["1,0,0.5,2", " 1 , 0 , 0.5 , 2 ", [1, 0, 0.5, 2], (1.0, 0.0, 0.5, 2.0)])
def test_weights_as_people_write_them(given: object) -> None:
    assert options({"priority_weights": given}).priority_weights == PriorityWeights(1.0, 0.0, 0.5, 2.0)


@pytest.mark.parametrize(
    "given", ["1,2,3", "1,2,3,4,5", "a,b,c,d", "", "-1,1,1,1", "0,0,0,0", "nan,1,1,1", [1, "inf", 1, 1], 5]
)
def test_other_weights_are_refused_in_one_line(given: object) -> None:
    with pytest.raises(BadInput, match=r"^priority_weights: [^\n]*$"):
        options({"priority_weights": given})


def test_weights_come_from_a_table_property_and_do_not_unsettle_a_table() -> None:
    policy = resolve(Options(), {"icepact.priority-weights": "0,0,0,1"}, Options())
    assert policy.priority_weights == PriorityWeights(0, 0, 0, 1)
    assert policy.fingerprint == make_policy().fingerprint
