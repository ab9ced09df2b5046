"""What the user wants: options as they are given, and the policy they settle to.

Precedence: request or flag, then table property `icepact.*`, then Amoro's table properties, then the most
specific policy of the policy file, then its profile, then `policy:` in the configuration, then the built-in default.
`resolve` remembers where each value came from.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field, ValidationError

from icepact.model.amoro import AMORO_PREFIX, SHARE, translated
from icepact.model.durations import READS_SECONDS, OptionalSeconds, format_duration
from icepact.model.errors import BadInput
from icepact.model.schedules import Schedule
from icepact.model.sizes import READS_SIZES, OptionalSize, format_size
from icepact.model.tier import Tier
from icepact.model.validation import Shape, complaint, place_of, show_path
from icepact.model.weights import OptionalWeights, PriorityWeights

PROPERTY_PREFIX = "icepact."
DEFAULT_TARGET = 512 * 1024**2
SMALL_OF_TARGET = 0.75
LARGE_OF_TARGET = 1.8


class Strategy(StrEnum):
    """Which files are candidates and which layout is wanted."""

    SMALL_FILES = "small-files"
    DELETES = "deletes"
    TIME_SERIES = "time-series"
    COST_OPTIMIZED = "cost-optimized"
    AUTO = "auto"


_STRATEGIES: list[str] = [*Strategy]


def add_strategy(name: str) -> None:
    """From now on there is a strategy of this name, too."""
    if name not in _STRATEGIES:
        _STRATEGIES.append(name)


def _strategy(name: str) -> str:
    if name not in _STRATEGIES:
        raise ValueError(f"unknown strategy; there is: {', '.join(_STRATEGIES)}")
    return Strategy(name) if name in set(Strategy) else name


StrategyName = Annotated[str, AfterValidator(_strategy)]
"""A strategy that there is."""


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


class Options(Shape):
    """One level of wishes: a request, a table's properties, or the configuration. All optional."""

    noun = "option"

    strategy: Annotated[StrategyName | None, Field(description="Which files are candidates.")] = None
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
        Field(ge=0, description="So do delete files over data files above this; `small-files` does not ask."),
    ] = None
    tier: Annotated[
        Tier | None, Field(description="How deep: minor takes small files alone, full takes everything.")
    ] = None
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
    scans_per_day: Annotated[
        float | None, Field(gt=0, description="So often a partition is read; gains count that often.")
    ] = None
    horizon: Annotated[OptionalSeconds, Field(description="No gain counts for longer than this.")] = None
    reader_parallelism: Annotated[
        int | None, Field(ge=1, description="Cores of a reader: a scan with fewer tasks leaves some idle.")
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
    partition: Annotated[
        str | None, Field(min_length=1, description="Pattern of partitions that are looked at, such as day=2026-01-*.")
    ] = None
    branch: Annotated[str | None, Field(min_length=1, description="Branch that is compacted.")] = None
    snapshot_id: Annotated[
        int | None, Field(ge=0, description="Snapshot of the branch that is planned from; the newest if not given.")
    ] = None
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
    batch_rows: Annotated[
        int | None, Field(ge=1, description="Most rows that are decoded at once; as many as fit if not given.")
    ] = None
    task_memory: Annotated[OptionalSize, Field(description="Memory of one task's Python process.")] = None
    parallelism: Annotated[
        int | None, Field(ge=1, description="Most Spark tasks of a run at once; all cores if not given.")
    ] = None
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


SIZES = frozenset(name for name, known in Options.model_fields.items() if READS_SIZES in known.metadata)
"""Options that are bytes."""
DURATIONS = frozenset(name for name, known in Options.model_fields.items() if READS_SECONDS in known.metadata)
"""Options that are lengths of time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Options settled for one table: every value is known, and where it came from."""

    strategy: str
    """One of `Strategy`, or a name that was registered."""
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
    scans_per_day: float
    horizon: float
    """Seconds."""
    reader_parallelism: int
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
    partition: str | None
    """Null for all of them."""
    branch: str
    snapshot_id: int | None
    """Null for the newest one of the branch."""
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
    batch_rows: int | None
    """Null for as many as fit."""
    task_memory: int
    """Bytes."""
    parallelism: int | None
    """Null for as many as there are cores."""
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
    def without_budgets(self) -> "Policy":
        """Equal for two policies that judge a table alike, however much of it they allow, and whoever said so."""
        nothing: dict[str, Any] = dict.fromkeys(_BUDGETS)
        return replace(self, **nothing, sources={})

    def other_than(self, policy: "Policy") -> dict[str, Any]:
        """Options that have other values here."""
        mine, others = self.to_dict(), policy.to_dict()
        return {name: value for name, value in mine.items() if name != "sources" and value != others[name]}

    @property
    def off(self) -> str | None:
        """Why the table is left alone, if it is."""
        if self.enabled:
            return None
        return f"compaction is off for this table, by {self.sources['enabled']}; --enabled goes over it"

    def asks_for(self, partition: str) -> bool:
        """Whether a partition is to be looked at, by its name such as `day=2026-01-01/region=eu`."""
        return self.partition is None or fnmatchcase(f"/{partition}/", f"*/{self.partition.strip('/')}/*")

    @property
    def write_properties(self) -> dict[str, str]:
        """What is asked for over the table's own wishes, as the table properties that Iceberg itself reads."""
        wishes = {
            "write.parquet.compression-codec": None if self.codec is None else self.codec.value,
            "write.parquet.compression-level": self.compression_level,
            "write.parquet.row-group-size-bytes": self.row_group_size,
            "read.parquet.vectorization.batch-size": self.batch_rows,
            "read.orc.vectorization.batch-size": self.batch_rows,
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
    *("min_page_rows", "max_fragment_ratio", "tier", "minor_trigger_files", "minor_trigger_interval", "partition"),
    *("full_trigger_interval", "closed_after", "time_column", "scans_per_day", "horizon", "reader_parallelism"),
)
"""Options that are younger than the first fingerprints: at their default they do not change them."""


def _as_ever(name: str, value: Any) -> bool:
    return name in _ADDED_LATER and value == getattr(_DEFAULTS, name)


_BUDGETS = ("max_files", "max_bytes", "max_cost", "max_duration", "max_cost_per_hour", "max_bytes_per_hour")
_NOT_LAYOUT = frozenset(
    {
        *("sources", "enabled", "rewrite_all", "method", "task_memory", "verify", "job_order"),
        *("max_commits", "priority_weights", "snapshot_id", "batch_rows", "parallelism"),
        *_BUDGETS,
    }
)


def options(given: Mapping[str, Any], source: str = "request") -> Options:
    """Options from one level, or one line that says what is wrong with them."""
    try:
        return Options.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "" if source == "request" else f" ({source})"
        raise BadInput(f"{show_path(place_of(first))}: {complaint(first)}{where}") from None


def choices(name: str) -> list[str]:
    """What an option can be, if it is one of a few words."""
    if name == "strategy":
        return list(_STRATEGIES)
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


_LENGTHS: Mapping[str, Any] = {"minor_trigger_interval": "1h", "closed_after": "24h", "horizon": "7d"}
_DEFAULTS = Options(
    strategy=Strategy.SMALL_FILES,
    min_input_files=5,
    max_file_count_per_partition=10_000,
    max_delete_ratio=0.1,
    max_fragment_ratio=0.1,
    minor_trigger_files=12,
    scans_per_day=24,
    reader_parallelism=8,
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
