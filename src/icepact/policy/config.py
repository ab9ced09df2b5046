"""The configuration: one model, filled from flags, `ICEPACT_*` variables and `icepact.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.policy.options import Options
from icepact.policy.prices import ConfiguredPrices
from icepact.policy.units import Money, OptionalSeconds, OptionalSize, Seconds
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


class ServiceSettings(StrictModel):
    """How `icepact serve` and `icepact worker` run."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address that the API listens on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Its port; 0 for a free one.")
    unprotected: bool = Field(
        default=False,
        description="Listen on other addresses than loopback without keys: something in front keeps strangers out.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Host names that requests may be sent to; on loopback its own ones always are."
    )
    cors_origins: tuple[str, ...] = Field(
        default=(), description="Origins whose pages may call the API, such as https://tools.example; none."
    )
    requests_per_second: float = Field(
        default=50.0, gt=0, le=1e6, description="Requests of one key, over a while; four times as many at once."
    )
    workers: int = Field(default=1, ge=0, le=64, description="Workers that `serve` starts.")
    grace: Seconds = Field(
        default=30.0, description="How long a job that is under way may take to end once its worker is to stop."
    )
    lease: Seconds = Field(
        default=60.0,
        ge=10.0,
        description="A worker that is not heard of for so long is taken for dead, and its job back.",
    )
    memory_limit: OptionalSize = Field(
        default=None,
        description="A worker whose processes hold more memory makes room for a new one after its job; null for "
        "three quarters of the machine's memory, shared by its workers.",
    )
    max_jobs: int | None = Field(
        default=None, ge=1, description="After so many jobs a worker makes room for a new one; null for never."
    )
    keep_jobs: Seconds = Field(default=30 * 86400.0, description="How long jobs that have ended are kept.")
    keep_plans: Seconds = Field(default=7 * 86400.0, description="How long plans that jobs have made are kept.")


class TelemetrySettings(StrictModel):
    """What can be watched, and where it goes. Variables of OpenTelemetry (`OTEL_*`) come before this."""

    traces: str | None = Field(
        default=None, repr=False, description="Address of an OpenTelemetry collector (OTLP/HTTP); null for no traces."
    )
    traces_headers: Mapping[str, Text] = Field(
        default_factory=dict, repr=False, description="Headers for the collector, such as a key."
    )
    service_name: str = Field(default="icepact", min_length=1, description="The name of the service in traces.")
    logs: Literal["text", "json"] = Field(default="text", description="Logs for people, or JSON on each line.")
    metrics_port: int | None = Field(
        default=None, ge=0, le=65535, description="Where `icepact worker` serves its metrics; 0 for a free port."
    )
    metrics_host: str = Field(default="127.0.0.1", min_length=1, description="The address that it listens on for them.")
    metrics_tables: int = Field(
        default=200, ge=0, description="So many tables have gauges of their own; the others are put together."
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
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings, description="Traces, metrics and logs.")
    budgets: Budgets = Field(default_factory=Budgets, description="Hourly budgets of namespaces and of the fleet.")
    service: ServiceSettings = Field(default_factory=ServiceSettings, description="How the service runs.")
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
