"""The proof before the commit: true facts pass, and every kind of lie is caught."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.commit.proof import prove
from icepact.model.errors import ProofFailed
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.rewrite import Written
from tests.support.rewrites import planned, rewrite, schema
from tests.support.states import delete_file

TRUE = rewrite("long", [[1, 5, None], [3, 9]], [[1, 3, 5, 9, None]])


# -- the truth ------------------------------------------------------------------------------------


def test_the_truth_passes_and_says_what_was_compared() -> None:
    assert prove(TRUE, planned(TRUE), [], schema()) == 1


@pytest.mark.parametrize(
    "kind", ["int", "long", "date", "timestamp", "timestamptz", "float", "double", "decimal(9, 2)"]
)
@given(data=st.data())
def test_the_truth_passes_for_every_type(kind: str, data: st.DataObject) -> None:
    plain: st.SearchStrategy[Any] = st.integers(-(2**31), 2**31 - 1)
    if kind in {"float", "double"}:
        plain = st.floats(allow_nan=False, width=32)
    if kind.startswith("decimal"):
        plain = st.decimals(-9_999_999, 9_999_999, places=2)
    before = data.draw(st.lists(st.lists(st.none() | plain, min_size=1, max_size=5), min_size=1, max_size=4))
    rows = [value for values in before for value in values]
    cut = data.draw(st.integers(0, len(rows) - 1))
    after = [some for some in (rows[:cut], rows[cut:]) if some]
    written = rewrite(kind, before, after)
    assert prove(written, planned(written), [], schema(kind)) == 1


@given(st.lists(st.integers(-5, 5) | st.none(), min_size=2, max_size=12), st.data())
def test_the_truth_passes_whatever_rows_were_deleted(rows: list[int | None], data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    left = [value for value, kept in zip(rows, keep, strict=True) if kept]
    written = rewrite("long", [rows], [left] if left else [])
    vector = delete_file("dv", DeleteKind.DV, records=len(rows) - len(left))
    assert prove(written, planned(written, {0: (0,)}), [vector], schema()) == 1


# -- rows -----------------------------------------------------------------------------------------


def with_output(**change: Any) -> Written:
    """The truth, but for one fact about its output."""
    return replace(TRUE, files=(replace(TRUE.files[0], **change),))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (replace(TRUE, rows_observed=6), "group g0001: rows written 5, rows read 6"),
        (with_output(stored_rows=4), "group g0001: rows in the footer of out0 4, rows described 5"),
        (with_output(stored_size=499), "group g0001: bytes of out0 on storage 499, bytes described 500"),
        (with_output(rows=4), "group g0001: rows written 4, rows read 5"),
        (replace(TRUE, files=()), "group g0001: rows written 0, rows read 5"),
        (replace(TRUE, inputs=TRUE.inputs[:1]), "group g0001: rows in the manifests read again 3, rows in the plan 5"),
        (
            replace(TRUE, inputs=(TRUE.inputs[0], replace(TRUE.inputs[1], path="other"))),
            "group g0001: other files were read than planned",
        ),
        (
            rewrite("long", [[1, 5, None], [3, 9]], [[1, 3, 5, 9, 9, None]]),
            "group g0001: 1 more rows were written than there were",
        ),
        (
            rewrite("long", [[1, 5, None], [3, 9]], [[1, 3, 9, None]]),
            "group g0001: 1 rows dropped, the deletes account for 0",
        ),
    ],
)
def test_lies_about_rows(written: Written, message: str) -> None:
    with pytest.raises(ProofFailed) as failed:
        prove(written, planned(TRUE), [], schema())
    assert str(failed.value) == message


def test_a_format_without_a_footer_is_taken_by_its_size_and_rows() -> None:
    avro = with_output(stored_rows=None, columns=None)
    assert prove(avro, planned(TRUE), [], schema()) == 0
    with pytest.raises(ProofFailed, match="bytes of out0 on storage 1"):
        prove(with_output(stored_rows=None, columns=None, stored_size=1), planned(TRUE), [], schema())


DV = delete_file("x.puffin", DeleteKind.DV, offset=4, records=2)
OTHER_DV = delete_file("x.puffin", DeleteKind.DV, offset=80, records=1)
POSITION = delete_file("pos", DeleteKind.POSITION, records=2)
EQUALITY = delete_file("eq", DeleteKind.EQUALITY, records=1)


@pytest.mark.parametrize("dropped", range(5))
@pytest.mark.parametrize(
    ("deletes", "possible"),
    [
        pytest.param([DV], {2}, id="a vector says exactly"),
        pytest.param([DV, OTHER_DV], {3}, id="two vectors in one Puffin file"),
        pytest.param([POSITION], {0, 1, 2}, id="position deletes say at most"),
        pytest.param([POSITION, OTHER_DV], {0, 1, 2, 3}, id="both, on an upgraded table"),
        pytest.param([EQUALITY], {0, 1, 2, 3, 4}, id="one key can delete any number of rows"),
        pytest.param([DV, EQUALITY], {0, 1, 2, 3, 4}, id="a key and a vector"),
        pytest.param([], {0}, id="no delete, no row less"),
    ],
)
def test_dropped_rows_are_accounted_for(deletes: list[DeleteFile], possible: set[int], dropped: int) -> None:
    written = rewrite("long", [[5, 5], [5, 5]], [[5] * (4 - dropped)] if dropped < 4 else [])
    attached = {0: tuple(range(len(deletes))), 1: (0,) if deletes else ()}  # both inputs share the first
    files = planned(written, attached)
    if dropped in possible:
        assert prove(written, files, deletes, schema()) == 1
    else:
        with pytest.raises(ProofFailed, match=f"{dropped} rows dropped, the deletes account for"):
            prove(written, files, deletes, schema())


def test_deletes_of_other_files_account_for_nothing() -> None:
    written = rewrite("long", [[5, 5]], [[5]])
    with pytest.raises(ProofFailed, match="1 rows dropped, the deletes account for 0"):
        prove(written, planned(written), [POSITION], schema())
