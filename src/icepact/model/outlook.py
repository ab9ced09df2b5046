"""What lies ahead of a table, as far as it can be known: the time, what scanning costs, and what was learned."""

from dataclasses import dataclass, field
from datetime import datetime

from icepact.model.lessons import Lessons

START_PRICE = 0.05 / 3600
"""Of a second on one core, while no prices are configured: five cents an hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """By what gains are weighed against their price."""

    now: datetime
    money_per_scan_second: float = START_PRICE
    """What a second of a reader's core costs, in the currency of the prices."""
    money_per_read: float = 0.0
    """What a request to read costs a reader."""
    money_per_work_second: float = START_PRICE
    """What a second of work costs where a predicted cost tells no money."""
    currency: str = ""
    """Of all of these."""
    lessons: Lessons = field(default_factory=Lessons)
