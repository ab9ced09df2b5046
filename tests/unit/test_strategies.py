"""Strategies that weigh gain against price: what every plan of theirs keeps to; and strategies of one's own."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.entrypoints.library import Compactor
from icepact.model.census import census_of
from icepact.model.errors import BadInput
from icepact.model.health import Place
from icepact.model.lessons import Lesson, Lessons, Taught
from icepact.model.outlook import Outlook
from icepact.model.plan import Plan
from icepact.model.policy import _STRATEGIES, Policy, Strategy, options
from icepact.model.table import DeleteKind, TableState
from icepact.plan import planner
from icepact.plan.strategies.auto import due
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.strategies.table import STRATEGIES, register
from tests.support.planning import NOW, make_plan
from tests.support.random_tables import committed, policies, shrinking, tables
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

WEIGHING = (Strategy.COST_OPTIMIZED, Strategy.AUTO)


@st.composite
def wishes(draw: st.DrawFn, *, versions: tuple[int, ...] = (1, 2, 3)) -> tuple[TableState, Policy]:
    """A table, and a policy by which some work pays and some does not."""
    policy = replace(
        draw(policies()),
        strategy=draw(st.sampled_from(WEIGHING)),
        scans_per_day=draw(st.sampled_from([0.01, 0.05, 0.2, 1.0, 24.0])),
        reader_parallelism=draw(st.sampled_from([1, 8, 64])),
    )
    return draw(tables(policy, versions=versions)), policy


# -- what every plan keeps to -------------------------------------------------------------------------


@given(wishes(), st.integers(0, 2**32))
def test_once_committed_the_same_policy_plans_nothing(wish: tuple[TableState, Policy], seed: int) -> None:
    """Though what was refused is judged anew: waiting may change that, and nothing else."""
    state, policy = wish
    first = make_plan(state, policy)
    second = make_plan(committed(state, first, shrinking(seed)), policy)
    assert first.complete
    assert second.steps == ()


@given(wishes())
def test_every_file_is_planned_or_left_out_with_a_reason(wish: tuple[TableState, Policy]) -> None:
    state, policy = wish
    plan = make_plan(state, policy)
    assert all(entry.reason and entry.files for entry in plan.left_out)
    planned = sum(len(step.files) for step in plan.steps)
    assert planned + sum(entry.files for entry in plan.left_out) == len(state.files)
    assert make_plan(state, policy) == plan


@given(wishes())
def test_nothing_is_done_that_is_predicted_to_cost_more_than_it_saves(wish: tuple[TableState, Policy]) -> None:
    state, policy = wish
    outlook = Outlook(now=NOW)
    plan = make_plan(state, policy)
    for partition in {step.partition for step in plan.steps}:
        steps = [step for step in plan.steps if step.partition == partition]
        days = policy.horizon / 86400
        saving = sum(step.gain.scan_seconds for step in steps) * policy.scans_per_day * days
        assert saving * outlook.money_per_scan_second > sum(step.cost.seconds for step in steps) * 0.05 / 3600


# -- deletes ------------------------------------------------------------------------------------------


def test_deletes_that_apply_to_nothing_go_with_the_smallest_file_if_it_is_small() -> None:
    policy = make_policy(strategy="deletes")
    old = data_file("elsewhere", MB, partition=("d9",), sequence_number=1)
    idle = [delete_file(f"idle{n}", DeleteKind.EQUALITY, sequence_number=1) for n in range(3)]
    files = [old, *(data_file(f"f{n}", (n + 5) * MB, sequence_number=2) for n in range(4))]
    [step] = make_plan(make_state(attach(files, idle), idle), policy).steps
    assert ([f.path for f in step.files], step.predicted_files, step.tier) == (["f0"], 1, "minor")
    assert (step.gain.delete_files, step.gain.scan_seconds) == (3, 0.0)
    assert step.reason == "3 delete files apply to nothing; they go with the commit of its smallest file"
    large = [old, *(data_file(f"f{n}", (n + 500) * MB, sequence_number=2) for n in range(4))]
    plan = make_plan(make_state(attach(large, idle), idle), policy)
    assert plan.steps == ()
    assert "3 delete files apply to nothing, but no file is small enough to be rewritten for that" in {
        entry.reason for entry in plan.left_out
    }


# -- how deep -----------------------------------------------------------------------------------------


def messy(deleted: int) -> TableState:
    """One day of small files, and a large one with deletes."""
    files = [data_file(f"s{n}", 2 * MB) for n in range(40)]
    large = [data_file(f"l{n}", 480 * MB) for n in range(2)]
    deletes = [delete_file("d", DeleteKind.POSITION, records=deleted, referenced="l0")]
    return make_state(attach([*files, *large], deletes), deletes)


def taken(plan: Plan) -> set[str]:
    """Which files are rewritten."""
    return {f.path for step in plan.steps for f in step.files}


def test_cost_optimized_goes_as_deep_as_pays() -> None:
    policy = make_policy(strategy="cost-optimized", reader_parallelism=1)
    small = {f"s{n}" for n in range(40)}
    assert taken(make_plan(messy(10), policy)) == small
    assert taken(make_plan(messy(2_000_000), policy)) == {*small, "l0"}
    rarely = make_policy(strategy="cost-optimized", scans_per_day=0.001)
    [entry] = make_plan(messy(10), rarely).left_out
    assert entry.reason.startswith("not worth it: scans would save ")
    assert entry.reason.endswith("(40 files below 384 MB)")


def test_cost_optimized_has_nothing_to_do_where_nothing_is_wrong() -> None:
    [entry] = make_plan(make_state([data_file("a", 500 * MB)]), make_policy(strategy="cost-optimized")).left_out
    assert entry.reason == "nothing to merge and no deletes"


def test_what_was_refused_is_judged_again_and_what_was_compacted_is_not() -> None:
    """Day 1 is compacted, day 2 is not worth it yet: once it is read more often, it is."""
    one = [data_file(f"a{n}", MB, partition=("d1",)) for n in range(60)]
    two = [data_file(f"b{n}", 30 * MB, partition=("d2",)) for n in range(3)]
    state = make_state([*one, *two], format_version=2)
    policy = make_policy(strategy="auto", scans_per_day=10, reader_parallelism=1)
    first = make_plan(state, policy)
    assert {step.partition for step in first.steps} == {"day=d1"}
    after = committed(state, first, shrinking(1))
    told = {entry.partition: entry.reason for entry in make_plan(after, policy).left_out}
    assert told["day=d1"].startswith("nothing was written since the run that made snapshot")
    assert told["day=d2"].startswith("not worth it")


# -- auto ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "given", "which"),
    [
        (1, {}, Which.NONE),
        (2, {}, Which.SMALL),
        (2, {"compacted_at": {"minor": NOW - timedelta(minutes=59)}}, Which.NONE),
        (2, {"compacted_at": {"minor": NOW - timedelta(minutes=60)}}, Which.SMALL),
        (11, {"compacted_at": {"minor": NOW}}, Which.NONE),
        (12, {"compacted_at": {"minor": NOW}}, Which.SMALL),
    ],
)
def test_what_is_due(files: int, given: dict[str, Any], which: Which) -> None:
    state = make_state([data_file(f"f{n}", MB) for n in range(files)])
    policy = make_policy(strategy="auto")
    [place] = assess(census_of(state), policy).places
    assert due(replace(place, **given), policy, NOW).which is which


def test_auto_listens_to_lessons() -> None:
    state = make_state([data_file(f"f{n}", 8 * MB) for n in range(20)])
    policy = make_policy(strategy="auto", scans_per_day=200, reader_parallelism=1)
    grows = Lessons(own=Taught(compression=Lesson(value=0.7, weight=20, error=0.01)))
    health = assess(census_of(state), policy)

    def planned(lessons: Lessons) -> Plan:
        return planner.make_plan(health, state, policy, now=NOW, outlook=Outlook(now=NOW, lessons=lessons))

    assert len(planned(Lessons()).steps) == 1
    [entry] = planned(grows).left_out
    assert "rewriting makes rows 98% larger" in entry.reason
    assert planned(Lessons()).steps[0].features["merged_files"] == 19


# -- one's own ----------------------------------------------------------------------------------------


def only_first(place: Place, policy: Policy, now: Any) -> Choice:
    """A strategy of a user."""
    del policy, now
    which = Which.ALL if place.name == "day=d1" else Which.NONE
    return Choice(which=which, reason="mine" if which is Which.ALL else "not mine")


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[str]:
    """A name that there is no more after the test."""
    Compactor(warehouse=tmp_path, strategies={"only-first": only_first})
    yield "only-first"
    del STRATEGIES["only-first"]
    _STRATEGIES.remove("only-first")


def test_a_strategy_of_ones_own_is_one_function(registered: str) -> None:
    policy = make_policy(strategy=registered)
    state = make_state([data_file(f"{d}{n}", MB, partition=(d,)) for d in ("d1", "d2") for n in range(2)])
    plan = make_plan(state, policy)
    assert [(step.partition, step.reason) for step in plan.steps] == [("day=d1", "mine")]
    assert [entry.reason for entry in plan.left_out] == ["not mine"]
    assert Plan.from_json(plan.to_json()).policy.strategy == "only-first"


def test_a_strategy_must_be_known_and_must_not_take_the_name_of_another() -> None:
    with pytest.raises(BadInput, match=r"there is: small-files, deletes, time-series, cost-optimized, auto$"):
        options({"strategy": "only-first"})
    with pytest.raises(BadInput, match="strategy auto is built in: choose another name"):
        register("auto", only_first)
