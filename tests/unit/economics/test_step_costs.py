"""What steps of housekeeping cost: predicted, and by what was measured."""

from dataclasses import replace

import pytest

from icepact.economics.steps import priced, step_cost
from icepact.model.cost import Cost
from icepact.model.effort import Effort, Estimate
from icepact.model.expiry import ExpireResult, ExpireSnapshots
from icepact.model.housekeeping import FileTotals
from icepact.model.manifests import ManifestsResult, RewriteManifests
from icepact.model.orphans import OrphansResult, RemoveOrphans
from icepact.model.outcome import ChoreResult
from icepact.model.plan import Chore
from icepact.model.prices import Prices
from tests.support.records import NOON

PRICES = replace(
    Prices.of("s3-ec2"), compute_per_core_hour=3600.0, reads_per_thousand=1_000.0, writes_per_thousand=10_000.0
)
"""A second costs 1, a request that reads 1, and one that writes 10."""
FILES = FileTotals(data_files=2_490, manifests=7, manifest_lists=3, bytes=10**9)
EXPIRE = ExpireSnapshots(
    snapshot_ids=(1,),
    older_than=NOON,
    retain_last=1,
    as_of=NOON,
    oldest=NOON,
    newest=NOON,
    files=FILES,
    reason="old",
)
ORPHANS = RemoveOrphans(
    older_than=NOON, locations=("s3://b/t",), paths=(), files=FileTotals(other_files=10), listed=4_001, reason="lost"
)
MANIFESTS = RewriteManifests(
    branch="main",
    snapshot_id=1,
    target_bytes=1,
    least=4,
    groups=(),
    reason="many",
    cost=Cost(seconds=Estimate(likely=2.0, low=1.0, high=4.0), requests=9, write_requests=4),
)


@pytest.mark.parametrize(
    ("step", "requests", "writes", "money"),
    [
        pytest.param(EXPIRE, 13, 0, 13 + 0.6, id="manifests and lists are read, 1,000 files go with a request"),
        pytest.param(ORPHANS, 6, 5, 1 + 50 + 0.102, id="and 1,000 are listed with one"),
        pytest.param(MANIFESTS, 9, 4, 5 + 40 + 2.0, id="as the step says"),
    ],
)
def test_what_a_step_is_predicted_to_cost(step: Chore, requests: int, writes: int, money: float) -> None:
    cost = priced(PRICES, step, local=False).cost
    assert (cost.requests, cost.write_requests, cost.money.likely) == (requests, writes, pytest.approx(money))
    at_home = priced(PRICES, step, local=True).cost
    assert (at_home.requests, at_home.write_requests) == (0, 0)
    assert at_home.money.likely == pytest.approx(at_home.seconds.likely)


@pytest.mark.parametrize(
    ("step", "result", "effort", "money"),
    [
        pytest.param(
            EXPIRE,
            ExpireResult(snapshots_expired=1, files=FileTotals(data_files=1_500, manifests=1)),
            Effort(seconds=5.0, requests=3),
            8.0,
            id="by what was deleted, not by what was planned",
        ),
        pytest.param(
            ORPHANS,
            OrphansResult(listed=4_001, needed_again=10),
            Effort(seconds=5.0, requests=5, write_requests=5),
            55.0,
            id="storage was listed for nothing",
        ),
        pytest.param(
            MANIFESTS,
            ManifestsResult(snapshot_id=3),
            Effort(seconds=5.0, requests=9, write_requests=4),
            50.0,
            id="done",
        ),
        pytest.param(MANIFESTS, ManifestsResult(reason="gone"), Effort(seconds=5.0, requests=5), 10.0, id="only read"),
        pytest.param(MANIFESTS, None, Effort(seconds=5.0), 5.0, id="failed on the way"),
    ],
)
def test_what_a_step_took(step: Chore, result: ChoreResult | None, effort: Effort, money: float) -> None:
    predicted = priced(PRICES, step, local=False)
    took = step_cost(PRICES, predicted, result, seconds=5.0, local=False)
    assert (took.kind, took.finished, took.effort) == (step.kind, result is not None, effort)
    assert took.money == pytest.approx(money)
    assert (took.predicted_money, took.predicted_seconds) == (predicted.cost.money.likely, predicted.cost.seconds)
    at_home = step_cost(PRICES, predicted, result, seconds=5.0, local=True)
    assert (at_home.effort, at_home.money) == (Effort(seconds=5.0), 5.0)
