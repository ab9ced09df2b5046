"""What is decided from counts is what is planned from files."""

from collections import defaultdict
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.economics.speeds import MethodRates, Rates
from icepact.economics.valuation import Valuation
from icepact.model.cost import Cost, Gain
from icepact.model.files import DeleteKind
from icepact.model.methods import Method
from icepact.model.policy import MethodOption, Policy, Strategy, Tier
from icepact.model.snapshot import LastRun, PinnedFiles
from icepact.plan import planner
from icepact.plan.decide import decide
from icepact.plan.file_columns import columns_of_files, columns_of_stats, copied_bytes
from icepact.stats.table import file_stats_of
from tests.support.planning import NOW, decided, make_plan
from tests.support.random_tables import policies, tables
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

GB = 1024**3


@st.composite
def cases(draw: st.DrawFn) -> tuple[Policy, PinnedFiles, Rates]:
    """A table with row groups of many sizes and some files of other formats, any policy, and any lessons."""
    policy = draw(policies())
    state = draw(tables(policy))
    policy = replace(
        policy,
        strategy=draw(st.sampled_from([s for s in Strategy if s is not Strategy.TIME_SERIES])),
        tier=draw(st.sampled_from([None, *Tier])),
        method=draw(st.sampled_from(MethodOption)),
        recode=draw(st.sampled_from([False, False, True])),
        min_row_group_size=draw(st.integers(1, 9) | st.integers(1, policy.target_file_size)),
        rewrite_all=draw(st.sampled_from([False, False, True])),
        max_fragment_ratio=draw(st.sampled_from([0.0, 0.5, 10.0])),
    )
    chance = draw(st.randoms(use_true_random=False))
    files = [
        f._replace(
            row_groups=tuple(sorted(chance.sample(range(f.size), min(f.size, chance.choice((0, 1, 2, 5, 9)))))),
            format=chance.choice(("parquet",) * 20 + ("orc", "avro")),
        )
        for f in state.files
    ]
    deletes = [d._replace(records=chance.choice((1, 1, 2, 50))) for d in state.deletes]
    own = LastRun(layout="other", snapshot_id=9, own_sequence_numbers=frozenset({3}), pinned_sequence_number=2)
    ratio = draw(st.sampled_from([1.0, 0.4, 1.3]))
    rates = Rates(methods={m: MethodRates(ratio=ratio if m is Method.ASSEMBLE else 0.7) for m in Method})
    return (
        policy,
        replace(state, files=files, deletes=deletes, last_runs=(own,)),
        rates if draw(st.booleans()) else Rates(),
    )


@given(cases())
def test_what_is_judged_from_counts_is_planned_from_files_at_the_same_price(
    case: tuple[Policy, PinnedFiles, Rates],
) -> None:
    policy, state, rates = case
    found = decided(state, policy, rates)
    decisions, plan = found.decisions, planner.make_plan(found, state)
    steps = defaultdict(list)
    for step in plan.rewrites:
        steps[step.partition].append(step)
    assert steps.keys() == {decision.partition_group.name for decision in decisions.chosen}
    for decision in decisions.chosen:
        mine = steps[decision.partition_group.name]
        assert (decision.files, decision.bytes) == (sum(s.input_files for s in mine), sum(s.bytes for s in mine))
        assert decision.outputs == sum(s.predicted_files for s in mine)
        assert decision.tier is mine[0].tier
        assert decision.cost.to_dict() == pytest.approx(Cost.sum(s.cost for s in mine).to_dict())
        assert decision.gain.to_dict() == pytest.approx(Gain.sum(s.gain for s in mine).to_dict())
    assert decisions.money == pytest.approx(plan.predicted.money.likely, rel=1e-6, abs=1e-9)
    reasons = {entry.partition: entry.reason for entry in plan.left_out if entry.partition not in steps}
    assert reasons == {d.partition_group.name: d.reason for d in decisions.partitions if not d.chosen}


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(case: tuple[Policy, PinnedFiles, Rates], chance: Random) -> None:
    policy, state, rates = case
    shuffled = replace(state, files=chance.sample(list(state.files), len(state.files)))
    found = decided(state, policy, rates)
    plans = [planner.make_plan(found, some) for some in (state, shuffled)]
    assert plans[0] == plans[1]


