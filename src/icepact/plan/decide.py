"""Decisions: which partition groups to compact, with gain and price, from file statistics alone.

Health, fleet and plan go by the same decisions. Files are listed only for what is chosen; a plan then puts them into
groups as they were counted here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import numpy as np

from icepact.economics.speeds import Rates
from icepact.economics.valuation import Valuation
from icepact.model.decision import Decision, TableDecisions
from icepact.model.health import Health, PartitionGroup
from icepact.model.policy import Policy
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.plan.candidate import Candidate
from icepact.plan.file_columns import columns_of_stats
from icepact.plan.groups import Grouping, candidate_of
from icepact.plan.pick import other_tasks, pick_candidate, tasks_of
from icepact.plan.select import select_files
from icepact.plan.strategies.selection import FileSelector, Selection
from icepact.plan.strategies.table import STRATEGIES, Strategies
from icepact.stats.table import FileStats
from icepact.stats.totals import PartitionTotals


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionMemo:
    """Decisions about a table with all that they depend on, so that the next ones are made of what has changed."""

    decisions: TableDecisions
    policy: Policy
    rates: Rates
    prices: Prices
    valuation: Valuation
    candidates: Mapping[tuple[int, FileSelector], Candidate]
    """Candidates by the identity of their partition group, and by how deep they go."""
    picked: Mapping[str, Candidate]
    """What is chosen, by the name of its partition group."""


def decide(
    health: Health,
    stats: FileStats,
    policy: Policy,
    rates: Rates | None = None,
    *,
    prices: Prices | None = None,
    valuation: Valuation,
    before: DecisionMemo | None = None,
    strategies: Strategies = STRATEGIES,
) -> DecisionMemo:
    """Decide for each partition group what is worth doing.

    `before` are earlier decisions: if they were made by the same policy, rates and prices, partition groups that have
    not changed since are not packed again.
    """
    rates = rates or Rates()
    paying = (prices or Prices.of(DEFAULT_PRESET)).for_table(stats.pin.properties)
    asked = (policy.without_budgets, rates, paying, _readers_pay(valuation))
    same = before is not None and asked == (
        *(before.policy.without_budgets, before.rates, before.prices),
        _readers_pay(before.valuation),
    )
    known = before.candidates if before is not None and same else {}
    selected = [(group, select_files(group, policy, valuation.now, strategies)) for group in health.partition_groups]
    wanted = [(group, depth) for group, selection in selected for depth in selection.depths]
    keys = [(id(group), depth.which) for group, depth in wanted]
    fresh = [pair for pair, key in zip(wanted, keys, strict=True) if key not in known]
    candidates = {key: known[key] for key in keys if key in known}
    if fresh:
        candidates |= _candidates(fresh, stats, Grouping(stats.pin, policy, rates, paying, valuation))
    tasks = tasks_of(health.partition_groups)
    partitions: list[Decision] = []
    picked: dict[str, Candidate] = {}
    for group, selection in selected:
        found = [(depth, candidates[id(group), depth.which]) for depth in selection.depths]
        depths = [
            replace(one, selection=depth, other_tasks=other_tasks(tasks, group, one.bytes)) for depth, one in found
        ]
        best = pick_candidate(depths, valuation, policy, strategies) if depths else selection.reason
        if isinstance(best, Candidate):
            picked[group.name] = best
        partitions.append(_decision(group, selection, best))
    return DecisionMemo(
        decisions=TableDecisions(health=health, partitions=partitions),
        policy=policy,
        rates=rates,
        prices=paying,
        valuation=valuation,
        candidates=candidates,
        picked=picked,
    )


def _readers_pay(valuation: Valuation) -> tuple[float, ...]:
    """What it is weighed against that deletes stay."""
    return valuation.money_per_scan_second, valuation.money_per_read, valuation.money_per_work_second


def _decision(partition_group: PartitionGroup, selection: Selection, best: Candidate | str) -> Decision:
    if isinstance(best, str):
        return Decision(partition_group=partition_group, chosen=False, reason=best, tier=selection.which.tier)
    return Decision(
        partition_group=partition_group,
        chosen=True,
        reason=best.selection.reason,
        tier=best.selection.which.tier,
        files=best.files,
        bytes=best.bytes,
        outputs=best.outputs,
        gain=best.gain,
        cost=best.cost,
    )


def _candidates(
    fresh: Sequence[tuple[PartitionGroup, Selection]], stats: FileStats, grouping: Grouping
) -> Mapping[tuple[int, FileSelector], Candidate]:
    """Candidates of some partition groups, by the identity of the group and by how deep they go."""
    part = stats.only({key for group, _ in fresh for key in group.keys})
    totals = PartitionTotals(part)
    candidates: dict[tuple[int, FileSelector], Candidate] = {}
    for partition_group, some in groupby(fresh, key=itemgetter(0)):
        files = columns_of_stats(part, np.concatenate([totals.files(part.index[key]) for key in partition_group.keys]))
        for _, selection in some:
            groups = grouping.groups(partition_group, selection, files)
            candidates[id(partition_group), selection.which] = candidate_of(partition_group, selection, groups)
    return candidates
