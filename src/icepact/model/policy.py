"""The policy of one table. Here every option is declared, once: its type, default, unit, limits and description.

Flags, table properties, policy files and the pages read this declaration.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple


class PriorityWeights(NamedTuple):
    """Weights of the four shares, in the order in which they are written."""

    files: float
    """Of the number of data files."""
    fragments: float
    """Of delete files over data files."""
    age: float
    """Of the time since the last compaction."""
    small_files: float
    """Of small files over data files."""


class Strategy(StrEnum):
    """Which files are candidates and which layout is wanted."""

    SMALL_FILES = "small-files"
    DELETES = "deletes"
    TIME_SERIES = "time-series"
    COST_OPTIMIZED = "cost-optimized"
    AUTO = "auto"


class MethodOption(StrEnum):
    """Which method the user wants."""

    AUTO = "auto"
    ASSEMBLE = "assemble"
    SPARK = "spark"


class Proofs(StrEnum):
    """What is compared before a commit."""

    FOOTERS = "footers"
    FULL = "full"
    OFF = "off"


class DeletesOption(StrEnum):
    """What becomes of the rows that deletes apply to."""

    APPLY = "apply"
    """They are not written."""
    CARRY = "carry"
    """They are copied with the others, and so are their deletes."""
    AUTO = "auto"


class CommitWhen(StrEnum):
    """When what is ready is committed."""

    NOW = "now"
    QUIET = "quiet"
    """At a moment at which it disturbs other writers least."""


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


class Tier(StrEnum):
    """From the lightest to the deepest."""

    MINOR = "minor"
    """Small files."""
    MAJOR = "major"
    """Small files, and those that deletes apply to."""
    FULL = "full"
    """Everything."""


class AgeLevel(StrEnum):
    """What data leaves a table by."""

    PARTITION = "partition"
    FILE = "file"


class AgeSince(StrEnum):
    """From when the age of data is measured."""

    NOW = "now"
    LAST_COMMIT = "last-commit"


class TagEvery(StrEnum):
    """How often a tag is made."""

    HOURLY = "hourly"
    DAILY = "daily"
    MONTHLY = "monthly"


OPERATIONS = ("tags", "ttl", "compact", "deletes", "manifests", "statistics", "expire", "orphans")
"""What `icepact maintain` can do, in the order in which it is right: tags before what expires without them, data goes
before it is compacted, and files are deleted once nothing else is left to do."""


class OptionUnit(StrEnum):
    """What the number of an option counts, where people may write it with a unit."""

    BYTES = "bytes"
    SECONDS = "seconds"
    MONEY = "money"
    """In the currency of the prices."""


class OptionScope(StrEnum):
    """What an option has a say in."""

    LAYOUT = "layout"
    """Which files are chosen and what outputs are like: another value makes another fingerprint."""
    BUDGET = "budget"
    """How much is done at once."""
    RUN = "run"
    """How it is done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """The declaration of one option."""

    description: str
    default: Any = None
    """`None`: it is derived from other options or from the table, or it is not limited."""
    unit: OptionUnit | None = None
    scope: OptionScope = OptionScope.LAYOUT
    added_later: bool = False
    """True if it is younger than the first fingerprints: at its default it does not change them."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What a value must keep to, in pydantic's words: ge, gt, le, min_length."""

    def counts(self, value: Any) -> bool:
        """Whether a value is part of the fingerprint."""
        return self.scope is OptionScope.LAYOUT and not (self.added_later and value == self.default)


