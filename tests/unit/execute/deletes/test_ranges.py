"""Row groups are passed over only if statistics rule out every delete row, and then they are."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from icepact.execute.deletes.equality import KeySet
from icepact.execute.deletes.kinds import comparable
from icepact.execute.deletes.ranges import ColumnRange
from tests.unit.execute.deletes.test_equality import batches, columns_of, key_set
from tests.unit.execute.deletes.test_oracle import CASES, Bits, Case, deleted_rows

ORDERED = [case for case in CASES if case.kind != "unknown"]


def plain(value: Any) -> Any:
    """Floats by value, text as the bytes by which it is ordered."""
    if isinstance(value, str):
        return value.encode()
    return value.value if isinstance(value, Bits) else value


def usable(values: list[Any]) -> list[Any]:
    """What a writer's statistics are made of: no null, no NaN."""
    return [v for v in map(plain, values) if v is not None and v == v]


def honest(case: Case, values: list[Any], draw: Any) -> ColumnRange:
    """Statistics that are true of these values, as loose and incomplete as writers make them."""
    seen = usable(values)
    known = {"rows": len(values) if draw(st.booleans()) else None}
    known["nulls"] = sum(v is None for v in values) if draw(st.booleans()) else None
    if seen and draw(st.booleans()):
        lower, upper = min(seen), max(seen)
        if lower == 0 and case.kind in ("float", "double"):
            lower = draw(st.sampled_from([0.0, -0.0]))
        if upper == 0 and case.kind in ("float", "double"):
            upper = draw(st.sampled_from([0.0, -0.0]))
        known["lower"] = lower if draw(st.booleans()) else None
        known["upper"] = upper if draw(st.booleans()) else None
    return ColumnRange.of(case.kind, **known)


@settings(max_examples=200)
@given(batches(ORDERED), st.data())
def test_a_row_group_with_a_deleted_row_is_never_passed_over(batch: Any, data: st.DataObject) -> None:
    cases, keys, rows = batch
    assume(any(deleted_rows(keys, rows)))
    found = key_set([case.kind for case in cases], columns_of(cases, keys))
    stats = {
        n + 1: honest(case, [row[n] for row in rows], data.draw)
        for n, case in enumerate(cases)
        if data.draw(st.booleans())
    }
    assert found.may_match(stats)


def proves_absence(value: Any, known: dict[str, Any]) -> bool:
    """By the letter of the rule, for one key value and trusted statistics."""
    nulls, rows = known.get("nulls"), known.get("rows")
    if value is None:
        return nulls == 0
    if nulls is not None and nulls == rows:
        return True
    value = plain(value)
    if value != value:
        return False
    lower, upper = known.get("lower"), known.get("upper")
    return (lower is not None and value < lower) or (upper is not None and value > upper)


@settings(max_examples=200)
@given(batches(ORDERED), st.data())
def test_whatever_can_be_ruled_out_is(batch: Any, data: st.DataObject) -> None:
    cases, keys, _ = batch
    stats: dict[int, dict[str, Any]] = {}
    for n, case in enumerate(cases):
        bounds = sorted(usable(data.draw(st.lists(case.values, min_size=2, max_size=2))))
        nulls = data.draw(st.sampled_from([None, 0, 3, 9] if len(bounds) == 2 else [None, 0, 3]))
        known: dict[str, Any] = {"nulls": nulls, "rows": 9}
        if len(bounds) == 2 and nulls != 9:
            known |= {"lower": bounds[0], "upper": bounds[1]}
        stats[n + 1] = known
    found = key_set([case.kind for case in cases], columns_of(cases, keys))
    expected = any(not any(proves_absence(v, stats[n + 1]) for n, v in enumerate(key)) for key in keys)
    ranges = {n: ColumnRange.of(cases[n - 1].kind, **known) for n, known in stats.items()}
    assert found.may_match(ranges) is expected


NUMBERS = key_set(["long"], [pa.array([10, 20, 30])])
FLOATS = key_set(["double"], [pa.array([0.0, 5.0])])
NEGATIVE_ZERO = key_set(["float"], [pa.array([-0.0], pa.float32())])
WITH_NAN = key_set(["double"], [pa.array([math.nan, 5.0])])
WITH_NULL = key_set(["long"], [pa.array([10, None])])
PAIRS = key_set(["long", "string"], [pa.array([1, 9]), pa.array(["a", "z"])])


def long(lower: int | None, upper: int | None, nulls: int | None = 0, rows: int | None = 9) -> ColumnRange:
    return ColumnRange(lower=lower, upper=upper, nulls=nulls, rows=rows)


@pytest.mark.parametrize(
    ("known", "possible"),
    [
        (long(11, 19), False),
        (long(11, 20), True),
        (long(10, 10), True),
        (long(31, None), False),
        (long(None, 9), False),
        (long(None, None), True),
        (long(2**63 - 1, 2**63 - 1), False),
        (long(None, None, nulls=9), False),
        (long(None, None, nulls=9, rows=None), True),
        (long(11, 19, rows=None), False),
        (long(11, 19, nulls=None, rows=None), False),
        (long(11, 19, nulls=10), True),  # more nulls than rows: nothing of it is trusted
        (long(11, 19, nulls=-1), True),
        (long(19, 11), True),  # the wrong way round: nothing of it is trusted
        (long(11, 19, nulls=9), True),  # bounds of nothing: nothing of it is trusted
        (long(10, 20, rows=0, nulls=0), False),
    ],
)
def test_numbers(known: ColumnRange, possible: bool) -> None:
    assert NUMBERS.may_match({1: known}) is possible


