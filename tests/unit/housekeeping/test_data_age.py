"""Which files are old as a whole: none that may hold one younger row."""

from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.housekeeping.data_age import AgeRule, FileAge, Stays, age, time_fields
from icepact.housekeeping.date_patterns import micros_of
from icepact.housekeeping.event_time import Span, event_time
from icepact.model.files import Partition
from icepact.model.ttl import TtlLevel

DAY = 86_400_000_000
EPOCH_DAY = date(1970, 1, 1)
CUTOFF = micros_of(datetime(2026, 2, 1))  # noqa: DTZ001
BY_DAY = {0: [(0, "day")], 1: [(1, "month")], 2: []}


def rule(level: TtlLevel = "file", kind: str = "timestamp", **wishes: Any) -> AgeRule:
    clock = event_time("at", kind, pattern=wishes.pop("pattern", None), zone=wishes.pop("zone", "UTC"))
    return AgeRule(**{"time": clock, "level": level, "cutoff": CUTOFF, "fields": {0: []}, "required": False, **wishes})


def at(text: str) -> bytes:
    return micros_of(datetime.fromisoformat(text)).to_bytes(8, "little", signed=True)


def file(lower: bytes | None = None, upper: bytes | None = None, **wishes: Any) -> FileAge:
    known = {"number": 0, "path": "f", "spec_id": 0, "partition": (), "rows": 10, "size": 100, "nulls": 0}
    return FileAge(**{**known, "lower": lower, "upper": upper, **wishes})


OLD, NEW = at("2026-01-01"), at("2026-03-01")


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (file(OLD, NEW), Stays.STRADDLES),
        (file(OLD, at("2026-02-01")), Stays.STRADDLES),  # neither younger nor older
        (file(OLD, OLD, nulls=1), Stays.NULLS),
        (file(OLD, OLD, nulls=None), Stays.UNCOUNTED),
        (file(nulls=10), Stays.NULLS),
        (file(), Stays.NO_BOUNDS),
        (file(OLD), Stays.NO_BOUNDS),
        (file(b"", OLD), Stays.ODD),
        (file(OLD, b"\0\0\0"), Stays.ODD),
        (file(NEW, NEW), None),
        (file(NEW, NEW, nulls=3), None),
        (file(NEW, NEW, nulls=None), None),
    ],
)
def test_a_file_that_may_hold_one_younger_row_stays(candidate: FileAge, why: Stays | None) -> None:
    assert rule().judge(candidate) is why


def test_a_file_goes_whose_newest_value_is_older() -> None:
    upper = at("2026-01-31T23:59:59.999999")
    assert rule().judge(file(OLD, upper)) == Span(micros_of(datetime(2026, 1, 1)), CUTOFF)  # noqa: DTZ001
    assert isinstance(rule(required=True).judge(file(OLD, upper, nulls=None)), Span)


def test_the_zone_of_values_without_one_counts() -> None:
    upper = at("2026-01-31T23:30:00")
    assert isinstance(rule().judge(file(OLD, upper)), Span)
    assert rule(zone="America/New_York").judge(file(OLD, upper)) is Stays.STRADDLES
    assert isinstance(rule(kind="timestamptz", zone="America/New_York").judge(file(OLD, upper)), Span)


@pytest.mark.parametrize("level", ["partition", "file"])
@pytest.mark.parametrize(
    ("spec_id", "partition", "goes"),
    [
        (0, ("2026-01-31",), True),
        (0, ("2026-02-01",), False),
        (1, (7, 56 * 12), True),
        (1, (7, 56 * 12 + 1), False),
        (0, (None,), False),
        (0, ("soon",), False),
        (2, ("2026-01-31",), False),
        (9, (), False),
    ],
)
def test_a_partition_goes_once_it_is_over(level: TtlLevel, spec_id: int, partition: Partition, goes: bool) -> None:
    """Of whichever spec; bounds are not needed."""
    found = rule(level, fields=BY_DAY).judge(file(spec_id=spec_id, partition=partition, nulls=None))
    assert isinstance(found, Span) is goes


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (file(OLD, OLD, partition=(None,)), Stays.NULL_PARTITION),
        (file(OLD, OLD, spec_id=2, partition=(1,)), Stays.NO_PARTITION),
        (file(OLD, OLD, partition=("soon",)), Stays.ODD),
        (file(OLD, NEW, partition=("2026-01-01",)), Stays.CONTRADICTION),
        (file(OLD, OLD, partition=("2026-01-01",), nulls=1), Stays.NULLS),
        (file(b"x", OLD, partition=("2026-01-01",)), Stays.ODD),
        (file(OLD, OLD, spec_id=1, partition=(7, 56 * 12 + 1)), Stays.STRADDLES),
        (file(NEW, NEW, spec_id=1, partition=(7, 56 * 12 + 2)), None),
        (file(NEW, NEW, spec_id=2, partition=(1,)), None),
    ],
)
def test_why_a_file_of_a_partition_stays(candidate: FileAge, why: Stays | None) -> None:
    strict = rule("partition", fields=BY_DAY, cutoff=CUTOFF + DAY)
    assert strict.judge(candidate) is why


