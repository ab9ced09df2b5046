"""Health: counted facts, and a score that never rises when things get worse."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.assess.signals import score, signals_of
from icepact.model.files import DeleteKind
from icepact.model.health import Facts, Overlap
from icepact.model.policy import Policy
from icepact.model.snapshot import PinnedFiles
from icepact.stats.table import FileStats, file_stats_of
from tests.support.random_tables import policies, tables
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

KINDS = [kind.value for kind in DeleteKind]
NONE = dict.fromkeys(KINDS, 0)
CLEAN = Facts(
    data_files=10,
    small_files=0,
    mergeable_files=0,
    bytes=10 * MB,
    rows=1000,
    row_groups=10,
    delete_files=NONE,
    delete_records=NONE,
)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Anything that can be counted, an empty partition included."""
    files = draw(st.integers(0, 50))
    small = draw(st.integers(0, files))
    by_kind = st.fixed_dictionaries({kind: st.integers(0, 60) for kind in KINDS})
    return Facts(
        data_files=files,
        small_files=small,
        mergeable_files=draw(st.integers(0, small)),
        bytes=draw(st.integers(0, 10**12)),
        rows=draw(st.integers(0, 1000)) if files else 0,
        row_groups=files,
        delete_files=draw(by_kind),
        delete_records=draw(by_kind),
        overlap=draw(st.none() | st.floats(1, files).map(depth)) if files else None,
    )


def depth(average: float) -> Overlap:
    """Of files that lie over each other like this."""
    return Overlap(average=average, maximum=math.ceil(average), files=10)


# -- the formula ----------------------------------------------------------------------------------


@given(facts())
def test_parts_and_value_add_up_to_a_hundred(some: Facts) -> None:
    found = score(some)
    assert found.value + sum(found.parts.values()) == pytest.approx(100, abs=1e-9)
    assert 0 <= found.value <= 100
    assert list(found.parts) == [signal.name for signal in signals_of(some)]
    assert all(0 <= found.parts[signal.name] <= signal.points for signal in signals_of(some))


@given(facts(), st.integers(1, 50), st.sampled_from(KINDS))
def test_more_of_anything_bad_never_raises_the_score(some: Facts, more: int, kind: str) -> None:
    before = score(some).value
    mergeable = min(some.data_files, some.mergeable_files + more)
    worse = [
        replace(some, mergeable_files=mergeable, small_files=max(some.small_files, mergeable)),
        replace(some, delete_records={**some.delete_records, kind: some.delete_records[kind] + more}),
        replace(some, delete_files={**some.delete_files, kind: some.delete_files[kind] + more}),
    ]
    if some.overlap is not None:
        worse.append(replace(some, overlap=depth(some.overlap.average + more / 7)))
    assert all(score(facts).value <= before for facts in worse)


@pytest.mark.parametrize(
    ("change", "value", "parts"),
    [
        ({}, 100.0, (0.0, 0.0, 0.0)),
        ({"mergeable_files": 10}, 50.0, (50.0, 0.0, 0.0)),
        ({"mergeable_files": 3}, 85.0, (15.0, 0.0, 0.0)),
        ({"delete_records": {**NONE, "dv": 100}}, 93.0, (0.0, 7.0, 0.0)),
        ({"delete_records": {**NONE, "dv": 100, "equality": 150}}, 82.5, (0.0, 17.5, 0.0)),
        ({"delete_records": {**NONE, "equality": 500}}, 65.0, (0.0, 35.0, 0.0)),
        ({"delete_records": {**NONE, "equality": 9000}}, 65.0, (0.0, 35.0, 0.0)),
        ({"delete_files": {**NONE, "position": 5}}, 92.5, (0.0, 0.0, 7.5)),
        ({"delete_files": {**NONE, "position": 99}}, 85.0, (0.0, 0.0, 15.0)),
        (
            {"mergeable_files": 10, "delete_records": {**NONE, "dv": 500}, "delete_files": {**NONE, "dv": 10}},
            0.0,
            (50.0, 35.0, 15.0),
        ),
        ({"data_files": 0, "rows": 0, "delete_files": {**NONE, "dv": 1}}, 100.0, (0.0, 0.0, 0.0)),
    ],
)
def test_exact_scores(change: dict[str, Any], value: float, parts: tuple[float, float, float]) -> None:
    found = score(replace(CLEAN, **change))
    assert found.value == value
    assert tuple(found.parts.values()) == parts


@pytest.mark.parametrize(
    ("average", "change", "lost"),
    [
        (1.0, {}, 0.0),
        (2.0, {}, 10.0),
        (4.0, {}, 15.0),
        (2.0, {"mergeable_files": 10}, 5.0),
        (
            1000.0,
            {"mergeable_files": 10, "delete_records": {**NONE, "dv": 500}, "delete_files": {**NONE, "dv": 10}},
            0.0,
        ),
    ],
)
def test_overlap_takes_its_part_of_what_is_left(average: float, change: dict[str, Any], lost: float) -> None:
    unsorted = score(replace(CLEAN, **change))
    found = score(replace(CLEAN, overlap=depth(average), **change))
    assert found.parts == {**unsorted.parts, "overlap": lost}
    assert found.value == unsorted.value - lost


# -- the facts ------------------------------------------------------------------------------------


