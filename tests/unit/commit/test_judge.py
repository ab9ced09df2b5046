"""The judgement at the head: COMMIT.md's table, line by line."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.commit.judge import Answer, InputAtPin, ReadPoint, Verdict, judge, pinned_inputs
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from tests.support.states import data_file, delete_file

EQ = delete_file("eq.parquet", DeleteKind.EQUALITY)
LATER_EQ = delete_file("later-eq.parquet", DeleteKind.EQUALITY, sequence_number=5, equality_ids=(1,))
DROPPED_EQ = delete_file("dropped-eq.parquet", DeleteKind.EQUALITY, sequence_number=5, equality_ids=(2, 3))
OLD_EQ = delete_file("old-eq.parquet", DeleteKind.EQUALITY, sequence_number=1)
POS = delete_file("pos.parquet", DeleteKind.POSITION)
DV = delete_file("x.puffin", DeleteKind.DV, offset=4, referenced="a")
MOVED_DV = delete_file("x.puffin", DeleteKind.DV, offset=99, referenced="a", sequence_number=5)
OTHER_FILE = data_file("elsewhere", 10, partition=("d2",))


class Head(NamedTuple):
    """What is live now."""

    files: list[DataFile]
    deletes: list[DeleteFile]
    version: int = 2


def files(*attached: DeleteFile, lineage: int | None = None, live: list[DeleteFile]) -> list[DataFile]:
    """Inputs a and b; these deletes apply to a."""
    indexes = tuple(live.index(d) for d in attached)
    return [data_file("a", 10, deletes=indexes, first_row_id=lineage), data_file("b", 10, first_row_id=lineage)]


def pinned(*attached: DeleteFile, lineage: int | None = None) -> list[InputAtPin]:
    """The same inputs as they were at the pin."""
    return pinned_inputs(files(*attached, lineage=lineage, live=list(attached)), list(attached))


def at_head(*attached: DeleteFile, lineage: int | None = None, version: int = 2) -> Head:
    """The same inputs now, among other files and deletes."""
    live = [delete_file("unrelated", DeleteKind.EQUALITY, partition=("d2",)), *attached]
    return Head([OTHER_FILE, *files(*attached, lineage=lineage, live=live)], live, version)


def without(path: str) -> Head:
    """An input is gone."""
    head = at_head()
    return head._replace(files=[f for f in head.files if f.path != path])


def twice(path: str) -> Head:
    """An input is listed twice."""
    head = at_head()
    return head._replace(files=[*head.files, *(f for f in head.files if f.path == path)])


def numbered(number: int) -> Head:
    """The inputs have another sequence number."""
    head = at_head()
    return head._replace(files=[f._replace(sequence_number=number) for f in head.files])


PIN = ReadPoint(sequence_number=1, version=2, interpretation="", columns=frozenset({1, 2}), in_history=True)


def ask(inputs: list[InputAtPin], head: Head, pin: ReadPoint = PIN) -> Verdict:
    """Judge."""
    return judge(
        inputs,
        pin,
        head_version=head.version,
        head_interpretation="",
        head_files=head.files,
        head_deletes=head.deletes,
    )


@pytest.mark.parametrize(
    ("then", "now", "answer"),
    [
        pytest.param(pinned(), at_head(), Answer.CLEAN, id="nothing happened"),
        pytest.param(pinned(EQ, POS), at_head(POS, EQ), Answer.CLEAN, id="the same deletes in another order"),
        pytest.param(pinned(DV), at_head(DV), Answer.CLEAN, id="the same vector"),
        pytest.param(pinned(lineage=0), at_head(lineage=0), Answer.CLEAN, id="the same lineage"),
        pytest.param(pinned(lineage=0), at_head(lineage=70), Answer.REPLAN, id="other row ids"),
        pytest.param(pinned(), numbered(5), Answer.REPLAN, id="rolled back and picked again"),
        pytest.param(pinned(), at_head(DROPPED_EQ), Answer.DELETES_TO_RESOLVE, id="a key that the outputs do not hold"),
        pytest.param(
            pinned(), at_head(LATER_EQ, DROPPED_EQ), Answer.DELETES_TO_RESOLVE, id="one of two keys is not held"
        ),
        pytest.param(pinned(), at_head(OLD_EQ), Answer.DELETES_TO_RESOLVE, id="an equality delete that is no news"),
        pytest.param(pinned(), at_head(LATER_EQ), Answer.ONLY_NEW_EQUALITY_DELETES, id="a new equality delete"),
        pytest.param(pinned(POS), at_head(POS, EQ, LATER_EQ), Answer.ONLY_NEW_EQUALITY_DELETES, id="several of them"),
        pytest.param(pinned(), at_head(POS), Answer.NEW_POSITION_DELETES, id="a new position delete"),
        pytest.param(pinned(), at_head(DV), Answer.NEW_POSITION_DELETES, id="a new vector"),
        pytest.param(
            pinned(EQ), at_head(EQ, POS, LATER_EQ), Answer.NEW_DELETES_OF_BOTH_KINDS, id="equality and position"
        ),
        pytest.param(
            pinned(), at_head(POS, OLD_EQ), Answer.DELETES_TO_RESOLVE, id="position, and equality that is no news"
        ),
        pytest.param(
            pinned(), at_head(DV, DROPPED_EQ), Answer.DELETES_TO_RESOLVE, id="a vector, and a key that is not held"
        ),
        pytest.param(
            pinned(DV), at_head(MOVED_DV), Answer.NEW_POSITION_DELETES, id="another vector in the same Puffin file"
        ),
        pytest.param(pinned(EQ), at_head(POS), Answer.NEW_POSITION_DELETES, id="equality converted to position"),
        pytest.param(pinned(POS), at_head(DV), Answer.NEW_POSITION_DELETES, id="position converted to a vector"),
        pytest.param(pinned(EQ), at_head(LATER_EQ), Answer.DELETES_TO_RESOLVE, id="equality replaced by equality"),
        pytest.param(pinned(EQ), at_head(EQ, POS), Answer.NEW_POSITION_DELETES, id="position beside equality"),
        pytest.param(
            pinned(EQ, DV), at_head(EQ, MOVED_DV), Answer.DELETES_TO_RESOLVE, id="a vector replaced beside equality"
        ),
        pytest.param(pinned(EQ, POS), at_head(POS), Answer.REPLAN, id="an equality delete is gone"),
        pytest.param(
            pinned(DV), at_head(MOVED_DV, LATER_EQ), Answer.DELETES_TO_RESOLVE, id="a vector replaced, and equality"
        ),
        pytest.param(pinned(POS), at_head(), Answer.REPLAN, id="a delete is gone"),
        pytest.param(pinned(), at_head(lineage=0), Answer.REPLAN, id="row ids were given"),
        pytest.param(pinned(lineage=0), at_head(), Answer.REPLAN, id="row ids were taken"),
        pytest.param(pinned(), at_head(version=3), Answer.REPLAN, id="the table was upgraded"),
        pytest.param(pinned(), at_head(LATER_EQ, version=3), Answer.REPLAN, id="upgraded and late"),
        pytest.param(pinned(), without("b"), Answer.SUPERSEDED, id="an input is gone"),
        pytest.param(pinned(POS), without("a"), Answer.SUPERSEDED, id="gone, with its delete"),
        pytest.param(pinned(), Head([], []), Answer.SUPERSEDED, id="everything is gone"),
        pytest.param(pinned(), Head([], [], 3), Answer.SUPERSEDED, id="gone and upgraded"),
        pytest.param(pinned(), twice("a"), Answer.REFUSED, id="a path is live twice"),
        pytest.param(pinned(), twice("elsewhere"), Answer.CLEAN, id="twice, but none of ours"),
    ],
)
def test_answers(then: list[InputAtPin], now: Head, answer: Answer) -> None:
    verdict = ask(then, now)
    assert verdict.answer is answer
    assert bool(verdict.reason) is (answer is not Answer.CLEAN)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (without("b"), "1 inputs are gone, first b"),
        (twice("a"), "a is live more than once"),
        (at_head(version=3), "the table went from format 2 to 3"),
        (at_head(lineage=0), "row lineage of a changed"),
        (at_head(LATER_EQ), "1 new equality deletes apply to a"),
        (at_head(POS), "the deletes that apply to a changed: 1 of positions are new"),
        (at_head(POS, LATER_EQ), "the deletes that apply to a changed: 1 of positions are new"),
    ],
)
def test_reasons(now: Head, reason: str) -> None:
    assert ask(pinned(), now).reason == reason


@pytest.mark.parametrize("how", ["another", None])
def test_files_that_are_read_in_another_way_mean_something_else(how: str | None) -> None:
    assert ask(pinned(), at_head(), replace(PIN, interpretation=how)).answer is Answer.REPLAN


def test_the_worst_input_decides() -> None:
    live = [LATER_EQ, POS]
    now = [data_file("a", 10, deletes=(0,)), data_file("b", 10, deletes=(1,)), data_file("c", 10)]
    then = pinned_inputs([f._replace(deletes=()) for f in now], [])
    for order in (now, now[::-1]):
        verdict = ask(then, Head(order, live))
        reason = "the deletes that apply to b changed: 1 of positions are new"
        assert verdict == Verdict(answer=Answer.NEW_DELETES_OF_BOTH_KINDS, reason=reason)


def test_new_positions_of_one_input_and_new_keys_of_another() -> None:
    """A commit that is strict for the one, or takes nothing along for the other, would bring rows back."""
    live = [POS, LATER_EQ]
    for first, second in ((0, 1), (1, 0)):
        files = [data_file("a", 10, deletes=(first,)), data_file("b", 10, deletes=(second,))]
        assert ask(pinned(), Head(files, live)).answer is Answer.NEW_DELETES_OF_BOTH_KINDS


def test_new_positions_after_a_rollback_are_planned_again() -> None:
    assert ask(pinned(), at_head(POS), replace(PIN, in_history=False)).answer is Answer.REPLAN


def test_a_pinned_input_does_not_depend_on_list_positions() -> None:
    [one] = pinned_inputs([data_file("a", 10, deletes=(1, 0), first_row_id=3)], [DV, EQ])
    assert one == InputAtPin(
        path="a",
        deletes=frozenset({("x.puffin", 4), ("eq.parquet", None)}),
        sequence_number=1,
        first_row_id=3,
    )


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        (replace(PIN, in_history=False), "not part of the branch's history"),
        (replace(PIN, sequence_number=5), "not newer than the snapshot that was planned"),
        (replace(PIN, columns=frozenset({2})), "a column that the new files do not hold"),
    ],
)
def test_what_is_not_late(pin: ReadPoint, reason: str) -> None:
    assert ask(pinned(), at_head(LATER_EQ)).answer is Answer.ONLY_NEW_EQUALITY_DELETES
    verdict = ask(pinned(), at_head(LATER_EQ), pin)
    assert (verdict.answer, reason in verdict.reason) == (Answer.DELETES_TO_RESOLVE, True)


def test_what_is_not_late_of_one_input_decides_for_all() -> None:
    """Another one has a new position delete, and a third a new equality delete that could wait."""
    live = [LATER_EQ, POS, DROPPED_EQ]
    files = [data_file(name, 10, deletes=(index,)) for index, name in enumerate("abc")]
    then = pinned_inputs([file._replace(deletes=()) for file in files], [])
    assert ask(then, Head(files, live)).answer is Answer.DELETES_TO_RESOLVE


@given(
    st.lists(st.sampled_from([EQ, LATER_EQ, POS, DV, MOVED_DV]), unique=True),
    st.lists(st.sampled_from([EQ, LATER_EQ, POS, DV, MOVED_DV]), unique=True),
)
def test_clean_means_the_very_same_deletes(then: list[DeleteFile], now: list[DeleteFile]) -> None:
    """Clean if and only if nothing changed; late if and only if equality deletes came and nothing went."""
    answer = ask(pinned(*then), at_head(*now)).answer
    came, went = set(now) - set(then), set(then) - set(now)
    assert (answer is Answer.CLEAN) is (not came and not went)
    assert (answer is Answer.ONLY_NEW_EQUALITY_DELETES) is (
        not went and {d.kind for d in came} == {DeleteKind.EQUALITY}
    )
