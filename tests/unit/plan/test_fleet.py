"""Ranking a fleet: always the same, whatever the order; never above its budget; every table has its place."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.economics.limits import fleet_limits
from icepact.model.errors import BadInput
from icepact.model.files import DeleteKind
from icepact.model.fleet import Fleet, InspectionError, RankBy, TableSummary, rank_by, summary_of
from icepact.model.limits import Limit, Resource
from icepact.plan.fleet import NOTHING, WITHIN, doubt, rank
from icepact.policy.options import options
from tests.support.planning import NOW, decided
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state


def summary(name: str, *, gain: float = 1.0, files: int = 10, off: str | None = None, **given: float) -> TableSummary:
    """A table by hand."""
    facts = {"score": 50.0, "seconds": 1.0, "money": 0.01, "small_files": 10, "delete_records": 0, **given}
    return TableSummary(
        table=name,
        score=facts["score"],
        data_files=100,
        bytes=100 * MB,
        small_files=int(facts["small_files"]),
        delete_records=int(facts["delete_records"]),
        input_files=files,
        input_bytes=files * MB,
        gain_seconds=gain if files else 0.0,
        seconds=facts["seconds"] if files else 0.0,
        money=facts["money"] if files else 0.0,
        off=off,
    )


def limit(resource: Resource, amount: float) -> Limit:
    """A limit with the name of what it limits."""
    return Limit(resource=resource, amount=amount, name=resource.value)


amounts = st.floats(0, 1000, allow_nan=False).map(lambda amount: round(amount, 3))
tables = st.builds(
    lambda gain, files, score, seconds, money, off: summary(
        "", gain=gain, files=files, score=score, seconds=seconds, money=money, off="off" if off else None
    ),
    *(amounts, st.integers(0, 50), st.floats(0, 100), amounts, amounts, st.booleans()),
)
fleets = st.lists(tables, max_size=30).map(
    lambda found: [replace(table, table=f"db.t{number}") for number, table in enumerate(found)]
)
limits = st.lists(st.builds(limit, st.sampled_from(Resource), amounts), max_size=3)


def taken(table: TableSummary, resource: Resource) -> float:
    """What a table takes of a resource."""
    return {
        Resource.FILES: table.input_files,
        Resource.BYTES: table.input_bytes,
        Resource.SECONDS: table.seconds,
        Resource.MONEY: table.money,
    }[resource]


@given(fleets, limits, st.sampled_from(RankBy), st.randoms(use_true_random=False))
def test_the_order_of_the_tables_does_not_matter(
    fleet: list[TableSummary], budget: list[Limit], by: RankBy, luck: random.Random
) -> None:
    ranked = rank(fleet, by=by, limits=budget)
    luck.shuffle(fleet)
    assert rank(fleet, by=by, limits=budget) == ranked
    assert sorted(entry.summary.table for entry in ranked) == sorted(table.table for table in fleet)
    assert [entry.rank for entry in ranked] == list(range(1, len(fleet) + 1))


@given(fleets, limits, st.sampled_from(RankBy))
def test_no_budget_is_exceeded_and_every_refusal_has_its_reason(
    fleet: list[TableSummary], budget: list[Limit], by: RankBy
) -> None:
    ranked = rank(fleet, by=by, limits=budget)
    chosen = [entry.summary for entry in ranked if entry.chosen]
    for one in budget:
        assert sum(taken(table, one.resource) for table in chosen) <= one.amount * (1 + 1e-9)
    for entry in ranked:
        idle = entry.summary.off is not None or not entry.summary.input_files
        if idle:
            assert (entry.chosen, entry.reason) == (False, entry.summary.off or NOTHING)
        elif entry.chosen:
            assert entry.reason == WITHIN
        else:
            assert entry.reason.startswith("over the budget (")
            assert any(one.name in entry.reason for one in budget)


@given(fleets)
def test_without_a_budget_all_that_has_something_to_do_is_chosen(fleet: list[TableSummary]) -> None:
    ranked = rank(fleet)
    assert [e.chosen for e in ranked] == [e.summary.off is None and e.summary.input_files > 0 for e in ranked]
    assert sorted((e.chosen for e in ranked), reverse=True) == [e.chosen for e in ranked]  # and comes first


def test_ten_thousand_tables() -> None:
    luck = random.Random(7)
    fleet = [
        summary(f"db.t{n:05d}", gain=luck.random(), files=luck.randrange(200), money=luck.random(), score=luck.random())
        for n in range(10_000)
    ]
    ranked = rank(fleet, limits=[limit(Resource.MONEY, 100.0), limit(Resource.FILES, 50_000)])
    chosen = [entry.summary for entry in ranked if entry.chosen]
    assert sum(table.money for table in chosen) <= 100
    assert sum(table.input_files for table in chosen) <= 50_000
    reached = sum(table.gain_seconds for table in chosen)
    money, files, by_rank = 0.0, 0, 0.0
    for entry in ranked:  # in the order of the ranking, each that still fits
        s = entry.summary
        if s.input_files and money + s.money <= 100 and files + s.input_files <= 50_000:
            money, files, by_rank = money + s.money, files + s.input_files, by_rank + s.gain_seconds
    assert reached >= by_rank > 0


@pytest.mark.parametrize(
    ("by", "order"),
    [
        (RankBy.WORTH, ["a", "c", "b", "d"]),
        (RankBy.HEALTH, ["d", "c", "b", "a"]),
        (RankBy.DEBT, ["b", "d", "a", "c"]),
        (RankBy.GAIN, ["b", "a", "c", "d"]),
        (RankBy.PRICE, ["c", "a", "b", "d"]),
    ],
)
def test_what_comes_first(by: RankBy, order: list[str]) -> None:
    fleet = [
        summary("a", gain=5, money=0.1, score=90, small_files=20),
        summary("b", gain=10, money=5, score=80, small_files=5, delete_records=1000),
        summary("c", gain=1, money=0.05, score=70, small_files=3),
        summary("d", gain=1, files=0, score=10, small_files=100),
    ]
    assert [entry.summary.table for entry in rank(fleet, by=by)] == order


def test_without_prices_work_is_the_price() -> None:
    fleet = [summary("slow", gain=2, seconds=10, money=0), summary("fast", gain=1, seconds=1, money=0)]
    assert [entry.summary.table for entry in rank(fleet)] == ["fast", "slow"]


def test_a_summary_counts_what_the_judgement_chose() -> None:
    files = [data_file(f"s{n}", MB) for n in range(6)] + [
        data_file(f"l{n}", 500 * MB, partition=("d2",)) for n in (1, 2)
    ]
    deletes = [delete_file("del", DeleteKind.POSITION, records=7, referenced="s1")]
    policy = make_policy()
    decisions = decided(make_state(attach(files, deletes), deletes), policy).decisions
    found = summary_of(decisions, policy)
    assert (found.table, found.data_files, found.small_files, found.delete_records) == ("db.events", 8, 6, 7)
    assert (found.input_files, found.input_bytes, found.off) == (6, 6 * MB, None)
    assert (found.gain_seconds, found.seconds) == (decisions.gain_seconds, decisions.seconds)
    off = make_policy(enabled=False)
    assert (summary_of(decisions, off).off or "").startswith("compaction is off for this table")


def test_the_document_adds_up_what_is_chosen() -> None:
    ranked = rank([summary("db.a", files=3), summary("db.b", files=100)], limits=[limit(Resource.FILES, 50)])
    document = Fleet(tables=ranked, failed=[InspectionError(table="db.c", reason="it is gone")]).to_dict()
    assert document["total"]["tables"] == 3
    assert (document["total"]["chosen"], document["total"]["input_files"]) == (1, 3)
    assert document["failed"] == [{"table": "db.c", "reason": "it is gone"}]
    assert {entry["table"]: entry["chosen"] for entry in document["tables"]} == {"db.a": True, "db.b": False}


def test_limits_of_a_request_say_that_they_are_for_all_tables() -> None:
    found = fleet_limits(options({"max_cost": 1.5, "max_bytes": "1GB", "max_duration": "1h"}), "EUR")
    assert [(one.resource, one.amount) for one in found] == [(Resource.BYTES, 1024**3), (Resource.MONEY, 1.5)]
    assert found[1].name == "max_cost 1.50 EUR for all tables"


def test_an_unknown_ranking() -> None:
    with pytest.raises(BadInput, match=r"unknown ranking 'beauty'; there is: worth, health, debt, gain, price"):
        rank_by("beauty")


@pytest.mark.parametrize(
    ("scans_per_day", "doubted"),
    [
        pytest.param(1_000_000, "", id="worth it"),
        pytest.param(
            0.001, "small-files asks for it, auto would leave 2 of 2 partitions alone: not worth it: ", id="not"
        ),
    ],
)
def test_a_ranking_says_what_auto_would_leave_alone(scans_per_day: float, doubted: str) -> None:
    files = [data_file(f"{day}-{n}", MB, partition=(day,)) for day in ("d1", "d2") for n in range(12)]
    state = replace(make_state(files), moments=((1, int(NOW.timestamp() * 1000) - 10**9),))
    policies = [
        make_policy(strategy=strategy, scans_per_day=scans_per_day, reader_parallelism=1, min_file_size="64MB")
        for strategy in ("small-files", "auto")
    ]
    plain, asking = (decided(state, policy) for policy in policies)
    said = doubt(plain, plain.valuation)
    assert said.startswith(doubted)
    assert bool(said) == (not asking.decisions.chosen)
    [entry] = rank([summary_of(plain.decisions, policies[0], doubt=said)])
    assert (entry.chosen, entry.reason) == (True, said or WITHIN)
    reasons = {d.reason.partition(" (")[0] for d in asking.decisions.partitions if not d.chosen}
    assert all(reason in said for reason in reasons)
