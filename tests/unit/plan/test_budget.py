"""Groups under a budget: never above it, not far from the best there is, and every refusal names its limit."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.economics.limits import run_limits
from icepact.model.cost import Cost, Gain
from icepact.model.effort import Estimate
from icepact.model.files import DeleteKind
from icepact.model.formatting import format_duration
from icepact.model.limits import Limit, Resource
from icepact.model.methods import Method
from icepact.model.plan import LeftOut, RewriteFiles, Unit
from icepact.model.policy import JobOrder
from icepact.plan.budget import in_order, within_budget
from icepact.plan.gain import gain_of
from icepact.plan.greedy import Budget, Item, choose
from tests.support.planning import make_plan
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

POLICY = make_policy()


def unit(name: str, *sizes: int, **given: Any) -> Unit:
    """Files of these sizes."""
    return Unit(files=tuple(data_file(f"{name}-{n}", size, **given) for n, size in enumerate(sizes)))


def group(name: str, *units: Unit, gain: float = 1.0, seconds: float = 1.0, money: float = 0.01) -> RewriteFiles:
    """A group made by hand."""
    size = sum(u.bytes for u in units)
    return RewriteFiles(
        group_id="",
        partition=name,
        output_spec_id=1,
        regroup=False,
        units=units,
        method=Method.ASSEMBLE,
        method_reason="",
        cost=Cost(
            seconds=Estimate(likely=seconds),
            encoded_bytes=size,
            requests=10,
            money=Estimate(likely=money),
        ),
        reason="",
        predicted_files=len(units),
        predicted_bytes=size,
        delete_records=0,
        gain=Gain(scan_seconds=gain),
    )


def limit(resource: Resource, amount: float) -> Limit:
    """A limit with the name of what it limits."""
    return Limit(resource=resource, amount=amount, name=resource.value)


def taken_of(step: RewriteFiles, resource: Resource) -> float:
    """What a group takes of a resource."""
    return {
        Resource.FILES: len(step.files),
        Resource.BYTES: step.bytes,
        Resource.SECONDS: step.cost.seconds.likely,
        Resource.MONEY: step.cost.money.likely,
    }[resource]


def keeps_to(steps: Sequence[RewriteFiles], limits: Sequence[Limit]) -> bool:
    """Whether groups are within each limit; a billionth is nobody's money."""
    return all(sum(taken_of(s, one.resource) for s in steps) <= one.amount * (1 + 1e-9) for one in limits)


def saved(steps: Sequence[RewriteFiles]) -> float:
    """By all of them."""
    return sum(step.gain.scan_seconds for step in steps)


# -- what is chosen -----------------------------------------------------------------------------------


def test_sixty_groups_against_an_exact_table() -> None:
    """Too many to try every choice: the best there is, weight by weight. Never below half of it, and mostly close."""
    reached = []
    for seed in range(40):
        numbers = random.Random(seed)
        weights = [numbers.randint(2, 100) for _ in range(60)]
        most = numbers.randint(100, sum(weights))
        steps = [weighing(f"p{n}", numbers.uniform(0.1, 1) * weight, weight) for n, weight in enumerate(weights)]
        best = [0.0] * (most + 1)
        for step, weight in zip(steps, weights, strict=True):
            for room in range(most, weight - 1, -1):
                best[room] = max(best[room], best[room - weight] + step.gain.scan_seconds)
        for resource in Resource:
            kept, _ = within_budget(steps, [], POLICY, [limit(resource, most)])
            assert keeps_to(kept, [limit(resource, most)])
            reached.append(saved(kept) / best[most])
    assert min(reached) >= 0.5
    assert fmean(reached) >= 0.98


def weighing(name: str, gain: float, weight: int) -> RewriteFiles:
    """A group of which each resource takes as much, and that nobody can cut."""
    files = tuple(data_file(f"{name}-{n}", 1, deletes=()) for n in range(weight))
    whole = group(name, Unit(files=files), gain=gain, seconds=weight, money=weight)
    return replace(whole, regroup=True)


SIZES = st.lists(st.integers(1, 500), min_size=2, max_size=6)


