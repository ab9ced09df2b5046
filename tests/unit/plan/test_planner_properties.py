"""What every plan keeps to, whatever the table: INVARIANTS 15, 16 and 18."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from icepact.model.files import DeleteKind, delete_records, signature
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.snapshot import PinnedFiles
from tests.support.planning import make_plan
from tests.support.random_tables import committed, exactly, policies, shrinking, tables
from tests.support.states import data_file, in_partition

Wish = tuple[PinnedFiles, Policy]
SEEDS = st.integers(0, 2**32)


@st.composite
def wishes(
    draw: st.DrawFn,
    *,
    budgets: bool = False,
    group_limits: bool = True,
    old_specs: bool = True,
    versions: tuple[int, ...] = (1, 2, 3),
) -> Wish:
    """A table and a policy for it."""
    policy = draw(policies(budgets=budgets, group_limits=group_limits))
    return draw(tables(policy, old_specs=old_specs, versions=versions)), policy


def inputs(plan: Plan) -> Counter[str]:
    """How often each file is an input."""
    return Counter(f.path for step in plan.rewrites for f in step.files)


@given(wishes(budgets=True), st.randoms(use_true_random=False), st.booleans())
def test_the_same_table_gives_the_same_plan(wish: Wish, chance: random.Random, everything: bool) -> None:
    """Also if a scan happens to list its files in another order."""
    state, policy = wish
    policy = replace(policy, rewrite_all=everything)
    shuffled = list(state.files)
    chance.shuffle(shuffled)
    assert make_plan(replace(state, files=shuffled), policy) == make_plan(state, policy)


@given(wishes(budgets=True), st.booleans())
def test_a_group_is_of_one_partition_or_of_old_specs_and_a_file_in_one_group(wish: Wish, everything: bool) -> None:
    state, policy = wish
    plan = make_plan(state, replace(policy, rewrite_all=everything))
    for step in plan.rewrites:
        places = {in_partition(f) for f in step.files}
        assert step.output_spec_id == state.spec_id
        if step.regroup:
            assert all(spec_id != state.spec_id for spec_id, _ in places)
        else:
            assert places == {in_partition(step.files[0])}
            assert step.files[0].spec_id == state.spec_id
            assert step.partition == state.show_partition(*in_partition(step.files[0]))
    assert set(inputs(plan).values()) <= {1}
    assert [step.group_id for step in plan.rewrites] == [f"g{n:04d}" for n in range(1, len(plan.rewrites) + 1)]


@given(wishes(budgets=True))
def test_a_group_leaves_fewer_files_or_removes_deletes(wish: Wish) -> None:
    state, policy = wish
    for step in make_plan(state, policy).rewrites:
        assert step.predicted_files < len(step.files) or step.delete_records > 0
        assert step.delete_records == delete_records(step.files, state.deletes)
        assert step.predicted_rows is not None
        assert 0 <= step.predicted_rows <= sum(f.rows for f in step.files)
        bound = {DeleteKind.POSITION, DeleteKind.DV} & {state.deletes[i].kind for f in step.files for i in f.deletes}
        assert step.predicted_bytes <= step.bytes
        assert bound or step.predicted_bytes == step.bytes


@given(wishes())
def test_every_unit_earns_its_rewrite(wish: Wish) -> None:
    """A lone file is touched only for its deletes."""
    state, policy = wish
    for step in make_plan(state, policy).rewrites:
        assert all(len(unit.files) > 1 or unit.files[0].deletes for unit in step.units)


@given(wishes(budgets=True), st.booleans())
def test_groups_keep_to_their_limits(wish: Wish, everything: bool) -> None:
    state, policy = wish
    for step in make_plan(state, replace(policy, rewrite_all=everything)).rewrites:
        assert len(step.files) <= policy.max_group_files
        assert step.bytes <= policy.max_group_size or len(step.files) == 1


@given(wishes(budgets=True), st.booleans())
def test_a_plan_keeps_to_its_budget_and_names_what_it_leaves(wish: Wish, everything: bool) -> None:
    state, policy = wish
    policy = replace(policy, rewrite_all=everything)
    plan = make_plan(state, policy)
    unlimited = make_plan(state, replace(policy, max_files=None, max_bytes=None, max_duration=None))
    assert policy.max_files is None or sum(inputs(plan).values()) <= policy.max_files
    assert policy.max_bytes is None or sum(step.bytes for step in plan.rewrites) <= policy.max_bytes
    seconds = sum(step.cost.seconds.likely for step in plan.rewrites)
    assert policy.max_duration is None or seconds <= policy.max_duration * (1 + 1e-9)
    held_back = sum(entry.files for entry in plan.left_out if entry.reason.startswith("over the budget"))
    assert held_back == sum(inputs(unlimited).values()) - sum(inputs(plan).values())
    assert plan.complete == (held_back == 0)
    assert unlimited.complete


@given(wishes(budgets=True), st.booleans())
def test_every_file_is_planned_or_left_out_with_a_reason(wish: Wish, everything: bool) -> None:
    state, policy = wish
    plan = make_plan(state, replace(policy, rewrite_all=everything))
    current = {state.show_partition(*place) for place in state.by_partition if place[0] == state.spec_id}

    def place(name: str) -> str:
        return name if name in current else "old specs"  # they are judged as one

    files: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for file in state.files:
        name = place(state.show_partition(*in_partition(file)))
        files[name] += 1
        size[name] += file.size
    for step in plan.rewrites:
        files[place(step.partition)] -= len(step.files)
        size[place(step.partition)] -= step.bytes
    for entry in plan.left_out:
        assert entry.files > 0
        assert entry.reason
        files[place(entry.partition)] -= entry.files
        size[place(entry.partition)] -= entry.bytes
    assert not any(files.values())
    assert not any(size.values())


@given(wishes(budgets=True))
def test_the_prediction_adds_up(wish: Wish) -> None:
    state, policy = wish
    plan = make_plan(state, policy)
    told = plan.predicted
    planned = [f for step in plan.rewrites for f in step.files]
    assert told.files_before == len(state.files) == plan.before.files
    assert told.files_after == told.files_before - told.input_files + told.output_files
    assert told.input_files == len(planned)
    assert told.input_bytes == sum(f.size for f in planned)
    assert told.output_files == sum(step.predicted_files for step in plan.rewrites)
    assert told.delete_records == delete_records(planned, state.deletes)


@given(wishes(), st.data(), st.booleans())
def test_a_partition_with_a_path_that_is_live_twice_is_refused(
    wish: Wish, data: st.DataObject, everything: bool
) -> None:
    state, policy = wish
    broken = data.draw(st.sampled_from(list(state.files)))
    state = replace(state, files=[*state.files, broken], live_twice=frozenset({broken.path}))
    plan = make_plan(state, replace(policy, rewrite_all=everything))
    name = state.show_partition(*in_partition(broken))
    assert name not in {step.partition for step in plan.rewrites}
    told = [entry for entry in plan.left_out if entry.partition == name]
    assert [entry.files for entry in told] == [len(state.by_partition[in_partition(broken)])]
    assert told[0].reason == f"refused: {broken.path} is live more than once in this snapshot"


# -- the fixed point ------------------------------------------------------------------------------


@given(wishes(), SEEDS, st.booleans())
def test_once_committed_the_same_policy_plans_nothing(wish: Wish, seed: int, everything: bool) -> None:
    """However large the outputs turned out to be; also after everything was rewritten on request."""
    state, policy = wish
    first = make_plan(state, replace(policy, rewrite_all=everything))
    second = make_plan(committed(state, first, shrinking(seed)), policy)
    assert first.complete
    assert second.rewrites == ()
    assert second.complete


@given(wishes(old_specs=False, group_limits=False))
def test_packing_is_a_fixed_point_by_itself(wish: Wish) -> None:
    """No memory of the last run is needed where outputs are as large as predicted.

    Left aside: a file above the maximum that is rewritten for its deletes, for its last piece may be small.
    """
    state, policy = wish
    assume(not any(f.deletes and f.size > policy.max_file_size for f in state.files))
    first = make_plan(state, policy)
    assert make_plan(committed(state, first, exactly, marker=False), policy).rewrites == ()


@given(wishes(versions=(2, 3)), SEEDS, st.data())
def test_a_new_file_makes_work_in_its_partition_only(wish: Wish, seed: int, data: st.DataObject) -> None:
    state, policy = wish
    after = committed(state, make_plan(state, policy), shrinking(seed))
    place = data.draw(st.sampled_from([p for p in after.by_partition if p[0] == after.spec_id] or [(1, ("d9",))]))
    news = data_file("new", 1, spec_id=place[0], partition=place[1], sequence_number=12)
    plan = make_plan(replace(after, snapshot_id=102, sequence_number=12, files=[*after.files, news]), policy)
    assert {in_partition(f) for step in plan.rewrites for f in step.files} <= {place}


@given(wishes(versions=(2, 3), old_specs=False), SEEDS)
def test_a_file_appended_during_the_run_is_news(wish: Wish, seed: int) -> None:
    """It was committed after the pin and before the run's own commit, so nobody has judged it."""
    state, policy = wish
    policy = replace(policy, min_input_files=2, min_file_size=max(2, policy.min_file_size))
    plan = make_plan(state, policy)
    late = [data_file(f"late-{n}", 1, partition=("d9",), sequence_number=11) for n in range(2)]
    behind = replace(state, sequence_number=11, files=[*state.files, *late])
    after = committed(behind, plan, shrinking(seed))
    [run] = after.last_runs
    assert (run.pinned_sequence_number, run.own_sequence_numbers) == (10, {12})
    assert {f.path for step in make_plan(after, policy).rewrites for f in step.files} == {"late-0", "late-1"}


