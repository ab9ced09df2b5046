"""The proof, column by column: null counts and bounds."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from icepact.commit.proof import prove
from icepact.model.errors import ProofFailed
from icepact.model.files import DeleteKind
from icepact.model.rewrite import ColumnFacts, Written
from tests.support.rewrites import column, described, hexed, planned, rewrite, schema, stored
from tests.support.states import delete_file

Told = Sequence[tuple[int, ColumnFacts]]
SILENT = ColumnFacts(nulls={}, lower={}, upper={})
COUNTS_ONLY = ColumnFacts(nulls={1: 0}, lower={}, upper={})


def told(before: Told, after: Told) -> Written:
    """A rewrite described by the metrics of its files."""
    return Written(
        group_id="g0001",
        inputs=described(before),
        rows_observed=sum(rows for rows, _ in after),
        files=stored(after),
        methods={"spark": 1},
    )


def compared(written: Written, kind: Any, *, deleted: int = 0) -> int:
    """How many columns were compared; raises if one was wrong."""
    deletes = [delete_file("dv", DeleteKind.DV, records=deleted)] if deleted else []
    files = planned(written, {0: (0,)} if deleted else {})
    return prove(written, files, deletes, schema(kind))


def between(low: str, high: str) -> ColumnFacts:
    """A column without nulls and with these bounds, already serialized."""
    return ColumnFacts(nulls={1: 0}, lower={1: low}, upper={1: high})


# -- lies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ([1, None], [None, None], "had 1 nulls and has 2, 0 rows dropped"),
        ([1, None], [1, 1], "had 1 nulls and has 0, 0 rows dropped"),
        ([1, None, 3, 4], [1, None, None], "had 1 nulls and has 2, 1 rows dropped"),
        ([1, None, None, None], [1, 1, 1], "had 3 nulls and has 0, 1 rows dropped"),
        ([1, 5, 9], [1, 5, 10], "ranged over (1, 9) and ranges over (1, 10)"),
        ([1, 5, 9], [0, 5, 9], "ranged over (1, 9) and ranges over (0, 9)"),
        ([1, 5, 9], [1, 5, 8], "ranged over (1, 9) and ranges over (1, 8)"),
        ([1, 5, 9], [2, 5, 9], "ranged over (1, 9) and ranges over (2, 9)"),
        ([1, 5, 9], [1, 10], "ranged over (1, 9) and ranges over (1, 10)"),
        ([1, 5, 9], [-1, 5], "ranged over (1, 9) and ranges over (-1, 5)"),
    ],
)
def test_changed_values_are_found(before: list[int | None], after: list[int | None], message: str) -> None:
    with pytest.raises(ProofFailed) as failed:
        compared(rewrite("long", [before], [after]), "long", deleted=len(before) - len(after))
    assert str(failed.value) == f"group g0001: column #1 {message}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([1, None, None, 4], [1, 4], id="exactly the nulls were deleted"),
        pytest.param([1, 5, 9], [5], id="both ends were deleted"),
        pytest.param([1, 5, 9], [9, 1], id="the middle was deleted"),
        pytest.param([1, None], [None], id="only nulls are left"),
    ],
)
def test_deleted_rows_may_narrow_a_column(before: list[int | None], after: list[int | None]) -> None:
    assert compared(rewrite("long", [before], [after]), "long", deleted=len(before) - len(after)) == 1


@pytest.mark.parametrize(
    ("kind", "low", "inner", "high", "beyond"),
    [
        ("int", -5, 255, 300, 301),
        ("long", -(2**40), -1, 2**40, 2**40 + 1),
        ("date", -1, 255, 20_000, 20_001),
        ("timestamp", -(10**15), 255, 10**15, 10**15 + 1),
        ("timestamptz", 0, 255, 10**15, 10**15 + 1),
        ("float", -1.5, -0.5, 2.5, 2.75),
        ("double", -1e300, -1e-300, 1e300, 1.0000001e300),
        ("decimal(9, 2)", "-1.50", "255.00", "300.00", "300.01"),
    ],
)
def test_every_type_is_compared_by_value(kind: str, low: Any, inner: Any, high: Any, beyond: Any) -> None:
    """Not by bytes: little-endian and negative numbers would compare the wrong way round."""
    before = between(hexed(kind, low), hexed(kind, high))
    assert compared(told([(4, before)], [(4, before)]), kind) == 1
    narrower = between(hexed(kind, inner), hexed(kind, inner))
    assert compared(told([(4, before)], [(3, narrower)]), kind, deleted=1) == 1
    for wrong in (narrower, between(hexed(kind, low), hexed(kind, beyond))):
        with pytest.raises(ProofFailed, match="ranged over"):
            compared(told([(4, before)], [(4, wrong)]), kind)
    with pytest.raises(ProofFailed, match="ranged over"):
        compared(told([(4, before)], [(3, between(hexed(kind, inner), hexed(kind, beyond)))]), kind, deleted=1)


@pytest.mark.parametrize("kind", ["string", "binary", "uuid", "boolean", "fixed[4]", "time", "geometry"])
def test_types_whose_bounds_may_be_shortened_are_compared_by_nulls_only(kind: str) -> None:
    before, after = between("61", "7a"), between("00", "ff")
    assert compared(told([(4, before)], [(4, after)]), kind) == 1
    with pytest.raises(ProofFailed, match="had 0 nulls and has 1"):
        compared(told([(4, before)], [(4, ColumnFacts(nulls={1: 1}, lower={}, upper={}))]), kind)


# -- columns that were widened --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "low", "high"),
    [
        ("int", "long", -7, 2**31 - 1),
        ("float", "double", 0.1, 3.4e38),
        ("decimal(5, 2)", "decimal(20, 2)", "-1.00", "1.00"),
    ],
)
def test_a_widened_column_keeps_its_values(old: str, new: str, low: Any, high: Any) -> None:
    before = between(hexed(old, low), hexed(old, high))
    exact = [as_stored(old, bound) for bound in (low, high)]
    after = between(hexed(new, exact[0]), hexed(new, exact[1]))
    assert compared(told([(4, before)], [(4, after)]), new) == 1
    with pytest.raises(ProofFailed, match="ranged over"):
        compared(told([(4, before)], [(4, between(hexed(new, exact[0]), hexed(new, exact[0])))]), new)


def as_stored(kind: str, value: Any) -> Any:
    """What a float really holds once it is stored in four bytes."""
    return struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else value


def test_a_date_that_became_a_timestamp_is_not_compared_by_bounds() -> None:
    before = between(hexed("date", 1), hexed("date", 2))
    after = between(hexed("timestamp", 86_400_000_000), hexed("timestamp", 172_800_000_000))
    assert compared(told([(4, before)], [(4, after)]), "timestamp") == 1


# -- what files do not tell -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        pytest.param([(2, column("long", [1, 9])), (2, SILENT)], [(4, column("long", [1, 8]))], 0, id="older input"),
        pytest.param([(2, column("long", [1, 9]))], [(2, SILENT)], 0, id="output without metrics"),
        pytest.param([(2, COUNTS_ONLY)], [(2, column("long", [1, 8]))], 1, id="input with counts only"),
        pytest.param([(2, column("long", [1, 9]))], [(2, COUNTS_ONLY)], 1, id="output with counts only"),
        pytest.param(
            [(4, column("double", [1.0, 9.0]))],
            [(2, column("double", [1.0, 8.0])), (2, COUNTS_ONLY)],
            1,
            id="one output of two is silent, as with NaN in it",
        ),
        pytest.param(
            [(2, column("double", [1.0, 9.0])), (2, COUNTS_ONLY)],
            [(4, column("double", [1.0, 12.0]))],
            1,
            id="one input of two is silent",
        ),
    ],
)
def test_missing_metrics_are_skipped(before: Told, after: Told, count: int) -> None:
    assert compared(told(before, after), "double") == count


def test_a_file_of_nulls_alone_has_no_bounds_and_hides_none() -> None:
    before = [(2, column("long", [1, 9])), (2, column("long", [None, None]))]
    assert compared(told(before, [(2, column("long", [1, 9])), (2, column("long", [None, None]))]), "long") == 1
    with pytest.raises(ProofFailed, match="ranged over"):
        compared(told(before, [(2, column("long", [1, 8])), (2, column("long", [None, None]))]), "long")


def test_bounds_that_are_not_numbers_prove_nothing() -> None:
    """Writers from before the rule that bounds are never NaN."""
    broken = between(hexed("double", float("nan")), hexed("double", float("nan")))
    assert compared(told([(2, broken)], [(2, between(hexed("double", 1.0), hexed("double", 2.0)))]), "double") == 1


def test_negative_zero_is_zero() -> None:
    before = between(hexed("double", 0.0), hexed("double", 0.0))
    assert compared(told([(2, before)], [(2, between(hexed("double", -0.0), hexed("double", 0.0)))]), "double") == 1


# -- nested columns -------------------------------------------------------------------------------

INNER = {"id": 1, "name": "x", "type": "long", "required": False}


def test_fields_of_structs_are_compared() -> None:
    kind = {"type": "struct", "fields": [{**INNER, "id": 2, "type": {"type": "struct", "fields": [INNER]}}]}
    nested = {"type": "struct", "fields": [{"id": 3, "name": "s", "type": kind, "required": False}]}
    written = rewrite("long", [[1, 9]], [[1, 9]])
    assert prove(written, planned(written), [], nested) == 1
    wrong = rewrite("long", [[1, 9]], [[1, 8]])
    with pytest.raises(ProofFailed, match="column #1 ranged over"):
        prove(wrong, planned(wrong), [], nested)


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "list", "element-id": 1, "element": "long", "element-required": False},
        {"type": "map", "key-id": 1, "key": "long", "value-id": 2, "value": "long", "value-required": False},
        {"type": "list", "element-id": 9, "element": {"type": "struct", "fields": [INNER]}, "element-required": True},
    ],
)
def test_columns_inside_lists_and_maps_are_not(kind: dict[str, Any]) -> None:
    """A list of no elements counts as a null in a footer, and a list of two as two values."""
    nested = {"type": "struct", "fields": [{"id": 8, "name": "l", "type": kind, "required": False}]}
    written = rewrite("long", [[1, 9]], [[3, None]])
    assert prove(written, planned(written), [], nested) == 0


def test_where_formats_are_mixed_only_plain_columns_are_compared() -> None:
    """ORC rounds timestamps and counts the nulls of a struct's fields in its own way."""
    written = rewrite("timestamp", [[1, 5]], [[1, 5]])
    to_orc = replace(written, files=tuple(replace(f, format="orc") for f in written.files))
    assert (compared(written, "timestamp"), compared(to_orc, "timestamp")) == (1, 0)
    written = rewrite("long", [[1, 5]], [[1, 5]])
    to_orc = replace(written, files=tuple(replace(f, format="orc") for f in written.files))
    assert compared(to_orc, "long") == 1