@given(
    st.lists(st.lists(SIZES, min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.sampled_from(Resource), st.floats(0.05, 1.2)), min_size=1, max_size=4, unique_by=lambda x: x[0]
    ),
)
def test_groups_are_cut_to_what_fits(shapes: list[list[list[int]]], shares: list[tuple[Resource, float]]) -> None:
    """At least as much as whole units would bring, and every file is taken or left out."""
    steps = []
    for n, sizes in enumerate(shapes):
        units = [unit(f"p{n}-{m}", *some) for m, some in enumerate(sizes)]
        files = [f for u in units for f in u.files]
        whole = group(f"p{n}", *units, seconds=sum(f.size for f in files) / 7, money=len(files) / 3 + n)
        steps.append(replace(whole, gain=gain_of(files, len(units), [])))
    limits = [limit(r, share * sum(taken_of(s, r) for s in steps)) for r, share in shares]
    kept, left_out = within_budget(steps, [], POLICY, limits)
    assert keeps_to(kept, limits)
    wholes = [
        Item(gain=gain_of(u.files, 1, []).scan_seconds, demand=_scaled(replace(s, units=(u,)), s).demand)
        for s in steps
        for u in s.units
    ]
    assert saved(kept) >= sum(item.gain for item in choose(wholes, Budget(limits)).values()) - 1e-5
    files_of = {step.partition: len(step.files) for step in steps}
    for step in kept:
        files_of[step.partition] -= len(step.files)
        assert step.predicted_files < len(step.files)
    for entry in left_out:
        files_of[entry.partition] -= entry.files
    assert not any(files_of.values())


def _scaled(part: RewriteFiles, whole: RewriteFiles) -> RewriteFiles:
    share = max(part.bytes / whole.bytes, len(part.files) / len(whole.files))
    seconds, money = (estimate.each(lambda amount: amount * share) for estimate in (part.cost.seconds, part.cost.money))
    return replace(part, cost=replace(part.cost, seconds=seconds, money=money))


def test_a_few_large_ones_do_not_hide_the_better_choice() -> None:
    """Greedy by gain for weight would take the small one, and then nothing fits."""
    small, large = weighing("small", 1.1, 10), weighing("large", 9.0, 100)
    kept, left_out = within_budget([small, large], [], POLICY, [limit(Resource.BYTES, 100)])
    assert [step.partition for step in kept] == ["large"]
    assert left_out == [LeftOut(partition="small", files=10, bytes=10, reason="over the budget (bytes)")]


def test_thousands_of_groups_take_no_time() -> None:
    numbers = random.Random(7)
    steps = [
        group(
            f"p{n:05d}",
            *(unit(f"p{n}-{m}", *(numbers.randint(1, MB) for _ in range(3))) for m in range(4)),
            gain=numbers.uniform(0.1, 9),
            seconds=numbers.uniform(0.1, 9),
            money=numbers.uniform(0.1, 9),
        )
        for n in range(5000)
    ]
    limits = [limit(r, 0.3 * sum(taken_of(s, r) for s in steps)) for r in Resource]
    started = time.process_time()
    kept, left_out = within_budget(steps, [], POLICY, limits)
    assert time.process_time() - started < 10
    assert keeps_to(kept, limits)
    assert saved(kept) > 0.45 * saved(steps)
    assert sum(len(s.files) for s in kept) + sum(entry.files for entry in left_out) == 60_000


# -- what is said about the rest ----------------------------------------------------------------------


def test_what_is_left_out_names_the_limits_that_hold_it_back() -> None:
    steps = [
        group("a", unit("a", 10, 10), gain=9, seconds=1, money=0.01),
        group("long", unit("b", 10, 10), gain=1, seconds=50, money=0.01),
        group("dear", unit("c", 10, 10), gain=1, seconds=1, money=7),
        group("both", unit("d", 10, 10), gain=1, seconds=50, money=7),
    ]
    limits = [
        limit(Resource.FILES, 100),
        limit(Resource.SECONDS, 10),
        limit(Resource.MONEY, 5),
        Limit(resource=Resource.MONEY, amount=0.02, name="max_cost_per_hour 0.10 of namespace db: 0.08 spent"),
    ]
    kept, left_out = within_budget(steps, [], POLICY, limits)
    assert [step.partition for step in kept] == ["a"]
    hour = "max_cost_per_hour 0.10 of namespace db: 0.08 spent"
    assert {entry.partition: entry.reason for entry in left_out} == {
        "long": "over the budget (seconds)",
        "dear": f"over the budget (money, {hour})",
        "both": f"over the budget (seconds, money, {hour})",
    }


def test_nothing_left_to_spend_leaves_out_everything_that_costs() -> None:
    steps = [group("a", unit("a", 10, 10)), group("free", unit("b", 10, 10), money=0.0)]
    kept, left_out = within_budget(steps, [], POLICY, [limit(Resource.MONEY, 0)])
    assert [step.partition for step in kept] == ["free"]
    assert [entry.partition for entry in left_out] == ["a"]


def test_work_that_saves_nothing_is_done_if_it_was_asked_for_and_fits() -> None:
    steps = [group("a", unit("a", 10), gain=0.0), group("b", unit("b", 10), gain=0.0)]
    kept, left_out = within_budget(steps, [], POLICY, [limit(Resource.FILES, 1)])
    assert [step.partition for step in kept] == ["a"]
    assert [entry.partition for entry in left_out] == ["b"]


