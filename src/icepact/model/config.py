"""The configuration: one model, filled from flags, `ICEPACT_*` variables and `icepact.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from icepact.model.policy import Money, Options
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.sizes import OptionalSize


def _text(value: Any) -> Any:
    """YAML writes true and 5 where Iceberg wants "true" and "5"."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(_text)]


class SparkSettings(BaseModel):
    """How a Spark session of our own is started."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    master: str = "local[*,4]"
    conf: Mapping[str, Text] = Field(default_factory=dict, repr=False)


class Allowance(BaseModel):
    """What may be spent in an hour."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    max_cost_per_hour: Money = None
    max_bytes_per_hour: OptionalSize = None


class Budgets(BaseModel):
    """Hourly budgets of many tables together; that of one table is an option."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    fleet: Allowance = Field(default_factory=Allowance, description="All tables of the catalog.")
    namespaces: Mapping[str, Allowance] = Field(
        default_factory=dict, description="Tables of a namespace, and of those inside it."
    )


class Config(BaseModel):
    """`icepact.yaml`. What may hold a secret is never printed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    catalog: str | None = Field(default=None, description="The catalog that is used if none is named.")
    catalog_uri: str | None = Field(default=None, repr=False, description="Where that catalog is.")
    catalog_type: str | None = Field(default=None, description="Its type, if the URI does not tell.")
    warehouse: str | None = Field(default=None, description="Where its tables are.")
    state: Path | None = Field(default=None, description="Folder of the record store's SQLite file.")
    store: str | None = Field(
        default=None, repr=False, description="Another record store: memory, or postgresql://user@host/database."
    )
    catalogs: Mapping[str, Mapping[str, Text]] = Field(
        default_factory=dict, repr=False, description="Catalogs by name, with Iceberg's or PyIceberg's properties."
    )
    spark: SparkSettings = Field(default_factory=SparkSettings)
    policy: Options = Field(default_factory=Options, description="Options for all tables.")
    policies: Path | None = Field(default=None, description="A policy file: wishes by table.")
    budgets: Budgets = Field(default_factory=Budgets, description="Hourly budgets of namespaces and of the fleet.")
    prices: Prices = Field(
        default_factory=lambda: Prices.of(DEFAULT_PRESET), description="What work costs: a preset, or one with changes."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """One catalog, settled: its name and Iceberg's properties for it."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    """Secrets may be among them: never printed."""
    embedded: Path | None = None
    """The warehouse folder, if this is the embedded SQLite catalog."""
