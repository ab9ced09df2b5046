"""Valuation: what a scan, a request and a second of work are worth in money, and what earlier runs taught."""

from dataclasses import dataclass, field
from datetime import datetime

from icepact.economics.lessons import Lessons

START_PRICE = 0.05 / 3600
"""Of a second on one core, while no prices are configured: five cents an hour."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Valuation:
    """Prices and lessons by which `profitability` weighs the gain of a rewrite against its cost."""

    now: datetime
    """The time as of which it is decided."""
    money_per_scan_second: float = START_PRICE
    """What a second of a reader's core costs, in the currency of the prices."""
    money_per_read: float = 0.0
    """What a request to read costs a reader."""
    money_per_work_second: float = START_PRICE
    """What a second of work costs where a predicted cost tells no money."""
    currency: str = ""
    """Of all of these."""
    lessons: Lessons = field(default_factory=Lessons)
