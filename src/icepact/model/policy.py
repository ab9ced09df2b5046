"""What the user wants: options as they are given, and the policy they settle to.

Precedence: request or flag, then table property `icepact.*`, then `policy:` in the configuration,
then the built-in default. `resolve` remembers where each value came from.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from icepact.model.durations import OptionalDuration
from icepact.model.errors import BadInput
from icepact.model.sizes import OptionalSize, format_size

PROPERTY_PREFIX = "icepact."
DEFAULT_TARGET = 512 * 1024**2
SMALL_OF_TARGET = 0.75
LARGE_OF_TARGET = 1.8


class Strategy(StrEnum):
    """Which files are candidates and which layout is wanted."""

    SMALL_FILES = "small-files"
    DELETES = "deletes"
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


class Options(BaseModel):
    """One level of wishes: a request, a table's properties, or the configuration. All optional."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

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
        Field(ge=0, description="Delete files over data files above it make a partition a candidate for `deletes`."),
    ] = None
    scans_per_day: Annotated[
        float | None, Field(gt=0, description="So often a partition is read; gains count that often.")
    ] = None
    horizon: Annotated[OptionalDuration, Field(gt=0, description="No gain counts for longer than this.")] = None
    reader_parallelism: Annotated[
        int | None, Field(ge=1, description="Cores of a reader: a scan with fewer tasks leaves some idle.")
    ] = None
    max_group_size: Annotated[OptionalSize, Field(description="Bytes that are rewritten as one group.")] = None
    max_group_files: Annotated[int | None, Field(ge=2, description="Files that are rewritten as one group.")] = None
    max_files: Annotated[int | None, Field(ge=1, description="Budget: input files per run.")] = None
    max_bytes: Annotated[OptionalSize, Field(description="Budget: input bytes per run.")] = None
    where: Annotated[str | None, Field(min_length=1, description="Row filter that selects files.")] = None
    branch: Annotated[str | None, Field(min_length=1, description="Branch that is compacted.")] = None
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

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(cls.model_fields), key=str)
            if unknown:
                raise ValueError(f"unknown option {unknown[0]!r}: it is one of {', '.join(cls.model_fields)}")
        return data


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
    scans_per_day: float
    horizon: int
    """Seconds."""
    reader_parallelism: int
    max_group_size: int
    """Bytes."""
    max_group_files: int
    max_files: int | None
    max_bytes: int | None
    where: str | None
    branch: str
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
    sources: Mapping[str, str]
    """Where each value came from: request, table property, configuration, table default, default."""

    @property
    def fingerprint(self) -> str:
        """Equal for two policies that would leave the same layout; budgets do not matter."""
        wish = {k: v for k, v in asdict(self).items() if k not in _NOT_LAYOUT and not _as_ever(k, v)}
        return hashlib.sha256(json.dumps(wish, sort_keys=True).encode()).hexdigest()[:12]

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
        values = {k: v for k, v in asdict(self).items() if k != "sources"}
        plain = {k: v.value if isinstance(v, StrEnum) else v for k, v in values.items()}
        return {**plain, "sources": dict(self.sources)}


_ADDED_LATER = (
    *("codec", "compression_level", "recode", "row_group_size", "row_group_rows", "min_row_group_size"),
    *("min_page_rows", "max_fragment_ratio", "scans_per_day", "horizon", "reader_parallelism"),
)
"""Options that are younger than the first fingerprints: at their default they do not change them."""


def _as_ever(name: str, value: Any) -> bool:
    return name in _ADDED_LATER and value == getattr(_DEFAULTS, name)


_NOT_LAYOUT = frozenset(
    {"sources", "max_files", "max_bytes", "rewrite_all", "method", "task_memory", "verify", "max_commits"}
)


def options(given: Mapping[str, Any], source: str = "request") -> Options:
    """Options from one level, or one line that says what is wrong with them."""
    try:
        return Options.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        choices = {"method": MethodWish, "codec": Codec, "verify": Proofs}
        if name in choices:
            message = f"unknown {name}; there is: {', '.join(choices[name])}"
        where = "" if source == "request" else f" ({source})"
        raise BadInput(f"{name}: {message}{where}" if name else f"{message}{where}") from None


def from_properties(properties: Mapping[str, str]) -> Options:
    """The wishes a table carries itself, as `icepact.target-file-size` and the like."""
    given = {
        key.removeprefix(PROPERTY_PREFIX).replace("-", "_"): value
        for key, value in properties.items()
        if key.startswith(PROPERTY_PREFIX)
    }
    return options(given, "table property")


def resolve(request: Options, properties: Mapping[str, str], configuration: Options) -> Policy:
    """Settle every value for one table by precedence."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    levels = (
        ("request", request),
        ("table property", from_properties(properties)),
        ("configuration", configuration),
        ("default", _DEFAULTS),
    )
    for name in Options.model_fields:
        for source, level in levels:
            if (value := getattr(level, name)) is not None:
                values[name], sources[name] = value, source
                break
        else:
            values[name], sources[name] = None, "default"
    _settle_sizes(values, sources, properties)
    return Policy(**values, sources=sources)


_DEFAULTS = Options(
    strategy=Strategy.SMALL_FILES,
    min_input_files=5,
    max_file_count_per_partition=10_000,
    max_delete_ratio=0.1,
    max_fragment_ratio=0.1,
    scans_per_day=24,
    horizon=7 * 24 * 3600,
    reader_parallelism=8,
    max_group_size=50 * 1024**3,
    max_group_files=10_000,
    branch="main",
    rewrite_all=False,
    method=MethodWish.AUTO,
    recode=False,
    min_row_group_size=8 * 1024**2,
    min_page_rows=2000,
    task_memory=1024**3,
    verify=Proofs.FOOTERS,
    max_commits=1,
)


def _settle_sizes(values: dict[str, Any], sources: dict[str, str], properties: Mapping[str, str]) -> None:
    if values["target_file_size"] is None:
        table_target = properties.get("write.target-file-size-bytes", "")
        values["target_file_size"] = int(table_target) if table_target.isdigit() else DEFAULT_TARGET
        if table_target.isdigit():
            sources["target_file_size"] = "table default"
    target = values["target_file_size"]
    if values["min_file_size"] is None:
        values["min_file_size"] = max(1, int(target * SMALL_OF_TARGET))
    if values["max_file_size"] is None:
        values["max_file_size"] = int(target * LARGE_OF_TARGET)
    small, large = values["min_file_size"], values["max_file_size"]
    if small > target:
        raise BadInput(f"min_file_size {format_size(small)} is above the target {format_size(target)}")
    if large < target:
        raise BadInput(f"max_file_size {format_size(large)} is below the target {format_size(target)}")


def defaults() -> Mapping[str, Any]:
    """The built-in defaults, for documentation."""
    return {k: v for k, v in _DEFAULTS.model_dump(mode="json").items() if v is not None}
