"""Rewrite what is due, if it is worth it after all that was learned from earlier runs."""

from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.plan.strategies.choice import Choice
from icepact.plan.tiers import due


def auto(place: Place, policy: Policy, now: datetime) -> Choice:
    """What the tiers say is due."""
    return due(place, policy, now)
