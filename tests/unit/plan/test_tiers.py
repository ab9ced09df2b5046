"""Tiers: what is due by what there is and by the clock; and the strategy that lives by it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from icepact.assess.health import assess
from icepact.model.errors import BadInput
from icepact.model.files import DataFile, DeleteKind, PartitionSpec, SpecField
from icepact.model.plan import Plan
from icepact.model.policy import Policy, Tier
from icepact.model.snapshot import LastRun
from icepact.plan.select import select_files
from icepact.plan.strategies.selection import FileSelector
from icepact.plan.strategies.table import STRATEGIES
from icepact.plan.tiers import due
from icepact.stats.table import file_stats_of
from tests.support.planning import NOW, make_plan
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

BY_DAY = {1: PartitionSpec(spec_id=1, fields=(SpecField(name="day", transform="day", source="ts"),))}


def moment(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def state(files: list[DataFile], deletes: Any = (), *, committed: Mapping[int, datetime], **given: Any) -> Any:
    """A table whose snapshots were committed at these times."""
    made = make_state(files, deletes, specs=given.pop("specs", BY_DAY), **given)
    return replace(made, moments=sorted((number, moment(at)) for number, at in committed.items()))


def partition_group(
    files: list[DataFile], policy: Policy, *, ago: timedelta, last_compacted: Any = None, deletes: Any = ()
) -> Any:
    table = state(attach(files, deletes), deletes, committed={1: NOW - ago, 2: NOW - ago})
    [found] = assess(file_stats_of(table), policy, last_compacted={"day=d1": last_compacted or {}}).partition_groups
    return found


def small(count: int) -> list[DataFile]:
    return [data_file(f"s{n}", MB) for n in range(count)]


HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("count", "ago", "last_compacted", "which"),
    [
        (12, MINUTE, {}, FileSelector.SMALL),
        (11, MINUTE, {}, FileSelector.NONE),
        (2, 59 * MINUTE, {}, FileSelector.NONE),
        (2, HOUR, {}, FileSelector.SMALL),
        (1, 99 * HOUR, {}, FileSelector.NONE),
        (2, 99 * HOUR, {"minor": NOW - 30 * MINUTE}, FileSelector.NONE),
        (2, 99 * HOUR, {"full": NOW - 30 * MINUTE}, FileSelector.NONE),
        (2, 99 * HOUR, {"minor": NOW - HOUR}, FileSelector.SMALL),
    ],
)
def test_minor_is_due_by_number_or_by_time(
    count: int, ago: timedelta, last_compacted: Any, which: FileSelector
) -> None:
    policy = make_policy()
    assert (
        due(partition_group(small(count), policy, ago=ago, last_compacted=last_compacted), policy, NOW).which is which
    )


def test_major_comes_before_minor_and_minor_before_full() -> None:
    policy = make_policy(full_trigger_interval="1h")
    deletes = [delete_file("eq", DeleteKind.EQUALITY, records=3 * MB)]
    assert due(partition_group(small(12), policy, ago=HOUR, deletes=deletes), policy, NOW).which.tier is Tier.MAJOR
    assert due(partition_group(small(12), policy, ago=HOUR), policy, NOW).which is FileSelector.SMALL
    assert due(partition_group(small(1), policy, ago=HOUR), policy, NOW).which is FileSelector.ALL


def test_deletes_are_due_by_their_records_or_by_their_files() -> None:
    """One record on 12 MB of rows; 2 delete files on 12 data files are a sixth."""
    policy = make_policy()
    deletes = [delete_file(f"p{n}", DeleteKind.POSITION, records=1, referenced=f"s{n}") for n in range(2)]
    one, two = (partition_group(small(12), policy, ago=HOUR, deletes=deletes[:count]) for count in (1, 2))
    assert due(one, policy, NOW).which is FileSelector.SMALL
    assert due(two, policy, NOW).which is FileSelector.SMALL_OR_TOUCHED
    assert due(two, policy, NOW).reason == "2 delete files on 12 data files"
    assert due(two, make_policy(max_fragment_ratio=0.2), NOW).which is FileSelector.SMALL


def test_minor_work_takes_deletes_only_where_files_are_small() -> None:
    policy = make_policy(tier="minor", min_input_files=2, min_file_size="10MB")
    deletes = [delete_file("eq", DeleteKind.EQUALITY, records=90 * MB)]
    files = attach([*small(3), data_file("large", 300 * MB)], deletes)
    table = state(files, deletes, committed={1: NOW - HOUR, 2: NOW - HOUR})
    [step] = make_plan(table, policy).rewrites
    assert ({f.path for f in step.files}, step.tier) == ({"s0", "s1", "s2"}, Tier.MINOR)
    assert step.delete_records == 90 * MB
    assert step.gain.delete_files == 0  # it still applies to the large one


@pytest.mark.parametrize(
    ("last", "written", "which"),
    [
        (None, 5, FileSelector.ALL),
        (3, 5, FileSelector.NONE),  # nothing was written since
        (25, 5, FileSelector.ALL),
        (23, 5, FileSelector.NONE),  # not yet
    ],
)
def test_full_is_due_after_its_interval_if_anything_was_written(
    last: int | None, written: int, which: FileSelector
) -> None:
    policy = make_policy(full_trigger_interval="24h")
    last_compacted = {} if last is None else {"full": NOW - last * HOUR}
    assert (
        due(partition_group(small(1), policy, ago=written * HOUR, last_compacted=last_compacted), policy, NOW).which
        is which
    )


def test_without_an_interval_nothing_is_ever_due_for_full() -> None:
    assert due(partition_group(small(1), make_policy(), ago=999 * HOUR), make_policy(), NOW).which is FileSelector.NONE


def test_a_tier_that_is_asked_for_bounds_the_depth() -> None:
    deletes = [delete_file("eq", DeleteKind.EQUALITY, records=3 * MB)]
    for tier, which in (
        ("minor", FileSelector.SMALL),
        ("major", FileSelector.SMALL_OR_TOUCHED),
        ("full", FileSelector.ALL),
    ):
        policy = make_policy(tier=tier)
        group = partition_group(small(6), policy, ago=HOUR, deletes=deletes)
        assert select_files(group, policy, NOW, STRATEGIES).which is which
    policy = make_policy(tier="minor")
    assert (
        select_files(partition_group(small(1), policy, ago=HOUR, deletes=deletes), policy, NOW, STRATEGIES).which
        is FileSelector.NONE
    )


def planned(
    files: list[DataFile], policy: Policy, *, committed: Mapping[int, datetime], last_compacted: Any = None
) -> Plan:
    return make_plan(state(files, committed=committed), policy, last_compacted=last_compacted)


def series(day: str, number: int, count: int) -> list[DataFile]:
    return [data_file(f"{day}-{number}-{n}", 100 * MB, partition=(day,), sequence_number=number) for n in range(count)]


def test_open_partitions_of_a_time_series_get_minor_work_and_closed_ones_everything_once() -> None:
    policy = make_policy(strategy="time-series", target_file_size="512MB", min_file_size="64MB")
    files = [*series("2026-01-01", 2, 4), *series("2025-12-30", 1, 4)]
    committed = {1: NOW - timedelta(days=2), 2: NOW - HOUR}
    plan = planned(files, policy, committed=committed)
    assert [(s.partition, s.tier, len(s.files)) for s in plan.rewrites] == [("day=2025-12-30", Tier.FULL, 4)]
    [left] = plan.left_out
    assert left.reason.startswith("still open: last commit on 2026-01-01 11:00 UTC")
    again = planned(files, policy, committed=committed, last_compacted={"day=2025-12-30": {"full": NOW}})
    assert again.rewrites == ()
    assert {e.reason for e in again.left_out if "2025" in e.partition} == {
        "closed, and rewritten fully since the last commit"
    }


def test_late_data_opens_a_closed_partition_again() -> None:
    policy = make_policy(strategy="time-series")
    files = [*series("2025-12-30", 1, 3), *series("2025-12-30", 2, 1)]
    last_compacted = {"day=2025-12-30": {"full": NOW - timedelta(days=3)}}
    plan = planned(
        files, policy, committed={1: NOW - timedelta(days=9), 2: NOW - timedelta(days=2)}, last_compacted=last_compacted
    )
    assert [s.tier for s in plan.rewrites] == [Tier.FULL]


def test_closed_partitions_come_oldest_first() -> None:
    policy = make_policy(strategy="time-series")
    files = [*series("2025-12-02", 2, 9), *series("2025-12-01", 1, 4)]
    plan = planned(files, policy, committed={1: NOW - timedelta(days=9), 2: NOW - timedelta(days=8)})
    assert [s.partition for s in plan.rewrites] == ["day=2025-12-01", "day=2025-12-02"]


def test_a_table_that_is_not_partitioned_by_time_is_asked_about() -> None:
    by_region = {1: PartitionSpec(spec_id=1, fields=(SpecField(name="day", transform="identity", source="day"),))}
    table = state(small(6), committed={1: NOW}, specs=by_region)
    policy = make_policy(strategy="time-series")
    with pytest.raises(BadInput, match="with time_column"):
        make_plan(table, policy)
    policy = make_policy(strategy="time-series", time_column="day")
    assert make_plan(table, policy).left_out


def test_settled_places_are_still_owed_a_full_rewrite() -> None:
    policy = make_policy(strategy="time-series")
    last = LastRun(
        layout=policy.fingerprint,
        snapshot_id=99,
        own_sequence_numbers=frozenset({2}),
        pinned_sequence_number=1,
    )
    committed = {1: NOW - timedelta(days=9), 2: NOW - timedelta(days=2)}
    table = state(series("2025-12-30", 2, 4), committed=committed, last_run=last)
    owed = make_plan(table, policy)
    assert [s.tier for s in owed.rewrites] == [Tier.FULL]
    last_compacted = {"day=2025-12-30": {"full": NOW - timedelta(days=1)}}
    paid = make_plan(table, policy, last_compacted=last_compacted)
    assert paid.rewrites == ()


def test_files_of_an_old_spec_do_not_keep_a_time_series_from_its_work() -> None:
    specs = {**BY_DAY, 0: PartitionSpec(spec_id=0, fields=())}
    old = [data_file(f"o{n}", MB, spec_id=0, partition=()) for n in range(12)]
    table = state([*old, *series("2025-12-30", 2, 4)], committed={1: NOW - 99 * HOUR, 2: NOW - 50 * HOUR}, specs=specs)
    policy = make_policy(strategy="time-series")
    plan = make_plan(table, policy)
    assert {step.regroup: step.tier for step in plan.rewrites} == {True: Tier.MINOR, False: Tier.FULL}


def test_what_a_budget_holds_back_is_named_so_that_no_clock_is_set() -> None:
    policy = make_policy(strategy="time-series", max_files=5)
    files = [*series("2025-12-01", 1, 4), *series("2025-12-02", 1, 9)]
    plan = planned(files, policy, committed={1: NOW - timedelta(days=9)})
    assert sum(len(step.files) for step in plan.rewrites) <= 5
    assert "day=2025-12-02" in plan.held_back
    assert not plan.complete


def test_what_our_own_runs_wrote_is_no_news() -> None:
    policy = make_policy(strategy="time-series")
    last = LastRun(layout="x", snapshot_id=99, own_sequence_numbers=frozenset({2}), pinned_sequence_number=1)
    table = state(series("2025-12-30", 2, 1), committed={1: NOW - timedelta(days=9), 2: NOW}, last_run=last)
    [found] = assess(file_stats_of(table), policy).partition_groups
    assert found.written_at == NOW - timedelta(days=9)


@pytest.mark.parametrize(
    ("by", "rewritten_at", "newest", "same"),
    [
        pytest.param("this policy", 1, 1, True, id="by an earlier run"),
        pytest.param("another policy", 1, 1, False, id="by a run of another policy"),
        pytest.param("this policy", 1, 3, False, id="before something was written"),
        pytest.param("this policy", 4, 3, True, id="by the last run"),
    ],
)
def test_a_partition_group_stays_compacted_until_something_is_written(
    by: str, rewritten_at: int, newest: int, *, same: bool
) -> None:
    policy = make_policy(strategy="time-series")
    layout = policy.fingerprint if by == "this policy" else by
    runs = [
        LastRun(
            layout=policy.fingerprint, snapshot_id=99, own_sequence_numbers=frozenset({5}), pinned_sequence_number=4
        ),
        LastRun(layout=layout, snapshot_id=98, own_sequence_numbers=frozenset({2}), pinned_sequence_number=1),
    ]
    committed = {number: NOW - (9 - number) * HOUR for number in range(1, 6)}
    rest = [data_file("rest", MB, partition=("2025-12-30",), sequence_number=newest)]
    table = replace(state(rest, committed=committed), last_runs=runs)
    last_compacted = {"day=2025-12-30": {"minor": committed[rewritten_at]}}
    [found] = assess(file_stats_of(table), policy, last_compacted=last_compacted).partition_groups
    assert found.unchanged_since == 99
    assert found.compacted_last is same


def test_a_run_whose_pin_has_expired_has_not_seen_more_than_an_older_snapshot_that_stayed() -> None:
    """A tag keeps snapshot 1, on which a partition was rewritten; what came to it by 3 was not, and 4 has expired."""
    policy = make_policy(strategy="time-series")
    runs = [
        LastRun(
            layout=policy.fingerprint, snapshot_id=99, own_sequence_numbers=frozenset({7}), pinned_sequence_number=6
        ),
        LastRun(
            layout=policy.fingerprint, snapshot_id=98, own_sequence_numbers=frozenset({5}), pinned_sequence_number=4
        ),
    ]
    committed = {number: NOW - (9 - number) * HOUR for number in (1, 6, 7)}
    files = [data_file("small", MB, partition=("2025-12-30",), sequence_number=3)]
    table = replace(state(files, committed=committed), last_runs=runs)
    last_compacted = {"day=2025-12-30": {"minor": committed[1]}}
    [found] = assess(file_stats_of(table), policy, last_compacted=last_compacted).partition_groups
    assert not found.compacted_last
