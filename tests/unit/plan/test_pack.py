"""Packing: every file once, nothing too large, sizes alike, and nothing left to pack."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.files import DataFile
from icepact.model.policy import Policy
from icepact.plan.pack import _best_fit, _Limits, outputs_of
from tests.support.packing import pack
from tests.support.random_tables import policies, sizes
from tests.support.states import MB, data_file, make_policy


@st.composite
def packings(draw: st.DrawFn, *, group_limits: bool = True) -> tuple[list[DataFile], Policy]:
    """Files of one partition and a policy to pack them by."""
    policy = draw(policies(group_limits=group_limits))
    some = draw(st.lists(sizes(policy), min_size=1, max_size=80))
    return [data_file(f"f{n:03d}", size, sequence_number=n % 7) for n, size in enumerate(some)], policy


@given(packings())
def test_every_file_is_in_exactly_one_unit(packing: tuple[list[DataFile], Policy]) -> None:
    files, policy = packing
    units = pack(files, policy)
    assert sorted(f for unit in units for f in unit.files) == sorted(files)
    assert all(unit.files for unit in units)


@given(packings())
def test_no_unit_of_several_files_is_above_a_limit(packing: tuple[list[DataFile], Policy]) -> None:
    files, policy = packing
    for unit in pack(files, policy):
        if len(unit.files) > 1:
            assert unit.bytes <= policy.max_file_size
            assert unit.bytes <= policy.max_group_size
            assert len(unit.files) <= policy.max_group_files


@given(packings(group_limits=False))
def test_units_are_alike_in_size(packing: tuple[list[DataFile], Policy]) -> None:
    """Lone files are as large as they are, and the last unit is what remained."""
    files, policy = packing
    judged = [unit.bytes for unit in pack(files, policy)[:-1] if len(unit.files) > 1]
    average = sum(judged) / len(judged) if judged else 0
    assert all(average / 2 <= size <= average * 2 for size in judged)


@given(st.lists(st.integers(1, 140), min_size=1, max_size=200))
def test_small_files_become_files_within_a_tenth_of_the_target_but_for_the_rest(some: list[int]) -> None:
    files = [data_file(f"f{n:03d}", size) for n, size in enumerate(some)]
    units = pack(files, make_policy(target_file_size=1000))
    assert all(900 <= unit.bytes <= 1100 for unit in units[:-1])


@given(packings(), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(packing: tuple[list[DataFile], Policy], chance: random.Random) -> None:
    files, policy = packing
    shuffled = list(files)
    chance.shuffle(shuffled)
    assert pack(shuffled, policy) == pack(files, policy)


@given(packings())
def test_units_come_largest_first_and_files_oldest_first(packing: tuple[list[DataFile], Policy]) -> None:
    files, policy = packing
    units = pack(files, policy)
    assert [u.bytes for u in units] == sorted((u.bytes for u in units), reverse=True)
    for unit in units:
        assert list(unit.files) == sorted(unit.files, key=lambda f: (f.sequence_number, f.path))


@given(packings(group_limits=False))
def test_packing_what_was_packed_joins_nothing(packing: tuple[list[DataFile], Policy]) -> None:
    files, policy = packing
    outputs = [data_file(f"out-{n}", unit.bytes) for n, unit in enumerate(pack(files, policy))]
    small = [f for f in outputs if f.size < policy.min_file_size]
    assert all(len(unit.files) == 1 for unit in pack(small, policy))


@given(packings())
def test_at_most_one_unit_could_still_be_joined_with_another(packing: tuple[list[DataFile], Policy]) -> None:
    """Where no limit of a group cuts it short, two small units never stay apart if they fit together."""
    files, policy = packing
    units = pack(files, policy)
    room = min(policy.max_file_size, policy.max_group_size)
    small = sorted((u for u in units if u.bytes < policy.min_file_size), key=lambda u: u.bytes)
    for one, other in pairwise(small):
        too_many = len(one.files) + len(other.files) > policy.max_group_files
        assert too_many or one.bytes + other.bytes > room


@pytest.mark.parametrize(
    ("megabytes", "given_options", "expected"),
    [
        pytest.param([10] * 11, {}, [[10] * 11], id="all into one"),
        pytest.param([50, 50, 50, 50], {}, [[50, 50], [50, 50]], id="two full ones"),
        pytest.param([100, 8], {}, [[100, 8]], id="a tiny remainder goes above the target"),
        pytest.param([60, 60, 60], {}, [[60, 60], [60]], id="two small ones are joined above the target"),
        pytest.param([60, 60, 60], {"max_file_size": "110MB"}, [[60], [60], [60]], id="unless that is lower"),
        pytest.param([300, 20, 20], {}, [[300], [20, 20]], id="a lone oversized file stands alone"),
        pytest.param([30] * 4, {"max_group_files": 2}, [[30, 30], [30, 30]], id="limit of files"),
        pytest.param([30] * 4, {"max_group_size": "70MB"}, [[30, 30], [30, 30]], id="limit of bytes"),
    ],
)
def test_examples(megabytes: list[int], given_options: dict[str, object], expected: list[list[int]]) -> None:
    policy = make_policy(target_file_size="100MB", **given_options)
    files = [data_file(f"f{n}", size * MB) for n, size in enumerate(megabytes)]
    assert [[f.size // MB for f in unit.files] for unit in pack(files, policy)] == expected


def test_a_lone_file_beyond_the_maximum_becomes_several() -> None:
    policy = make_policy(target_file_size=100, max_file_size=180)
    expected = {1: 1, 180: 1, 181: 2, 360: 2, 361: 3}
    assert {size: outputs_of(size, policy) for size in expected} == expected


@pytest.mark.parametrize("largest", [1 * MB, 100 * MB, 700 * MB])
def test_thirty_thousand_files(largest: int) -> None:
    """Tiny files that fill few units, and middling ones of which each unit takes one or two."""
    chance = random.Random(7)
    files = [data_file(f"f{n:05d}", chance.randint(1, largest)) for n in range(30_000)]
    policy = make_policy(max_group_files=30_000)
    units = pack(files, policy)
    assert sum(len(unit.files) for unit in units) == len(files)
    floor = sum(f.size for f in files) / (policy.target_file_size * 1.1)
    assert len(units) >= floor * 0.6
    assert sum(1 for unit in units if unit.bytes < policy.min_file_size) <= 1


def test_units_are_alike_so_that_tasks_take_equally_long() -> None:
    policy = make_policy(target_file_size="512MB")
    units = pack([data_file(f"f{n:03d}", 11 * 10**6) for n in range(91)], policy)
    assert [len(unit.files) for unit in units] == [46, 45]


@given(packings(), st.integers(1, 400))
def test_best_fit_is_that_of_one_file_after_the_other(packing: tuple[list[DataFile], Policy], capacity: int) -> None:
    """Each goes into the fullest unit that has room for it, the first of equal ones; or into a new one."""
    files, policy = packing
    falling = sorted((f.size for f in files), reverse=True)
    expected: list[list[int]] = []
    for file, size in enumerate(falling):
        rooms = [(capacity - sum(falling[f] for f in unit), at) for at, unit in enumerate(expected)]
        fitting = [(r, at) for r, at in rooms if r >= size and len(expected[at]) < policy.max_group_files]
        if fitting:
            expected[min(fitting)[1]].append(file)
        else:
            expected.append([file])
    found = _best_fit(falling, _Limits(policy, 1.0), capacity)
    assert [unit.files for unit in found] == expected
    assert [unit.size for unit in found] == [sum(falling[f] for f in unit) for unit in expected]
