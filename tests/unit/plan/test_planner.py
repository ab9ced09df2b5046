"""Planning decisions, one by one. What a whole plan says in words is in `tests/golden`."""

from dataclasses import replace
from typing import Any

import pytest

from icepact.model.files import DataFile, DeleteKind, as_partition, is_odd
from icepact.model.methods import Method
from icepact.model.plan import LeftOut, Plan
from icepact.model.policy import Policy
from icepact.model.snapshot import LastRun
from icepact.plan import planner
from tests.support.planning import decided, make_plan
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state


def small(count: int, **given: Any) -> list[DataFile]:
    """Files of 1 MB."""
    prefix = "-".join(str(v) for v in given.get("partition", ("d1",)))
    return [data_file(f"{prefix}-{n}", MB, **given) for n in range(count)]


def paths(plan: Plan) -> list[list[str]]:
    """Inputs of each group."""
    return [sorted(f.path for f in step.files) for step in plan.rewrites]


def last_run(policy: Policy, **given: Any) -> LastRun:
    """A complete run by this policy: pinned at 4, committed as 6."""
    facts = {"snapshot_id": 100, "own_sequence_numbers": frozenset({6}), "pinned_sequence_number": 4, **given}
    return LastRun(layout=policy.fingerprint, **facts)


def test_a_step_says_all_there_is_to_know() -> None:
    deletes = [delete_file("eq", DeleteKind.EQUALITY, records=7)]
    plan = make_plan(make_state(attach(small(6), deletes), deletes), make_policy())
    [step] = plan.rewrites
    assert step.to_dict() == {
        "kind": "rewrite-files",
        "group_id": "g0001",
        "partition": "day=d1",
        "regroup": False,
        "output_spec_id": 1,
        "method": Method.ASSEMBLE.value,
        "method_reason": "about 0.2 s of work, 0.9 s by spark",
        "cost": step.cost.to_dict(),
        "gain": step.gain.to_dict(),
        "tier": "minor",
        "features": {
            "files_per_hour": 0.0,
            "lasting_hours": 168.0,
            "horizon_hours": 168.0,
            "merged_files": 5.0,
        },
        "reason": "6 files below 384 MB",
        "input_files": 6,
        "input_bytes": 6 * MB,
        "delete_records": 7,
        "deletes": "apply",
        "deletes_reason": "",
        "deletes_carried": 0,
        "joined": None,
        "predicted_files": 1,
        "predicted_bytes": 6 * MB,
        "predicted_rows": 6 * MB,
        "units": [[f"d1-{n}" for n in range(6)]],
    }
    cost = {k: v for k, v in step.cost.to_dict().items() if "money" not in k and not k.endswith(("_low", "_high"))}
    assert cost == {
        "seconds": 0.207,
        "copied_bytes": 0,
        "encoded_bytes": 6 * MB,
        "requests": 13,
        "read_requests": 12,
        "write_requests": 1,
    }


def test_the_plan_document_names_table_policy_and_prediction() -> None:
    document = make_plan(make_state(small(6)), make_policy(max_files=4)).to_dict()
    assert {k: document[k] for k in ("table", "branch", "snapshot_id", "complete")} == {
        "table": "db.events",
        "branch": "main",
        "snapshot_id": 100,
        "complete": False,
    }
    assert document["policy"]["sources"]["max_files"] == "request"
    assert document["left_out"] == [
        {"partition": "day=d1", "files": 2, "bytes": 2 * MB, "reason": "over the budget (max_files 4)"}
    ]
    told = document["predicted"]
    assert {k: v for k, v in told.items() if not k.startswith(("seconds", "duration", "money"))} == {
        "files_before": 6,
        "files_after": 3,
        "input_files": 4,
        "input_bytes": 4 * MB,
        "output_files": 1,
        "output_bytes": 4 * MB,
        "delete_records": 0,
        "deletes_carried": 0,
        "overhead": 0.0,
        "cores": 1,
    }
    [step] = document["steps"]
    assert {k: told[k] for k in ("seconds", "money", "money_high")} == {
        k: step["cost"][k] for k in ("seconds", "money", "money_high")
    }
    assert document["prices"]["preset"] == "s3-ec2"


