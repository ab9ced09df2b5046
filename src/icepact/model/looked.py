"""An earlier look at a table, so that the next one costs no more than what has changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from icepact.model.census import Census
from icepact.model.health import Health
from icepact.model.policy import Policy

Clocks = Mapping[str, Mapping[str, datetime]]
"""By the name of a place: when it was last compacted, by tier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What was seen, and how it was found to be."""

    census: Census
    policy: Policy
    clocks: Clocks
    health: Health