@given(wishes(budgets=True, versions=(2, 3)), SEEDS)
def test_runs_with_a_budget_come_to_an_end(wish: Wish, seed: int) -> None:
    """Each run leaves fewer deletes, or as many and fewer files: a small budget only means more runs."""

    def work(state: PinnedFiles) -> tuple[int, int]:
        return sum(len(f.deletes) for f in state.files), len(state.files)

    state, policy = wish
    while (plan := make_plan(state, policy)).rewrites:
        after = committed(state, plan, shrinking(seed))
        assert work(after) < work(state)
        state = after


@given(wishes(budgets=True))
def test_a_plan_comes_back_from_a_document_as_it_was(wish: Wish) -> None:
    plan = make_plan(*wish)
    assert Plan.from_json(plan.to_json()) == replace(plan, left_out=list(plan.left_out), deletes=list(plan.deletes))


@given(wishes())
def test_groups_that_are_set_aside_are_left_out_with_their_reason(wish: Wish) -> None:
    state, policy = wish
    plan = make_plan(state, policy)
    assume(plan.rewrites)
    poison = signature(plan.rewrites[0].files, plan.deletes)
    without = make_plan(state, policy, set_aside={poison: "set aside: it failed"})
    bad = {f.path for f in plan.rewrites[0].files}
    assert bad.isdisjoint(inputs(without))
    assert [entry.reason for entry in without.left_out].count("set aside: it failed") == 1
    assert (len(without.rewrites), without.complete) == (len(plan.rewrites) - 1, False)
