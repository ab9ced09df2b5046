"""What the user wants: options as they are given, and the policy they settle to.

Precedence: request or flag, then table property `icepact.*`, then Amoro's table properties, then the most
specific policy of the policy file, then its profile, then `policy:` in the configuration, then the built-in default.
`resolve` remembers where each value came from.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from icepact.model.amoro import AMORO_PREFIX, SHARE, translated
from icepact.model.durations import OptionalSeconds, format_duration
from icepact.model.errors import BadInput
from icepact.model.schedules import Schedule
from icepact.model.sizes import READS_SIZES, OptionalSize, format_size
from icepact.model.tier import Tier
from icepact.model.weights import OptionalWeights, PriorityWeights

PROPERTY_PREFIX = "icepact."
DEFAULT_TARGET = 512 * 1024**2
SMALL_OF_TARGET = 0.75
LARGE_OF_TARGET = 1.8
UNKNOWN = "unknown_option"
"""Type of the error about an option that there is not; its context names the `key`."""


class Strategy(StrEnum):
    """Which files are candidates and which layout is wanted."""

    SMALL_FILES = "small-files"
    DELETES = "deletes"
    TIME_SERIES = "time-series"


class MethodWish(StrEnum):
    """Which method the user wants."""

    AUTO = "auto"
    ASSEMBLE = "assemble"
    SPARK = "spark"


class Proofs(StrEnum):
    """What is compared before a commit."""

    FOOTERS = "footers"
    FULL = "full"
    OFF = "off"


class Codec(StrEnum):
    """Compression of new row groups."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    UNCOMPRESSED = "uncompressed"


class JobOrder(StrEnum):
    """Which group comes first."""

    MOST_GAIN = "most-gain"
    MOST_FILES = "most-files"
    MOST_BYTES = "most-bytes"
    OLDEST = "oldest"


Money = Annotated[float | None, Field(gt=0, allow_inf_nan=False)]
"""An amount in the currency of the prices, or nothing."""