def test_a_table_without_files_has_nothing_to_do() -> None:
    plan = make_plan(make_state([]), make_policy())
    assert (plan.rewrites, plan.left_out, plan.complete) == ((), (), True)


@pytest.mark.parametrize(
    ("files", "given", "reason"),
    [
        (small(5), {}, "5 files below 384 MB"),
        (small(2), {}, "2 files of 1.0 MB on average, below 384 MB"),
        (
            [*small(2), *(data_file(f"big-{n}", 500 * MB) for n in range(9))],
            {"max_file_count_per_partition": 10},
            "11 files, more than 10",
        ),
    ],
)
def test_what_makes_a_partition_a_candidate(files: list[DataFile], given: dict[str, Any], reason: str) -> None:
    plan = make_plan(make_state(files), make_policy(**given))
    assert [step.reason for step in plan.rewrites] == [reason]
    assert paths(plan) == [sorted(f.path for f in files if f.size == MB)]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (small(1), "only 1 file below 384 MB, 5 are wanted"),
        ([*small(4), *(data_file(f"big-{n}", 900 * MB) for n in range(4))], "only 4 files below 384 MB, 5 are wanted"),
        ([data_file("a", 384 * MB), data_file("b", 500 * MB)], "no file below 384 MB"),
        ([data_file("a", 5000 * MB)], "no file below 384 MB"),
    ],
)
def test_what_does_not(files: list[DataFile], reason: str) -> None:
    plan = make_plan(make_state(files), make_policy())
    size = sum(f.size for f in files)
    assert plan.rewrites == ()
    assert plan.left_out == (LeftOut(partition="day=d1", files=len(files), bytes=size, reason=reason),)


def test_deletes_above_the_ratio_bring_in_the_files_they_apply_to() -> None:
    files = [data_file(f"big-{n}", 500 * MB, rows=100) for n in range(3)]
    over = [delete_file("dv", DeleteKind.DV, records=31, referenced="big-1")]
    under = [over[0]._replace(records=30)]
    assert paths(make_plan(make_state(attach(files, over), over), make_policy())) == [["big-1"]]
    assert paths(make_plan(make_state(attach(files, under), under), make_policy())) == []


def test_a_delete_shared_by_partitions_is_counted_once() -> None:
    deletes = [delete_file("eq", DeleteKind.EQUALITY, records=7, spec_id=0, partition=())]
    files = attach([*small(6), *small(6, partition=("d2",))], deletes)
    plan = make_plan(make_state(files, deletes), make_policy())
    assert [step.delete_records for step in plan.rewrites] == [7, 7]
    assert plan.predicted.delete_records == 7


def test_files_of_an_old_spec_are_written_to_the_current_one() -> None:
    old = small(6, spec_id=2, partition=("eu",))
    current = [data_file(f"d{n}", 500 * MB, partition=(f"d{n}",)) for n in range(3)]
    plan = make_plan(make_state([*old, *current]), make_policy())
    [step] = plan.rewrites
    assert (step.partition, step.regroup, step.output_spec_id) == ("region=eu (old spec 2)", True, 1)
    assert (len(step.units), step.predicted_files) == (1, 3)


def test_all_partitions_of_old_specs_are_one_group() -> None:
    """A group for each would leave a small file of its own in every current partition."""
    old = [
        *small(3, spec_id=2, partition=("eu",)),
        *small(2, spec_id=2, partition=("us",)),
        *small(2, spec_id=0, partition=()),
    ]
    [step] = make_plan(make_state(old), make_policy()).rewrites
    assert (step.partition, len(step.files), step.predicted_files) == ("3 partitions of old specs", 7, 1)


