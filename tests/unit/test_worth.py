"""Whether work is worth its price: INVARIANTS 17. Each guard by itself, with numbers that can be followed."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.health import Facts, Place
from icepact.model.lessons import Heat, Lesson, Lessons, Span, Taught
from icepact.model.outlook import START_PRICE, Outlook
from icepact.model.plan import Cost
from icepact.plan.gain import make_gain
from icepact.plan.prospect import Prospect, features_of, files_per_hour
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.worth import Verdict, scan_tasks, worth
from tests.support.planning import NOW
from tests.support.states import MB, make_policy


def place(**given: Any) -> Place:
    """A place whose counts do not matter."""
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
    return Place(name="day=d1", keys=(), facts=facts, **given)


def prospect(
    files: int = 100, size: int = 100 * MB, *, money: float = 0.0, seconds: float = 1.0, **given: Any
) -> Prospect:
    """So many files into one."""
    return Prospect(
        place=given.pop("place", place()),
        choice=Choice(which=Which.SMALL, reason="small files"),
        files=files,
        bytes=size,
        outputs=given.pop("outputs", 1),
        gain=make_gain(files=files - 1, row_groups=files - 1, delete_files=0, delete_records=0),
        cost=Cost(
            seconds=seconds,
            baseline_seconds=seconds,
            copied_bytes=0,
            encoded_bytes=size,
            requests=0,
            money=money,
        ),
        other_tasks=given.pop("other_tasks", 100),
    )


def judged(it: Prospect, lessons: Lessons | None = None, **options: Any) -> Verdict:
    """By a policy with these options."""
    outlook = Outlook(now=NOW, lessons=lessons or Lessons())
    return worth(it, outlook, make_policy(strategy="auto", **options))


# -- the saving ---------------------------------------------------------------------------------------


def test_the_saving_is_what_all_scans_until_the_horizon_take_less() -> None:
    verdict = judged(prospect(), scans_per_day=24, horizon="7d")
    assert verdict.worth
    assert verdict.saving == pytest.approx(99 * 0.014 * 24 * 7 * START_PRICE)
    assert verdict.price == pytest.approx(1.0 * START_PRICE)
    assert verdict.reason == ""


@pytest.mark.parametrize(
    ("options", "worth_it"),
    [({}, True), ({"scans_per_day": 0.01}, False), ({"horizon": "1m"}, False), ({"scans_per_day": 0.2}, True)],
)
def test_work_that_saves_less_than_it_costs_is_refused(options: dict[str, Any], worth_it: bool) -> None:
    verdict = judged(prospect(), **options)
    assert verdict.worth == worth_it == (verdict.saving > verdict.price)
    assert worth_it or verdict.reason.startswith("not worth it: scans would save ")


def test_predicted_money_goes_before_seconds() -> None:
    assert judged(prospect(money=0.001)).price == 0.001
    verdict = judged(prospect(money=50.0))
    assert verdict.reason == "not worth it: scans would save 0.0032 in 7 days, and it costs 50.00"


# -- waiting ------------------------------------------------------------------------------------------


def test_a_hot_place_waits_until_scans_pay_twice_what_waiting_spares() -> None:
    """100 files an hour: what is merged now is there again in an hour, and the output is rewritten with it."""
    hot = place(files_per_hour=100.0, written_at=NOW)
    verdict = judged(prospect(place=hot, money=0.001))
    assert verdict.saving > verdict.price
    assert not verdict.worth
    assert verdict.reason == (
        "worth more later: as many files will have come again in about 59 min, and waiting spares 0.00099, "
        "while scans pay 0.000019 (about 100 files an hour arrive)"
    )
    assert judged(prospect(place=place(), money=0.001)).worth
    assert judged(prospect(place=hot, money=0.001), scans_per_day=100_000).worth


def test_a_hot_place_does_not_wait_where_the_output_is_large_enough_to_stay() -> None:
    hot = place(files_per_hour=100.0, written_at=NOW)
    assert not judged(prospect(size=380 * MB, place=hot, money=0.001)).worth
    assert judged(prospect(size=390 * MB, place=hot, money=0.001)).worth


def test_silence_cools_a_place_down() -> None:
    quiet = place(files_per_hour=100.0, written_at=NOW - timedelta(hours=20))
    assert files_per_hour(quiet, NOW) == pytest.approx(1 / 20)
    assert features_of(prospect(place=quiet), NOW, 168.0)["lasting_hours"] == 168.0
    assert judged(prospect(place=quiet, money=0.001)).worth
    assert files_per_hour(place(written_at=NOW), NOW) == 1.0
    assert files_per_hour(place(written_at=NOW - timedelta(hours=2)), NOW) == 0.0
    assert files_per_hour(place(files_per_hour=3.0), NOW) == 3.0


# -- readers ------------------------------------------------------------------------------------------


def test_readers_must_not_lose_their_tasks() -> None:
    """100 files of 1 MB are four tasks, each opening 25; one file of 100 MB is one task that decodes it all."""
    verdict = judged(prospect(other_tasks=0))
    assert verdict.reason == "scans would be slower: 1 instead of 4 tasks for 8 cores, 1.0 s instead of 0.6 s"
    assert judged(prospect(other_tasks=0), reader_parallelism=1).worth
    assert judged(prospect(other_tasks=8)).worth


def test_tiny_files_are_merged_all_the_same() -> None:
    """Opening them costs far more than one core needs for the rest."""
    assert judged(prospect(1000, 10 * MB, other_tasks=0)).worth


def test_large_files_keep_their_tasks_because_row_groups_are_splits() -> None:
    assert scan_tasks(8, 800 * MB) == 7
    assert judged(prospect(8, 800 * MB, outputs=2, other_tasks=0, seconds=0.1)).worth


# -- lessons ------------------------------------------------------------------------------------------


def lesson(value: float, weight: float = 20.0) -> Lesson:
    """A lesson that there is little doubt about."""
    return Lesson(value=value, weight=weight, error=0.01)


def test_lessons_change_the_verdict_and_are_named_in_the_reason() -> None:
    marginal = prospect(money=0.003)
    assert judged(marginal).worth
    lost = Lessons(own=Taught(conflicts={Heat.QUIET: lesson(0.8)}))
    assert "70% of such rewrites are lost to other commits" in judged(marginal, lost).reason
    grows = Lessons(own=Taught(compression=lesson(0.3)))
    assert "rewriting makes rows 34% larger" in judged(marginal, grows).reason
    dear = Lessons(own=Taught(cost=lesson(4.0)))
    assert "times what is predicted" in judged(prospect(seconds=100.0, money=0.0028), dear).reason
    again = Lessons(own=Taught(lasting={Span.HORIZON: lesson(-5.0)}))
    assert judged(marginal, again).reason.endswith("(earlier gains were used up sooner than predicted)")


def test_other_tables_hold_back_and_do_not_push() -> None:
    shrinks, grows = (Lessons(others=Taught(compression=lesson(value))) for value in (-0.5, 0.5))
    assert shrinks.expect({}).compression == 1.0
    assert grows.expect({}).compression > 1.3
    assert Lessons(own=Taught(compression=lesson(-0.5))).expect({}).compression == pytest.approx(0.614, abs=0.01)


def test_what_may_be_chance_is_no_lesson() -> None:
    unsure = Lessons(
        own=Taught(cost=Lesson(value=0.5, weight=5, error=0.4), files=Lesson(value=-0.1, weight=5, error=0.2))
    )
    assert (unsure.expect({}).cost, unsure.expect({}).files) == (1.0, 1.0)


def test_a_correction_that_the_prediction_has_already_is_not_made_twice() -> None:
    slow = Lessons(own=Taught(cost=lesson(1.0, 1000.0)))
    assert slow.expect({}).cost == pytest.approx(2.71, abs=0.02)
    assert slow.expect({"correction": 2.718281828}).cost == pytest.approx(1.0, abs=0.01)


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
    where = place(files_per_hour=rate, written_at=NOW - timedelta(hours=quiet))
    it = prospect(files, size, money=money, other_tasks=others, place=where)
    verdict = judged(it, scans_per_day=scans)
    assert verdict.worth == (verdict.reason == "")
    assert not verdict.worth or verdict.net > 0
    assert judged(it, scans_per_day=scans) == verdict
