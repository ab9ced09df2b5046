"""Whether work is worth its price: INVARIANTS 17. Each guard by itself, with numbers that can be followed."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.economics.lessons import Evidence, GainHorizon, Lesson, Lessons, WriteRate
from icepact.economics.valuation import START_PRICE, Valuation
from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.health import Facts, PartitionGroup
from icepact.plan.candidate import Candidate, features_of, files_per_hour
from icepact.plan.gain import make_gain
from icepact.plan.profit import Profitability, profitability, scan_tasks
from icepact.plan.strategies.selection import FileSelector, Selection
from tests.support.planning import NOW
from tests.support.states import MB, make_policy


def partition_group(**given: Any) -> PartitionGroup:
    """A partition group whose counts do not matter."""
    facts = Facts(
        data_files=100,
        small_files=100,
        mergeable_files=100,
        bytes=100 * MB,
        rows=100,
        row_groups=100,
        delete_files={},
        delete_records={},
    )
    return PartitionGroup(name="day=d1", keys=(), facts=facts, **given)


def candidate(
    files: int = 100, size: int = 100 * MB, *, money: float = 0.0, seconds: float = 1.0, **given: Any
) -> Candidate:
    """So many files into one."""
    return Candidate(
        partition_group=given.pop("partition_group", partition_group()),
        selection=Selection(which=FileSelector.SMALL, reason="small files"),
        files=files,
        bytes=size,
        outputs=given.pop("outputs", 1),
        gain=make_gain(files=files - 1, row_groups=files - 1, delete_files=0, delete_records=0),
        cost=Cost(
            seconds=Estimate(likely=seconds),
            copied_bytes=0,
            encoded_bytes=size,
            requests=0,
            money=Estimate(likely=money),
        ),
        other_tasks=given.pop("other_tasks", 100),
    )


def judged(it: Candidate, lessons: Lessons | None = None, **options: Any) -> Profitability:
    """By a policy with these options."""
    valuation = Valuation(now=NOW, lessons=lessons or Lessons())
    return profitability(it, valuation, make_policy(strategy="auto", **options))


# -- the saving ---------------------------------------------------------------------------------------


def test_the_saving_is_what_all_scans_until_the_horizon_take_less() -> None:
    verdict = judged(candidate(), scans_per_day=24, horizon="7d")
    assert verdict.worth
    assert verdict.saving == pytest.approx(99 * 0.014 * 24 * 7 * START_PRICE)
    assert verdict.price == pytest.approx(1.0 * START_PRICE)
    assert verdict.reason == ""


@pytest.mark.parametrize(
    ("options", "worth_it"),
    [({}, True), ({"scans_per_day": 0.01}, False), ({"horizon": "1m"}, False), ({"scans_per_day": 0.2}, True)],
)
def test_work_that_saves_less_than_it_costs_is_refused(options: dict[str, Any], worth_it: bool) -> None:
    verdict = judged(candidate(), **options)
    assert verdict.worth == worth_it == (verdict.saving > verdict.price)
    assert worth_it or verdict.reason.startswith("not worth it: scans would save ")


def test_predicted_money_goes_before_seconds() -> None:
    assert judged(candidate(money=0.001)).price == 0.001
    verdict = judged(candidate(money=50.0))
    assert verdict.reason == "not worth it: scans would save 0.0032 in 7 days, and it costs 50.00"


def test_where_nothing_costs_anything_work_is_done() -> None:
    free = Valuation(now=NOW, money_per_scan_second=0.0, money_per_work_second=0.0)
    verdict = profitability(candidate(), free, make_policy(strategy="auto"))
    assert (verdict.worth, verdict.saving, verdict.price) == (True, 0.0, 0.0)


# -- waiting ------------------------------------------------------------------------------------------


def test_a_hot_place_waits_until_scans_pay_twice_what_waiting_spares() -> None:
    """100 files an hour: what is merged now is there again in an hour, and the output is rewritten with it."""
    hot = partition_group(files_per_hour=100.0, written_at=NOW)
    verdict = judged(candidate(partition_group=hot, money=0.001))
    assert verdict.saving > verdict.price
    assert not verdict.worth
    assert verdict.reason == (
        "worth more later: as many files will have come again in about 59 min, and waiting spares 0.00099, "
        "while scans pay 0.000019 (about 100 files an hour arrive)"
    )
    assert judged(candidate(partition_group=partition_group(), money=0.001)).worth
    assert judged(candidate(partition_group=hot, money=0.001), scans_per_day=100_000).worth


def test_a_hot_place_does_not_wait_where_the_output_is_large_enough_to_stay() -> None:
    hot = partition_group(files_per_hour=100.0, written_at=NOW)
    assert not judged(candidate(size=380 * MB, partition_group=hot, money=0.001)).worth
    assert judged(candidate(size=390 * MB, partition_group=hot, money=0.001)).worth


def test_silence_cools_a_place_down() -> None:
    quiet = partition_group(files_per_hour=100.0, written_at=NOW - timedelta(hours=20))
    assert files_per_hour(quiet, NOW) == pytest.approx(1 / 20)
    assert features_of(candidate(partition_group=quiet), NOW, 168.0)["lasting_hours"] == 168.0
    assert judged(candidate(partition_group=quiet, money=0.001)).worth
    assert files_per_hour(partition_group(written_at=NOW), NOW) == 1.0
    assert files_per_hour(partition_group(written_at=NOW - timedelta(hours=2)), NOW) == 0.0
    assert files_per_hour(partition_group(files_per_hour=3.0), NOW) == 3.0


# -- readers ------------------------------------------------------------------------------------------


def test_readers_must_not_lose_their_tasks() -> None:
    """100 files of 1 MB are four tasks, each opening 25; one file of 100 MB is one task that decodes it all."""
    verdict = judged(candidate(other_tasks=0))
    assert verdict.reason == "scans would be slower: 1 instead of 4 tasks for 8 cores, 1.0 s instead of 0.6 s"
    assert judged(candidate(other_tasks=0), reader_parallelism=1).worth
    assert judged(candidate(other_tasks=8)).worth


def test_tiny_files_are_merged_all_the_same() -> None:
    """Opening them costs far more than one core needs for the rest."""
    assert judged(candidate(1000, 10 * MB, other_tasks=0)).worth


def test_large_files_keep_their_tasks_because_row_groups_are_splits() -> None:
    assert scan_tasks(8, 800 * MB) == 7
    assert judged(candidate(8, 800 * MB, outputs=2, other_tasks=0, seconds=0.1)).worth


# -- lessons ------------------------------------------------------------------------------------------


def lesson(value: float, weight: float = 20.0) -> Lesson:
    """A lesson that there is little doubt about."""
    return Lesson(value=value, weight=weight, error=0.01)


def test_lessons_change_the_verdict_and_are_named_in_the_reason() -> None:
    marginal = candidate(money=0.003)
    assert judged(marginal).worth
    lost = Lessons(own=Evidence(conflicts={WriteRate.QUIET: lesson(0.8)}))
    assert "70% of such rewrites are lost to other commits" in judged(marginal, lost).reason
    grows = Lessons(own=Evidence(compression=lesson(0.3)))
    assert "rewriting makes rows 34% larger" in judged(marginal, grows).reason
    again = Lessons(own=Evidence(lasting={GainHorizon.HORIZON: lesson(-5.0)}))
    assert judged(marginal, again).reason.endswith("(earlier gains were used up sooner than predicted)")


def test_other_tables_hold_back_and_do_not_push() -> None:
    shrinks, grows = (Lessons(others=Evidence(compression=lesson(value))) for value in (-0.5, 0.5))
    assert shrinks.expect({}).compression == 1.0
    assert grows.expect({}).compression > 1.3
    assert Lessons(own=Evidence(compression=lesson(-0.5))).expect({}).compression == pytest.approx(0.614, abs=0.01)


def test_what_may_be_chance_is_no_lesson() -> None:
    unsure = Lessons(own=Evidence(files=Lesson(value=-0.1, weight=5, error=0.2)))
    assert unsure.expect({}).files == 1.0
    assert Lessons(own=Evidence(files=Lesson(value=-0.5, weight=5, error=0.1))).expect({}).files < 0.8


@given(
    st.integers(2, 5000),
    st.integers(1, 10**12),
    st.floats(0, 1000),
    st.floats(0.01, 1000),
    st.integers(0, 50),
    st.floats(0, 500),
    st.floats(0, 100),
)
def test_what_is_refused_has_a_reason_and_what_is_done_pays(
    files: int, size: int, money: float, scans: float, others: int, rate: float, quiet: float
) -> None:
    where = partition_group(files_per_hour=rate, written_at=NOW - timedelta(hours=quiet))
    it = candidate(files, size, money=money, other_tasks=others, partition_group=where)
    verdict = judged(it, scans_per_day=scans)
    assert verdict.worth == (verdict.reason == "")
    assert not verdict.worth or verdict.net > 0
    assert judged(it, scans_per_day=scans) == verdict
