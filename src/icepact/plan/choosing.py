"""Which files of a place are worth a look: what stands against any rewrite comes before the strategy."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.tier import Tier
from icepact.plan.strategies.choice import Choice, Which
from icepact.plan.strategies.table import STRATEGIES
from icepact.plan.tiers import FEWEST, full_is_owed


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
    entry = STRATEGIES[policy.strategy]
    choice = _as_deep_as_asked(entry.choose(place, policy, now), place, policy)
    deeper = choice.which is Which.ALL and full_is_owed(place) and not _was_due(place, policy)
    may_change = entry.may_change and policy.tier is not Tier.FULL
    if place.settled_by is not None and (place.compacted_last or not may_change) and not deeper:
        reason = f"nothing was written since the run that made snapshot {place.settled_by}"
        return Choice(which=Which.NONE, reason=reason)
    return choice


def _was_due(place: Place, policy: Policy) -> bool:
    """Whether the run that settled a place could have rewritten all of it, had there been anything to gain."""
    if place.settled_at is None:
        return False
    then = STRATEGIES[policy.strategy].choose(place, policy, place.settled_at)
    return _as_deep_as_asked(then, place, policy).which is Which.ALL


def choice_is_enough(choice: Choice, policy: Policy) -> bool:
    """Whether files are rewritten even if neither fewer files nor fewer deletes come of it."""
    return policy.rewrite_all or choice.which is Which.LIGHTEST


def idle_deletes(choice: Choice, place: Place) -> int:
    """Delete files that a choice is made for although they apply to nothing."""
    return place.dangling if choice.which is Which.LIGHTEST else 0


def _as_deep_as_asked(choice: Choice, place: Place, policy: Policy) -> Choice:
    match policy.tier:
        case Tier.FULL if full_is_owed(place) or choice.which is not Which.NONE:
            return Choice(which=Which.ALL, reason="a full rewrite was asked for")
        case Tier.MINOR if choice.which not in (Which.NONE, Which.SMALL, Which.LIGHTEST):
            if place.facts.small_files >= FEWEST:
                return Choice(which=Which.SMALL, reason=f"{choice.reason}; only small files were asked for")
            return Choice(which=Which.NONE, reason=f"{choice.reason}, but only small files were asked for")
        case _:
            return choice
