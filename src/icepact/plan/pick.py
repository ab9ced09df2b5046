"""The best candidate of a partition group, or why none is worth it."""

import math
from collections.abc import Iterable, Sequence

from icepact.economics.valuation import Valuation
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.candidate import Candidate
from icepact.plan.profit import SPLIT, scan_tasks
from icepact.plan.strategies.table import Strategies


def pick_candidate(
    candidates: Sequence[Candidate], valuation: Valuation, policy: Policy, strategies: Strategies
) -> int | str:
    """The number of the one that leaves most of its saving, or the reason why none is worth it. Where a strategy does
    not ask what work is worth, it is the first."""
    ask = strategies[policy.strategy].worth
    if ask is None or policy.rewrite_all:
        return 0
    verdicts = [ask(candidate, valuation, policy) for candidate in candidates]
    good = [at for at, verdict in enumerate(verdicts) if verdict.worth]
    if good:
        return max(good, key=lambda at: verdicts[at].net)
    best = max(range(len(candidates)), key=lambda at: verdicts[at].net)
    return f"{verdicts[best].reason} ({candidates[best].selection.reason})"


def asks_for_worth(policy: Policy, strategies: Strategies) -> bool:
    """Whether work is refused that is not worth it."""
    return strategies[policy.strategy].worth is not None and not policy.rewrite_all


def tasks_of(partition_groups: Iterable[PartitionGroup]) -> int:
    """Tasks of a scan of a whole table once it is compact."""
    return sum(scan_tasks(0, group.facts.bytes) for group in partition_groups)


def other_tasks(tasks: int, partition_group: PartitionGroup, size: int) -> int:
    """Those of them that read something else than so many bytes of a partition group."""
    return tasks - scan_tasks(0, partition_group.facts.bytes) + math.ceil((partition_group.facts.bytes - size) / SPLIT)
