"""What a run takes besides its work: predicted, learned, and part of every plan and every limit of time."""

from dataclasses import replace

import pytest

from icepact.economics.limits import run_limits
from icepact.economics.overhead import learned_overhead, overhead_of
from icepact.economics.speeds import Rates
from icepact.model.effort import NO_ESTIMATE, Effort, Estimate
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.planning import make_plan
from tests.support.records import run_outcome
from tests.support.states import data_file, make_policy, make_state


def ran(seconds: float, *, first: bool = False, work: float = 0.1, status: Status = Status.COMMITTED) -> Outcome:
    """The outcome of a run that took so many seconds besides its work."""
    return run_outcome(
        "r1", overhead_seconds=seconds, first_run=first, effort=Effort(seconds=work), status=status, groups=()
    )


def test_before_any_run_the_first_of_a_process_is_known_to_take_longer() -> None:
    first, later = (learned_overhead([], first=kind) for kind in (True, False))
    assert first.likely > 2 * later.likely
    assert first.low < first.likely < first.high


def test_what_runs_took_is_believed_and_newer_ones_more() -> None:
    slow, fast = [ran(4.0)] * 3, [ran(0.5)] * 12
    assert learned_overhead(slow, first=False).likely == pytest.approx(4.0, rel=0.1)
    assert learned_overhead([*fast, *slow], first=False).likely == pytest.approx(0.5, rel=0.1)
    known = learned_overhead(fast, first=False)
    assert known.low < 0.5 < known.high < learned_overhead([], first=False).high


def test_a_slow_machine_is_slow_for_first_runs_too_and_both_are_told_apart() -> None:
    later = [ran(3.0)] * 4
    unseen = learned_overhead(later, first=True).likely
    assert unseen > 2 * learned_overhead([], first=True).likely
    seen = [ran(9.0, first=True), *later, ran(8.0, first=True)]
    assert learned_overhead(seen, first=True).likely == pytest.approx(9.0, rel=0.15)
    assert learned_overhead(seen, first=False).likely == pytest.approx(3.0, rel=0.15)


def test_what_does_not_tell_is_not_learned_from() -> None:
    silent = [ran(50.0, status=Status.FAILED), run_outcome("old"), ran(0.0)]
    assert learned_overhead(silent, first=False) == learned_overhead([], first=False)


def test_long_runs_tell_less() -> None:
    short, long = ran(0.5), ran(5.0, work=3600)
    assert learned_overhead([long, short], first=False).likely < 1.0


@pytest.mark.parametrize(
    ("seconds", "work", "units", "cores", "encoded", "besides"),
    [
        (3.0, 1.0, 1, 8, 0.0, 2.0),
        (3.0, 4.0, 8, 2, 0.0, 1.0),
        (3.0, 4.0, 8, 8, 0.0, 2.5),
        (1.0, 5.0, 1, 1, 1.0, 0.0),
        (1.0, 0.0, 0, 4, 0.0, 1.0),
        (3.0, 4.0, 1, 2, 1.0, 1.0),  # what is encoded is shared by the lanes of a task, up to four
        (3.0, 4.0, 1, 16, 1.0, 2.0),
        (4.0, 4.0, 1, 2, 0.5, 1.0),
        (3.0, 8.0, 8, 8, 1.0, 2.0),
    ],
)
def test_it_is_what_is_left_of_the_time_on_the_clock(
    seconds: float, work: float, units: int, cores: int, encoded: float, besides: float
) -> None:
    assert overhead_of(seconds=seconds, work=work, units=units, cores=cores, encoded=encoded) == besides


def test_a_plan_predicts_the_time_on_the_clock() -> None:
    rates = Rates(overhead=Estimate(likely=2.0, low=1.0, high=4.0), cores=2)
    state = make_state([data_file(f"{n}", 10) for n in range(8)])
    plan = make_plan(state, make_policy(), rates)
    alone = make_plan(state, make_policy(), replace(rates, overhead=NO_ESTIMATE))
    assert len(plan.rewrites) == 1  # of one unit: two cores are of no use
    p = plan.predicted
    assert (p.overhead, p.duration, p.cores) == (2.0, (rates.overhead + p.seconds).rounded(3), 2)
    assert (p.seconds, p.money) == (alone.predicted.seconds, alone.predicted.money)
    assert f"about {p.duration.likely:.1f} s on the clock (" in plan.explain()
    assert "on the clock" not in alone.explain()
    nothing = make_plan(make_state([]), make_policy(), rates).predicted
    assert (nothing.overhead, nothing.duration) == (0.0, NO_ESTIMATE)


def test_a_limit_of_time_leaves_room_for_it() -> None:
    [limit] = run_limits(make_policy(max_duration="10s"), cores=4, overhead=2.5)
    assert (limit.amount, limit.name) == (30.0, "max_duration 10s, of which a run takes 2.5 s besides its work")
    [short] = run_limits(make_policy(max_duration="1s"), cores=4, overhead=2.5)
    assert short.amount < 0
    plan = make_plan(make_state([data_file(f"{n}", 10) for n in range(8)]), make_policy(), budget=[short])
    assert plan.rewrites == ()
    assert plan.left_out[0].reason == f"over the budget ({short.name})"
