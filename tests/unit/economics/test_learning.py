"""What outcomes teach, one lesson at a time; whether `auto` is the better for it is in `test_auto_learns.py`."""

import json
import math
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.economics.learning import learn
from icepact.economics.lessons import GainHorizon, Lessons, WriteRate
from icepact.maintain.inspect import lessons_of
from icepact.model.effort import Effort
from icepact.model.outcome import GroupOutcome, Outcome
from icepact.record.kv.store import KvStore
from tests.support.records import NOON, run_outcome, run_record

LATER = NOON + timedelta(days=30)


def group(**told: Any) -> GroupOutcome:
    """A group that went as predicted."""
    usual: dict[str, Any] = {
        "group_id": "g",
        "method": "assemble",
        "partition": "day=d1",
        "committed": True,
        "reason": "",
        "input_files": 20,
        "output_files": 1,
        "predicted_files": 1,
        "rows_in": 1000,
        "rows_out": 1000,
        "bytes_in": 1000,
        "bytes_out": 1000,
        "effort": Effort(seconds=10.0),
        "features": {
            "files_per_hour": 2.0,
            "lasting_hours": 9.5,
            "horizon_hours": 168.0,
            "merged_files": 19.0,
        },
    }
    return GroupOutcome(**{**usual, **told})


def runs(count: int, table: str = "db.events", *, first: float = 0.0, every: float = 9.5, **told: Any) -> list[Outcome]:
    """Outcomes of runs, one after the other; hours."""
    return [
        run_outcome(f"r{n}", table=table, started_at=NOON + timedelta(hours=first + n * every), groups=(group(**told),))
        for n in range(count)
    ]


def learned(outcomes: list[Outcome], table: str = "db.events", **given: Any) -> Lessons:
    """At the end of the month."""
    return learn(outcomes, table, now=LATER, **given)


FEATURES = group().features


def test_nothing_teaches_nothing() -> None:
    assert learned([]) == Lessons()
    assert Lessons().explain() == "nothing was learned yet: `auto` judges by the analytic model alone"


def test_what_went_as_predicted_changes_nothing() -> None:
    """The twentieth file of each rewrite is the output of the one before."""
    found = learned(runs(30))
    expected = found.expect(FEATURES, "day=d1")
    assert (expected.files, expected.compression, expected.conflict) == (1, 1, 0)
    assert expected.lasting == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("told", "name", "value"),
    [
        ({"output_files": 10}, "files", 10 / 19),
        ({"bytes_out": 500}, "compression", 0.5),
        ({"bytes_out": 750, "effort": Effort(seconds=10.0, copied_bytes=500)}, "compression", 0.5),
        ({"bytes_out": 450, "rows_out": 900}, "compression", 0.5),
    ],
)
def test_ratios_are_learned(told: dict[str, Any], name: str, value: float) -> None:
    """Drawn a little towards the model, and more so the fewer there are."""
    many, few = (getattr(learned(runs(count, **told)).expect(FEATURES), name) for count in (200, 4))
    assert abs(math.log(many / value)) < 0.3 * abs(math.log(value))
    assert abs(math.log(few)) < abs(math.log(many))
    assert (few - 1) * (value - 1) >= 0


def test_one_odd_run_teaches_nothing() -> None:
    odd = learned([*runs(10), *runs(1, first=100, output_files=19, bytes_out=20), *runs(9, first=110)]).expect(FEATURES)
    assert (odd.files, odd.compression) == (1.0, 1.0)


def test_a_change_is_noticed() -> None:
    changed = learned([*runs(40), *runs(12, first=500, bytes_out=500, output_files=10)]).expect(FEATURES)
    assert changed.compression < 0.6
    assert changed.files < 0.65


def test_conflicts_are_learned_where_it_is_hot_and_failures_are_none() -> None:
    lost: dict[str, Any] = {
        "committed": False,
        "reason": "superseded: 3 inputs are gone",
        "output_files": 0,
        "bytes_out": 0,
        "rows_out": 0,
    }
    outcomes = [*runs(10, **lost), *runs(10, first=1, features={**FEATURES, "files_per_hour": 0.01})]
    found = learned(outcomes)
    assert found.expect({"files_per_hour": 3.0}).conflict > 0.6
    assert found.expect({"files_per_hour": 0.01}).conflict == 0
    assert (WriteRate.STEADY in found.own.conflicts, WriteRate.HOT in found.own.conflicts) == (True, False)
    failed = learned(runs(10, **{**lost, "reason": "disk full"}))
    assert failed.expect({"files_per_hour": 3.0}).conflict == 0


