"""The configuration: one model, filled from flags, `ICEPACT_*` variables and `icepact.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.policy.options import Options
from icepact.policy.prices import ConfiguredPrices
from icepact.policy.units import Money, OptionalSeconds, OptionalSize
from icepact.policy.validation import StrictModel


def _text(value: Any) -> Any:
    """YAML writes true and 5 where Iceberg wants "true" and "5"."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(_text)]


class SparkSettings(StrictModel):
    """How a Spark session of our own is started."""

    master: str = "local[*,4]"
    conf: Mapping[str, Text] = Field(default_factory=dict, repr=False)


class Allowance(StrictModel):
    """What may be spent in an hour."""

    max_cost_per_hour: Money = None
    max_bytes_per_hour: OptionalSize = None


class Budgets(StrictModel):
    """Hourly budgets of many tables together; that of one table is an option."""

    fleet: Allowance = Field(default_factory=Allowance, description="All tables of the catalog.")
    namespaces: Mapping[str, Allowance] = Field(
        default_factory=dict, description="Tables of a namespace, and of those inside it."
    )


class Config(StrictModel):
    """`icepact.yaml`. What may hold a secret is never printed."""

    catalog: str | None = Field(default=None, description="The catalog that is used if none is named.")
    catalog_uri: str | None = Field(default=None, repr=False, description="Where that catalog is.")
    catalog_type: str | None = Field(default=None, description="Its type, if the URI does not tell.")
    catalog_timeout: OptionalSeconds = Field(
        default=60.0, description="How long a call to a REST or JDBC catalog may take, such as 60s; null for no limit."
    )
    catalog_properties: Mapping[str, Text] = Field(
        default_factory=dict, repr=False, description="Properties of that catalog, over all others."
    )
    warehouse: str | None = Field(default=None, description="Where its tables are.")
    namespace: str = Field(
        default="default", min_length=1, description="The namespace of tables that are named without one."
    )
    state: Path | None = Field(default=None, description="Folder of the record store's SQLite file.")
    store: str | None = Field(
        default=None,
        repr=False,
        description="Another record store: memory, or an address such as postgresql://user@host/database.",
    )
    catalogs: Mapping[str, Mapping[str, Text]] = Field(
        default_factory=dict, repr=False, description="Catalogs by name, with Iceberg's or PyIceberg's properties."
    )
    spark: SparkSettings = Field(default_factory=SparkSettings)
    policy: Options = Field(default_factory=Options, description="Options for all tables.")
    policies: Path | None = Field(default=None, description="A policy file: wishes by table.")
    budgets: Budgets = Field(default_factory=Budgets, description="Hourly budgets of namespaces and of the fleet.")
    prices: ConfiguredPrices = Field(
        default_factory=lambda: Prices.of(DEFAULT_PRESET), description="What work costs: a preset, or one with changes."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """One catalog: its name and Iceberg's properties for it."""

    name: str
    """In Spark, and in patterns of policies."""
    properties: Mapping[str, str] = field(repr=False)
    """Secrets may be among them: never printed."""
    embedded: Path | None = None
    """The warehouse folder, if this is the embedded SQLite catalog."""
    location: str | None = None
    """Where it is, if nobody has given it a name: two such catalogs have the same name in Spark."""

    @property
    def recorded_as(self) -> str:
        """The name of its runs in the record store."""
        return self.location or self.name
