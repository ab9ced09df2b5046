"""The best candidate of a partition group, or why none is worth it."""

import math
from collections.abc import Iterable, Sequence

from icepact.economics.valuation import Valuation
from icepact.model.health import PartitionGroup
from icepact.model.policy import Policy
from icepact.plan.candidate import Candidate
from icepact.plan.profit import SPLIT, scan_tasks
from icepact.plan.strategies.selection import Selection
from icepact.plan.strategies.table import Strategies


def pick_candidate(
    depths: Sequence[Candidate], valuation: Valuation, policy: Policy, strategies: Strategies
) -> Candidate | str:
    """Of the candidates of a partition group, which are at least one, the one that leaves most of its saving, or the
    reason why none is worth it. Where a strategy does not ask what work is worth, it is the first."""
    useful = [candidate for candidate in depths if candidate.files]
    if not useful:
        return nothing_to_pack(depths[0].selection)
    ask = strategies[policy.strategy].worth
    erases = policy.erase and bool(useful[0].partition_group.facts.all_delete_files)
    if ask is None or policy.rewrite_all or erases:
        return useful[0]
    verdicts = [(ask(candidate, valuation, policy), candidate) for candidate in useful]
    best, candidate = max(verdicts, key=lambda pair: (pair[0].worth, pair[0].net))
    return candidate if best.worth else f"{best.reason} ({candidate.selection.reason})"


def nothing_to_pack(selection: Selection) -> str:
    """Why files that were selected are left alone all the same."""
    return f"packing would not leave fewer files ({selection.reason})"


def asks_for_worth(policy: Policy, strategies: Strategies) -> bool:
    """Whether work is refused that is not worth it."""
    return strategies[policy.strategy].worth is not None and not policy.rewrite_all


def tasks_of(partition_groups: Iterable[PartitionGroup]) -> int:
    """Tasks of a scan of a whole table once it is compact."""
    return sum(scan_tasks(0, group.facts.bytes) for group in partition_groups)


def other_tasks(tasks: int, partition_group: PartitionGroup, size: int) -> int:
    """Those of them that read something else than so many bytes of a partition group."""
    return tasks - scan_tasks(0, partition_group.facts.bytes) + math.ceil((partition_group.facts.bytes - size) / SPLIT)