def test_that_files_come_sooner_is_learned_by_what_was_predicted() -> None:
    """A week was predicted, and after a day as many files had come: not where hours were predicted."""
    features = {**FEATURES, "lasting_hours": 168.0}
    found = learned(runs(12, every=24, features=features))
    assert found.expect(features).lasting < 0.35
    assert found.expect(features, "day=d1").lasting < found.expect(features, "day=d2").lasting
    assert found.expect(FEATURES).lasting == 1.0
    assert list(found.own.lasting) == [GainHorizon.HORIZON]


def test_that_a_gain_lasts_still_is_no_news_of_its_end() -> None:
    apart = [run for n in range(8) for run in runs(1, first=n, partition=f"day=d{n}")]
    found = learn(apart, "db.events", now=NOON + timedelta(hours=10))
    assert found.expect(FEATURES).lasting == 1.0


def test_tables_teach_each_other_what_they_agree_about() -> None:
    fewer, more = {"output_files": 10}, {"predicted_files": 10}
    agreed = [run for n in range(6) for run in runs(10, f"db.t{n}", **fewer)]
    assert learned(agreed).expect({}).files < 0.65
    differ = [run for n in range(6) for run in runs(10, f"db.t{n}", **(fewer if n % 2 else more))]
    assert learned(differ).expect({}).files == 1.0
    assert learned(differ, "db.t1").expect({}).files < 0.7


def test_what_was_before_is_forgotten() -> None:
    denser = runs(30, bytes_out=500)
    assert learned(denser, since=LATER) == Lessons()
    assert learned(denser, since=NOON) == learned(denser)


def test_old_documents_teach_what_they_can() -> None:
    """From before features and predicted files were told."""
    new = {"features", "predicted_files", "copied_bytes"}
    documents = [run.to_dict() for run in runs(20, bytes_out=500)]
    for document in documents:
        document["groups"] = [{k: v for k, v in told.items() if k not in new} for told in document["groups"]]
    assert learned([Outcome.from_json(json.dumps(document)) for document in documents]).expect({}).compression < 0.6


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "committed": st.booleans(),
                "reason": st.sampled_from(["", "superseded: gone", "disk full"]),
                "input_files": st.integers(1, 100),
                "output_files": st.integers(0, 100),
                "bytes_out": st.integers(0, 10**12),
                "rows_out": st.integers(0, 1000),
                "effort": st.builds(Effort, seconds=st.floats(0, 1e6)),
                "partition": st.sampled_from(["a", "b"]),
            }
        ),
        max_size=20,
    ),
    st.randoms(use_true_random=False),
)
def test_lessons_do_not_depend_on_the_order_and_are_never_absurd(
    told: list[dict[str, Any]], chance: random.Random
) -> None:
    outcomes = [run for n, one in enumerate(told) for run in runs(1, f"db.t{n % 3}", first=n, **one)]
    found = learned(outcomes, "db.t0")
    shuffled = list(outcomes)
    chance.shuffle(shuffled)
    assert learned(shuffled, "db.t0") == found
    for rate in (0.0, 2.0, 100.0):
        expected = found.expect({**FEATURES, "files_per_hour": rate}, "a")
        assert 0 <= expected.conflict < 1
        assert 0 < expected.lasting <= 1
        assert all(0.01 < value < 100 for value in (expected.files, expected.compression))
    assert found.explain()


def test_lessons_come_from_the_store_and_can_be_forgotten() -> None:
    clock = [LATER]
    store = KvStore.in_memory(clock=lambda: clock[0])
    for n in range(6):
        outcome = run_outcome(f"r{n}", groups=(group(output_files=10),))
        store.finish(store.begin(run_record(f"r{n}", started_at=NOON + timedelta(hours=n))), outcome)
    found = lessons_of(store, "local", "db.events", LATER)
    assert (found.own.groups, found.others.groups) == (6, 0)
    assert "rewrites save 0.72 times the files that are predicted" in found.explain()
    assert found.explain().splitlines()[-1] == "of rewrites in steady partitions 0% are lost to other commits"
    told = found.to_dict()["expected"]
    assert (told["files"], told["conflict"], list(told["lasting"])) == (0.7223, {"steady": 0.0}, ["hours"])
    assert lessons_of(store, "local", "db.other", LATER).others.groups == 6
    store.forget_lessons("local", "db.events")
    assert lessons_of(store, "local", "db.events", LATER) == Lessons()
    store.close()
