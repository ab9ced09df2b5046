"""What is decided from counts is what is planned from files."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.model.census import census_of
from icepact.model.policy import Policy
from icepact.model.table import TableState
from icepact.plan.decide import decide
from tests.support.planning import NOW, make_plan
from tests.support.random_tables import policies, tables
from tests.support.states import MB, data_file, make_policy, make_state

cases = policies().flatmap(lambda policy: st.tuples(st.just(policy), tables(policy)))


@given(cases)
def test_the_same_is_chosen_from_counts_and_from_files(case: tuple[Policy, TableState]) -> None:
    policy, state = case
    census = census_of(state)
    judgement = decide(assess(census, policy), census, policy, now=NOW)
    plan = make_plan(state, policy)
    if not plan.complete or any("set aside" in entry.reason for entry in plan.left_out):
        return
    inputs, outputs = Counter[str](), Counter[str]()
    for step in plan.steps:
        inputs[step.partition] += len(step.files)
        outputs[step.partition] += step.predicted_files
    chosen = {decision.place.name: decision for decision in judgement.chosen}
    for place in judgement.health.places:
        cut = place.facts.bytes > policy.max_group_size or place.facts.data_files > policy.max_group_files
        if place.spread and cut:
            continue  # where it is cut depends on the order of paths, which the census does not know
        decision = chosen.get(place.name)
        assert (decision.files if decision else 0) == inputs[place.name]
        assert (decision.outputs if decision else 0) == outputs[place.name]


def test_what_has_not_changed_is_not_judged_again() -> None:
    files = [data_file(f"{day}-{n}", MB, partition=(day,)) for day in ("d1", "d2") for n in range(6)]
    census, policy = census_of(make_state(files)), make_policy()
    health = assess(census, policy)
    before = decide(health, census, policy, now=NOW)
    again = decide(health, census, policy, now=NOW, before=before)
    assert [a is b for a, b in zip(before.decisions, again.decisions, strict=True)] == [True, True]


def test_gain_and_price_are_of_the_packed_candidates() -> None:
    files = [*(data_file(f"s{n}", 10 * MB) for n in range(12)), data_file("large", 500 * MB)]
    census, policy = census_of(make_state(files)), make_policy(target_file_size="64MB")
    judgement = decide(assess(census, policy), census, policy, now=NOW)
    [decision] = judgement.chosen
    assert (decision.files, decision.bytes, decision.outputs) == (12, 120 * MB, 2)
    assert decision.gain.files == 10
    assert decision.cost.requests == 2 * 12 + 2
    assert judgement.to_dict()["chosen"] == 1
