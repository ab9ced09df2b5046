"""What a strategy asks for although it is not worth it: for rankings of tables, of which only some ask that."""

from icepact.model.decision import Decision, Judgement
from icepact.model.outlook import Outlook
from icepact.model.policy import Policy
from icepact.model.words import counted
from icepact.plan.offers import other_tasks, tasks_of
from icepact.plan.prospect import Prospect
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.worth import worth


def doubt(judgement: Judgement, outlook: Outlook, policy: Policy) -> str:
    """Of what is to be done, how much `auto` would refuse and why, the dearest first; empty if nothing."""
    tasks = tasks_of(judgement.health.places)
    dearest_first = sorted(judgement.chosen, key=lambda decision: (-decision.cost.money, decision.place.name))
    refused = [reason for d in dearest_first if (reason := worth(_prospect(d, tasks), outlook, policy).reason)]
    if not refused:
        return ""
    some = counted(len(judgement.chosen), "partition")
    share = f"{len(refused)} of {some}" if len(judgement.chosen) > 1 else "it"
    return f"{policy.strategy} asks for it, auto would leave {share} alone: {refused[0]}"


def _prospect(decision: Decision, tasks: int) -> Prospect:
    return Prospect(
        place=decision.place,
        choice=Choice(which=Which.NONE, reason=decision.reason),
        files=decision.files,
        bytes=decision.bytes,
        outputs=decision.outputs,
        gain=decision.gain,
        cost=decision.cost,
        other_tasks=other_tasks(tasks, decision.place, decision.bytes),
    )