def test_an_old_spec_whose_rows_would_spread_over_too_many_partitions_is_left_alone() -> None:
    old = small(6, spec_id=2, partition=("eu",))
    current = [data_file(f"d{n}", 500 * MB, partition=(f"d{n}",)) for n in range(6)]
    plan = make_plan(make_state([*old, *current]), make_policy())
    assert plan.rewrites == ()
    assert plan.left_out[-1].reason == "packing would not leave fewer files (6 files below 384 MB)"


def test_an_old_spec_that_does_not_fit_the_budget_is_left_whole() -> None:
    old = small(6, spec_id=2, partition=("eu",))
    plan = make_plan(make_state([*old, *small(5)]), make_policy(max_files=5))
    assert [step.partition for step in plan.rewrites] == ["day=d1"]
    assert plan.left_out == (
        LeftOut(partition="region=eu (old spec 2)", files=6, bytes=6 * MB, reason="over the budget (max_files 5)"),
    )


def test_a_cut_group_counts_only_the_deletes_it_still_applies() -> None:
    deletes = [delete_file(f"dv-{n}", DeleteKind.DV, records=100, referenced=f"d1-{n}") for n in (0, 5)]
    plan = make_plan(make_state(attach(small(6), deletes), deletes), make_policy(max_files=3))
    assert paths(plan) == [["d1-0", "d1-1", "d1-2"]]
    assert [step.delete_records for step in plan.rewrites] == [100]


def test_the_group_that_saves_most_comes_first() -> None:
    files = [*small(5), *small(9, partition=("d2",)), *small(5, partition=("d0",))]
    plan = make_plan(make_state(files), make_policy())
    assert [step.partition for step in plan.rewrites] == ["day=d2", "day=d0", "day=d1"]


def test_rewrite_all_takes_every_file() -> None:
    files = [data_file("big", 500 * MB), data_file("huge", 2000 * MB), *small(1)]
    plan = make_plan(make_state(files), make_policy(rewrite_all=True))
    [step] = plan.rewrites
    assert sorted(f.path for f in step.files) == ["big", "d1-0", "huge"]
    assert (step.reason, step.predicted_files) == ("rewrite-all was asked for", 4)


# -- what a run has settled -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sequence_number", "planned"),
    [
        pytest.param(4, False, id="pinned"),
        pytest.param(6, False, id="written by the run itself"),
        pytest.param(5, True, id="during the run"),
        pytest.param(7, True, id="after the run"),
    ],
)
def test_only_news_since_the_last_run_count(sequence_number: int, planned: bool) -> None:
    policy = make_policy()
    files = [*small(5, sequence_number=4), data_file("x", MB, sequence_number=sequence_number)]
    plan = make_plan(make_state(files, last_run=last_run(policy)), policy)
    assert bool(plan.rewrites) is planned
    if not planned:
        assert [entry.reason for entry in plan.left_out] == ["nothing was written since the run that made snapshot 100"]


def test_a_new_delete_is_news_too() -> None:
    policy = make_policy()
    for number, planned in ((6, False), (7, True)):
        deletes = [delete_file("dv", DeleteKind.DV, records=MB, referenced="d1-0", sequence_number=number)]
        state = make_state(attach(small(5), deletes), deletes, last_run=last_run(policy))
        assert bool(make_plan(state, policy).rewrites) is planned


def test_another_policy_judges_anew_and_a_budget_does_not() -> None:
    run = last_run(make_policy(max_files=50))
    state = make_state(small(6), last_run=run)
    assert make_plan(state, make_policy()).rewrites == ()
    assert len(make_plan(state, make_policy(min_input_files=6)).rewrites) == 1