def test_of_several_fields_the_narrowest_counts() -> None:
    fields = {0: [(0, "month"), (1, "day")]}
    both = file(spec_id=0, partition=(56 * 12 + 1, "2026-02-01"))
    assert isinstance(rule("partition", fields=fields, cutoff=CUTOFF + DAY).judge(both), Span)


def test_texts_that_do_not_sort_go_by_partition_alone() -> None:
    unsorted = rule("partition", "string", pattern="dd.MM.yyyy", fields={0: [(0, "identity")]})
    assert isinstance(unsorted.judge(file(b"01.01.2026", b"31.12.2027", partition=("01.01.2026",))), Span)
    by_file = rule("file", "string", pattern="dd.MM.yyyy")
    assert by_file.judge(file(b"01.01.2020", b"01.01.2020")) is Stays.NO_BOUNDS


def test_the_fields_of_specs_that_are_made_of_a_column() -> None:
    specs = {
        0: [{"source-id": 3, "transform": "day"}, {"source-id": 4, "transform": "day"}],
        1: [{"source-id": 4, "transform": "bucket[4]"}, {"source-id": 4, "transform": "void"}],
        2: [{"source-id": 4, "transform": "identity"}],
    }
    assert time_fields(specs, 4) == {0: [(1, "day")], 1: [], 2: [(0, "identity")]}


def test_what_goes_and_what_stays_is_summed_up() -> None:
    files = [
        file(OLD, OLD, number=0, path="a", deletes=(0, 1)),
        file(OLD, NEW, number=1, path="b", deletes=(1, 2)),
        file(at("2026-01-05"), at("2026-01-06"), number=2, path="c", deletes=(3,)),
        file(OLD, NEW, number=3, path="d"),
        file(OLD, OLD, number=4, path="e", nulls=2),
        file(NEW, NEW, number=5, path="f"),
    ]
    found = age(files, rule())
    assert (found.numbers, found.rows, found.size) == ([0, 2], 20, 200)
    assert found.freed_deletes == {0, 3}
    assert list(found.partitions) == [(0, ())]
    assert found.span == Span(micros_of(datetime(2026, 1, 1)), micros_of(datetime(2026, 1, 6)) + 1)  # noqa: DTZ001
    assert [(entry.what, entry.why) for entry in found.kept] == [
        ("e", "rows without a value in the column have no age"),
        ("2 files (200 B), first b", "younger rows are in it, too, or may be"),
    ]


# -- whatever the rows are ------------------------------------------------------------------------

DAYS = st.one_of(st.none(), st.dates(date(2025, 12, 20), date(2026, 2, 20)))


@given(
    rows=st.lists(DAYS, min_size=1, max_size=4),
    level=st.sampled_from(["partition", "file"]),
    spec_id=st.integers(0, 2),
    counted=st.booleans(),
    bounded=st.booleans(),
    cutoff=st.dates(date(2025, 12, 10), date(2026, 3, 1)),
)
def test_no_row_goes_that_is_young_or_has_no_date(
    rows: list[date | None], level: TtlLevel, spec_id: int, counted: bool, bounded: bool, cutoff: date
) -> None:
    if spec_id != 2:  # what is in one partition is of one day, or month
        rows = [row for row in rows if _value(spec_id, row) == _value(spec_id, rows[0])]
    values = sorted(row for row in rows if row is not None)
    raw = [(day - EPOCH_DAY).days.to_bytes(4, "little", signed=True) for day in values]
    known = bool(raw) and bounded
    candidate = file(
        raw[0] if known else None,
        raw[-1] if known else None,
        spec_id=spec_id,
        partition=(7, _value(spec_id, rows[0])) if spec_id == 1 else (_value(spec_id, rows[0]),),
        nulls=rows.count(None) if counted else None,
    )
    moment = (cutoff - EPOCH_DAY).days * DAY
    fields = {0: [(0, "identity")], 1: [(1, "month")], 2: []}
    found = rule(level, "date", cutoff=moment, fields=fields).judge(candidate)
    old = all(row is not None and row < cutoff for row in rows)
    if isinstance(found, Span):
        assert old
    elif old and (spec_id == 0 or (level == "file" and counted and bounded)):
        raise AssertionError("nothing keeps this file")


def _value(spec_id: int, day: date | None) -> Any:
    if spec_id == 2 or day is None:
        return None
    return day.isoformat() if spec_id == 0 else (day.year - 1970) * 12 + day.month - 1
