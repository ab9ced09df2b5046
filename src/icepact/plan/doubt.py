"""Doubt: what a strategy asks for although `auto` would refuse it. For rankings of tables."""

from icepact.economics.valuation import Valuation
from icepact.model.decision import Decision, TableDecisions
from icepact.model.formatting import plural
from icepact.model.policy import Policy
from icepact.plan.candidate import Candidate
from icepact.plan.pick import other_tasks, tasks_of
from icepact.plan.profit import profitability
from icepact.plan.strategies.selection import FileSelector, Selection


def doubt(decisions: TableDecisions, valuation: Valuation, policy: Policy) -> str:
    """How much of what is chosen `auto` would refuse, and why the dearest part; empty if nothing."""
    tasks = tasks_of(decisions.health.partition_groups)
    dearest_first = sorted(
        decisions.chosen, key=lambda decision: (-decision.cost.money.likely, decision.partition_group.name)
    )
    refused = [
        reason for d in dearest_first if (reason := profitability(_candidate(d, tasks), valuation, policy).reason)
    ]
    if not refused:
        return ""
    some = plural(len(decisions.chosen), "partition")
    share = f"{len(refused)} of {some}" if len(decisions.chosen) > 1 else "it"
    return f"{policy.strategy} asks for it, auto would leave {share} alone: {refused[0]}"


def _candidate(decision: Decision, tasks: int) -> Candidate:
    return Candidate(
        partition_group=decision.partition_group,
        selection=Selection(which=FileSelector.NONE, reason=decision.reason),
        files=decision.files,
        bytes=decision.bytes,
        outputs=decision.outputs,
        gain=decision.gain,
        cost=decision.cost,
        other_tasks=other_tasks(tasks, decision.partition_group, decision.bytes),
    )