def test_a_part_of_a_group_costs_and_saves_its_part() -> None:
    whole = group("a", unit("a", 10, 20, 30), unit("b", 20, 20, 20), gain=0.6, seconds=12, money=0.24)
    [part], _ = within_budget([whole], [], POLICY, [limit(Resource.FILES, 5)])
    assert [[f.path for f in u.files] for u in part.units] == [["a-0", "a-1", "a-2"], ["b-0", "b-1"]]
    assert part.cost.seconds.likely == 10.0
    assert part.cost.money.likely == pytest.approx(0.2)
    assert (part.cost.encoded_bytes, part.cost.requests) == (100, 8)
    assert (part.gain.files, part.gain.row_groups) == (3, 3)
    assert part.gain.scan_seconds == pytest.approx(0.45)


def test_a_delete_that_applies_to_many_files_is_saved_by_each_in_part() -> None:
    deletes = [delete_file("eq", DeleteKind.EQUALITY, records=10**6)]
    files = attach([data_file(f"f{n}", 10) for n in range(4)], deletes)
    units = Unit(files=tuple(files[:2])), Unit(files=tuple(files[2:]))
    whole = replace(group("a", *units), gain=gain_of(files, 2, deletes))
    other = group("b", unit("b", 10, 10), gain=0.6 * whole.gain.scan_seconds)
    kept, _ = within_budget([whole, other], deletes, POLICY, [limit(Resource.FILES, 4)])
    assert [(step.partition, len(step.files)) for step in kept] == [("a", 2), ("b", 2)]
    assert saved(kept) == pytest.approx(1.1 * whole.gain.scan_seconds)


# -- order and names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (JobOrder.MOST_GAIN, ["gain", "age", "bytes", "files"]),
        (JobOrder.MOST_FILES, ["files", "bytes", "gain", "age"]),
        (JobOrder.MOST_BYTES, ["bytes", "files", "gain", "age"]),
        (JobOrder.OLDEST, ["age", "bytes", "files", "gain"]),
    ],
)
def test_groups_come_in_the_order_that_was_asked_for(order: JobOrder, names: list[str]) -> None:
    steps = [
        group("age", unit("age", 10, 10, sequence_number=1), gain=2),
        group("bytes", unit("bytes", 10, 10, 90, sequence_number=5), gain=1),
        group("files", unit("files", 10, 10, 10, 10, sequence_number=5), gain=0.5),
        group("gain", unit("gain", 10, 11, sequence_number=7), gain=3),
    ]
    for shuffled in (steps, steps[::-1]):
        assert [step.partition for step in in_order(shuffled, order)] == names
        kept, left_out = within_budget(shuffled, [], replace(POLICY, job_order=order), [])
        assert ([step.partition for step in kept], left_out) == (names, [])


def test_the_order_does_not_change_what_is_chosen() -> None:
    files = [data_file(f"d{n}-{m}", MB, partition=(f"d{n}",)) for n in range(4) for m in range(5 + n)]
    chosen = {
        order: {s.partition for s in make_plan(make_state(files), make_policy(max_files=15, job_order=order)).rewrites}
        for order in JobOrder
    }
    assert set(map(frozenset, chosen.values())) == {frozenset({"day=d2", "day=d3"})}


def test_a_plan_carries_what_limited_it() -> None:
    policy = make_policy(max_files=7, max_bytes="1GB", max_cost=0.5, max_duration="90m")
    plan = make_plan(make_state([data_file(f"f{n}", MB) for n in range(6)]), policy)
    assert plan.budget == tuple(run_limits(policy, cores=1, currency="USD"))
    assert plan.to_dict()["budget"] == [
        {"resource": "files", "amount": 7, "name": "max_files 7"},
        {"resource": "bytes", "amount": 1024 * MB, "name": "max_bytes 1.0 GB"},
        {"resource": "seconds", "amount": 5400.0, "name": "max_duration 90m"},
        {"resource": "money", "amount": 0.5, "name": "max_cost 0.50 USD"},
    ]
    assert [one.amount for one in run_limits(policy, cores=4) if one.resource is Resource.SECONDS] == [21600.0]


def test_time_holds_back_what_takes_too_long() -> None:
    files = [data_file(f"d{n}-{m}", 20 * MB, partition=(f"d{n}",)) for n in range(2) for m in range(6)]
    free = make_plan(make_state(files), make_policy())
    seconds = free.rewrites[0].cost.seconds.likely
    plan = make_plan(make_state(files), make_policy(max_duration=f"{seconds + 0.1:.3f}s"))
    assert sum(step.cost.seconds.likely for step in plan.rewrites) <= seconds + 0.1
    assert {entry.reason for entry in plan.left_out} == {f"over the budget (max_duration {seconds + 0.1:g}s)"}
    assert not plan.complete


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45s"), (1800, "30m"), (5400, "90m"), (7200, "2h"), (86400, "1d"), (0.5, "0.5s")]
)
def test_time_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
