"""The services that inspecting, planning and visiting tables need, in one value."""

from dataclasses import dataclass, field

from icepact.iceberg.spark.catalog import SparkCatalog
from icepact.maintain.stats_cache import StatsCache
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.plan.strategies.table import STRATEGIES, Strategies
from icepact.policy.config import Budgets
from icepact.policy.layers import Policies
from icepact.record.store import RecordStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """An open catalog, the record store of its runs, the statistics cache, the policies, budgets and prices of the
    configuration, and the strategies that there are."""

    spark_catalog: SparkCatalog
    store: RecordStore
    cache: StatsCache
    policies: Policies
    budgets: Budgets = field(default_factory=Budgets)
    """Hourly, for the fleet and for namespaces; those of tables are in their policies."""
    prices: Prices = field(default_factory=lambda: Prices.of(DEFAULT_PRESET))
    strategies: Strategies = field(default_factory=lambda: STRATEGIES)
