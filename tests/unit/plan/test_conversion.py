"""Whether deletes are converted beside the groups of a plan: who asks for it, and what it must be worth."""

from datetime import UTC, datetime
from typing import Any

import pytest

from icepact.economics.valuation import Valuation
from icepact.model.cost import Cost
from icepact.model.delete_files import ConvertDeletes, DeleteTotals
from icepact.model.effort import Estimate
from icepact.model.files import DeleteKind
from icepact.model.health import Facts
from icepact.model.limits import Demand, Limit, Resource
from icepact.plan.conversion import may_convert, why_not_converted
from tests.support.states import make_policy

VALUATION = Valuation(now=datetime(2026, 1, 1, tzinfo=UTC), money_per_scan_second=1.0, money_per_work_second=1.0)


def facts(**counts: int) -> Facts:
    nothing: dict[str, Any] = dict.fromkeys(("small_files", "mergeable_files", "bytes", "rows", "row_groups"), 0)
    return Facts(**nothing, data_files=10, delete_files=counts, delete_records={})


def step(*, saves: float, seconds: float = 10.0) -> ConvertDeletes:
    return ConvertDeletes(
        branch="main",
        snapshot_id=1,
        into="vectors",
        converted=DeleteTotals(equality=1, records=5),
        idle=DeleteTotals(),
        data_files=3,
        data_bytes=30,
        rows=300,
        reason="",
        scan_seconds=saves,
        cost=Cost(seconds=Estimate(low=seconds, likely=seconds, high=seconds)),
    )


@pytest.mark.parametrize(
    ("given", "kinds", "wanted"),
    [
        ({"strategy": "deletes", "deletes": "carry"}, {"equality": 1}, True),
        ({"strategy": "auto", "deletes": "auto"}, {"position": 3}, True),
        ({"strategy": "cost-optimized", "deletes": "auto"}, {"equality": 1, "dv": 2}, True),
        ({"strategy": "deletes", "deletes": "carry"}, {"dv": 3}, False),
        ({"strategy": "deletes", "deletes": "carry"}, {}, False),
        ({"strategy": "small-files", "deletes": "carry"}, {"equality": 1}, False),
        ({"strategy": "deletes"}, {"equality": 1}, False),
        ({"strategy": "deletes", "deletes": "carry", "erase": True}, {"equality": 1}, False),
        ({"strategy": "deletes", "deletes": "carry", "rewrite_all": True}, {"equality": 1}, False),
        ({"strategy": "deletes", "deletes": "carry", "where": "id = 1"}, {"equality": 1}, False),
        ({"strategy": "deletes", "deletes": "carry", "partition": "day=1"}, {"equality": 1}, False),
        ({"strategy": "deletes", "deletes": "carry", "snapshot_id": 1}, {"equality": 1}, False),
    ],
)
def test_who_asks_for_it(given: dict[str, Any], kinds: dict[str, int], wanted: bool) -> None:
    assert {kind.value for kind in DeleteKind} >= kinds.keys()
    assert may_convert(make_policy(**given), facts(**kinds)) is wanted


def test_it_must_be_worth_its_price_unless_it_is_what_was_asked_for() -> None:
    auto = make_policy(strategy="auto", deletes="auto", scans_per_day=10, horizon="7d")
    asked = make_policy(strategy="deletes", deletes="carry", scans_per_day=10, horizon="7d")
    enough, less = step(saves=10 / 69.9), step(saves=10 / 70.1)
    assert why_not_converted(enough, auto, VALUATION, [], Demand()) == ""
    assert why_not_converted(less, auto, VALUATION, [], Demand()).startswith("not worth it: scans would save")
    assert why_not_converted(less, asked, VALUATION, [], Demand()) == ""


def test_budgets_hold_for_groups_and_conversion_together() -> None:
    asked = make_policy(strategy="deletes", deletes="carry")
    limit = Limit(resource=Resource.SECONDS, amount=15.0, name="max_duration 15 s")
    assert why_not_converted(step(saves=1), asked, VALUATION, [limit], Demand(seconds=5)) == ""
    over = why_not_converted(step(saves=1), asked, VALUATION, [limit], Demand(seconds=5.1))
    assert over == "over the budget (max_duration 15 s)"
