"""A second look that costs only what has changed says what a first look would say."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.model.census import COLUMNS, Census, Sheet, census_of
from icepact.model.looked import Looked
from icepact.model.outlook import Outlook
from icepact.model.policy import Policy
from icepact.model.table import TableState
from icepact.plan.decide import decide
from tests.support.planning import NOW
from tests.support.random_tables import policies, tables
from tests.support.states import MB, data_file, make_policy, make_state

cases = policies().flatmap(lambda policy: st.tuples(st.just(policy), tables(policy)))


def torn(census: Census, dice: random.Random) -> dict[str, Sheet]:
    """The same files in several manifests, each of which names only its own partitions."""
    sheets: dict[str, Sheet] = {}
    for sheet in census.sheets.values():
        for at in range(len(sheet.partitions)):
            files = [i for i in range(len(sheet)) if sheet.place[i] == at]
            dice.shuffle(files)
            cut = dice.randint(0, len(files))
            for some in (files[:cut], files[cut:]):
                if some:
                    columns = {name: getattr(sheet, name)[some] for name in COLUMNS if name != "place"}
                    columns |= {
                        "low": columns["low"] + dice.randint(0, 9),
                        "high": columns["high"] + dice.randint(5, 15),
                    }
                    sheets[f"m{len(sheets)}"] = replace(
                        sheet, partitions=(sheet.partitions[at],), place=0 * sheet.place[some], sorted_by=7, **columns
                    )
    return sheets


@given(cases, st.integers())
def test_a_second_look_says_what_a_first_one_would(case: tuple[Policy, TableState], seed: int) -> None:
    policy, state = case
    dice = random.Random(seed)
    state = replace(state, sort_key=dice.choice([0, 7]))
    sheets = torn(census_of(state), dice)
    earlier = {path: sheet for path, sheet in sheets.items() if dice.random() < 0.7}
    was = Census(pin=replace(state, snapshot_id=99), sheets=earlier)
    health = assess(was, policy)
    before = Looked(
        census=was,
        policy=policy,
        clocks={},
        health=health,
    )
    now = Census(pin=state, sheets=sheets)
    again, fresh = assess(now, policy, before=before), assess(now, policy)
    assert again == fresh
    outlook = Outlook(now=NOW)
    said = decide(health, was, policy, outlook=outlook)
    decided = decide(again, now, policy, outlook=outlook, before=said)
    assert decided.judgement == decide(fresh, now, policy, outlook=outlook).judgement


def test_partitions_that_nothing_happened_to_are_not_looked_at_again() -> None:
    def state(files: int) -> Census:
        made = [
            data_file(f"{d}-{n}", MB, partition=(d,)) for d in ("d1", "d2") for n in range(files if d == "d1" else 6)
        ]
        return census_of(make_state(made))

    policy = make_policy()
    was, now = state(6), state(7)
    [path] = was.sheets
    only_d2 = was.sheets[path].only({(1, ("d2",))})
    only_d1 = [c.sheets[path].only({(1, ("d1",))}) for c in (was, now)]
    assert only_d2 is not None
    only_d1 = [replace(s, partitions=s.partitions[:1]) for s in only_d1 if s]
    first = Census(pin=was.pin, sheets={"a": only_d2, "b": only_d1[0]})
    second = Census(pin=now.pin, sheets={"a": only_d2, "c": only_d1[1]})
    health = assess(first, policy)
    allowed = replace(policy, max_files=5, max_cost=1.0, sources={"max_files": "request"})
    before = Looked(census=first, policy=allowed, clocks={}, health=health)
    again = assess(second, policy, before=before)
    kept = {place.name: place for place in health.places}
    assert {p.name: p is kept[p.name] for p in again.places} == {"day=d1": False, "day=d2": True}
