"""Inspection: an earlier look at a table, so that the next one costs no more than what has changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from icepact.model.health import Health
from icepact.model.policy import Policy
from icepact.stats.table import FileStats

LastCompacted = Mapping[str, Mapping[str, datetime]]
"""When each partition group was last compacted: by its name, then by tier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """Statistics of a table at one snapshot, and the health that `assess` made of them by a policy."""

    stats: FileStats
    policy: Policy
    last_compacted: LastCompacted
    health: Health
