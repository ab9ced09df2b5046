"""What looking at tables needs."""

from dataclasses import dataclass, field

from icepact.iceberg.lake import Lake
from icepact.maintain.memory import Memory
from icepact.model.config import Budgets
from icepact.model.policies import Policies
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.record.store import RecordStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Means:
    """A catalog with what is remembered and wished for."""

    lake: Lake
    store: RecordStore
    memory: Memory
    policies: Policies
    budgets: Budgets = field(default_factory=Budgets)
    prices: Prices = field(default_factory=lambda: Prices.of(DEFAULT_PRESET))
