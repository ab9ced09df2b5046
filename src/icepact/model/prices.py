"""What work costs in money: presets in one table, and everything in them can be overridden."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from icepact.model.documents import Document

GB = 1024**3
TB = 1024**4
DEFAULT_PRESET = "s3-ec2"
SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
"""The table property that says how long snapshots, and with them replaced files, are kept."""
_SECONDS_PER_HOUR = 3600
_MS_PER_DAY = 24 * 3600 * 1000
_DAYS_PER_MONTH = 30

PRESETS: Mapping[str, Mapping[str, float]] = {
    "s3-ec2": {
        "compute_per_core_hour": 0.048,
        "reads_per_thousand": 0.0004,
        "writes_per_thousand": 0.005,
        "storage_per_gb_month": 0.023,
    },
    "gcs": {
        "compute_per_core_hour": 0.0486,
        "reads_per_thousand": 0.0004,
        "writes_per_thousand": 0.005,
        "storage_per_gb_month": 0.020,
    },
    "azure": {
        "compute_per_core_hour": 0.048,
        "reads_per_thousand": 0.0005,
        "writes_per_thousand": 0.0065,
        "storage_per_gb_month": 0.018,
    },
    "on-premise": {
        "compute_per_core_hour": 0.020,
        "reads_per_thousand": 0.0,
        "writes_per_thousand": 0.0,
        "storage_per_gb_month": 0.010,
    },
}
"""List prices without discounts, in US dollars: general-purpose machines on demand, standard storage."""

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices(Document):
    """What is paid for compute, requests and storage."""

    preset: str
    """What values that were not given were taken from."""
    compute_per_core_hour: Price
    """One core for one hour."""
    reads_per_thousand: Price
    """A thousand requests that read."""
    writes_per_thousand: Price
    """A thousand requests that write."""
    storage_per_gb_month: Price
    """A GB (2^30 bytes) for a month of 30 days."""
    kept_days: Price = 5.0
    """How long replaced files stay, where the table does not say it."""
    currency: Annotated[str, Field(min_length=1, max_length=8)] = "USD"
    """Shown behind amounts."""

    @staticmethod
    def of(preset: str) -> "Prices":
        """A preset as it is."""
        values: Mapping[str, Any] = PRESETS[preset]
        return Prices(preset=preset, **values)

    def for_table(self, properties: Mapping[str, str]) -> "Prices":
        """With the time for which this table keeps replaced files."""
        kept = properties.get(SNAPSHOT_AGE, "")
        return replace(self, kept_days=int(kept) / _MS_PER_DAY) if kept.isdigit() else self

    # -- what something costs ---------------------------------------------------------------------

    def compute(self, seconds: float) -> float:
        """Work on one core."""
        return seconds / _SECONDS_PER_HOUR * self.compute_per_core_hour

    def requests(self, *, reads: float, writes: float) -> float:
        """Requests to an object store."""
        return (reads * self.reads_per_thousand + writes * self.writes_per_thousand) / 1000

    def storage(self, size: float) -> float:
        """Files that were replaced, until they expire."""
        return size / GB * self.storage_per_gb_month * self.kept_days / _DAYS_PER_MONTH
