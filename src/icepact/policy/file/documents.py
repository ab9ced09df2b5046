"""The shapes that policies are written in: our own, the custom resource `CompactionPolicy`, and `iceberg` as JSON."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from icepact.model.errors import BadInput
from icepact.model.policy import Codec
from icepact.policy.options import Options
from icepact.policy.schedules import Schedule, parse_schedule
from icepact.policy.units import OptionalSeconds
from icepact.policy.validation import CONFLICT, StrictModel, guess, refuse_unknown
from icepact.policy.windows import Windows, parse_windows, parse_zone


class Profile(StrEnum):
    """Where icepact runs."""

    DEVELOPMENT = "development"
    STAGING = "staging"
    PRODUCTION = "production"


def _schedule(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_schedule(value)
    except BadInput as error:
        raise ValueError(str(error).removeprefix("schedule ")) from None


def _windows(value: Any) -> Any:
    if not isinstance(value, str | list | tuple):
        return value
    try:
        return parse_windows(value)
    except BadInput as error:
        raise ValueError(str(error)) from None


def _zone(value: Any) -> Any:
    if isinstance(value, str):
        try:
            parse_zone(value)
        except BadInput as error:
            raise ValueError(str(error)) from None
    return value


OptionalSchedule = Annotated[Schedule | None, BeforeValidator(_schedule)]
OptionalWindows = Annotated[Windows | None, BeforeValidator(_windows)]


class ScheduledOperation(StrEnum):
    """What is done with a table whose time has come."""

    MAINTAIN = "maintain"
    COMPACT = "compact"
    HEALTH = "health"
    """It is inspected, and nothing else."""


class ScheduleOptions(StrictModel):
    """What is wanted of a table beyond one run."""

    schedule: Annotated[
        OptionalSchedule, Field(description="When the table is looked at: a cron expression, or a time as in 6h.")
    ] = None
    check_interval: Annotated[
        int | None, Field(ge=1, description="After so many commits of writers the table is looked at, too.")
    ] = None
    commit_delay: Annotated[
        OptionalSeconds, Field(description="It is not before writers have been still for so long; 1m if not given.")
    ] = None
    operation: Annotated[
        ScheduledOperation | None,
        Field(description="What is done then: maintain, compact or health; maintain if not given."),
    ] = None
    timezone: Annotated[
        str | None,
        BeforeValidator(_zone),
        Field(description="Zone of cron expressions, windows and blackouts; UTC if not given."),
    ] = None
    windows: Annotated[
        OptionalWindows, Field(description="Nothing is begun by itself outside these spans, such as 22:00-06:00.")
    ] = None
    blackouts: Annotated[OptionalWindows, Field(description="Nothing is begun by itself in these spans.")] = None
    jitter: Annotated[
        OptionalSeconds, Field(description="A table's cron fires up to so much later, always by the same time.")
    ] = None
    slack: Annotated[
        OptionalSeconds, Field(description="What is due may wait so long for a time at which writers are quiet.")
    ] = None
    priority: Annotated[
        int | None, Field(ge=-100, le=100, description="Jobs with a greater one come first; 0 if not given.")
    ] = None
    resources: Annotated[
        Mapping[str, Any] | None, Field(description="What a run on Kubernetes may take, in Kubernetes' words.")
    ] = None


class _Suspended(ScheduleOptions):
    """A layer that can be switched off in two spellings."""

    suspend: Annotated[bool | None, Field(description="True: as enabled: false.")] = None

    @model_validator(mode="after")
    def _one_way(self) -> "_Suspended":
        if self.suspend is not None and getattr(self, "enabled", None) is not None:
            raise PydanticCustomError(CONFLICT, "it is given beside enabled: keep one of them", {"key": "suspend"})
        return self


class PolicyOptions(_Suspended, Options):
    """Options of runs, and what is wanted beyond one run."""

    noun = "key"


class NamedPolicy(PolicyOptions):
    """A policy under a name."""

    extends: str | None = None


class RuleDocument(_Suspended):
    """What is wanted of the tables that a pattern matches."""

    match: str
    policy: str | None = None
    enabled: bool | None = None
    options: Options = Field(default_factory=Options)


class PolicyFile(StrictModel):
    """Our own form of a policy file."""

    profile: Profile | None = None
    defaults: PolicyOptions = Field(default_factory=PolicyOptions)
    policies: Mapping[str, NamedPolicy] = Field(default_factory=dict)
    rules: Sequence[RuleDocument] = ()


# -- the `iceberg` configuration ------------------------------------------------------------------


class IcebergWrite(StrictModel):
    """`iceberg.write`, with its own defaults."""

    target_file_size_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 128
    compression_codec: Codec = Codec.ZSTD
    parquet_row_group_size: Annotated[int, Field(ge=1, description="Rows.")] = 8192


class IcebergCompaction(StrictModel):
    """`iceberg.compaction`, with its own defaults."""

    enabled: bool = True
    small_file_threshold_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 64
    min_files_to_compact: Annotated[int, Field(ge=1)] = 3
    opportunistic_check_interval: Annotated[int, Field(ge=1)] = 5
    max_files_per_compaction: Annotated[int, Field(ge=1)] = 100
    snapshot_retention_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 168


class _Shared(StrictModel):
    """A mapping that others keep things in, too: what is not ours is left alone, unless it looks like a slip."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if isinstance(data, dict):
            names = list(cls.model_fields)
            refuse_unknown({key: data[key] for key in data if guess(str(key), names)}, names)
        return data


class IcebergSection(_Shared):
    """`iceberg`."""

    write: IcebergWrite | None = None
    compaction: IcebergCompaction | None = None


class IcebergFile(_Shared):
    """The JSON configuration of writers, and of whatever else is around them."""

    profile: Profile | None = None
    iceberg: IcebergSection


# -- the custom resource --------------------------------------------------------------------------


class CatalogDocument(StrictModel):
    """Where the tables of a resource are."""

    type: Annotated[str, Field(min_length=1)]
    database: Annotated[str, Field(min_length=1)]
    name: Annotated[str | None, Field(min_length=1)] = None
    uri: Annotated[str | None, Field(repr=False)] = None
    warehouse: str | None = None


class TableDocument(Options):
    """A table of a resource: every option, in the spelling of Kubernetes."""

    name: Annotated[str, Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        spelled = {to_camel(name): name for name in cls.model_fields}
        refuse_unknown(data, sorted(spelled, key=lambda key: key != "name"), cls.noun)
        return {spelled[key]: value for key, value in data.items()}


class CostLimit(StrictModel):
    """What a resource may cost."""

    hourly: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Spec(StrictModel):
    """What a resource wants."""

    catalog: CatalogDocument
    schedule: OptionalSchedule = None
    tables: Sequence[TableDocument] = ()
    """All tables of the database, if none is named."""
    resources: Mapping[str, Any] | None = None
    costLimit: CostLimit | None = None
    suspend: bool = False


class CompactionPolicy(StrictModel):
    """The custom resource, as Kubernetes keeps it."""

    apiVersion: Literal["compaction.io/v1"]
    kind: Literal["CompactionPolicy"]
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    spec: Spec
    status: Mapping[str, Any] | None = None
    """Kubernetes' own; of no meaning here."""
