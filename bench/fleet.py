"""Ranking a fleet of described tables, from their judgements to what a budget allows."""

import random
import statistics
import time

from bench.result import Result
from icepact.model.cost import Cost, Gain
from icepact.model.decision import Decision, TableDecisions
from icepact.model.effort import Estimate
from icepact.model.fleet import RankBy, summary_of
from icepact.model.health import Facts, Health, PartitionGroup, Score
from icepact.model.limits import Limit, Resource
from icepact.plan.fleet import rank
from icepact.policy.options import Options
from icepact.policy.resolve import resolve

TABLES = 10_000
PARTITIONS = 5
BAR = 2.0


def fleet(rounds: int) -> list[Result]:
    """Every round ranks them once by each measure, within budgets of money, bytes and files."""
    tables = [_decisions(number) for number in range(TABLES)]
    policy = resolve(Options(), {}, Options())
    limits = [
        Limit(resource=Resource.MONEY, amount=TABLES / 100, name="money"),
        Limit(resource=Resource.BYTES, amount=TABLES * 1e9, name="bytes"),
        Limit(resource=Resource.FILES, amount=TABLES * 20, name="files"),
    ]
    seconds = []
    chosen = 0
    for _ in range(rounds):
        for by in RankBy:
            started = time.monotonic()
            found = rank([summary_of(decisions, policy) for decisions in tables], by=by, limits=limits)
            seconds.append(time.monotonic() - started)
            chosen = sum(entry.chosen for entry in found)
    detail = f"{min(seconds):.2f}-{max(seconds):.2f} s; three budgets allow {chosen:,} of them"
    return [Result(f"ranking {TABLES:,} tables", statistics.median(seconds), "s", BAR, detail)]


def _decisions(number: int) -> TableDecisions:
    luck = random.Random(number)
    facts = Facts(
        data_files=100,
        small_files=luck.randrange(100),
        mergeable_files=50,
        bytes=luck.randrange(10**10),
        rows=10**6,
        row_groups=100,
        delete_files={},
        delete_records={"position": luck.randrange(1000)},
    )
    decisions = [_decision(f"day={day}", facts, luck) for day in range(PARTITIONS)]
    health = Health(
        table=f"db.t{number:05d}",
        branch="main",
        snapshot_id=1,
        format_version=2,
        threshold=384 * 1024**2,
        target=512 * 1024**2,
        facts=facts,
        score=Score(value=round(100 * luck.random(), 1), parts={}),
        dangling={},
        manifests=1,
        snapshots=1,
        partitions=(),
        partition_groups=[decision.partition_group for decision in decisions],
    )
    return TableDecisions(health=health, partitions=decisions)


def _decision(name: str, facts: Facts, luck: random.Random) -> Decision:
    seconds = 10 * luck.random()
    return Decision(
        partition_group=PartitionGroup(name=name, keys=(), facts=facts),
        chosen=luck.random() < 0.5,
        reason="",
        files=luck.randrange(2, 50),
        bytes=luck.randrange(10**9),
        outputs=1,
        gain=Gain(files=10, scan_seconds=luck.random()),
        cost=Cost(
            seconds=Estimate(likely=seconds),
            requests=100,
            money=Estimate(likely=luck.random() / 50),
        ),
    )
