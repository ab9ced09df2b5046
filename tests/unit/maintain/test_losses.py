"""Groups of which others have taken inputs: what is done all the same, and what is not worth it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.commit.judge import Answer
from icepact.execute.units import unit_ids
from icepact.iceberg.table.table import HeadView
from icepact.maintain.losses import changed_by_loss, left_of
from icepact.maintain.rebase import rebase
from icepact.model.files import DataFile, DeleteKind
from icepact.model.plan import Plan, RewriteFiles, Unit
from icepact.model.policy import Tier
from tests.support.planning import make_plan
from tests.support.states import data_file, delete_file, make_policy, make_state

FILES = [data_file(name, 100) for name in "abcdef"]
POSITIONS = delete_file("positions", DeleteKind.POSITION)


def plan_of(sizes: Sequence[int], **given: Any) -> Plan:
    """A plan of one group, whose units have so many of the files."""
    plan = make_plan(make_state(FILES), make_policy(min_input_files=2))
    [step] = plan.rewrites
    units, left = [], list(FILES)
    for size in sizes:
        units.append(Unit(files=tuple(left[:size]), predicted=10))
        left = left[size:]
    return replace(plan, steps=(replace(step, units=tuple(units), **given),))


def step_of(plan: Plan) -> RewriteFiles:
    """The one step."""
    [step] = plan.rewrites
    return step


def live(gone: str, deleted: str = "") -> dict[str, DataFile]:
    """Files that are still there; a delete applies to some of them."""
    there = [file for file in FILES if file.path not in gone]
    return {file.path: file._replace(deletes=(0,) if file.path in deleted else ()) for file in there}


def view(files: Mapping[str, DataFile]) -> HeadView:
    """A head with these files."""
    nothing: Any = None
    return HeadView(
        snapshot_id=9,
        sequence_number=9,
        format_version=2,
        interpretation="",
        files=list(files.values()),
        deletes=[POSITIONS],
        everything=nothing,
        tasks=nothing,
        java_deletes=None,
    )


@pytest.mark.parametrize(
    ("sizes", "gone", "deleted", "left", "changed"),
    [
        pytest.param([3, 3], "", "", ["abc", "def"], [], id="nothing is gone"),
        pytest.param([3, 3], "a", "", ["bc", "def"], [0], id="two files are left"),
        pytest.param([3, 3], "ab", "", ["def"], [0, 1], id="one is left, for which it is not worth it"),
        pytest.param([3, 3], "ab", "c", ["c", "def"], [0], id="a delete applies to the one that is left"),
        pytest.param([3, 3], "def", "", ["abc"], [1], id="the last unit is gone"),
        pytest.param([2, 2, 2], "cd", "", ["ab", "ef"], [1, 2], id="units after one that is gone get other names"),
        pytest.param([3, 3], "abcdef", "", [], [0, 1], id="everything is gone"),
        pytest.param([1, 5], "", "", ["a", "bcdef"], [], id="a unit that had one file from the start"),
    ],
)
def test_what_is_left(sizes: list[int], gone: str, deleted: str, left: list[str], changed: list[int]) -> None:
    plan = plan_of(sizes)
    ids = unit_ids(step_of(plan))
    assert list(changed_by_loss(step_of(plan), live(gone, deleted))) == [ids[number] for number in changed]
    again = rebase(plan, {step_of(plan).group_id}, view(live(gone, deleted)))
    assert ["".join(f.path for f in unit.files) for step in again.plan.rewrites for unit in step.units] == left
    assert again.changed >= {ids[number] for number in changed}
    if not left:
        verdict = again.given_up[step_of(plan).group_id]
        assert (verdict.answer, verdict.reason) == (Answer.SUPERSEDED, "6 inputs are gone, first a")


@pytest.mark.parametrize("given_", [{"tier": Tier.FULL}, {"regroup": True}], ids=["full", "old spec"])
def test_a_single_file_is_rewritten_where_all_are(given_: dict[str, Any]) -> None:
    [unit, _] = step_of(plan_of([3, 3], **given_)).units
    kept = left_of(step_of(plan_of([3, 3], **given_)), unit, live("ab"))
    assert kept is not None
    assert [file.path for file in kept.files] == ["c"]


SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda sizes: sum(sizes) <= len(FILES))


@given(SIZES, st.sets(st.sampled_from("abcdef")), st.data())
def test_whatever_keeps_its_name_is_as_it_was(sizes: list[int], gone: set[str], data: st.DataObject) -> None:
    """A unit that does not count as changed has the files that it had, under the same name."""
    deleted = "".join(data.draw(st.sets(st.sampled_from("abcdef"))))
    plan = plan_of(sizes)
    step = step_of(plan)
    again = rebase(plan, {step.group_id}, view(live("".join(gone), deleted)))
    before = dict(zip(unit_ids(step), step.units, strict=True))
    for now in again.plan.rewrites:
        for unit_id, unit in zip(unit_ids(now), now.units, strict=True):
            assert unit.files
            assert not {file.path for file in unit.files} & gone
            if unit_id not in again.changed:
                assert [f.path for f in unit.files] == [f.path for f in before[unit_id].files]
        assert again.fallen == before.keys() - set(unit_ids(now))
        assert again.fallen <= again.changed
