"""What was spent in the last hour, and what that leaves."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icepact.economics.spending import (
    HourlyBudget,
    Spending,
    hourly_limits,
    planned_spending,
    spent_by,
    spent_by_table,
)
from icepact.maintain.limits import hourly_budgets
from icepact.model.cost import Cost
from icepact.model.effort import Effort, Estimate
from icepact.model.limits import Limit, Resource
from icepact.model.outcome import GroupOutcome, StepCost
from icepact.model.run import RunRecord
from icepact.model.status import Status
from icepact.model.tags import CreateTags
from icepact.policy.config import Budgets
from tests.support.planning import make_plan
from tests.support.records import NOON, run_outcome, run_record
from tests.support.states import MB, data_file, make_policy, make_state


def a_group(*, seconds: float = 2.0, **given: Any) -> GroupOutcome:
    """A group of an outcome."""
    [usual] = run_outcome("any").groups
    return replace(usual, **{"effort": Effort(seconds=seconds), "bytes_in": 100, "money": 0.5, **given})


def ended(table: str, minutes_ago: float, *groups: GroupOutcome) -> RunRecord:
    """A run that ended so many minutes before noon, and began an hour before that."""
    at = NOON - timedelta(minutes=minutes_ago)
    return run_record(
        f"{table}-{minutes_ago}",
        table=table,
        status=Status.COMMITTED,
        started_at=at - timedelta(hours=1),
        finished_at=at,
        outcome=run_outcome("any", groups=groups),
    )


@pytest.mark.parametrize(
    ("group", "spent"),
    [
        pytest.param(a_group(), Spending(money=0.5, bytes=100), id="measured"),
        pytest.param(
            a_group(money=0.0, predicted_money=0.3), Spending(money=0.0, bytes=100), id="nothing is a price, too"
        ),
        pytest.param(a_group(seconds=0.0, money=0.0, bytes_in=7), Spending(bytes=7), id="of an older version"),
        pytest.param(a_group(committed=False), Spending(money=0.5, bytes=100), id="worked on in vain"),
        pytest.param(a_group(committed=False, seconds=0.0), Spending(), id="never begun"),
    ],
)
def test_what_a_group_took(group: GroupOutcome, spent: Spending) -> None:
    assert spent_by(run_outcome("any", groups=(group,))) == spent


def test_an_outcome_without_groups_took_nothing() -> None:
    assert spent_by(run_outcome("any", groups=())) == Spending()


def test_housekeeping_counts_whether_or_not_it_finished() -> None:
    steps = [StepCost(kind="expire-snapshots", finished=finished, money=0.25) for finished in (True, False)]
    outcome = run_outcome("any", groups=(a_group(),), step_costs=tuple(steps))
    assert spent_by(outcome) == Spending(money=1.0, bytes=100)


def test_runs_count_when_they_end_for_one_hour() -> None:
    runs = [
        ended("db.a", 59, a_group(), a_group()),
        ended("db.a", 1, a_group(bytes_in=5)),
        ended("db.b", 10, a_group(money=0.1)),
        ended("db.b", 60, a_group()),
        ended("db.c", 600, a_group()),
    ]
    assert spent_by_table(runs, NOON) == {
        "db.a": Spending(money=1.5, bytes=205),
        "db.b": Spending(money=0.1, bytes=100),
    }


def test_a_run_under_way_counts_with_what_its_plan_promises() -> None:
    runs = [
        run_record("now", started_at=NOON - timedelta(minutes=5)),
        run_record("dead", started_at=NOON - timedelta(minutes=65)),
        run_record("gone", started_at=NOON, status=Status.ABANDONED),
    ]
    promised = {name: Spending(money=0.2, bytes=9) for name in ("now", "dead", "gone")}
    assert spent_by_table(runs, NOON, promised) == {"db.events": Spending(money=0.2, bytes=9)}


def test_what_a_plan_promises() -> None:
    plan = make_plan(make_state([data_file(f"f{n}", MB) for n in range(6)]), make_policy())
    assert planned_spending(plan) == Spending(money=sum(s.cost.money.likely for s in plan.rewrites), bytes=6 * MB)
    tags = CreateTags(period="daily", tags=(), reason="due", cost=Cost(money=Estimate(likely=0.5)))
    assert planned_spending(replace(plan, steps=(tags,))) == Spending(money=0.5)


SPENT = {
    "db.a": Spending(money=0.05, bytes=10),
    "db.b": Spending(money=0.03, bytes=20),
    "db.inner.c": Spending(money=0.01, bytes=0),
    "db2.d": Spending(money=1.0, bytes=400),
}


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (
            HourlyBudget(level="table db.a", table="db.a", max_cost=0.1),
            Limit(resource=Resource.MONEY, amount=0.05, name="max_cost_per_hour 0.10 of table db.a: 0.05 spent"),
        ),
        (
            HourlyBudget(level="namespace db", namespace="db", max_cost=0.1),
            Limit(resource=Resource.MONEY, amount=0.01, name="max_cost_per_hour 0.10 of namespace db: 0.09 spent"),
        ),
        (
            HourlyBudget(level="the fleet", max_bytes=2048),
            Limit(resource=Resource.BYTES, amount=1618, name="max_bytes_per_hour 2.0 KB of the fleet: 430 B spent"),
        ),
        (
            HourlyBudget(level="the fleet", max_cost=0.5),
            Limit(resource=Resource.MONEY, amount=0.0, name="max_cost_per_hour 0.50 of the fleet: 1.09 spent"),
        ),
    ],
    ids=["table", "namespace", "fleet", "overspent"],
)
def test_what_is_left(budget: HourlyBudget, limit: Limit) -> None:
    [found] = hourly_limits([budget], "db.a", SPENT)
    assert (found.resource, found.name) == (limit.resource, limit.name)
    assert found.amount == pytest.approx(limit.amount)


def test_budgets_of_others_do_not_count() -> None:
    others = [
        HourlyBudget(level="table db.b", table="db.b", max_cost=0.1),
        HourlyBudget(level="namespace db2", namespace="db2", max_cost=0.1, max_bytes=5),
    ]
    assert list(hourly_limits(others, "db.a", SPENT)) == []


def test_a_plan_keeps_to_the_least_that_is_left() -> None:
    """Ten files of one megabyte; the namespace has four left, the table twelve."""
    budgets = [
        HourlyBudget(level="table db.events", table="db.events", max_bytes=14 * MB),
        HourlyBudget(level="namespace db", namespace="db", max_bytes=12 * MB),
    ]
    spent = {"db.events": Spending(bytes=2 * MB), "db.other": Spending(bytes=6 * MB)}
    state = make_state([data_file(f"f{n}", MB) for n in range(10)])
    plan = make_plan(state, make_policy(), budget=tuple(hourly_limits(budgets, "db.events", spent)))
    assert plan.predicted.input_bytes == 4 * MB
    [entry] = plan.left_out
    told = "max_bytes_per_hour 12.0 MB of namespace db: 8.0 MB spent"
    assert (entry.files, entry.reason) == (6, f"over the budget ({told})")
    assert not plan.complete


def test_levels_come_from_the_policy_and_the_configuration() -> None:
    budgets = Budgets.model_validate(
        {
            "fleet": {"max_cost_per_hour": 5},
            "namespaces": {"db": {"max_cost_per_hour": 1, "max_bytes_per_hour": "1GB"}, "my-odd.ns": {}},
        }
    )
    policy = make_policy(max_bytes_per_hour="2GB")
    assert list(hourly_budgets("db.events", policy, budgets)) == [
        HourlyBudget(level="table db.events", table="db.events", max_bytes=2048 * MB),
        HourlyBudget(level="namespace db", namespace="db", max_cost=1, max_bytes=1024 * MB),
        HourlyBudget(level="namespace my-odd.ns", namespace="`my-odd`.ns"),
        HourlyBudget(level="the fleet", max_cost=5),
    ]
    assert list(hourly_budgets("db.events", make_policy(), Budgets())) == []
