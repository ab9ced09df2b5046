"""Strategies that weigh gain against price: what every plan of theirs keeps to; and strategies of one's own."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.economics.lessons import Evidence, Lesson, Lessons
from icepact.economics.valuation import Valuation
from icepact.entrypoints.library import Compactor
from icepact.model.errors import BadInput
from icepact.model.files import DeleteKind
from icepact.model.health import PartitionGroup
from icepact.model.plan import Plan
from icepact.model.policy import Policy, Strategy
from icepact.model.snapshot import PinnedFiles
from icepact.plan.strategies.selection import FileSelector, Selection
from icepact.plan.strategies.table import STRATEGIES, with_own
from icepact.plan.tiers import due
from icepact.policy.options import options
from icepact.stats.table import file_stats_of
from tests.support.planning import NOW, decided, make_plan
from tests.support.random_tables import committed, policies, shrinking, tables
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

WEIGHING = (Strategy.COST_OPTIMIZED, Strategy.AUTO)


@st.composite
def wishes(draw: st.DrawFn, *, versions: tuple[int, ...] = (1, 2, 3)) -> tuple[PinnedFiles, Policy]:
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
def test_once_committed_the_same_policy_plans_nothing(wish: tuple[PinnedFiles, Policy], seed: int) -> None:
    """Though what was refused is judged anew: waiting may change that, and nothing else."""
    state, policy = wish
    first = make_plan(state, policy)
    second = make_plan(committed(state, first, shrinking(seed)), policy)
    assert first.complete
    assert second.rewrites == ()


@given(wishes())
def test_every_file_is_planned_or_left_out_with_a_reason(wish: tuple[PinnedFiles, Policy]) -> None:
    state, policy = wish
    plan = make_plan(state, policy)
    assert all(entry.reason and entry.files for entry in plan.left_out)
    planned = sum(len(step.files) for step in plan.rewrites)
    assert planned + sum(entry.files for entry in plan.left_out) == len(state.files)
    assert make_plan(state, policy) == plan


@given(wishes())
def test_nothing_is_done_that_is_predicted_to_cost_more_than_it_saves(wish: tuple[PinnedFiles, Policy]) -> None:
    state, policy = wish
    valuation = Valuation(now=NOW)
    plan = make_plan(state, policy)
    for partition in {step.partition for step in plan.rewrites}:
        steps = [step for step in plan.rewrites if step.partition == partition]
        days = policy.horizon / 86400
        saving = sum(step.gain.scan_seconds for step in steps) * policy.scans_per_day * days
        assert saving * valuation.money_per_scan_second > sum(step.cost.seconds.likely for step in steps) * 0.05 / 3600


# -- deletes ------------------------------------------------------------------------------------------


def test_deletes_that_apply_to_nothing_go_with_the_smallest_file_if_it_is_small() -> None:
    policy = make_policy(strategy="deletes")
    old = data_file("elsewhere", MB, partition=("d9",), sequence_number=1)
    idle = [delete_file(f"idle{n}", DeleteKind.EQUALITY, sequence_number=1) for n in range(3)]
    files = [old, *(data_file(f"f{n}", (n + 5) * MB, sequence_number=2) for n in range(4))]
    [step] = make_plan(make_state(attach(files, idle), idle), policy).rewrites
    assert ([f.path for f in step.files], step.predicted_files, step.tier) == (["f0"], 1, "minor")
    assert (step.gain.delete_files, step.gain.scan_seconds) == (3, 0.0)
    assert step.reason == "3 delete files apply to nothing; they go with the commit of its smallest file"
    large = [old, *(data_file(f"f{n}", (n + 500) * MB, sequence_number=2) for n in range(4))]
    plan = make_plan(make_state(attach(large, idle), idle), policy)
    assert plan.rewrites == ()
    assert "3 delete files apply to nothing, but no file is small enough to be rewritten for that" in {
        entry.reason for entry in plan.left_out
    }


# -- how deep -----------------------------------------------------------------------------------------


def messy(deleted: int) -> PinnedFiles:
    """One day of small files, and a large one with deletes."""
    files = [data_file(f"s{n}", 2 * MB) for n in range(40)]
    large = [data_file(f"l{n}", 480 * MB) for n in range(2)]
    deletes = [delete_file("d", DeleteKind.POSITION, records=deleted, referenced="l0")]
    return make_state(attach([*files, *large], deletes), deletes)


def taken(plan: Plan) -> set[str]:
    """Which files are rewritten."""
    return {f.path for step in plan.rewrites for f in step.files}


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
    assert {step.partition for step in first.rewrites} == {"day=d1"}
    after = committed(state, first, shrinking(1))
    told = {entry.partition: entry.reason for entry in make_plan(after, policy).left_out}
    assert told["day=d1"].startswith("nothing was written since the run that made snapshot")
    assert told["day=d2"].startswith("not worth it")


# -- auto ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "given", "which"),
    [
        (1, {}, FileSelector.NONE),
        (2, {}, FileSelector.SMALL),
        (2, {"compacted_at": {"minor": NOW - timedelta(minutes=59)}}, FileSelector.NONE),
        (2, {"compacted_at": {"minor": NOW - timedelta(minutes=60)}}, FileSelector.SMALL),
        (11, {"compacted_at": {"minor": NOW}}, FileSelector.NONE),
        (12, {"compacted_at": {"minor": NOW}}, FileSelector.SMALL),
    ],
)
def test_what_is_due(files: int, given: dict[str, Any], which: FileSelector) -> None:
    state = make_state([data_file(f"f{n}", MB) for n in range(files)])
    policy = make_policy(strategy="auto")
    [partition_group] = assess(file_stats_of(state), policy).partition_groups
    assert due(replace(partition_group, **given), policy, NOW).which is which


def test_auto_listens_to_lessons() -> None:
    state = make_state([data_file(f"f{n}", 8 * MB) for n in range(20)])
    policy = make_policy(strategy="auto", scans_per_day=200, reader_parallelism=1)
    grows = Lessons(own=Evidence(compression=Lesson(value=0.7, weight=20, error=0.01)))

    def planned(lessons: Lessons) -> Plan:
        return make_plan(state, policy, valuation=Valuation(now=NOW, lessons=lessons))

    assert len(planned(Lessons()).rewrites) == 1
    [entry] = planned(grows).left_out
    assert "rewriting makes rows 98% larger" in entry.reason
    assert planned(Lessons()).rewrites[0].features["merged_files"] == 19


# -- one's own ----------------------------------------------------------------------------------------


def only_first(partition_group: PartitionGroup, policy: Policy, now: Any) -> Selection:
    """A strategy of a user."""
    del policy, now
    which = FileSelector.ALL if partition_group.name == "day=d1" else FileSelector.NONE
    return Selection(which=which, reason="mine" if which is FileSelector.ALL else "not mine")


def test_a_strategy_of_ones_own_is_one_function() -> None:
    strategies = with_own({"only-first": only_first})
    policy = replace(make_policy(), strategy="only-first")
    state = make_state([data_file(f"{d}{n}", MB, partition=(d,)) for d in ("d1", "d2") for n in range(2)])
    [chosen] = decided(state, policy, strategies=strategies).decisions.chosen
    assert (chosen.partition_group.name, chosen.reason) == ("day=d1", "mine")
    plan = make_plan(state, policy, strategies=strategies)
    assert [(step.partition, step.reason) for step in plan.rewrites] == [("day=d1", "mine")]
    assert [entry.reason for entry in plan.left_out] == ["not mine"]
    assert Plan.from_json(plan.to_json()).policy.strategy == "only-first"


def test_a_strategy_must_be_known_and_must_not_take_the_name_of_another() -> None:
    with pytest.raises(BadInput, match=r"there is: small-files, deletes, time-series, cost-optimized, auto$"):
        options({"strategy": "only-first"})
    with pytest.raises(BadInput, match="strategy auto is built in: choose another name"):
        with_own({"auto": only_first})


OWN = "only-first"
RULES = "rules: [{match: 'shop.*', options: {strategy: only-first}}]"


def test_two_applications_do_not_see_each_others_strategies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a request, nor in a table's properties, a policy file or the configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake.yaml").write_text(RULES)
    (tmp_path / "own.yaml").write_text("policy: {strategy: only-first}")
    mine = Compactor(policies="lake.yaml", config="own.yaml", strategies={OWN: only_first})
    other = Compactor(strategies={"another": only_first})
    properties = {"icepact.strategy": OWN}
    found = mine.policies.resolve(options({}), properties, "local", ("shop", "orders"))
    assert (found.policy.strategy, found.sources["strategy"]) == (OWN, "table property")
    assert mine.policies.configuration.strategy == OWN
    assert mine.application.strategies[OWN].select is only_first
    assert mine._request(strategy=OWN).strategy == OWN

    known = r"there is: small-files, deletes, time-series, cost-optimized, auto, another"
    assert set(other.application.strategies) == {*STRATEGIES, "another"}
    assert OWN not in STRATEGIES
    with pytest.raises(BadInput, match=rf"strategy: unknown strategy; {known}$"):
        other.plan("shop.orders", strategy=OWN)
    with pytest.raises(BadInput, match=rf"{known} \(table property\)$"):
        other.policies.resolve(options({}), properties, "local", ("shop", "orders"))
    with pytest.raises(BadInput, match=rf"^lake.yaml:1: .*strategy: unknown strategy; {known}$"):
        Compactor(policies="lake.yaml", strategies={"another": only_first})
    with pytest.raises(BadInput, match=rf"^own.yaml:1: policy.strategy: unknown strategy; {known}$"):
        Compactor(config="own.yaml", strategies={"another": only_first})
    with pytest.raises(BadInput, match="strategy auto is built in: choose another name"):
        Compactor(strategies={"auto": only_first})
