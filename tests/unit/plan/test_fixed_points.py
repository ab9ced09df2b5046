"""No strategy and no tier works for nothing: INVARIANTS 15 over random tables, policies and histories.

What a run has done is not done again until something is written, however small its outputs came out, and however much
time goes by.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepact.economics.valuation import Valuation
from icepact.model.files import DeleteKind
from icepact.model.plan import Plan
from icepact.model.policy import Policy, Strategy, Tier
from icepact.model.snapshot import PinnedFiles
from tests.support.planning import NOW, make_plan
from tests.support.random_tables import DAYS, committed, exactly, policies, shrinking, sizes, tables
from tests.support.states import attach, data_file, delete_file, make_policy, make_state

WAIT = timedelta(hours=7)
COMMIT = timedelta(seconds=1)
"""What a commit takes: no two snapshots are of the same moment, as runs are told apart by when they were pinned."""
QUIET = (timedelta(0), timedelta(hours=2), timedelta(hours=30), timedelta(days=9), timedelta(days=90))
"""What goes by at the end, when nobody writes any more: longer than any interval that a policy has here."""


class World:
    """A table that is written to, waits, and is compacted."""

    def __init__(self, state: PinnedFiles, policy: Policy, actual: Callable[[int], int]) -> None:
        self.now = NOW
        self.policy = policy
        self._actual = actual
        self._made = 0
        self._clocks: dict[str, dict[str, datetime]] = {}
        self._state = replace(state, moments=[(number, _moment(NOW)) for number in range(1, 11)])

    def wait(self, some: timedelta = WAIT) -> None:
        self.now += some

    def append(self, place: int, size: int, files: int) -> None:
        """Somebody writes new files."""
        spec_id, partition = DAYS[place]
        number = self._next()
        new = [
            data_file(self._name("new"), size, spec_id=spec_id, partition=partition, sequence_number=number)
            for _ in range(files)
        ]
        self._becomes(number, files=[*self._state.files, *new])

    def delete(self, at: int, kind: DeleteKind) -> None:
        """Somebody deletes rows of a file."""
        state = self._state
        if state.format_version == 1:
            return
        file = state.files[at % len(state.files)]
        if kind is not DeleteKind.EQUALITY:
            kind = DeleteKind.DV if state.format_version == 3 else DeleteKind.POSITION
            if any(d.kind is DeleteKind.DV and d.referenced == file.path for d in state.deletes):
                return
        number = self._next()
        new = delete_file(
            self._name("delete"),
            kind,
            spec_id=file.spec_id,
            partition=file.partition,
            sequence_number=number,
            records=7,
            referenced=None if kind is DeleteKind.EQUALITY else file.path,
        )
        deletes = [*state.deletes, new]
        self._becomes(number, files=attach(state.files, deletes), deletes=deletes)

    def rewrite(self, at: int) -> None:
        """Somebody else rewrites a file; deletes of it apply to nothing then."""
        state = self._state
        file = state.files[at % len(state.files)]
        number = self._next()
        new = file._replace(path=self._name("other"), sequence_number=number)
        files = [new if f.path == file.path else f for f in state.files]
        self._becomes(number, files=attach(files, state.deletes))

    def plan(self) -> Plan:
        return make_plan(self._state, self.policy, last_compacted=self._clocks, valuation=Valuation(now=self.now))

    def compact(self, plan: Plan, *, without: int | None = None) -> None:
        """A run of ours; it may fail with one of its groups."""
        state = self._state
        failed = None if without is None or not plan.rewrites else plan.rewrites[without % len(plan.rewrites)]
        if failed is not None:
            plan = replace(plan, complete=False, steps=tuple(step for step in plan.rewrites if step is not failed))
        if not plan.rewrites:
            return
        self.now += COMMIT
        after = committed(state, plan, self._actual)
        number = after.sequence_number
        moments = [*state.moments, (number, _moment(self.now))] if number else [(0, _moment(self.now))]
        runs = [*(after.last_runs if plan.complete else ()), *state.last_runs]
        self._state = replace(after, moments=moments, last_runs=runs)
        self._state = replace(self._state, files=attach(self._state.files, self._state.deletes))
        pinned = next((ms for n, ms in state.moments if n == state.sequence_number), None)
        at = datetime.fromtimestamp(pinned / 1000, NOW.tzinfo) if number and pinned else self.now
        missing = {*plan.held_back, *([] if failed is None else [failed.partition])}
        for step in plan.rewrites:
            if step.partition not in missing:
                self._clocks.setdefault(step.last_compacted_key, {})[step.tier.value] = at

    def _next(self) -> int:
        return self._state.sequence_number + 1 if self._state.format_version > 1 else 0

    def _becomes(self, number: int, **changes: Any) -> None:
        assert self._state.snapshot_id is not None
        self.now += COMMIT
        moments = [*self._state.moments, (number, _moment(self.now))] if number else [(0, _moment(self.now))]
        snapshot_id = self._state.snapshot_id + 1000
        self._state = replace(self._state, snapshot_id=snapshot_id, sequence_number=number, moments=moments, **changes)

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"


def _moment(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def events(policy: Policy) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """What happens to a table."""
    at = st.integers(0, 50)
    return st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 3), sizes(policy), st.integers(1, 14)),
            st.tuples(st.just("delete"), at, st.sampled_from([DeleteKind.POSITION, DeleteKind.EQUALITY])),
            st.tuples(st.just("rewrite"), at),
            st.tuples(st.just("wait")),
            st.tuples(st.just("compact")),
            st.tuples(st.just("fail"), st.integers(0, 5)),
        ),
        max_size=8,
    )


@st.composite
def wishes(draw: st.DrawFn, strategy: Strategy, tier: Tier | None) -> tuple[World, list[tuple[Any, ...]]]:
    """A table with a past, and what is yet to happen."""
    policy = replace(
        draw(policies()),
        strategy=strategy,
        tier=tier,
        time_column="day",
        full_trigger_interval=draw(st.sampled_from([None, 24 * 3600.0])),
        minor_trigger_files=draw(st.sampled_from([2, 12])),
        scans_per_day=draw(st.sampled_from([0.05, 1.0, 240.0])),
        reader_parallelism=draw(st.sampled_from([1, 8])),
    )
    world = World(draw(tables(policy)), policy, shrinking(draw(st.integers(0, 2**32))))
    return world, draw(events(policy))


@pytest.mark.parametrize("tier", [None, *Tier])
@pytest.mark.parametrize("strategy", list(Strategy))
@settings(max_examples=25)
@given(st.data())
def test_what_was_done_is_not_done_again_until_something_is_written(
    strategy: Strategy, tier: Tier | None, data: st.DataObject
) -> None:
    world, happening = data.draw(wishes(strategy, tier))
    for what, *how in happening:
        match what:
            case "compact":
                plan = world.plan()
                assert plan.complete
                world.compact(plan)
                assert world.plan().rewrites == ()
            case "fail":
                world.compact(world.plan(), without=how[0])
            case _:
                getattr(world, what)(*how)
    done: Counter[tuple[str, Tier]] = Counter()
    for some in QUIET:
        world.wait(some)
        plan = world.plan()
        done.update({(step.partition, step.tier) for step in plan.rewrites})
        if plan.rewrites:
            world.compact(plan)
            assert world.plan().rewrites == ()
    assert set(done.values()) <= {1}, done


def test_what_a_run_left_of_a_partition_group_is_left_alone_whatever_the_next_run_does_elsewhere() -> None:
    """Small files of an old spec go first, and leave a file on which deletes weigh more than before; a day that closes
    later makes the next run."""
    files = [
        data_file("today", 1, partition=("d0",)),
        *(data_file(f"small-{n}", 1, spec_id=0, partition=()) for n in range(9)),
        data_file("rest", 7, spec_id=0, partition=()),
    ]
    deletes = [delete_file("delete", DeleteKind.POSITION, spec_id=0, partition=(), records=1)]
    policy = make_policy(target_file_size=10, min_file_size=7, strategy="time-series", time_column="day")
    world = World(make_state(attach(files, deletes), deletes), policy, exactly)
    planned = []
    for some in (timedelta(hours=2), timedelta(0), timedelta(hours=30), timedelta(0)):
        world.wait(some)
        plan = world.plan()
        planned.append([(step.partition, step.tier) for step in plan.rewrites])
        world.compact(plan)
    assert planned == [[("(all) (old spec 0)", Tier.MINOR)], [], [("day=d0", Tier.FULL)], []]
