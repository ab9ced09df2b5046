"""Budgets while a run goes on: what may still be begun after what the finished work took."""

from dataclasses import replace

import pytest

from icepact.economics.run_budget import RunBudget
from icepact.model.limits import Limit, Resource
from icepact.model.plan import Plan, RewriteFiles
from tests.support.planning import make_plan
from tests.support.states import make_policy, make_state
from tests.unit.plan.test_budget import group, unit


def planned(*limits: Limit, max_duration: str | None = None) -> Plan:
    """A plan with such a budget."""
    plan = make_plan(make_state([]), make_policy(max_duration=max_duration))
    return replace(plan, budget=limits)


def numbered(count: int, *, seconds: float, money: float) -> list[RewriteFiles]:
    """Groups of one unit each."""
    made = [group(f"p{n}", unit(f"p{n}", 10, 10), seconds=seconds, money=money) for n in range(count)]
    return [replace(step, group_id=f"g{n}") for n, step in enumerate(made)]


def work(budget: RunBudget, steps: list[RewriteFiles], *, seconds: float, cores: int = 1) -> list[str | None]:
    """One group after the other; each takes so long. What is said to each."""
    said = []
    elapsed = 0.0
    for step in steps:
        said.append(budget.admit(step, elapsed))
        if said[-1] is None:
            elapsed += seconds / cores
            budget.finished(step.group_id, f"{step.group_id}-0", step.units[0], seconds)
    return said


MONEY = Limit(resource=Resource.MONEY, amount=1.0, name="max_cost 1.00")


def test_without_a_budget_everything_is_begun() -> None:
    plan = planned()
    assert not plan.paced
    assert work(RunBudget(plan), numbered(5, seconds=1, money=9), seconds=100) == [None] * 5


def test_what_costs_as_predicted_is_done_to_the_end() -> None:
    plan = planned(MONEY)
    assert plan.paced
    assert work(RunBudget(plan), numbered(10, seconds=1, money=0.1), seconds=1) == [None] * 10


@pytest.mark.parametrize(("seconds", "begun"), [(1.0, 10), (2.0, 5), (4.0, 2), (50.0, 1), (0.1, 10)])
def test_what_takes_longer_costs_more(seconds: float, begun: int) -> None:
    said = work(RunBudget(planned(MONEY)), numbered(10, seconds=1, money=0.1), seconds=seconds)
    assert said == [None] * begun + ["the budget is spent (max_cost 1.00)"] * (10 - begun)


def test_the_scarcest_limit_counts() -> None:
    hour = Limit(resource=Resource.MONEY, amount=0.2, name="max_cost_per_hour 0.30 of the fleet: 0.10 spent")
    said = work(RunBudget(planned(MONEY, hour)), numbered(4, seconds=1, money=0.1), seconds=1)
    assert said == [None, None, *(f"the budget is spent ({hour.name})",) * 2]


@pytest.mark.parametrize(("cores", "seconds", "begun"), [(1, 10, 6), (2, 10, 12), (1, 20, 3), (2, 20, 6), (1, 100, 1)])
def test_time(cores: int, seconds: float, begun: int) -> None:
    plan = planned(Limit(resource=Resource.SECONDS, amount=60.0 * cores, name="max_duration 1m"), max_duration="1m")
    plan = replace(plan, predicted=replace(plan.predicted, cores=cores))
    said = work(RunBudget(plan), numbered(20, seconds=10, money=0), seconds=seconds, cores=cores)
    assert said == [None] * begun + ["the budget is spent (max_duration 1m)"] * (20 - begun)


@pytest.mark.parametrize(
    ("overhead", "begins_after", "begun"), [(0, 0, 6), (20, 0, 4), (20, 5, 4), (20, 20, 4), (20, 40, 2)]
)
def test_time_that_the_end_of_a_run_takes_is_kept_back(overhead: float, begins_after: float, begun: int) -> None:
    """What of the overhead is over when the first group is begun is not counted twice."""
    plan = planned(Limit(resource=Resource.SECONDS, amount=60.0, name="max_duration 1m"), max_duration="1m")
    budget = RunBudget(replace(plan, predicted=replace(plan.predicted, overhead=overhead)))
    elapsed, said = begins_after, []
    for step in numbered(10, seconds=10, money=0):
        said.append(budget.admit(step, elapsed) is None)
        if said[-1]:
            elapsed += 10
            budget.finished(step.group_id, f"{step.group_id}-0", step.units[0], 10)
    assert said == [True] * begun + [False] * (10 - begun)


def test_what_is_begun_may_go_on_and_what_was_refused_stays_refused() -> None:
    budget = RunBudget(planned(MONEY))
    first, second = numbered(2, seconds=1, money=0.9)
    assert budget.admit(first, 0) is None
    refused = budget.admit(second, 0)
    assert refused == "the budget is spent (max_cost 1.00)"
    assert budget.admit(first, 10**6) is None
    budget.finished("g0", "g0-0", first.units[0], 0.0)
    assert budget.admit(second, 0) == refused


def test_a_unit_counts_once_and_that_of_another_process_not_at_all() -> None:
    budget = RunBudget(planned(MONEY))
    first, second = numbered(2, seconds=1, money=0.3)
    budget.finished("g0", "g0-0", first.units[0], 1000)
    assert budget.admit(first, 0) is None
    for _ in range(3):
        budget.finished("g0", "g0-0", first.units[0], 1)
    assert budget.admit(second, 0) is None