def test_facts_per_partition_and_in_total() -> None:
    deletes = [
        delete_file("eq-all", DeleteKind.EQUALITY, spec_id=0, partition=(), records=5),
        delete_file("pos", DeleteKind.POSITION, records=20),
        delete_file("gone", DeleteKind.POSITION, partition=("d7",), records=3),
    ]
    files = attach(
        [
            data_file("a", 1 * MB, rows=100, row_groups=(4, 900)),
            data_file("b", 2 * MB, rows=100, row_groups=()),
            data_file("c", 600 * MB, rows=800),
            data_file("d", 1 * MB, rows=50, partition=("d2",)),
            data_file("e", 1 * MB, rows=50, spec_id=2, partition=("eu",), sequence_number=9),
        ],
        deletes,
    )
    found = assess(file_stats_of(make_state(files, deletes)), make_policy())
    by_name = {p.name: p.facts for p in found.partitions}
    assert list(by_name) == ["day=d1", "day=d2", "region=eu (old spec 2)"]
    assert by_name["day=d1"] == Facts(
        data_files=3,
        small_files=2,
        mergeable_files=2,
        bytes=603 * MB,
        rows=1000,
        row_groups=4,
        delete_files={"position": 1, "dv": 0, "equality": 1},
        delete_records={"position": 20, "dv": 0, "equality": 5},
    )
    assert by_name["day=d2"].mergeable_files == 0
    assert by_name["day=d2"].small_files == 1
    assert by_name["day=d2"].delete_records == {"position": 0, "dv": 0, "equality": 5}
    assert by_name["region=eu (old spec 2)"].all_delete_files == 0
    assert found.facts == Facts(
        data_files=5,
        small_files=4,
        mergeable_files=2,
        bytes=605 * MB,
        rows=1100,
        row_groups=6,
        delete_files={"position": 2, "dv": 0, "equality": 1},
        delete_records={"position": 23, "dv": 0, "equality": 5},
    )
    assert found.dangling_delete_files == 1


def test_ratios() -> None:
    some = replace(CLEAN, delete_files={**NONE, "dv": 4}, delete_records={**NONE, "dv": 50}, row_groups=25)
    ratios = (some.delete_ratio, some.fragment_ratio, some.row_groups_per_file, some.average_size)
    assert ratios == (0.05, 0.4, 2.5, MB)


def test_an_empty_table_is_healthy() -> None:
    found = assess(file_stats_of(make_state([])), make_policy())
    assert found.score.value == 100
    assert found.partitions == []
    assert (found.facts.data_files, found.facts.average_size, found.facts.delete_ratio) == (0, 0.0, 0.0)


def test_the_document_says_what_was_measured_and_against_what() -> None:
    found = assess(
        file_stats_of(make_state([data_file("a", MB), data_file("b", MB)])), make_policy(target_file_size="64MB")
    )
    document = found.to_dict()
    assert document["target_file_size"] == 64 * MB
    assert document["small_file_threshold"] == 48 * MB
    assert document["score"] == document["partitions"][0]["score"] == 50.0
    assert document["score_parts"] == {"small_files": 50.0, "deletes": 0.0, "fragments": 0.0}
    assert (document["manifests"], document["snapshots"], document["snapshot_id"]) == (3, 7, 100)


@given(policies().flatmap(lambda policy: st.tuples(st.just(policy), tables(policy))))
def test_partitions_add_up_to_the_table(wish: tuple[Policy, PinnedFiles]) -> None:
    policy, state = wish
    found = assess(file_stats_of(state), policy)
    for name in ("data_files", "small_files", "mergeable_files", "bytes", "rows", "row_groups"):
        assert getattr(found.facts, name) == sum(getattr(p.facts, name) for p in found.partitions)
    attached = {i for f in state.files for i in f.deletes}
    assert found.dangling_delete_files == len(state.deletes) - len(attached)
    assert found.facts.all_delete_files == len(state.deletes)
    assert found.facts.all_delete_records == sum(d.records for d in state.deletes)


# -- overlap --------------------------------------------------------------------------------------


def bounded(bounds: list[tuple[str, int, int]], *, key: int = 3) -> FileStats:
    """A table that is sorted by a column, with one file for each day and bounds."""
    state = replace(make_state([data_file(f"f{n}", MB, partition=(b[0],)) for n, b in enumerate(bounds)]), sort_key=3)
    [(path, manifest_stats)] = file_stats_of(state).stats_by_manifest.items()
    low, high = (np.array([b[at] for b in bounds], np.int64) for at in (1, 2))
    return FileStats(pin=state, stats_by_manifest={path: replace(manifest_stats, low=low, high=high, sorted_by=key)})


def test_overlap_is_told_by_partition_and_in_total() -> None:
    found = assess(bounded([("d1", 0, 9), ("d2", 0, 5), ("d1", 0, 9), ("d1", 0, 9), ("d2", 5, 9)]), make_policy())
    told = {p.name: p.facts.overlap for p in found.partitions}
    assert told == {"day=d1": Overlap(3.0, 3, 3), "day=d2": Overlap(1.0, 1, 2)}
    assert found.facts.overlap == Overlap(2.2, 3, 5)
    shown = found.to_dict()
    assert (shown["overlap_depth"], shown["max_overlap_depth"]) == (2.2, 3)
    assert [(p["overlap_depth"], p["max_overlap_depth"]) for p in shown["partitions"]] == [(3.0, 3), (1.0, 1)]
    assert "overlap" in shown["score_parts"]
    assert [partition_group.facts.overlap for partition_group in found.partition_groups] == list(told.values())


def test_files_without_bounds_say_nothing_about_overlap() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    found = assess(bounded([("d1", 0, 9), ("d1", least, most), ("d1", 8, 2), ("d2", least, most)]), make_policy())
    assert [p.facts.overlap for p in found.partitions] == [Overlap(1.0, 1, 1), None]
    assert found.facts.overlap == Overlap(1.0, 1, 1)
    unread = assess(bounded([("d1", 0, 9), ("d1", 0, 9)], key=0), make_policy())
    assert (unread.facts.overlap, list(unread.score.parts)) == (None, ["small_files", "deletes", "fragments"])
    assert unread.to_dict()["overlap_depth"] is None