def test_a_touched_file_is_copied_but_for_the_row_groups_that_deletes_touch() -> None:
    deletes = [delete_file(f"d{n}", DeleteKind.POSITION, referenced=f"f{n}", records=1) for n in range(4)]
    starts = tuple(4 + n * 128 * MB for n in range(10))
    files = attach([data_file(f"f{n}", 10 * 128 * MB + 4, row_groups=starts) for n in range(4)], deletes)
    state, policy = make_state(files, deletes), make_policy(strategy="deletes")
    [decision] = decided(state, policy).decisions.chosen
    assert decision.cost.copied_bytes == pytest.approx(0.9 * 5 * GB, rel=1e-6)
    assert decision.cost == Cost.sum(step.cost for step in make_plan(state, policy).rewrites)


@pytest.mark.parametrize(
    ("row_groups", "kind", "given", "copied"),
    [
        pytest.param((4,), None, {}, 40 * MB - 4, id="one row group"),
        pytest.param((), None, {}, 40 * MB, id="nobody told where readers may begin"),
        pytest.param((4, 20 * MB), None, {}, 40 * MB, id="two large ones"),
        pytest.param((4, 39 * MB), None, {}, 39 * MB, id="a small one at the end is joined"),
        pytest.param(tuple(range(4, 40 * MB, 2 * MB)), None, {}, 0, id="all are small"),
        pytest.param((4, 20 * MB), DeleteKind.POSITION, {"records": 1}, 20 * MB, id="one is touched"),
        pytest.param((4, 20 * MB), DeleteKind.DV, {"records": 2, "referenced": "f0"}, 0, id="both are touched"),
        pytest.param((4, 20 * MB), DeleteKind.EQUALITY, {"records": 1}, 0, id="keys may be anywhere"),
    ],
)
def test_what_is_copied(
    row_groups: tuple[int, ...], kind: DeleteKind | None, given: dict[str, object], copied: int
) -> None:
    deletes = [] if kind is None else [delete_file("d", kind, **given)]
    files = attach([data_file("f0", 40 * MB, row_groups=row_groups)], deletes)
    stats = file_stats_of(make_state(files, deletes))
    for columns in (columns_of_stats(stats, np.arange(1)), columns_of_files(files, deletes)):
        assert copied_bytes(columns, make_policy()).tolist() == [copied]


def test_a_vector_says_all_about_positions() -> None:
    """As in Iceberg: older position deletes of the same file are not read any more."""
    deletes = [
        delete_file("loose", DeleteKind.POSITION, records=3),
        delete_file("bound", DeleteKind.POSITION, records=3, referenced="f0"),
        delete_file("vector", DeleteKind.DV, records=1, referenced="f0"),
    ]
    starts = tuple(range(4, 80 * MB, 10 * MB))
    stats = file_stats_of(make_state([data_file(f"f{n}", 80 * MB, row_groups=starts) for n in range(2)], deletes))
    assert stats.deletes.hits.tolist() == [1, 3]


def test_what_has_not_changed_is_not_judged_again() -> None:
    files = [data_file(f"{day}-{n}", MB, partition=(day,)) for day in ("d1", "d2") for n in range(6)]
    stats, policy = file_stats_of(make_state(files)), make_policy()
    health = assess(stats, policy)
    before = decide(health, stats, policy, valuation=Valuation(now=NOW))
    again = decide(health, stats, policy, valuation=Valuation(now=NOW), before=before)
    assert len(before.candidates) == 2
    assert all(again.candidates[key] is candidate for key, candidate in before.candidates.items())


def test_gain_and_price_are_of_the_packed_candidates() -> None:
    files = [*(data_file(f"s{n}", 10 * MB) for n in range(12)), data_file("large", 500 * MB)]
    decisions = decided(make_state(files), make_policy(target_file_size="64MB")).decisions
    [decision] = decisions.chosen
    assert (decision.files, decision.bytes, decision.outputs) == (12, 120 * MB, 2)
    assert decision.gain.files == 10
    assert decision.cost.requests == 2 * 12 + 2
    assert decisions.to_dict()["chosen"] == 1
