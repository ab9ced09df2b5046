"""Places that a budget can reach are listed; the others are left out by name, without a look at their files."""

from hypothesis import given
from hypothesis import strategies as st

from icepact.model.cost import Cost, Gain
from icepact.model.decision import Decision
from icepact.model.effort import Estimate
from icepact.model.health import Facts, PartitionGroup
from icepact.model.limits import Limit, Resource
from icepact.plan.shortlist import shortlist

FILES = Limit(resource=Resource.FILES, amount=100, name="max_files 100")
BYTES = Limit(resource=Resource.BYTES, amount=1000, name="max_bytes 1000")


def decision(
    number: int, *, files: int = 10, size: int = 10, gain: float = 1.0, target_partitions: int = 0
) -> Decision:
    facts = Facts(
        data_files=files,
        small_files=files,
        mergeable_files=files,
        bytes=size,
        rows=1,
        row_groups=files,
        delete_files={},
        delete_records={},
    )
    cost = Cost(seconds=Estimate(likely=1.0), copied_bytes=size, requests=1, money=Estimate(likely=0.1))
    return Decision(
        partition_group=PartitionGroup(
            name=f"day={number:04d}", keys=[(0, (number,))], facts=facts, target_partitions=target_partitions
        ),
        chosen=True,
        reason="small files",
        files=files,
        bytes=size,
        gain=Gain(files=files - 1, scan_seconds=gain),
        cost=cost,
    )


def test_what_fits_is_listed_as_it_is() -> None:
    some = [decision(n) for n in range(10)]
    assert shortlist(some, [FILES, BYTES]) == (some, [])
    assert shortlist(some, []) == (some, [])


def test_the_best_for_what_they_take_come_first_and_somewhat_more_than_fits() -> None:
    some = [decision(n, gain=1.0 + n) for n in range(30)]
    listed, left_out = shortlist(some, [FILES])
    assert [d.partition_group.name for d in listed] == [f"day={n:04d}" for n in range(29, 17, -1)]
    assert {entry.partition for entry in left_out} == {f"day={n:04d}" for n in range(18)}
    assert {(entry.files, entry.bytes, entry.reason) for entry in left_out} == {
        (10, 10, "over the budget (max_files 100)")
    }


def test_one_place_that_is_larger_than_the_budget_is_listed() -> None:
    huge, small = decision(0, files=10_000, gain=5000.0), decision(1, files=2, gain=0.001)
    assert shortlist([small, huge], [FILES])[0] == [huge]


def test_old_specs_that_do_not_fit_whole_keep_nothing_else_from_being_listed() -> None:
    old = decision(0, files=10_000, gain=5000.0, target_partitions=3)
    others = [decision(n, gain=0.001) for n in range(1, 30)]
    listed, left_out = shortlist([old, *others], [FILES])
    assert listed == [old, *others[:12]]
    assert len(left_out) == 17


def test_nothing_is_listed_once_nothing_is_left() -> None:
    spent = Limit(resource=Resource.BYTES, amount=0, name="max_bytes_per_hour")
    listed, left_out = shortlist([decision(0), decision(1)], [spent])
    assert listed == []
    assert len(left_out) == 2


@given(
    st.lists(st.tuples(st.integers(1, 80), st.integers(1, 900), st.floats(0, 10)), max_size=40),
    st.lists(st.sampled_from([FILES, BYTES]), unique=True),
)
def test_every_place_is_listed_or_left_out_and_the_budget_can_be_used_up(
    given_: list[tuple[int, int, float]], limits: list[Limit]
) -> None:
    some = [decision(n, files=files, size=size, gain=gain) for n, (files, size, gain) in enumerate(given_)]
    listed, left_out = shortlist(some, limits)
    assert sorted([*(d.partition_group.name for d in listed), *(entry.partition for entry in left_out)]) == [
        d.partition_group.name for d in some
    ]
    if left_out:
        used = {Resource.FILES: sum(d.files for d in listed), Resource.BYTES: sum(d.bytes for d in listed)}
        assert any(used[limit.resource] >= limit.amount for limit in limits)
