"""Which manifests are rewritten, and how: over random layouts, whose rewrite is simulated, nothing is left to do."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from icepact.housekeeping.manifest_layout import LEAST, choose, cut, outputs_of
from icepact.model.manifests import FieldRange, ManifestFacts, PartitionWeight

TARGET = 10_000
ENTRY, OVERHEAD = 100, 150
Partition = tuple[int | None, ...]


@dataclass(frozen=True)
class Manifest:
    """What a manifest really has: the partition of each of its files."""

    files: tuple[Partition, ...]
    facts: ManifestFacts


def manifest(
    files: Iterable[Partition], *, order: int = 1, run: str = "", name: str = "", dead: int = 0, deletes: bool = False
) -> Manifest:
    listed = tuple(files)
    fields = len(listed[0]) if listed else 0
    facts = ManifestFacts(
        path=name or f"m{order}-{hash(listed)}",
        spec_id=0,
        deletes=deletes,
        length=OVERHEAD + ENTRY * (len(listed) + dead),
        overhead=OVERHEAD,
        live=len(listed),
        dead=dead,
        ranges=tuple(_range([file[at] for file in listed]) for at in range(fields)),
        order=order,
        run=run,
    )
    return Manifest(listed, facts)


def _range(values: Sequence[int | None]) -> FieldRange:
    some = [value for value in values if value is not None]
    return FieldRange(min(some, default=1), max(some, default=0), len(some) < len(values))


def decide(manifests: Sequence[Manifest], least: int = LEAST) -> set[str]:
    choice = choose([each.facts for each in manifests], target=TARGET, least=least)
    return {path for chosen in choice.chosen for path in chosen.paths}


def weights(files: Iterable[Partition]) -> list[PartitionWeight]:
    counted = sorted(Counter(files).items(), key=lambda item: _sortable(item[0]))
    found, before = list[PartitionWeight](), None
    for partition, count in counted:
        level = 0
        if before is not None:
            level = next(at for at in range(len(partition)) if partition[at] != before[at])
        found.append(PartitionWeight(count, count * ENTRY, level))
        before = partition
    return found


def _sortable(partition: Partition) -> list[tuple[bool, int]]:
    return [(value is not None, value or 0) for value in partition]


def rewritten(manifests: Sequence[Manifest]) -> list[Manifest]:
    """As the rewrite leaves them, by the same layout."""
    chosen = decide(manifests)
    taken = [each for each in manifests if each.facts.path in chosen]
    files = sorted((file for each in taken for file in each.files), key=_sortable)
    order = max(each.facts.order for each in manifests) + 1
    ends = [0, *cut(weights(files), TARGET), len(files)] if files else []
    parts = [files[begin:end] for begin, end in itertools.pairwise(ends)]
    made = [manifest(part, order=order, run=f"r{order}", name=f"r{order}-{n}") for n, part in enumerate(parts)]
    return made + [each for each in manifests if each.facts.path not in chosen]


def opened(manifests: Sequence[Manifest], partition: Partition) -> int:
    """How many manifests a scan of one partition opens."""

    def inside(known: FieldRange, value: int | None) -> bool:
        return known.nulls if value is None else known.low <= value <= known.high

    return sum(
        all(inside(known, value) for known, value in zip(each.facts.ranges or (), partition, strict=True))
        for each in manifests
    )


values = st.one_of(st.none(), st.integers(0, 12))
layouts = st.integers(0, 2).flatmap(
    lambda fields: st.lists(
        st.tuples(
            st.lists(st.tuples(*[values] * fields), min_size=1, max_size=8),
            st.integers(1, 40),
            st.integers(0, 30),
        ),
        min_size=1,
        max_size=25,
    )
)


def _built(layout: Sequence[tuple[list[Partition], int, int]]) -> list[Manifest]:
    return [
        manifest(files * times, order=at + 1, name=f"m{at}", dead=dead)
        for at, (files, times, dead) in enumerate(layout)
    ]


@given(layouts)
def test_a_second_run_plans_nothing(layout: list[tuple[list[Partition], int, int]]) -> None:
    after = rewritten(_built(layout)) if decide(_built(layout)) else _built(layout)
    assert decide(after) == set()


@given(layouts, layouts)
def test_what_comes_later_is_rewritten_at_most_once(
    layout: list[tuple[list[Partition], int, int]], later: list[tuple[list[Partition], int, int]]
) -> None:
    fields = len(layout[0][0][0])
    before = _built(layout)
    if decide(before):
        before = rewritten(before)
    order = max(each.facts.order for each in before)
    new = [
        manifest([(*file, None, None)[:fields] for file in files] * times, order=order + 1 + at, name=f"n{at}")
        for at, (files, times, _) in enumerate(later)
    ]
    after = [*before, *new]
    if decide(after):
        after = rewritten(after)
    assert decide(after) == set()


@given(layouts)
def test_no_file_is_lost_or_listed_twice(layout: list[tuple[list[Partition], int, int]]) -> None:
    before = _built(layout)
    if decide(before):
        after = rewritten(before)
        assert Counter(f for m in after for f in m.files) == Counter(f for m in before for f in m.files)
        assert len(after) < len(before) or max(opened(after, f) for m in after for f in m.files) <= max(
            opened(before, f) for m in before for f in m.files
        )


weighed = st.lists(
    st.builds(
        PartitionWeight,
        st.integers(1, 400),
        st.one_of(st.integers(0, 3000), st.integers(0, 60_000)),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=60,
)


@given(weighed)
def test_outputs_have_about_the_target_size(partitions: list[PartitionWeight]) -> None:
    cuts = cut(partitions, TARGET)
    ends = [0, *cuts, sum(p.entries for p in partitions)]
    assert all(begin < end for begin, end in itertools.pairwise(ends))
    total = sum(p.bytes for p in partitions)
    assert len(cuts) + 1 <= max(1, 2 * total / TARGET + 1)


@given(weighed)
def test_a_partition_that_fits_is_in_one_output(partitions: list[PartitionWeight]) -> None:
    cuts = set(cut(partitions, TARGET))
    begin = 0
    for partition in partitions:
        inside = [position for position in cuts if begin < position < begin + partition.entries]
        assert not inside or partition.bytes > 1.25 * TARGET
        begin += partition.entries


def test_outputs_end_where_the_first_field_changes() -> None:
    partitions = [PartitionWeight(10, 1000, 0 if at % 9 == 0 else 1) for at in range(45)]
    assert cut(partitions, TARGET) == [90, 180, 270, 360]


def test_one_large_partition_is_split_evenly() -> None:
    assert cut([PartitionWeight(1000, 40_000, 0)], TARGET) == [313, 626]
    assert outputs_of(0, TARGET) == 0
    assert outputs_of(12_500, TARGET) == 1
    assert outputs_of(12_501, TARGET) == 2


def test_many_small_ones_are_merged() -> None:
    manifests = [manifest([(1,), (2,)], order=at, name=f"m{at}") for at in range(LEAST)]
    assert len(decide(manifests)) == LEAST
    choice = choose([each.facts for each in manifests], target=TARGET)
    group = choice.chosen[0].group
    assert (group.manifests_in, group.manifests_out, group.entries, group.left_alone) == (4, 1, 8, 0)
    assert group.bytes_out == OVERHEAD + 8 * ENTRY


def test_few_small_ones_are_left_alone() -> None:
    choice = choose([manifest([(1,)], order=at, name=f"m{at}").facts for at in range(LEAST - 1)], target=TARGET)
    assert choice.chosen == ()
    assert [str(kept.why) for kept in choice.kept] == [
        "3 small ones: too few to merge (from 4 on), and a scan of one partition opens 3 at most"
    ]


def test_few_small_ones_are_merged_if_that_is_asked_for() -> None:
    assert len(decide([manifest([(1,)], order=at, name=f"m{at}") for at in range(2)], least=2)) == 2


def test_data_and_delete_manifests_and_specs_are_never_mixed() -> None:
    facts = [
        replace(manifest([(1,)], order=at, name=f"m{at}").facts, deletes=at % 2 == 0, spec_id=at % 3)
        for at in range(24)
    ]
    choice = choose(facts, target=TARGET)
    assert [(c.group.content, c.group.spec_id, c.group.manifests_in) for c in choice.chosen] == [
        *(("data", spec, 4) for spec in range(3)),
        *(("deletes", spec, 4) for spec in range(3)),
    ]


def sorted_table(number: int) -> list[Manifest]:
    """Large manifests of an earlier rewrite: each has ten partitions of its own."""
    return [manifest([(10 * at + n % 10,) for n in range(100)], run="r1", name=f"r{at}") for at in range(number)]


def test_large_sorted_manifests_stay_when_few_small_ones_come() -> None:
    new = [manifest([(1,), (55,), (999,)], order=2 + at, name=f"new{at}") for at in range(6)]
    assert decide([*sorted_table(100), *new]) == {f"new{at}" for at in range(6)}
    assert decide([*sorted_table(3), *new]) == {f"new{at}" for at in range(6)}
    assert decide([*sorted_table(100), *new[:3]]) == set()


def test_large_sorted_manifests_are_rewritten_when_many_have_come_beside_them() -> None:
    new = [manifest([(n,) for n in range(100)], order=2 + at, name=f"new{at}") for at in range(4)]
    assert decide([*sorted_table(10), *new[:1]]) == set()
    assert len(decide([*sorted_table(10), *new])) == 14


def test_only_where_partitions_are_scattered_large_ones_are_rewritten() -> None:
    hot = [manifest([(2000 + n % 7,) for n in range(100)], order=2, name=f"hot{at}") for at in range(5)]
    assert decide([*sorted_table(50), *hot]) == {f"hot{at}" for at in range(5)}


def test_large_scattered_manifests_of_others_are_rewritten() -> None:
    scattered = [manifest([(n,) for n in range(100)], order=at, name=f"m{at}") for at in range(8)]
    assert len(decide(scattered)) == 8
    after = rewritten(scattered)
    assert [opened(after, (n,)) for n in range(100)] == [1] * 100


def test_large_manifests_of_one_partition_cannot_be_better() -> None:
    assert decide([manifest([(7,)] * 100, order=at, name=f"m{at}") for at in range(8)]) == set()
    assert decide([manifest([()] * 100, order=at, name=f"m{at}") for at in range(8)]) == set()


def test_other_wishes_are_reason_enough_to_look_again() -> None:
    facts = [replace(each.facts, wishes=f"{TARGET}/{LEAST}") for each in sorted_table(6)]
    assert choose(facts, target=TARGET).kept[0].why == "none has come since they were rewritten"
    assert choose(facts, target=10 * TARGET).chosen[0].group.manifests_out == 1
    forgotten = [replace(each, wishes="") for each in facts]
    assert choose(forgotten, target=10 * TARGET).chosen == ()


def test_large_manifests_of_one_partition_stay_beside_scattered_ones() -> None:
    single = [manifest([(7,)] * 100, order=at, name=f"s{at}") for at in range(6)]
    scattered = [manifest([(n,) for n in range(100)], order=at, name=f"m{at}") for at in range(5)]
    assert decide([*single, *scattered]) == {f"m{at}" for at in range(5)}


def test_manifests_with_hardly_any_live_file_are_small() -> None:
    manifests = [manifest([(1,)], dead=200, order=at, name=f"m{at}") for at in range(4)]
    assert len(decide(manifests)) == 4


def test_unknown_ranges_may_have_any_partition() -> None:
    manifests = [manifest([(at,)] * 100, order=at, name=f"m{at}") for at in range(4)]
    assert decide(manifests) == set()
    unknown = [replace(each, facts=replace(each.facts, ranges=None)) for each in manifests]
    assert len(decide(unknown)) == 0  # nothing else is known of partitions
    mixed = [*manifests, *(replace(each, facts=replace(each.facts, path=f"u{n}")) for n, each in enumerate(unknown))]
    assert {f"u{at}" for at in range(4)} <= decide(mixed)


def test_manifests_that_cannot_be_written_again_are_left_alone() -> None:
    manifests = [manifest([(1,)], order=at, name=f"m{at}") for at in range(8)]
    lost = [replace(each.facts, unwritable=True) for each in manifests]
    uncounted = [replace(each.facts, live=None) for each in manifests]
    for facts, why in ((lost, "was dropped"), (uncounted, "do not say how many")):
        choice = choose(facts, target=TARGET)
        assert choice.chosen == ()
        assert why in choice.kept[0].why
