"""The census says the same of partitions as the files themselves do."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.census import COLUMNS, Census, Sheet, census_of
from icepact.model.table import DataFile, DeleteKind, TableState
from icepact.model.tally import Tally
from tests.support.random_tables import policies, tables

states = policies().flatmap(tables)


def torn(census: Census, seed: int) -> Census:
    """The same files in more manifests, in another order."""
    dice = random.Random(seed)
    sheets: dict[str, Sheet] = {}
    for sheet in census.sheets.values():
        order = list(range(len(sheet)))
        dice.shuffle(order)
        cut = dice.randint(0, len(order))
        for some in (order[:cut], order[cut:]):
            columns = {name: getattr(sheet, name)[some] for name in COLUMNS}
            sheets[f"m{len(sheets)}"] = replace(sheet, **columns)
    return Census(pin=census.pin, sheets=sheets)


def attached(state: TableState, files: Sequence[DataFile], kind: DeleteKind) -> list[int]:
    """Records of the deletes of a kind that apply to any of these files."""
    used = {index for file in files for index in file.deletes}
    return [state.deletes[i].records for i in used if state.deletes[i].kind is kind]


@given(states, st.integers())
def test_partitions_are_counted_as_they_are(state: TableState, seed: int) -> None:
    census = torn(census_of(state), seed)
    tally = Tally(census)
    assert census.places == list(state.by_partition)
    for at, files in enumerate(state.by_partition.values()):
        assert tally.sums()[at] == len(files)
        assert tally.sums(census.size)[at] == sum(f.size for f in files)
        assert tally.sums(census.rows)[at] == sum(f.rows for f in files)
        assert tally.sums(census.size, where=census.size > 40)[at] == sum(f.size for f in files if f.size > 40)
        assert tally.oldest[at] == min(f.sequence_number for f in files)
        assert tally.newest[at] == max(f.sequence_number for f in files)


@given(states, st.integers())
def test_deletes_apply_where_a_scan_finds_them(state: TableState, seed: int) -> None:
    census = torn(census_of(state), seed)
    tally = Tally(census)
    for kind in DeleteKind:
        counts, records = tally.deletes(kind), tally.deletes(kind, records=True)
        for at, files in enumerate(state.by_partition.values()):
            assert counts[at] == len(attached(state, files, kind))
            assert records[at] == sum(attached(state, files, kind))
    used = {index for file in state.files for index in file.deletes}
    assert census.deletes.applied.sum() == len(used)


@given(states)
def test_files_are_touched_by_what_applies_to_them(state: TableState) -> None:
    census = census_of(state)
    in_order = [f for spec_id in sorted({f.spec_id for f in state.files}) for f in state.files if f.spec_id == spec_id]
    touched = census.deletes.touched
    assert touched.tolist() == [bool(f.deletes) for f in in_order]


@given(states)
def test_sheets_are_kept_as_they_are(state: TableState) -> None:
    for sheet in census_of(state).sheets.values():
        kept = Sheet.from_bytes(sheet.to_bytes())
        assert kept is not None
        assert (kept.spec_id, kept.deletes, kept.partitions) == (sheet.spec_id, sheet.deletes, sheet.partitions)
        for name in COLUMNS:
            assert np.array_equal(getattr(kept, name), getattr(sheet, name))


def test_a_sheet_that_is_broken_is_none() -> None:
    [whole, *_] = [Sheet(spec_id=0, deletes=False, partitions=((),), **{n: np.zeros(2, np.int64) for n in COLUMNS})]
    document = whole.to_bytes()
    assert Sheet.from_bytes(document) is not None
    for broken in (b"", b"x", document[:-3], document[:10]):
        assert Sheet.from_bytes(broken) is None


@given(states, st.integers())
def test_a_part_of_the_census_says_the_same_of_its_partitions(state: TableState, seed: int) -> None:
    whole = torn(census_of(state), seed)
    wanted = random.Random(seed).sample(whole.places, len(whole.places) // 2)
    part = whole.only(frozenset(wanted))
    assert sorted(part.places, key=str) == sorted(wanted, key=str)
    tallies = Tally(whole), Tally(part)
    for place in wanted:
        at, here = whole.places.index(place), part.places.index(place)
        for kind in DeleteKind:
            assert tallies[0].deletes(kind, records=True)[at] == tallies[1].deletes(kind, records=True)[here]
        assert tallies[0].sums(whole.size)[at] == tallies[1].sums(part.size)[here]