class Options(BaseModel):
    """One level of wishes: a request, a table's properties, or the configuration. All optional."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    strategy: Annotated[Strategy | None, Field(description="Which files are candidates.")] = None
    target_file_size: Annotated[OptionalSize, Field(description="Size that outputs aim at.")] = None
    min_file_size: Annotated[OptionalSize, Field(description="Files below it are small.")] = None
    max_file_size: Annotated[OptionalSize, Field(description="No output grows beyond it.")] = None
    min_input_files: Annotated[
        int | None, Field(ge=1, description="So many small files make a partition a candidate.")
    ] = None
    max_file_count_per_partition: Annotated[
        int | None, Field(ge=1, description="More files than this make a partition a candidate.")
    ] = None
    max_delete_ratio: Annotated[
        float | None,
        Field(ge=0, le=1, description="Delete records over rows above it make a partition a candidate."),
    ] = None
    max_fragment_ratio: Annotated[
        float | None,
        Field(ge=0, description="Delete files over data files above it make a partition a candidate for `deletes`."),
    ] = None
    tier: Annotated[Tier | None, Field(description="How deep: minor leaves deletes alone, full takes everything.")] = (
        None
    )
    minor_trigger_files: Annotated[int | None, Field(ge=2, description="So many small files are merged at once.")] = (
        None
    )
    minor_trigger_interval: Annotated[
        OptionalSeconds, Field(description="After this time two small files are merged, too.")
    ] = None
    full_trigger_interval: Annotated[
        OptionalSeconds, Field(description="After this time everything is rewritten, if anything was written.")
    ] = None
    closed_after: Annotated[
        OptionalSeconds, Field(description="Without a commit for this time a partition of a time series is closed.")
    ] = None
    time_column: Annotated[
        str | None, Field(min_length=1, description="The column whose partitions follow each other in time.")
    ] = None
    max_group_size: Annotated[OptionalSize, Field(description="Bytes that are rewritten as one group.")] = None
    max_group_files: Annotated[int | None, Field(ge=2, description="Files that are rewritten as one group.")] = None
    max_files: Annotated[int | None, Field(ge=1, description="Budget: input files per run.")] = None
    max_bytes: Annotated[OptionalSize, Field(description="Budget: input bytes per run.")] = None
    max_cost: Annotated[Money, Field(description="Budget: money per run.")] = None
    max_duration: Annotated[OptionalSeconds, Field(description="Budget: time per run, such as 30m.")] = None
    max_cost_per_hour: Annotated[Money, Field(description="Budget: money that the table may cost in an hour.")] = None
    max_bytes_per_hour: Annotated[
        OptionalSize, Field(description="Budget: bytes of the table that are rewritten in an hour.")
    ] = None
    job_order: Annotated[JobOrder | None, Field(description="Which group comes first.")] = None
    where: Annotated[str | None, Field(min_length=1, description="Row filter that selects files.")] = None
    branch: Annotated[str | None, Field(min_length=1, description="Branch that is compacted.")] = None
    enabled: Annotated[
        bool | None, Field(description="Whether the table is compacted at all; asked for, it goes over a policy.")
    ] = None
    rewrite_all: Annotated[bool | None, Field(description="Rewrite every file, needed or not.")] = None
    method: Annotated[MethodWish | None, Field(description="How files are rewritten; auto takes the cheapest.")] = None
    codec: Annotated[
        Codec | None, Field(description="Compression of new row groups; the table's own if not given.")
    ] = None
    compression_level: Annotated[int | None, Field(ge=-100, le=22, description="Level of the codec.")] = None
    recode: Annotated[bool | None, Field(description="Encode row groups of another codec anew.")] = None
    row_group_size: Annotated[OptionalSize, Field(description="Size that new row groups aim at.")] = None
    row_group_rows: Annotated[int | None, Field(ge=1, description="Most rows of a new row group.")] = None
    min_row_group_size: Annotated[
        OptionalSize, Field(description="Row groups below it are joined instead of copied.")
    ] = None
    min_page_rows: Annotated[
        int | None, Field(ge=1, description="Pages with fewer rows on average are encoded anew, not joined.")
    ] = None
    task_memory: Annotated[OptionalSize, Field(description="Memory of one task's Python process.")] = None
    verify: Annotated[
        Proofs | None, Field(description="Proof before the commit: footers, full (every row), or off.")
    ] = None
    max_commits: Annotated[
        int | None, Field(ge=1, le=100, description="Groups are committed as they finish, in about so many commits.")
    ] = None
    priority_weights: Annotated[
        OptionalWeights,
        Field(description="What counts in a partition's priority: file count, fragment ratio, age, small-file ratio."),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(cls.model_fields), key=str)
            if unknown:
                raise PydanticCustomError(
                    UNKNOWN,
                    "unknown option {shown}: it is one of {names}",
                    {"key": unknown[0], "shown": repr(unknown[0]), "names": ", ".join(cls.model_fields)},
                )
        return data


SIZES = frozenset(name for name, known in Options.model_fields.items() if READS_SIZES in known.metadata)
"""Options that are bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Options settled for one table: every value is known, and where it came from."""

    strategy: Strategy
    target_file_size: int
    """Bytes."""
    min_file_size: int
    """Bytes; the small-file threshold."""
    max_file_size: int
    """Bytes."""
    min_input_files: int
    max_file_count_per_partition: int
    max_delete_ratio: float
    max_fragment_ratio: float
    tier: Tier | None
    """Null for what the strategy says."""
    minor_trigger_files: int
    minor_trigger_interval: float
    """Seconds."""
    full_trigger_interval: float | None
    """Seconds; null for never."""
    closed_after: float
    """Seconds."""
    time_column: str | None
    """Null for the one that a partition field is made of."""
    max_group_size: int
    """Bytes."""
    max_group_files: int
    max_files: int | None
    max_bytes: int | None
    max_cost: float | None
    max_duration: float | None
    """Seconds."""
    max_cost_per_hour: float | None
    max_bytes_per_hour: int | None
    job_order: JobOrder
    where: str | None
    branch: str
    enabled: bool
    """False: the table is left alone."""
    rewrite_all: bool
    method: MethodWish
    codec: Codec | None
    """Null for what the table's properties say."""
    compression_level: int | None
    recode: bool
    row_group_size: int | None
    """Bytes; null for what the table's properties say."""
    row_group_rows: int | None
    """Null for as many as the size allows."""
    min_row_group_size: int
    """Bytes; smaller row groups are joined, larger ones copied where nothing speaks against it."""
    min_page_rows: int
    """Where small row groups are joined, pages with at least so many rows on average are kept."""
    task_memory: int
    """Bytes."""
    verify: Proofs
    max_commits: int
    """1: all groups in one commit, once all are written."""
    priority_weights: PriorityWeights
    sources: Mapping[str, str]
    """Where each value came from: request, table property, the place in a policy file, a profile, configuration,
    table default, default."""

    @property
    def fingerprint(self) -> str:
        """Equal for two policies that would leave the same layout; budgets do not matter."""
        wish = {k: v for k, v in asdict(self).items() if k not in _NOT_LAYOUT and not _as_ever(k, v)}
        return hashlib.sha256(json.dumps(wish, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def off(self) -> str | None:
        """Why the table is left alone, if it is."""
        if self.enabled:
            return None
        return f"compaction is off for this table, by {self.sources['enabled']}; --enabled goes over it"

    @property
    def write_properties(self) -> dict[str, str]:
        """What is asked for over the table's own wishes, as the table properties that Iceberg's writers read."""
        wishes = {
            "write.parquet.compression-codec": None if self.codec is None else self.codec.value,
            "write.parquet.compression-level": self.compression_level,
            "write.parquet.row-group-size-bytes": self.row_group_size,
        }
        return {name: str(value) for name, value in wishes.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """The policy with its sources, as it is printed with `--json`."""
        values = {k: plain(v) for k, v in asdict(self).items() if k != "sources"}
        return {**values, "sources": dict(self.sources)}


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Schedule):
        return value.text
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


_ADDED_LATER = (
    *("codec", "compression_level", "recode", "row_group_size", "row_group_rows", "min_row_group_size"),
    *("min_page_rows", "max_fragment_ratio", "tier", "minor_trigger_files", "minor_trigger_interval"),
    *("full_trigger_interval", "closed_after", "time_column"),
)
"""Options that are younger than the first fingerprints: at their default they do not change them."""


def _as_ever(name: str, value: Any) -> bool:
    return name in _ADDED_LATER and value == getattr(_DEFAULTS, name)


_NOT_LAYOUT = frozenset(
    {
        *("sources", "enabled", "max_files", "max_bytes", "rewrite_all", "method", "task_memory", "verify"),
        *("max_commits", "priority_weights"),
        *("max_cost", "max_duration", "max_cost_per_hour", "max_bytes_per_hour", "job_order"),
    }
)


def options(given: Mapping[str, Any], source: str = "request") -> Options:
    """Options from one level, or one line that says what is wrong with them."""
    try:
        return Options.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        where = "" if source == "request" else f" ({source})"
        raise BadInput(f"{name}: {said(first)}{where}" if name else f"{said(first)}{where}") from None


def said(error: ErrorDetails) -> str:
    """What is wrong with an option, in our words."""
    name = str(error["loc"][-1]) if error["loc"] else ""
    if name in Options.model_fields and error["type"] == "enum":
        return f"unknown {name}; there is: {', '.join(_choices(name))}"
    return error["msg"].removeprefix("Value error, ")


def _choices(name: str) -> list[str]:
    """What an option can be, if it is one of a few words."""
    kinds = get_args(Options.model_fields[name].annotation)
    return [word.value for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for word in kind]


def from_properties(properties: Mapping[str, str]) -> Options:
    """The wishes a table carries itself, as `icepact.target-file-size` and the like."""
    given = {
        key.removeprefix(PROPERTY_PREFIX).replace("-", "_"): value
        for key, value in properties.items()
        if key.startswith(PROPERTY_PREFIX)
    }
    return options(given, "table property")


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """One level of wishes, and where they were found. What is not among its values is left to the levels below."""

    source: str
    values: Mapping[str, Any]
    """By option; none of them is null."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """By option: where it was found, if more is known about it than about the level."""

    @staticmethod
    def of(source: str, options: Options) -> "Level":
        """The options that are given."""
        return Level(source=source, values=_given(options))

    def source_of(self, name: str) -> str:
        """Where an option of this level was found."""
        return self.exact.get(name, self.source)


def settle(names: Sequence[str], levels: Sequence[Level]) -> tuple[dict[str, Any], dict[str, str]]:
    """The value of each name, by the first level that has one, and where it was found."""
    values: dict[str, Any] = dict.fromkeys(names)
    sources = dict.fromkeys(names, "default")
    for level in reversed(levels):
        for name, value in level.values.items():
            if name in values:
                values[name], sources[name] = value, level.source_of(name)
    return values, sources


def resolve(
    request: Options, properties: Mapping[str, str], configuration: Options, policies: Sequence[Level] = ()
) -> Policy:
    """Settle every value for one table by precedence; `policies` are what a policy file says, most specific first."""
    above = [Level.of("request", request), Level.of("table property", from_properties(properties))]
    below = [*policies, Level.of("configuration", configuration), Level.of("default", _DEFAULTS)]
    names = tuple(Options.model_fields)
    values, sources = settle(names, [*above, _from_amoro(properties), *below])
    if AMORO_PREFIX + SHARE in properties:
        target, _ = _target(values, sources, properties)
        values, sources = settle(names, [*above, _from_amoro(properties, target), *below])
    values["target_file_size"], sources["target_file_size"] = _target(values, sources, properties)
    _settle_sizes(values, sources)
    if values["strategy"] == Strategy.TIME_SERIES and sources["job_order"] == "default":
        values["job_order"] = JobOrder.OLDEST
    return Policy(**values, sources=sources)


def _from_amoro(properties: Mapping[str, str], target: int | None = None) -> Level:
    """The wishes that a table carries for Amoro."""
    values: dict[str, Any] = {}
    exact = {}
    for name, (key, value) in translated(properties, target).items():
        values |= _given(options({name: value}, f"table property {key}"))
        exact[name] = f"table property {key}"
    return Level(source="table property", values=values, exact=exact)


def _given(level: Options) -> dict[str, Any]:
    return {name: value for name in level.model_fields_set if (value := getattr(level, name)) is not None}


_LENGTHS: Mapping[str, Any] = {"minor_trigger_interval": "1h", "closed_after": "24h"}
_DEFAULTS = Options(
    strategy=Strategy.SMALL_FILES,
    min_input_files=5,
    max_file_count_per_partition=10_000,
    max_delete_ratio=0.1,
    max_fragment_ratio=0.1,
    minor_trigger_files=12,
    **_LENGTHS,
    max_group_size=50 * 1024**3,
    max_group_files=10_000,
    job_order=JobOrder.MOST_GAIN,
    branch="main",
    enabled=True,
    rewrite_all=False,
    method=MethodWish.AUTO,
    recode=False,
    min_row_group_size=8 * 1024**2,
    min_page_rows=2000,
    task_memory=1024**3,
    verify=Proofs.FOOTERS,
    max_commits=1,
    priority_weights=PriorityWeights(files=0.3, fragments=0.3, age=0.2, small_files=0.2),
)


def _target(values: Mapping[str, Any], sources: Mapping[str, str], properties: Mapping[str, str]) -> tuple[int, str]:
    """The target size and where it came from: if no level names one, it is the table's own, or the default."""
    if values["target_file_size"] is not None:
        return values["target_file_size"], sources["target_file_size"]
    own = properties.get("write.target-file-size-bytes", "")
    return (int(own), "table default") if own.isdigit() else (DEFAULT_TARGET, "default")


def _settle_sizes(values: dict[str, Any], sources: Mapping[str, str]) -> None:
    target = values["target_file_size"]
    if values["min_file_size"] is None:
        values["min_file_size"] = max(1, int(target * SMALL_OF_TARGET))
    if values["max_file_size"] is None:
        values["max_file_size"] = int(target * LARGE_OF_TARGET)
    small, large = values["min_file_size"], values["max_file_size"]
    if small > target:
        clash, name = f"min_file_size {format_size(small)} is above the target {format_size(target)}", "min_file_size"
    elif large < target:
        clash, name = f"max_file_size {format_size(large)} is below the target {format_size(target)}", "max_file_size"
    else:
        return
    said_by = {n: sources[n] for n in (name, "target_file_size") if sources[n] not in _NAMELESS}
    where = ", ".join(f"{n} by {source}" for n, source in said_by.items())
    raise BadInput(f"{clash} ({where})" if where else clash)


_NAMELESS = frozenset({"request", "default", "table default"})
"""Sources that need not be told in a message: who asks knows them."""


def defaults() -> Mapping[str, Any]:
    """The built-in defaults, for documentation."""
    values = {k: v for k, v in _DEFAULTS.model_dump(mode="json").items() if v is not None}
    return {k: format_duration(v) if k in _LENGTHS else v for k, v in values.items()}
