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
from icepact.policy.validation import CONFLICT, StrictModel, guess, refuse_unknown


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


OptionalSchedule = Annotated[Schedule | None, BeforeValidator(_schedule)]


class ScheduleOptions(StrictModel):
    """What is wanted of a table beyond one run."""

    schedule: Annotated[
        OptionalSchedule, Field(description="When the table is looked at: a cron expression, or a time as in 6h.")
    ] = None
    check_interval: Annotated[
        int | None, Field(ge=1, description="Every so many writes the writer asks whether compaction is due.")
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