def _option(description: str, **given: Any) -> Any:
    """A field of `Policy`. What is given and no field of `Option` is a limit."""
    limits = {name: given.pop(name) for name in [*given] if name not in Option.__slots__}
    return field(metadata={"option": Option(description=description, limits=limits, **given)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The options that hold for one table: every value is known, and where it came from."""

    strategy: str = _option("Which files are candidates.", default=Strategy.SMALL_FILES)
    """One of `Strategy`, or a name that was registered."""
    target_file_size: int = _option("Size that outputs aim at.", unit=OptionUnit.BYTES)
    """Bytes."""
    min_file_size: int = _option("Files below it are small.", unit=OptionUnit.BYTES)
    """Bytes; the small-file threshold."""
    max_file_size: int = _option("No output grows beyond it.", unit=OptionUnit.BYTES)
    """Bytes."""
    min_input_files: int = _option("So many small files make a partition a candidate.", default=5, ge=1)
    max_file_count_per_partition: int = _option(
        "More files than this make a partition a candidate.", default=10_000, ge=1
    )
    max_delete_ratio: float = _option(
        "Delete records over rows above it make a partition a candidate.", default=0.1, ge=0, le=1
    )
    max_fragment_ratio: float = _option(
        "So do delete files over data files above this; `small-files` does not ask.",
        default=0.1,
        added_later=True,
        ge=0,
    )
    tier: Tier | None = _option("How deep: minor takes small files alone, full takes everything.", added_later=True)
    """`None` for what the strategy says."""
    minor_trigger_files: int = _option("So many small files are merged at once.", default=12, added_later=True, ge=2)
    minor_trigger_interval: float = _option(
        "After this time two small files are merged, too.", default=3600.0, unit=OptionUnit.SECONDS, added_later=True
    )
    """Seconds."""
    full_trigger_interval: float | None = _option(
        "After this time everything is rewritten, if anything was written.", unit=OptionUnit.SECONDS, added_later=True
    )
    """Seconds; `None` for never."""
    closed_after: float = _option(
        "Without a commit for this time a partition of a time series is closed.",
        default=24 * 3600.0,
        unit=OptionUnit.SECONDS,
        added_later=True,
    )
    """Seconds."""
    time_column: str | None = _option(
        "The column whose partitions follow each other in time.", added_later=True, min_length=1
    )
    """`None` for the one that a partition field is made of."""
    scans_per_day: float = _option(
        "So often a partition is read; gains count that often.", default=24.0, added_later=True, gt=0
    )
    horizon: float = _option(
        "No gain counts for longer than this.", default=7 * 24 * 3600.0, unit=OptionUnit.SECONDS, added_later=True
    )
    """Seconds."""
    reader_parallelism: int = _option(
        "Cores of a reader: a scan with fewer tasks leaves some idle.", default=8, added_later=True, ge=1
    )
    max_group_size: int = _option("Bytes that are rewritten as one group.", default=50 * 1024**3, unit=OptionUnit.BYTES)
    """Bytes."""
    max_group_files: int = _option("Files that are rewritten as one group.", default=10_000, ge=2)
    max_files: int | None = _option("Budget: input files per run.", scope=OptionScope.BUDGET, ge=1)
    max_bytes: int | None = _option("Budget: input bytes per run.", unit=OptionUnit.BYTES, scope=OptionScope.BUDGET)
    max_cost: float | None = _option("Budget: money per run.", unit=OptionUnit.MONEY, scope=OptionScope.BUDGET)
    max_duration: float | None = _option(
        "Budget: time per run, such as 30m.", unit=OptionUnit.SECONDS, scope=OptionScope.BUDGET
    )
    """Seconds."""
    max_cost_per_hour: float | None = _option(
        "Budget: money that the table may cost in an hour.", unit=OptionUnit.MONEY, scope=OptionScope.BUDGET
    )
    max_bytes_per_hour: int | None = _option(
        "Budget: bytes of the table that are rewritten in an hour.", unit=OptionUnit.BYTES, scope=OptionScope.BUDGET
    )
    job_order: JobOrder = _option("Which group comes first.", default=JobOrder.MOST_GAIN, scope=OptionScope.RUN)
    where: str | None = _option("Row filter that selects files.", min_length=1)
    partition: str | None = _option(
        "Pattern of partitions that are looked at, such as day=2026-01-*.", added_later=True, min_length=1
    )
    """`None` for all of them."""
    branch: str = _option("Branch that is compacted.", default="main", min_length=1)
    snapshot_id: int | None = _option(
        "Snapshot of the branch that is planned from; the newest if not given.", scope=OptionScope.RUN, ge=0
    )
    """`None` for the newest one of the branch."""
    enabled: bool = _option(
        "Whether the table is compacted at all; asked for, it goes over a policy.", default=True, scope=OptionScope.RUN
    )
    """False: the table is left alone."""
    rewrite_all: bool = _option("Rewrite every file, needed or not.", default=False, scope=OptionScope.RUN)
    method: MethodOption = _option(
        "How files are rewritten; auto takes the cheapest.", default=MethodOption.AUTO, scope=OptionScope.RUN
    )
    deletes: DeletesOption = _option(
        "Deleted rows: apply leaves them out, carry copies them with their deletes, auto takes the cheaper.",
        default=DeletesOption.APPLY,
        added_later=True,
    )
    erase: bool = _option(
        "Rewrite whatever deletes apply to, and leave no deleted value in new files.", default=False, added_later=True
    )
    """True: `deletes` is `apply`, and files are chosen for any delete."""
    codec: Codec | None = _option("Compression of new row groups; the table's own if not given.", added_later=True)
    """`None` for what the table's properties say."""
    compression_level: int | None = _option("Level of the codec.", added_later=True, ge=-100, le=22)
    recode: bool = _option("Encode row groups of another codec anew.", default=False, added_later=True)
    row_group_size: int | None = _option("Size that new row groups aim at.", unit=OptionUnit.BYTES, added_later=True)
    """Bytes; `None` for what the table's properties say."""
    row_group_rows: int | None = _option("Most rows of a new row group.", added_later=True, ge=1)
    """`None` for as many as the size allows."""
    min_row_group_size: int = _option(
        "Row groups below it are joined instead of copied.",
        default=8 * 1024**2,
        unit=OptionUnit.BYTES,
        added_later=True,
    )
    """Bytes; smaller row groups are joined, larger ones copied where nothing speaks against it."""
    min_page_rows: int = _option(
        "Pages with fewer rows on average are encoded anew, not joined.", default=2000, added_later=True, ge=1
    )
    """Where small row groups are joined, pages with at least so many rows on average are kept."""
    batch_rows: int | None = _option(
        "Most rows that are decoded at once; as many as fit if not given.", scope=OptionScope.RUN, ge=1
    )
    """`None` for as many as fit."""
    task_memory: int = _option(
        "Memory of one task's Python process.", default=1024**3, unit=OptionUnit.BYTES, scope=OptionScope.RUN
    )
    """Bytes."""
    parallelism: int | None = _option(
        "Most Spark tasks of a run at once; all cores if not given.", scope=OptionScope.RUN, ge=1
    )
    """`None` for as many as there are cores."""
    verify: Proofs = _option(
        "Proof before the commit: footers, full (every row), or off.", default=Proofs.FOOTERS, scope=OptionScope.RUN
    )
    max_commits: int = _option(
        "Groups are committed as they finish, in about so many commits.", default=1, scope=OptionScope.RUN, ge=1, le=100
    )
    """1: all groups in one commit, once all are written."""
    commit_when: CommitWhen = _option(
        "When what is ready is committed: now, or at a quiet moment for other writers.",
        default=CommitWhen.NOW,
        scope=OptionScope.RUN,
    )
    max_commit_wait: float = _option(
        "A run waits no longer than this for quiet moments, such as 5m.",
        default=60.0,
        unit=OptionUnit.SECONDS,
        scope=OptionScope.RUN,
        le=3600,
    )
    """Seconds, of all its commits together."""
    may_be_rolled_back: bool = _option(
        "Catalogs that can may take a compaction back whose commit is in another writer's way.",
        default=False,
        scope=OptionScope.RUN,
    )
    """True: snapshots tell so, in the words of Polaris."""
    priority_weights: PriorityWeights = _option(
        "What counts in a partition's priority: file count, fragment ratio, age, small-file ratio.",
        default=PriorityWeights(files=0.3, fragments=0.3, age=0.2, small_files=0.2),
        scope=OptionScope.RUN,
    )
    expire_older_than: float | None = _option(
        "Snapshots above this age expire, if no branch or tag keeps them; the table's own age if not given.",
        unit=OptionUnit.SECONDS,
        scope=OptionScope.RUN,
    )
    """Seconds; `None` for what the table's properties say, or 5 days."""
    expire_retain_last: int | None = _option(
        "Every branch keeps so many snapshots; the table's own number if not given.", scope=OptionScope.RUN, ge=1
    )
    """`None` for what the table's properties say, or 1."""
    orphans_older_than: float = _option(
        "Files that nothing refers to are orphans above this age.",
        default=3 * 24 * 3600.0,
        unit=OptionUnit.SECONDS,
        scope=OptionScope.RUN,
    )
    """Seconds."""
    statistics_stale_after: float = _option(
        "Statistics are computed anew once more than this share of the rows has changed.",
        default=0.1,
        scope=OptionScope.RUN,
        ge=0,
        le=1,
    )
    ttl_column: str | None = _option(
        "Data is taken out by the time in this column.", scope=OptionScope.RUN, min_length=1
    )
    """`None`: no data is taken out."""
    ttl_keep: float | None = _option("How old data becomes.", unit=OptionUnit.SECONDS, scope=OptionScope.RUN)
    """Seconds."""
    ttl_level: AgeLevel = _option(
        "Whole partitions are taken out, or single files by their bounds.",
        default=AgeLevel.PARTITION,
        scope=OptionScope.RUN,
    )
    ttl_pattern: str | None = _option(
        "How a text column writes times; epoch-ms or epoch-s for numbers.", scope=OptionScope.RUN, min_length=1
    )
    ttl_zone: str = _option("Zone of times without one.", default="UTC", scope=OptionScope.RUN, min_length=1)
    ttl_rows: bool = _option(
        "Old rows are deleted out of files that hold younger ones, too.", default=False, scope=OptionScope.RUN
    )
    """False: only whole files are taken out."""
    ttl_since: AgeSince = _option("From when age is measured.", default=AgeSince.NOW, scope=OptionScope.RUN)
    tag_period: TagEvery | None = _option("How often a tag is made by itself.", scope=OptionScope.RUN)
    """`None`: no tags are made."""
    tag_offset: float | None = _option(
        "From the end of a period until its tag is due; none if not given.",
        unit=OptionUnit.SECONDS,
        scope=OptionScope.RUN,
    )
    """Seconds."""
    tag_max_delay: float = _option(
        "How late a commit may be to get the tag.", default=3600.0, unit=OptionUnit.SECONDS, scope=OptionScope.RUN
    )
    """Seconds."""
    tag_pattern: str | None = _option(
        "Name of tags, filled with the beginning of the period.", scope=OptionScope.RUN, min_length=1
    )
    tag_max_age: float | None = _option(
        "How long a tag is kept; for ever if not given.", unit=OptionUnit.SECONDS, scope=OptionScope.RUN
    )
    """Seconds."""
    tag_zone: str = _option("Zone whose midnight ends a day.", default="UTC", scope=OptionScope.RUN, min_length=1)
    housekeeping: str = _option(
        "What `icepact maintain` does, of all it can.", default=",".join(OPERATIONS), scope=OptionScope.RUN
    )
    """Names of `OPERATIONS`, with commas between them."""
    sources: Mapping[str, str]
    """Where each value came from: request, table property, the line of a policy file, a profile, configuration,
    table default, default."""

    @property
    def fingerprint(self) -> str:
        """Equal for two policies that would leave the same layout; budgets do not matter."""
        layout = {name: getattr(self, name) for name, known in OPTIONS.items() if known.counts(getattr(self, name))}
        return hashlib.sha256(json.dumps(layout, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def without_budgets(self) -> "Policy":
        """Equal for two policies that judge a table alike, however much of it they allow, and whoever said so."""
        nothing: dict[str, Any] = dict.fromkeys(BUDGETS)
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
        """Options that go over the table's own settings, as the table properties that Iceberg itself reads."""
        properties = {
            "write.parquet.compression-codec": None if self.codec is None else self.codec.value,
            "write.parquet.compression-level": self.compression_level,
            "write.parquet.row-group-size-bytes": self.row_group_size,
            "read.parquet.vectorization.batch-size": self.batch_rows,
            "read.orc.vectorization.batch-size": self.batch_rows,
        }
        return {name: str(value) for name, value in properties.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """The policy with its sources, as it is printed with `--json`."""
        values = {name: _plain(getattr(self, name)) for name in OPTIONS}
        return {**values, "sources": dict(self.sources)}


OPTIONS: Mapping[str, Option] = {one.name: one.metadata["option"] for one in fields(Policy) if "option" in one.metadata}
"""All options by name, in the order in which they are declared."""
BUDGETS = tuple(name for name, known in OPTIONS.items() if known.scope is OptionScope.BUDGET)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value