def test_without_sequence_numbers_any_commit_is_news() -> None:
    policy = make_policy()
    run = last_run(policy, own_sequence_numbers=frozenset({0}), pinned_sequence_number=0)
    files = small(6, sequence_number=0)
    settled = make_state(files, format_version=1, snapshot_id=100, sequence_number=0, last_run=run)
    moved_on = make_state(files, format_version=1, snapshot_id=101, sequence_number=0, last_run=run)
    assert make_plan(settled, policy).rewrites == ()
    assert len(make_plan(moved_on, policy).rewrites) == 1


def test_two_hundred_thousand_files() -> None:
    """As a table looks that somebody wrote to every minute for months; seconds, not minutes."""
    deletes = [delete_file(f"eq-{n}", DeleteKind.EQUALITY, partition=(f"d{n}",)) for n in range(0, 200, 10)]
    files = [
        data_file(f"f{n:06d}", 1 + n * 7919 % (8 * MB), partition=(f"d{n % 200}",), deletes=() if n % 10 else (n % 20,))
        for n in range(200_000)
    ]
    plan = make_plan(make_state(files, deletes), make_policy(target_file_size="128MB"))
    assert plan.predicted.input_files == 200_000
    assert {len(step.files) for step in plan.rewrites} == {1000}
    assert plan.predicted.files_after < 8_000


# -- partitions that are asked for ----------------------------------------------------------------


def test_only_partitions_that_are_asked_for_are_planned() -> None:
    files = [*small(6), *small(6, partition=("d2",)), *small(6, partition=("e1",))]
    for wish in ({}, {"rewrite_all": True}):
        plan = make_plan(make_state(files), make_policy(partition="day=d?", **wish))
        assert {step.partition for step in plan.rewrites} == {"day=d1", "day=d2"}
        assert plan.left_out == (
            LeftOut(partition="day=e1", files=6, bytes=6 * MB, reason="not asked for: only partitions like day=d?"),
        )
        assert plan.complete
        assert plan.predicted.files_before == 18


def test_of_old_specs_only_what_is_asked_for_is_planned() -> None:
    """They are rewritten together, but not with what nobody asked for."""
    old = [f for region in ("eu", "us", "uk") for f in small(6, spec_id=2, partition=(region,))]
    plan = make_plan(make_state([*small(6), *old]), make_policy(partition="region=u?"))
    assert {f.partition for step in plan.rewrites for f in step.files} == {("us",), ("uk",)}
    assert [(entry.partition, entry.files) for entry in plan.left_out] == [
        ("day=d1", 6),
        ("region=eu (old spec 2)", 6),
    ]


# -- an older snapshot ----------------------------------------------------------------------------


def test_files_that_are_gone_since_the_snapshot_are_not_planned() -> None:
    policy = make_policy(snapshot_id=100)
    before = make_state([*small(6), *small(6, partition=("d2",))])
    found = decided(before, policy)
    now = replace(before, files=before.files[3:6])
    plan = planner.make_plan(found, now)
    assert paths(plan) == [["d1-3", "d1-4", "d1-5"]]
    assert [(e.partition, e.reason) for e in plan.left_out] == [
        ("day=d2", "its files were replaced since this snapshot")
    ]
    assert plan.complete
    assert not planner.make_plan(found, replace(now, format_version=1)).complete


def test_what_was_decided_before_is_told_with_its_own_reason() -> None:
    """Only files of chosen places are listed: of others the plan knows what was decided, not why there are none."""
    found = decided(make_state(small(6)), make_policy(strategy="auto", scans_per_day=0.001))
    [decision] = found.decisions.partitions
    assert decision.reason.startswith("not worth it: ")
    assert [entry.reason for entry in planner.make_plan(found, make_state([])).left_out] == [decision.reason]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -0.0, "NaN", "-0.0"])
def test_partition_values_that_json_cannot_be_trusted_with(value: object) -> None:
    assert is_odd(value)
    assert as_partition([value]) == as_partition([value])
    assert not any(is_odd(plain) for plain in (0.0, 1.5, 0, None, "x", "0.0"))
    assert as_partition([-0.0]) != as_partition([0.0])
