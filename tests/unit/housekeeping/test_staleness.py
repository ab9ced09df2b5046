"""When statistics are stale, and which columns can have any."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.housekeeping.staleness import (
    Event,
    age_of,
    checked_share,
    event_of,
    judge_partitions,
    judge_sketches,
    sketchable,
)
from icepact.model.errors import BadInput
from icepact.model.statistics import StatisticsAge, StatisticsWork

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(snapshot_id: int, changed: int | None = 0, *, rows: int | None = 100, files: int | None = 10) -> Event:
    """A snapshot of a table of 100 rows, each in a file that is a tenth of it."""
    return Event(
        snapshot_id=snapshot_id,
        at=NOON + timedelta(hours=snapshot_id),
        rows_changed=changed,
        files_changed=changed and -(-changed // 10),
        rows=rows,
        files=files,
        bytes=1000,
    )


def history(*changed: int | None) -> list[Event]:
    """By how many rows each snapshot changed, oldest first and numbered from 1; newest first, as Iceberg walks it."""
    return [event(number, rows) for number, rows in enumerate(changed, start=1)][::-1]


def sketches(
    events: Sequence[Event], registered: Mapping[int, Sequence[int]], stale_after: float = 0.1
) -> tuple[StatisticsWork, str]:
    """What is to be done about sketches of all columns."""
    age = age_of(events, {number: frozenset(sources) for number, sources in registered.items()})
    return judge_sketches(age, head=events[0].snapshot_id, missing=(), strays=0, stale_after=stale_after)


# -- what a snapshot changed ----------------------------------------------------------------------


def summary(operation: str, **counts: int) -> Event:
    """Of a snapshot that leaves 100 rows in 10 data files."""
    totals = {"total-records": 100, "total-data-files": 10, "total-delete-files": 2, "total-files-size": 5000}
    named = {name.replace("_", "-"): number for name, number in counts.items()}
    return event_of(
        {
            "snapshot-id": 7,
            "timestamp-ms": 1_800_000_000_000,
            "summary": {"operation": operation, **{key: str(value) for key, value in (totals | named).items()}},
        }
    )


def test_what_a_snapshot_says_of_itself() -> None:
    made = summary("append", added_records=30, added_data_files=3)
    assert made == Event(
        snapshot_id=7,
        at=datetime(2027, 1, 15, 8, tzinfo=UTC),
        rows_changed=30,
        files_changed=3,
        rows=100,
        files=12,
        bytes=5000,
    )


@pytest.mark.parametrize(
    ("made", "rows", "files"),
    [
        (summary("append", added_records=30, added_data_files=3), 30, 3),
        (summary("delete", deleted_records=20, deleted_data_files=2), 20, 2),
        (summary("overwrite", added_records=9, deleted_records=10, added_data_files=1, deleted_data_files=1), 19, 2),
        (summary("overwrite", added_position_deletes=4, added_delete_files=1), 4, 1),
        (summary("overwrite", added_equality_deletes=5, added_delete_files=1, added_records=5), 10, 1),
        (summary("replace", added_records=100, deleted_records=100, added_data_files=1, deleted_data_files=10), 0, 11),
        (summary("replace"), 0, 0),
    ],
)
def test_rows_and_files_that_a_snapshot_changed(made: Event, rows: int, files: int) -> None:
    assert (made.rows_changed, made.files_changed) == (rows, files)


def test_a_vector_that_follows_another_counts_only_what_it_adds() -> None:
    made = summary("overwrite", added_position_deletes=50, removed_position_deletes=48)
    assert made.rows_changed == 2


def test_deletes_that_go_hide_no_row_that_went_with_a_file() -> None:
    assert summary("overwrite", deleted_records=30, removed_position_deletes=90).rows_changed == 30


@pytest.mark.parametrize("of", [{}, {"summary": None}, {"summary": {"operation": "append", "added-records": "9"}}])
def test_a_snapshot_without_totals_is_not_trusted(of: dict[str, Any]) -> None:
    made = event_of({"snapshot-id": 7, "timestamp-ms": 0, **of})
    assert (made.rows_changed, made.files_changed, made.rows) == (None, None, None)


# -- how old --------------------------------------------------------------------------------------


def test_the_age_of_the_newest_statistics() -> None:
    found = age_of(history(100, 5, 0, 3), {1: frozenset([1]), 2: frozenset([2])})
    assert found == StatisticsAge(
        snapshot_id=2,
        computed_from=2,
        computed_at=NOON + timedelta(hours=2),
        snapshots=2,
        rows_changed=3,
        files_changed=1,
        rows=100,
        files=10,
        same_rows=False,
    )
    assert found.rows_share == 0.03
    assert found.files_share == 0.1


def test_what_was_carried_over_is_as_old_as_the_rows_that_were_read() -> None:
    found = age_of(history(100, 5, 4, 0), {3: frozenset([1])})
    assert found is not None
    assert (found.snapshot_id, found.computed_from, found.rows_changed, found.same_rows) == (3, 1, 9, True)


def test_sketches_of_several_snapshots_are_as_old_as_the_oldest() -> None:
    found = age_of(history(100, 5, 4), {3: frozenset([1, 3])})
    assert found is not None
    assert (found.computed_from, found.rows_changed) == (1, 9)


def test_how_much_changed_since_an_expired_snapshot_is_not_known() -> None:
    found = age_of(history(100, 5, 0), {2: frozenset([2, 99])})
    assert found is not None
    assert (found.computed_from, found.computed_at, found.rows_changed, found.rows_share) == (99, None, None, None)
    assert found.same_rows


def test_statistics_of_another_branch_do_not_count() -> None:
    assert age_of(history(100, 5), {77: frozenset([77])}) is None


# -- what is to be done ---------------------------------------------------------------------------


def test_without_sketches_they_are_computed() -> None:
    assert sketches(history(100), {}) == ("compute", "there are no sketches of distinct values")


def test_sketches_of_the_head_are_kept() -> None:
    assert sketches(history(100, 50), {2: [2]})[0] == "keep"


def test_after_a_compaction_they_are_carried_over() -> None:
    assert sketches(history(100, 0), {1: [1]}) == ("carry over", "0% of the rows changed since")


def test_after_a_compaction_they_are_carried_over_even_if_they_are_of_an_expired_snapshot() -> None:
    assert sketches(history(100, 0), {1: [99]})[0] == "carry over"
    assert sketches(history(100, 1), {1: [99]}) == (
        "compute",
        "the history does not tell how much has changed since snapshot 99",
    )


def test_small_changes_add_up_over_what_was_carried_over() -> None:
    assert sketches(history(100, 6, 4), {2: [1]}) == ("carry over", "10% of the rows changed since, which is little")
    assert sketches(history(100, 6, 5), {2: [1]}) == ("compute", "11% of the rows changed since")


def test_a_snapshot_that_tells_nothing_makes_them_stale() -> None:
    assert sketches(history(100, None), {1: [1]})[0] == "compute"


def test_a_column_without_a_sketch_makes_them_stale() -> None:
    age = age_of(history(100), {1: frozenset([1])})
    assert judge_sketches(age, head=1, missing=["a", "b", "c", "d"], strays=0, stale_after=1) == (
        "compute",
        "there is no sketch of a, b, c, ...",
    )


def test_sketches_of_a_lost_column_are_left_out() -> None:
    age = age_of(history(100), {1: frozenset([1])})
    work, why = judge_sketches(age, head=1, missing=(), strays=2, stale_after=0.1)
    assert (work, why) == ("carry over", "the table has lost 2 columns that there are sketches of")


def test_an_empty_table_that_got_rows_has_changed_as_a_whole() -> None:
    events = [event(2, 1), event(1, 0, rows=0, files=0)]
    assert sketches(events, {1: [1]}, 0.99) == ("compute", "100% of the rows changed since")


def test_partition_statistics_count_files_too() -> None:
    rewritten = event(2, 0)._replace(files_changed=11)
    found = age_of([rewritten, event(1, 100)], {1: frozenset([1])})
    assert judge_partitions(found, head=2, stale_after=0.1) == ("compute", "110% of the files changed since")
    untouched = age_of([event(2, 0), event(1, 100)], {1: frozenset([1])})
    assert judge_partitions(untouched, head=2, stale_after=0.0)[0] == "keep"
    assert judge_partitions(None, head=2, stale_after=1.0) == ("compute", "there are no partition statistics")
    assert judge_partitions(found, head=1, stale_after=0.0)[0] == "keep"


WORKS = ("keep", "carry over", "compute")
NUMBERS = st.integers(0, 300)


@given(st.lists(st.just(0), max_size=5), st.integers(1, 200), st.floats(0, 1))
def test_nothing_is_ever_stale_where_no_row_changed(zeros: list[int], rows: int, stale_after: float) -> None:
    events = [event(n, changed, rows=rows) for n, changed in enumerate([rows, *zeros], start=1)][::-1]
    assert sketches(events, {1: [1]}, stale_after)[0] != "compute"


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.data(), st.floats(0, 1))
def test_the_more_has_changed_the_more_is_done(changes: list[int], data: st.DataObject, stale_after: float) -> None:
    more = [number + data.draw(NUMBERS) for number in changes]
    for judge in (judge_sketches, judge_partitions):
        works = []
        for changed in (changes, more):
            age = age_of(history(100, *changed), {1: frozenset([1])})
            rest = {"missing": (), "strays": 0} if judge is judge_sketches else {}
            works.append(WORKS.index(judge(age, head=len(changed) + 1, stale_after=stale_after, **rest).work))  # type: ignore[arg-type]
        assert works == sorted(works)


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_the_more_is_tolerated_the_less_is_done(changes: list[int], one: float, other: float) -> None:
    less, more = sorted((one, other))
    works = [WORKS.index(sketches(history(100, *changes), {1: [1]}, share)[0]) for share in (more, less)]
    assert works == sorted(works)


# -- which columns --------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "price", "required": False, "type": "decimal(9, 2)"},
        {"id": 3, "name": "code", "required": False, "type": "fixed[4]"},
        {
            "id": 4,
            "name": "address",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 5, "name": "city", "required": False, "type": "string"}]},
        },
        {"id": 6, "name": "odd.name", "required": False, "type": "string"},
        {"id": 7, "name": "spot", "required": False, "type": "geometry"},
        {"id": 8, "name": "Twin", "required": False, "type": "int"},
        {"id": 9, "name": "twin", "required": False, "type": "int"},
        {"id": 10, "name": "new", "required": False, "type": "int"},
    ],
}
OF_SNAPSHOT = {
    "type": "struct",
    "fields": [
        {**field, "name": "cost" if field["id"] == 2 else field["name"]}
        for field in SCHEMA["fields"]
        if field["id"] != 10
    ],
}


def test_all_columns_that_can_have_sketches_have_them() -> None:
    found = sketchable("db.t", SCHEMA, OF_SNAPSHOT, None)
    assert found.names == {1: "id", 2: "cost", 3: "code"}
    assert {kept.what: kept.why for kept in found.kept} == {
        "column address": "it is a struct: there are statistics of primitive columns only",
        "column odd.name": "Iceberg cannot find a column with this name in Spark",
        "column spot": "Iceberg computes none for type geometry",
        "column Twin": "Spark cannot tell it from another column that is written alike",
        "column twin": "Spark cannot tell it from another column that is written alike",
        "column new": "it was added after the snapshot: no row has it yet",
    }


def test_columns_are_named_as_they_are_today_and_read_as_they_were() -> None:
    assert sketchable("db.t", SCHEMA, OF_SNAPSHOT, ["price", "new", "price"]).names == {2: "cost"}


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("cost", "db.t has no column 'cost'; there is: id, price, code, address, odd.name, spot, Twin, twin, new"),
        ("address.city", "column 'address.city' of db.t is nested: there are statistics of top-level columns only"),
        ("address", "column 'address' of db.t can have no statistics: it is a struct: .* primitive columns only"),
        ("spot", "column 'spot' of db.t can have no statistics: Iceberg computes none for type geometry"),
        ("odd.name", "column 'odd.name' of db.t can have no statistics: Iceberg cannot find .*"),
    ],
)
def test_columns_that_cannot_have_sketches_are_refused_by_name(column: str, why: str) -> None:
    with pytest.raises(BadInput, match=f"^{why}$"):
        sketchable("db.t", SCHEMA, OF_SNAPSHOT, [column])


def test_no_columns_at_all_are_refused() -> None:
    with pytest.raises(BadInput, match="no columns are named"):
        sketchable("db.t", SCHEMA, OF_SNAPSHOT, [])


@pytest.mark.parametrize("share", [-0.1, 1.01, float("nan")])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(BadInput, match=r"give a share of the rows from 0 to 1, such as 0\.1"):
        checked_share(share)


def test_shares_from_nothing_to_all() -> None:
    assert [checked_share(share) for share in (0, 0.1, 1)] == [0, 0.1, 1]
