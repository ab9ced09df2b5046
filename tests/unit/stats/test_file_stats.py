"""The census says the same of partitions as the files themselves do."""

import gc
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.files import DataFile, DeleteKind
from icepact.model.snapshot import PinnedFiles
from icepact.stats.manifest import COLUMNS, ManifestStats
from icepact.stats.table import FileStats, file_stats_of
from icepact.stats.totals import PartitionTotals
from tests.support.random_tables import policies, tables
from tests.support.states import data_file, delete_file, make_state

states = policies().flatmap(tables)


def torn(stats: FileStats, seed: int) -> FileStats:
    """The same files in more manifests, in another order."""
    dice = random.Random(seed)
    stats_by_manifest: dict[str, ManifestStats] = {}
    for manifest_stats in stats.stats_by_manifest.values():
        order = list(range(len(manifest_stats)))
        dice.shuffle(order)
        cut = dice.randint(0, len(order))
        for some in (order[:cut], order[cut:]):
            columns = {name: getattr(manifest_stats, name)[some] for name in COLUMNS}
            stats_by_manifest[f"m{len(stats_by_manifest)}"] = replace(manifest_stats, **columns)
    return FileStats(pin=stats.pin, stats_by_manifest=stats_by_manifest)


def attached(state: PinnedFiles, files: Sequence[DataFile], kind: DeleteKind) -> list[int]:
    """Records of the deletes of a kind that apply to any of these files."""
    used = {index for file in files for index in file.deletes}
    return [state.deletes[i].records for i in used if state.deletes[i].kind is kind]


@given(states, st.integers())
def test_partitions_are_counted_as_they_are(state: PinnedFiles, seed: int) -> None:
    stats = torn(file_stats_of(state), seed)
    totals = PartitionTotals(stats)
    assert stats.partitions == list(state.by_partition)
    for at, files in enumerate(state.by_partition.values()):
        assert totals.sums()[at] == len(files)
        assert totals.sums(stats.size)[at] == sum(f.size for f in files)
        assert totals.sums(stats.rows)[at] == sum(f.rows for f in files)
        assert totals.sums(stats.size, where=stats.size > 40)[at] == sum(f.size for f in files if f.size > 40)
        assert totals.oldest[at] == min(f.sequence_number for f in files)
        assert totals.newest[at] == max(f.sequence_number for f in files)


@given(states, st.integers())
def test_deletes_apply_where_a_scan_finds_them(state: PinnedFiles, seed: int) -> None:
    stats = torn(file_stats_of(state), seed)
    totals = PartitionTotals(stats)
    for kind in DeleteKind:
        counts, records = totals.deletes(kind), totals.deletes(kind, records=True)
        for at, files in enumerate(state.by_partition.values()):
            assert counts[at] == len(attached(state, files, kind))
            assert records[at] == sum(attached(state, files, kind))
    used = {index for file in state.files for index in file.deletes}
    assert stats.deletes.applied.sum() == len(used)


@given(states)
def test_files_are_touched_by_what_applies_to_them(state: PinnedFiles) -> None:
    stats = file_stats_of(state)
    in_order = [f for spec_id in sorted({f.spec_id for f in state.files}) for f in state.files if f.spec_id == spec_id]
    touched = stats.deletes.touched
    assert touched.tolist() == [bool(f.deletes) for f in in_order]


@given(states)
def test_sheets_are_kept_as_they_are(state: PinnedFiles) -> None:
    for manifest_stats in file_stats_of(state).stats_by_manifest.values():
        kept = ManifestStats.from_bytes(manifest_stats.to_bytes())
        assert kept is not None
        assert (kept.spec_id, kept.deletes, kept.partitions) == (
            manifest_stats.spec_id,
            manifest_stats.deletes,
            manifest_stats.partitions,
        )
        for name in COLUMNS:
            assert np.array_equal(getattr(kept, name), getattr(manifest_stats, name))


def test_a_sheet_that_is_broken_is_none() -> None:
    columns: dict[str, Any] = {name: np.zeros(2, np.int64) for name in COLUMNS}
    whole = ManifestStats(spec_id=0, deletes=False, partitions=((),), **columns)
    document = whole.to_bytes()
    assert ManifestStats.from_bytes(document) is not None
    for broken in (b"", b"x", document[:-3], document[:10]):
        assert ManifestStats.from_bytes(broken) is None


@given(states, st.integers())
def test_a_part_of_the_census_says_the_same_of_its_partitions(state: PinnedFiles, seed: int) -> None:
    whole = torn(file_stats_of(state), seed)
    wanted = random.Random(seed).sample(whole.partitions, len(whole.partitions) // 2)
    part = whole.only(frozenset(wanted))
    assert sorted(part.partitions, key=str) == sorted(wanted, key=str)
    both_totals = PartitionTotals(whole), PartitionTotals(part)
    for partition in wanted:
        at, here = whole.partitions.index(partition), part.partitions.index(partition)
        for kind in DeleteKind:
            assert both_totals[0].deletes(kind, records=True)[at] == both_totals[1].deletes(kind, records=True)[here]
        assert both_totals[0].sums(whole.size)[at] == both_totals[1].sums(part.size)[here]


def test_statistics_that_nobody_holds_are_gone_at_once() -> None:
    """They are large and few: the garbage collector would not look for them in time."""
    stats = file_stats_of(make_state([data_file("f", 10)], [delete_file("d", DeleteKind.POSITION)]))
    assert stats.deletes.touched.tolist() == [True]
    left = ref(stats)
    gc.disable()
    try:
        del stats
        assert left() is None
    finally:
        gc.enable()
