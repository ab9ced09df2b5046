"""Which files of a place are worth a look: what stands against any rewrite comes before the strategy."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.strategies.table import STRATEGIES


def choose_files(place: Place, policy: Policy, now: datetime) -> Choice:
    """Which files of a place are worth rewriting, and why, or why none are."""
    if policy.off is not None:
        return Choice(which=Which.NONE, reason=policy.off)
    if place.unasked:
        return Choice(which=Which.NONE, reason=f"not asked for: only partitions like {policy.partition}")
    if place.broken:
        return Choice(which=Which.NONE, reason="refused: a file is live more than once in this snapshot")
    if policy.rewrite_all:
        return Choice(which=Which.ALL, reason="rewrite-all was asked for")
    if place.settled_by is not None:
        reason = f"nothing was written since the run that made snapshot {place.settled_by}"
        return Choice(which=Which.NONE, reason=reason)
    return STRATEGIES[policy.strategy](place, policy, now)
