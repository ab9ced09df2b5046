"""Histograms of file sizes: nothing is lost on the way, neither in counting nor in predicting."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.histogram import SizeClass
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.snapshot import PinnedFiles
from icepact.stats.histogram import histogram_of
from tests.support.planning import make_plan
from tests.support.random_tables import policies, tables
from tests.support.states import MB, data_file, make_policy, make_state

SIZES = st.lists(st.integers(0, 2**50), max_size=60)


@given(SIZES)
def test_every_file_is_in_the_class_of_its_size(sizes: list[int]) -> None:
    found = histogram_of(sizes)
    assert (found.files, found.bytes) == (len(sizes), sum(sizes))
    for c in found.classes:
        here = [size for size in sizes if c.at_least <= max(1, size) < c.below]
        assert (c.files, c.bytes) == (len(here), sum(here))


@given(SIZES)
def test_classes_double_from_the_first_that_has_files_to_the_last(sizes: list[int]) -> None:
    classes = histogram_of(np.array(sizes, np.int64)).classes
    assert all(after.at_least == before.below for before, after in pairwise(classes))
    assert not classes or (classes[0].files > 0 and classes[-1].files > 0)
    assert bool(classes) == bool(sizes)


@given(SIZES, SIZES, SIZES)
def test_a_changed_histogram_is_that_of_the_changed_files(stay: list[int], gone: list[int], new: list[int]) -> None:
    changed = histogram_of(stay + gone).changed(gone=histogram_of(gone), new=histogram_of(new))
    assert changed == histogram_of(stay + new)


def test_a_power_of_two_begins_a_class() -> None:
    assert histogram_of([0, 1, 7, 8, 15]).classes == (
        SizeClass(at_least=1, files=2, bytes=1),
        SizeClass(at_least=2, files=0, bytes=0),
        SizeClass(at_least=4, files=1, bytes=7),
        SizeClass(at_least=8, files=2, bytes=23),
    )


# -- in a plan ------------------------------------------------------------------------------------


@given(policies(budgets=True).flatmap(lambda policy: st.tuples(st.just(policy), tables(policy))))
def test_a_plan_predicts_as_many_files_and_bytes_by_size_as_in_total(wish: tuple[Policy, PinnedFiles]) -> None:
    policy, state = wish
    plan = make_plan(state, policy)
    before, after, p = plan.sizes_before, plan.sizes_after, plan.predicted
    assert before == histogram_of(f.size for f in state.files)
    assert (before.files, after.files) == (p.files_before, p.files_after)
    assert after.bytes == before.bytes - p.input_bytes + p.output_bytes
    assert all(c.files >= 0 and c.bytes >= 0 for c in after.classes)
    assert Plan.from_json(plan.to_json()).sizes_after == after


def test_small_files_move_to_the_class_of_the_target() -> None:
    policy = make_policy(target_file_size="64MB")
    plan = make_plan(make_state([data_file(f"{n}", 6 * MB) for n in range(10)]), policy)
    assert plan.sizes_before.classes == (SizeClass(at_least=4 * MB, files=10, bytes=60 * MB),)
    assert plan.sizes_after.classes == (SizeClass(at_least=32 * MB, files=1, bytes=60 * MB),)
    assert plan.to_dict()["histogram"] == {
        "before": [{"at_least": 4 * MB, "below": 8 * MB, "files": 10, "bytes": 60 * MB}],
        "after": [{"at_least": 32 * MB, "below": 64 * MB, "files": 1, "bytes": 60 * MB}],
    }


def test_what_is_left_alone_stays_in_its_class() -> None:
    files = [*(data_file(f"{n}", MB) for n in range(6)), data_file("large", 600 * MB)]
    after = make_plan(make_state(files), make_policy()).sizes_after
    assert {c.at_least: c.files for c in after.classes if c.files} == {4 * MB: 1, 512 * MB: 1}
