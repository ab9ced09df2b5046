"""Outputs as large as the table has taught: packing by sizes after merging, rows that remain, and the fixed point."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from icepact.economics.speeds import CALIBRATED, Measurement, MethodRates, Rates, Workload
from icepact.execute.rewriters.base import largest_output
from icepact.model.files import DataFile, DeleteKind
from icepact.model.methods import Method
from icepact.model.plan import Unit
from icepact.model.policy import Policy
from icepact.model.snapshot import LastRun, PinnedFiles
from icepact.plan.pack import outputs_of
from tests.support.packing import pack
from tests.support.planning import make_plan
from tests.support.random_tables import committed, exactly, policies, shrinking, sizes, tables
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state


def shrunk(ratio: float) -> Rates:
    """Rates of a table whose outputs are smaller than its inputs."""
    return Rates(methods={method: MethodRates(ratio=ratio) for method in Method})


ratios = st.floats(0.1, 2.0)


@st.composite
def packings(draw: st.DrawFn) -> tuple[list[DataFile], Policy]:
    """Files of one partition and a policy to pack them by."""
    policy = draw(policies(group_limits=False))
    some = draw(st.lists(sizes(policy), min_size=1, max_size=60))
    return [data_file(f"f{n:03d}", size) for n, size in enumerate(some)], policy


@given(packings(), ratios)
def test_units_are_filled_by_what_comes_out(packing: tuple[list[DataFile], Policy], ratio: float) -> None:
    files, policy = packing
    units = pack(files, policy, ratio)
    assert sorted(f for unit in units for f in unit.files) == sorted(files)
    for unit in units:
        assert unit.predicted_bytes == sum(math.ceil(f.size * ratio) for f in unit.files)
        if len(unit.files) > 1:
            assert unit.predicted_bytes <= policy.max_file_size
            assert outputs_of(unit.predicted_bytes, policy) == 1


@given(packings(), ratios)
def test_packing_what_came_out_joins_nothing(packing: tuple[list[DataFile], Policy], ratio: float) -> None:
    files, policy = packing
    units = pack(files, policy, ratio)
    outputs = [data_file(f"out-{n}", unit.predicted_bytes) for n, unit in enumerate(units)]
    small = [f for f in outputs if f.size < policy.min_file_size]
    assert all(len(unit.files) == 1 for unit in pack(small, policy))


@given(packings(), ratios, st.integers(1, 3000))
def test_the_limit_of_a_group_is_about_inputs(packing: tuple[list[DataFile], Policy], ratio: float, limit: int) -> None:
    files, policy = packing
    for unit in pack(files, replace(policy, max_group_size=limit), ratio):
        assert len(unit.files) == 1 or unit.bytes <= limit


def test_outputs_meet_the_target() -> None:
    """Sixty files of 10 MB that shrink to half: three outputs of 100 MB, not six of 50."""
    policy = make_policy(target_file_size="100MB")
    state = make_state([data_file(f"f{n:02d}", 10 * MB, row_groups=(4, 5 * MB)) for n in range(60)])
    [cold], [taught] = make_plan(state, policy).rewrites, make_plan(state, policy, shrunk(0.5)).rewrites
    assert (cold.predicted_files, cold.predicted_bytes) == (6, 600 * MB)
    assert (taught.predicted_files, taught.predicted_bytes) == (3, 300 * MB)
    assert [len(unit.files) for unit in taught.units] == [20, 20, 20]
    assert {largest_output(unit, policy) for unit in taught.units} == {policy.max_file_size}


def test_what_is_copied_keeps_its_size() -> None:
    policy = make_policy(target_file_size="100MB")
    files = [data_file(f"f{n:02d}", 20 * MB) for n in range(10)]  # one row group each, above the floor
    [step] = make_plan(make_state(files), policy, shrunk(0.5)).rewrites
    assert step.cost.copied_bytes == 10 * (20 * MB - 4)
    assert (step.predicted_files, step.predicted_bytes) == (2, pytest.approx(200 * MB, rel=0.001))
    spark = make_plan(make_state(files), make_policy(target_file_size="100MB", method="spark"), shrunk(0.5)).rewrites[0]
    assert (spark.predicted_files, spark.predicted_bytes) == (1, 100 * MB)


def test_what_a_run_wrote_does_not_shrink_once_more() -> None:
    policy = make_policy(target_file_size="100MB", min_input_files=2)
    own = data_file("own", 60 * MB, sequence_number=6, row_groups=tuple(range(4, 60 * MB, 5 * MB)))
    news = [data_file(f"new-{n}", 8 * MB, sequence_number=7, row_groups=(4, 4 * MB)) for n in range(10)]
    run = LastRun(layout="other", snapshot_id=99, own_sequence_numbers=frozenset({6}), pinned_sequence_number=5)
    [step] = make_plan(make_state([own, *news], last_run=run), policy, shrunk(0.5)).rewrites
    assert (len(step.files), step.predicted_bytes) == (11, 60 * MB + 40 * MB)


@pytest.mark.parametrize(
    ("kind", "given", "rows"),
    [
        pytest.param(DeleteKind.DV, {"referenced": "f0", "records": 30}, 570, id="a vector of one file"),
        pytest.param(DeleteKind.POSITION, {"records": 60}, 540, id="position deletes of all files"),
        pytest.param(DeleteKind.POSITION, {"records": 9000}, 0, id="more than there are rows"),
        pytest.param(DeleteKind.EQUALITY, {"records": 60}, 600, id="equality deletes may match nothing"),
    ],
)
def test_rows_that_remain(kind: DeleteKind, given: dict[str, object], rows: int) -> None:
    deletes = [delete_file("d", kind, **given)]
    files = attach([data_file(f"f{n}", MB, rows=100) for n in range(6)], deletes)
    [step] = make_plan(make_state(files, deletes), make_policy()).rewrites
    assert (step.predicted_rows, step.predicted_bytes) == (rows, 6 * MB * rows // 600)


def test_a_delete_over_many_groups_removes_its_rows_once() -> None:
    deletes = [delete_file("d", DeleteKind.POSITION, records=300)]
    files = attach([data_file(f"f{n}", MB, rows=100) for n in range(12)], deletes)
    plan = make_plan(make_state(files, deletes), make_policy(max_group_files=4))
    assert [step.predicted_rows for step in plan.rewrites] == [300, 300, 300]


# -- the fixed point, with a ratio ----------------------------------------------------------------


@st.composite
def wishes(draw: st.DrawFn) -> tuple[PinnedFiles, Policy]:
    """A table and a policy for it."""
    policy = draw(policies())
    return draw(tables(policy)), policy


@given(wishes(), ratios, st.integers(0, 2**32))
def test_once_committed_nothing_is_planned_whatever_was_learned(
    wish: tuple[PinnedFiles, Policy], ratio: float, seed: int
) -> None:
    """Outputs may be as predicted or not, and the ratio may have been learned by the run itself."""
    state, policy = wish
    for actual, later in ((exactly, ratio), (shrinking(seed), random.Random(seed).uniform(0.1, 2.0))):
        first = make_plan(state, policy, shrunk(ratio))
        assert make_plan(committed(state, first, actual), policy, shrunk(later)).rewrites == ()


@given(wishes(), ratios)
def test_a_group_still_leaves_fewer_files_or_removes_deletes(wish: tuple[PinnedFiles, Policy], ratio: float) -> None:
    state, policy = wish
    for step in make_plan(state, policy, shrunk(ratio)).rewrites:
        assert step.predicted_files < len(step.files) or step.delete_records > 0
        assert len(step.files) == 1 or step.bytes <= policy.max_group_size


@given(seed=st.integers(0, 10**6), ratio=st.floats(0.4, 1.0))
def test_after_three_runs_files_are_foreseen_exactly_and_bytes_within_a_tenth(seed: int, ratio: float) -> None:
    """A table whose files shrink when they are merged, with noise; each day is compacted as it comes."""
    chance = random.Random(seed)
    policy = make_policy(target_file_size=100 * MB)
    known: list[Measurement] = []
    for day in range(6):
        rates = Rates.learned(known[::-1], "db.events")
        files = [
            data_file(f"{day}-{n}", chance.randint(MB, 12 * MB), row_groups=(4, 2 * MB, 4 * MB, 6 * MB))
            for n in range(chance.randint(20, 120))
        ]
        [step] = make_plan(make_state(files), policy, rates).rewrites
        written = [
            size for unit in step.units for size in _written(unit, ratio * math.exp(chance.gauss(0, 0.01)), policy)
        ]
        if day >= 3:
            assert len(written) == step.predicted_files
            assert sum(written) == pytest.approx(step.predicted_bytes, rel=0.1)
            full = sorted(written)[1:]
            assert all(size <= 1.2 * policy.target_file_size for size in full)
        workload = Workload(
            units=len(step.units),
            files=len(step.files),
            copied=step.cost.copied_bytes,
            encoded=step.cost.encoded_bytes,
        )
        known.append(
            Measurement(
                table="db.events",
                run=f"r{day}",
                method=step.method,
                workload=workload,
                seconds=sum(CALIBRATED[step.method].parts(workload)),
                bytes_out=sum(written),
                kept=1.0,
                outputs=len(written),
                reads=None,
                writes=None,
            )
        )


def _written(unit: Unit, ratio: float, policy: Policy) -> list[int]:
    """What a task makes of a unit: files up to the largest size."""
    left, largest = round(unit.bytes * ratio), largest_output(unit, policy)
    made = []
    while left > 0:
        made.append(min(left, largest))
        left -= largest
    return made


@given(wishes(), ratios)
def test_ratios_do_not_break_determinism(wish: tuple[PinnedFiles, Policy], ratio: float) -> None:
    state, policy = wish
    assume(len(state.files) > 1)
    turned = replace(state, files=list(reversed(state.files)))
    assert make_plan(turned, policy, shrunk(ratio)) == make_plan(state, policy, shrunk(ratio))