def test_nothing_known_means_possible() -> None:
    assert NUMBERS.may_match({})
    assert PAIRS.may_match({})
    assert NUMBERS.may_match({2: long(11, 19)})


def floats(lower: float | None, upper: float | None, kind: str = "double") -> ColumnRange:
    return ColumnRange.of(kind, lower=lower, upper=upper, nulls=0, rows=9)


def test_zeros_of_both_signs_are_within_a_zero_bound() -> None:
    assert FLOATS.may_match({1: floats(-3.0, -0.0)})
    assert NEGATIVE_ZERO.may_match({1: floats(0.0, 1.0, "float")})
    assert not FLOATS.may_match({1: floats(-3.0, -1.0)})
    assert not NEGATIVE_ZERO.may_match({1: floats(0.5, 1.0, "float")})


def test_nan_is_never_ruled_out_by_bounds() -> None:
    assert WITH_NAN.may_match({1: floats(6.0, 7.0)})
    assert FLOATS.may_match({1: floats(math.nan, 7.0)})
    assert FLOATS.may_match({1: floats(6.0, math.nan)})
    assert not FLOATS.may_match({1: floats(6.0, 7.0)})
    assert not WITH_NAN.may_match({1: ColumnRange(nulls=9, rows=9)})
    both = key_set(["double", "long"], [pa.array([math.nan, 5.0]), pa.array([1, 2])])
    assert both.may_match({1: floats(6.0, 7.0), 2: long(1, 1)})
    assert not both.may_match({1: floats(6.0, 7.0), 2: long(2, 2)})


def test_null_is_ruled_out_by_a_count_of_zero_only() -> None:
    assert not WITH_NULL.may_match({1: long(11, 19)})
    assert WITH_NULL.may_match({1: long(11, 19, nulls=None)})
    assert WITH_NULL.may_match({1: long(11, 19, nulls=1)})
    assert WITH_NULL.may_match({1: long(None, None, nulls=9)})


def test_one_column_is_enough_for_each_delete_row() -> None:
    text = ColumnRange.of("string", lower="m", upper="z", nulls=0, rows=9)
    # (1, a) is ruled out by the text, (9, z) by the number, though each column alone rules out only one
    assert not PAIRS.may_match({1: long(0, 5), 2: text})
    assert PAIRS.may_match({1: long(0, 9), 2: text})
    assert PAIRS.may_match({1: long(0, 5)})


def test_bytes_are_ordered_without_sign_and_bounds_may_be_cut() -> None:
    keys = key_set(["string"], [pa.array(["zebra", "\uffff"])])
    cut = ColumnRange(lower=b"zeb", upper=b"zec", nulls=0, rows=9)
    assert keys.may_match({1: cut})
    assert not keys.may_match({1: ColumnRange.of("string", lower="a", upper="z", nulls=0, rows=9)})
    assert keys.may_match({1: ColumnRange.of("string", lower="\ue000", upper="\U0001f600", nulls=0, rows=9)})


def test_an_absent_column_is_its_constant() -> None:
    assert NUMBERS.may_match({1: ColumnRange.constant("long", 20, 9)})
    assert not NUMBERS.may_match({1: ColumnRange.constant("long", 21, 9)})
    assert not NUMBERS.may_match({1: ColumnRange.constant("long", None, 9)})
    assert WITH_NULL.may_match({1: ColumnRange.constant("long", None, 9)})
    assert WITH_NAN.may_match({1: ColumnRange.constant("double", math.nan, 9)})


def test_sets_of_nothing_and_of_null() -> None:
    assert not KeySet({1: "long"}, []).may_match({})
    assert not KeySet({1: "long", 2: "string"}, []).may_match({})
    for arrow, kind in ((pa.int64(), "long"), (pa.string(), "string")):
        only_null = key_set([kind], [pa.nulls(2, arrow)])
        assert only_null.may_match({})
        assert only_null.may_match({1: ColumnRange(nulls=1, rows=9)})
        assert not only_null.may_match({1: ColumnRange(nulls=0, rows=9)})


def test_promoted_bounds() -> None:
    keys = key_set(["timestamp"], [pa.array([dt.date(2024, 1, 1)])])
    known = ColumnRange.of("timestamp", lower=dt.date(2024, 1, 1), upper=dt.date(2024, 1, 5), nulls=0, rows=9)
    assert keys.may_match({1: known})
    assert known.lower == comparable("timestamp", dt.datetime(2024, 1, 1))  # noqa: DTZ001


def test_few_keys_can_be_tried_against_a_bloom_filter() -> None:
    assert NUMBERS.single_values(1, 3) == [10, 20, 30]
    assert NUMBERS.single_values(1, 2) is None
    assert NUMBERS.single_values(1, 2, within=long(15, 30)) == [20, 30]
    assert NUMBERS.single_values(1, 0, within=long(11, 12)) == []
    assert NUMBERS.single_values(2, 9) is None
    assert PAIRS.single_values(1, 9) is None
    assert FLOATS.single_values(1, 9) is None
    assert key_set(["string"], [pa.array(["b", "a", "b"])]).single_values(1, 9) == [b"a", b"b"]
    for precision in (9, 38):
        decimals = pa.array([Decimal("-1.5"), Decimal("2.0")], pa.decimal128(precision, 1))
        assert key_set([f"decimal({precision},1)"], [decimals]).single_values(1, 9) == [-15, 20]


def test_a_null_key_is_in_no_bloom_filter() -> None:
    assert WITH_NULL.single_values(1, 9) is None
    assert WITH_NULL.single_values(1, 9, within=long(0, 50)) == [10]
    assert WITH_NULL.single_values(1, 9, within=long(0, 50, nulls=1)) is None
