"""Delete files go away only when no live file they apply to remains: INVARIANTS 5 to 7."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.commit.dangling import candidates, dangling, needs_content
from icepact.model.files import DataFile, DeleteFile, DeleteKind, Partition, PartitionSpec, SpecField
from tests.support.states import SPECS, applies, attach, data_file, delete_file, in_partition

VOID = PartitionSpec(spec_id=3, fields=(SpecField(name="day", transform="void", source="day"),))
ALL_SPECS = {**SPECS, 3: VOID}


def gone(
    inputs: set[str],
    files: list[DataFile],
    deletes: list[DeleteFile],
    *,
    elsewhere: list[DataFile] | None = None,
    contents: dict[str, set[str]] | None = None,
) -> set[str]:
    """Paths of the deletes that a commit of these inputs would remove, asked as the protocol asks."""
    attached = attach(files, deletes)
    some = candidates(frozenset(inputs), attached, deletes, SPECS)
    return {
        d.path
        for d in dangling(
            frozenset(inputs),
            attached,
            some,
            specs=ALL_SPECS,
            oldest_elsewhere=min((f.sequence_number for f in elsewhere or []), default=None),
            paths_in=contents or {},
        )
    }


def position(**given: Any) -> DeleteFile:
    return delete_file("pos", DeleteKind.POSITION, **given)


def equality(**given: Any) -> DeleteFile:
    return delete_file("eq", DeleteKind.EQUALITY, **given)


IN = data_file("in", 10)
STAYS = data_file("stays", 10)
NEWER = data_file("newer", 10, sequence_number=3)
OTHER_DAY = data_file("other", 10, partition=("d2",))


# -- position deletes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delete", "files", "contents", "removed"),
    [
        pytest.param(position(referenced="in"), [IN, STAYS], None, True, id="bound to an input"),
        pytest.param(position(referenced="stays"), [IN, STAYS], None, False, id="bound to a file that stays"),
        pytest.param(position(referenced="dead"), [IN, STAYS], None, True, id="bound to a file that is not live"),
        pytest.param(position(), [IN], None, True, id="nothing else in the partition"),
        pytest.param(position(), [IN, STAYS], None, False, id="shared, content unknown"),
        pytest.param(position(), [IN, STAYS], {"pos": {"in"}}, True, id="shared, speaks of inputs only"),
        pytest.param(position(), [IN, STAYS], {"pos": {"in", "dead"}}, True, id="shared, the rest is not live"),
        pytest.param(position(), [IN, STAYS], {"pos": {"in", "stays"}}, False, id="shared, speaks of one that stays"),
        pytest.param(position(), [IN, NEWER], None, True, id="the other file is newer than the delete"),
        pytest.param(position(sequence_number=3), [IN, NEWER], None, False, id="written with the delete"),
        pytest.param(position(), [IN, OTHER_DAY], None, True, id="the other file is in another partition"),
    ],
)
def test_position_deletes(
    delete: DeleteFile, files: list[DataFile], contents: dict[str, set[str]] | None, removed: bool
) -> None:
    assert gone({"in"}, files, [delete], contents=contents) == ({"pos"} if removed else set())


def test_content_is_read_only_where_it_decides() -> None:
    bound = delete_file("bound", DeleteKind.POSITION, referenced="in")
    lonely = delete_file("lonely", DeleteKind.POSITION, partition=("d2",))
    shared = delete_file("shared", DeleteKind.POSITION)
    old = delete_file("old", DeleteKind.POSITION, sequence_number=0)
    deletes = [bound, lonely, shared, old, equality()]
    other = data_file("other-in", 10, partition=("d2",))
    found = needs_content(frozenset({"in", "other-in"}), [IN, STAYS, other], deletes)
    assert [d.path for d in found] == ["shared"]


# -- equality deletes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delete", "files", "removed"),
    [
        pytest.param(equality(), [IN], True, id="nothing else in the partition"),
        pytest.param(equality(), [IN, STAYS], False, id="an older file stays"),
        pytest.param(
            equality(sequence_number=3), [IN, NEWER], True, id="a file of the same number is not deleted from"
        ),
        pytest.param(equality(sequence_number=4), [IN, NEWER], False, id="of a lower number it is"),
        pytest.param(equality(), [IN, data_file("o", 10, partition=("d2",))], True, id="older, in another partition"),
        pytest.param(
            equality(), [IN, data_file("o", 10, spec_id=2, partition=("d1",))], True, id="same values, another spec"
        ),
    ],
)
def test_equality_deletes_of_a_partition(delete: DeleteFile, files: list[DataFile], removed: bool) -> None:
    assert gone({"in"}, files, [delete]) == ({"eq"} if removed else set())


@pytest.mark.parametrize("spec_id", [pytest.param(0, id="no fields"), pytest.param(3, id="all void")])
@pytest.mark.parametrize(
    ("elsewhere", "removed"),
    [
        pytest.param([], True, id="no file elsewhere"),
        pytest.param([1, 7], False, id="an older file elsewhere"),
        pytest.param([2, 7], True, id="elsewhere the same number at least"),
    ],
)
def test_global_equality_deletes(spec_id: int, elsewhere: list[int], removed: bool) -> None:
    delete = equality(spec_id=spec_id, partition=() if spec_id == 0 else (None,), sequence_number=2)
    others = [data_file(f"o{n}", 10, partition=("d2",), sequence_number=n) for n in elsewhere]
    in_scope = IN._replace(deletes=(0,))
    some = candidates(frozenset({"in"}), [in_scope], [delete], SPECS)
    assert some == [delete]
    found = dangling(
        frozenset({"in"}),
        [in_scope],
        some,
        specs=ALL_SPECS,
        oldest_elsewhere=min((f.sequence_number for f in others), default=None),
        paths_in={},
    )
    assert (found == [delete]) is removed


def test_a_global_delete_is_kept_for_an_older_file_in_the_same_partition() -> None:
    assert gone({"in"}, [IN, STAYS], [equality(spec_id=0, partition=())]) == set()
    assert gone({"in", "stays"}, [IN, STAYS], [equality(spec_id=0, partition=())]) == {"eq"}


def test_a_file_elsewhere_does_not_keep_a_delete_of_one_partition() -> None:
    older = [data_file("o", 10, partition=("d2",), sequence_number=0)]
    assert gone({"in"}, [IN], [equality()], elsewhere=older) == {"eq"}


# -- candidates -----------------------------------------------------------------------------------


def test_only_deletes_that_this_commit_can_free_are_candidates() -> None:
    vector = delete_file("dv", DeleteKind.DV, referenced="in")
    here_already_dangling = delete_file("old", DeleteKind.EQUALITY, sequence_number=1)
    elsewhere = delete_file("far", DeleteKind.EQUALITY, partition=("d2",))
    everywhere = delete_file("all", DeleteKind.EQUALITY, spec_id=0, partition=())
    deletes = [vector, here_already_dangling, elsewhere, everywhere]
    found = candidates(frozenset({"in"}), attach([IN, STAYS], deletes), deletes, SPECS)
    assert [d.path for d in found] == ["old", "all"]


# -- the promise ----------------------------------------------------------------------------------

PLACES: list[tuple[int, Partition]] = [(0, ()), (1, ("d1",)), (1, ("d2",)), (2, ("eu",))]


@st.composite
def heads(draw: st.DrawFn) -> tuple[list[DataFile], list[DeleteFile], set[str], dict[str, set[str]]]:
    """Live files and deletes at a head, some inputs, and what each position-delete file really speaks of."""
    files = [
        data_file(f"f{n}", 10, spec_id=spec_id, partition=partition, sequence_number=draw(st.integers(0, 5)))
        for n, (spec_id, partition) in enumerate(draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=10)))
    ]
    deletes: list[DeleteFile] = []
    contents: dict[str, set[str]] = {}
    for n, (spec_id, partition) in enumerate(draw(st.lists(st.sampled_from(PLACES), max_size=6))):
        kind = draw(st.sampled_from([DeleteKind.POSITION, DeleteKind.EQUALITY]))
        paths = [f.path for f in files if in_partition(f) == (spec_id, partition)]
        spoken_of = set(draw(st.lists(st.sampled_from([*paths, "dead"]), min_size=1, unique=True)))
        bound = kind is DeleteKind.POSITION and len(spoken_of) == 1
        delete = delete_file(
            f"del{n}",
            kind,
            spec_id=spec_id,
            partition=partition,
            sequence_number=draw(st.integers(0, 6)),
            referenced=next(iter(spoken_of)) if bound and draw(st.booleans()) else None,
        )
        deletes.append(delete)
        contents[delete.path] = spoken_of
    inputs = set(draw(st.lists(st.sampled_from([f.path for f in files]), min_size=1, unique=True)))
    return files, deletes, inputs, contents


@given(heads(), st.booleans())
def test_a_delete_that_a_staying_file_needs_is_never_removed(
    head: tuple[list[DataFile], list[DeleteFile], set[str], dict[str, set[str]]], can_read: bool
) -> None:
    files, deletes, inputs, contents = head
    around = {in_partition(f) for f in files if f.path in inputs}
    view = [f for f in files if in_partition(f) in around]
    elsewhere = [f for f in files if in_partition(f) not in around]
    attached = attach(view, deletes)
    some = candidates(frozenset(inputs), attached, deletes, SPECS)
    unread = needs_content(frozenset(inputs), attached, some)
    removed = dangling(
        frozenset(inputs),
        attached,
        some,
        specs=ALL_SPECS,
        oldest_elsewhere=min((f.sequence_number for f in elsewhere), default=None),
        paths_in={d.path: contents[d.path] for d in unread} if can_read else {},
    )
    staying = [f for f in files if f.path not in inputs]

    def still_needed(delete: DeleteFile) -> bool:
        speaks_of = [f for f in staying if delete.kind is DeleteKind.EQUALITY or f.path in contents[delete.path]]
        return any(applies(delete, f, ALL_SPECS) for f in speaks_of)

    assert [d for d in removed if still_needed(d)] == []
    if can_read:  # and the other way round: a candidate that nobody needs does go, unless it names a staying file
        paths = {f.path for f in staying}
        named = [d for d in some if d.kind is DeleteKind.POSITION and contents[d.path] & paths]
        assert [d for d in some if d not in (*removed, *named) and not still_needed(d)] == []
