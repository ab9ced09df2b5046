"""What travels between the driver and the tasks: values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icepact.execute.deletes.writing import WrittenDelete
from icepact.model.effort import NO_EFFORT, Effort
from icepact.model.files import DeleteFile, ManifestBounds, Partition
from icepact.model.row_map import RowMap

MOST_ROWS = 32 * 1024**2
"""Rows of a new row group, whatever is asked for: the writer cuts larger ones in two by itself."""


class Compared(StrEnum):
    """How much of the copied bytes is compared with their source."""

    NOTHING = "nothing"
    SAMPLE = "sample"
    ALL = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteSettings:
    """How outputs are written: the table's `write.parquet.*` and what the policy says over it."""

    codec: str
    """Name as in `layout.CODECS`."""
    level: int | None
    """Compression level of the codec; `None` for its own default."""
    level_of_numbers: int | None
    """Compression level for columns of numbers."""
    recode: bool
    """True if chunks of another codec are encoded anew instead of copied."""
    row_group_bytes: int
    """Bytes a new row group aims at, compressed."""
    row_group_rows: int
    """Most rows of a new row group."""
    page_bytes: int
    page_rows: int
    dictionary_bytes: int
    """Largest dictionary of a chunk."""
    blooms: Mapping[int, tuple[float, int | None]]
    """By field id: false-positive chance and expected distinct values of the bloom filters that are wanted."""
    bloom_bytes: int
    """Largest bloom filter."""
    copy_floor: int
    """Bytes below which a row group is not worth keeping as it is."""
    fewest_page_rows: int
    """Rows of an average page below which pages are not worth keeping."""
    batch_rows: int
    """Most rows that are decoded at once."""
    task_memory: int
    """Bytes a task may hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskContext:
    """What all units of a run have in common; sent to every worker once."""

    run_id: str
    schema: str
    """Iceberg's JSON of the table's schema."""
    types: Mapping[int, Any]
    """Type of every field that was ever in the table, by id: deletes may speak of dropped columns."""
    parents: Mapping[int, tuple[int, ...]]
    """Fields around a nested field, by id, outermost first."""
    defaults: Mapping[int, Any]
    """Initial defaults by field id, as JSON."""
    identity: Mapping[int, Sequence[int | None]]
    """By spec id: for each partition field, the field id whose values it holds as they are; `None` for others."""
    name_mapping: str | None
    """Iceberg's JSON of the name mapping, for files without ids; `None` if the table has none."""
    lineage: bool
    """True if rows have ids: format version 3."""
    metrics: Mapping[int, Any]
    """Type and metrics mode of each column, by field id: `MetricsColumn`."""
    writing: WriteSettings
    created_by: str
    properties: Mapping[str, str] = field(repr=False)
    """Properties of the table's FileIO. Secrets: never shown."""
    credentials: Sequence[tuple[str, Mapping[str, str]]] = field(repr=False)
    """Vended credentials by path prefix. Secrets: never shown."""
    inline_deletes: Mapping[tuple[str, int | None], bytes] = field(repr=False)
    """Small delete data, read once by the driver."""
    compared: Compared = Compared.SAMPLE
    """How much of the copied bytes is compared with their source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """One file to be rewritten."""

    path: str
    size: int
    rows: int
    spec_id: int
    partition: Partition
    sequence_number: int
    first_row_id: int | None
    deletes: tuple[DeleteFile, ...]
    by_key: DeleteFile | None = None
    """Vector of the rows that equality deletes delete which are not among `deletes`, because they were joined with the
    file's keys before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitWork:
    """One unit: inputs that become one output."""

    unit_id: str
    inputs: tuple[InputFile, ...]
    output: str
    """Path of the output up to what makes it unique: attempt, number and ending are added to it."""
    max_file_size: int
    """Bytes beyond which a further output is started."""
    lanes: int = 1
    """Threads that encode: more than one where cores would be idle."""
    carries: bool = False
    """True if deleted rows stay in their row groups, and the output gets a delete of its own."""

    @property
    def size(self) -> int:
        """Bytes of all inputs."""
        return sum(file.size for file in self.inputs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """One file that was written, as the footer on storage describes it."""

    path: str
    size: int
    rows: int
    metrics: Mapping[str, Any]
    """As Iceberg's JSON describes a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitReport:
    """What a task reports of a unit: its outputs and effort, or why it has none."""

    unit_id: str
    outputs: tuple[Output, ...] = ()
    rows_read: int = 0
    rows_deleted: int = 0
    row_map: RowMap | None = None
    """Where each row of the inputs is now; `None` if it has no outputs."""
    deletes: tuple[WrittenDelete, ...] = ()
    """Of rows that are in the outputs: one for each output that has any."""
    effort: Effort = NO_EFFORT
    refused: str | None = None
    """Why another method must do it."""
    failed: str | None = None
    """Why it failed, for good."""
    retried: bool = False
    """True if an earlier attempt died: it may have left a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertContext:
    """What all tasks that convert deletes have in common; sent to every worker once."""

    task: TaskContext
    bounds: Mapping[str, ManifestBounds]
    """What manifests say of delete files, by path."""
    vectors: bool
    """True if rows are deleted by vectors, false if by files of positions."""
    output: str
    """Path of new delete files up to what makes them unique."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertWork:
    """One data file whose deletes become one."""

    file: InputFile
    by_key: bytes | None = None
    """Bitmap of the rows that its equality deletes delete, where they were read before."""
    may_stay: bool = False
    """True if its position deletes may stay as they are as long as nothing is added to them."""
    only_found: bool = False
    """True if nothing is written: only the rows that its equality deletes delete are asked for."""
    only_checked: bool = False
    """True if the file is a delete file itself, which is held against its manifest and goes then."""

    @property
    def size(self) -> int:
        """Bytes of the data file."""
        return self.file.size


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertReport:
    """What a task reports of one data file."""

    path: str
    """Of the data file."""
    by_key: bytes | None = None
    """Bitmap of the rows that its equality deletes delete."""
    written: WrittenDelete | None = None
    """All of its deletes as one; `None` if no row is deleted, or `stays`."""
    stays: bool = False
    """True if its position deletes are as they should be."""
    by_key_rows: int = 0
    """Rows that equality deletes delete."""
    effort: Effort = NO_EFFORT
    refused: str | None = None
    """Why the rows of this file cannot be read here."""
    failed: str | None = None
    """Why nothing may be made of its deletes."""
    retried: bool = False
    """True if an earlier attempt died: it may have left a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinDelete:
    """One equality-delete file whose keys are joined with those of data files."""

    delete: DeleteFile
    slot: int
    """Of deletes with the same key columns and the same reach: keys are equal only within it."""
    distinct: bool
    """True if its keys are not to be put together with those of other delete files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinFile:
    """One data file whose keys are joined with those of equality deletes."""

    file: InputFile
    """Without deletes."""
    slots: tuple[int, ...]
    """In which its keys are looked for."""
    attached: frozenset[int]
    """Numbers of the deletes that apply to it, as far as these are distinct."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinContext:
    """What all tasks of a join of keys have in common; sent to every worker once."""

    task: TaskContext
    bounds: Mapping[str, ManifestBounds] = field(repr=False)
    """What manifests say of delete files, by path."""
    slots: Sequence[tuple[int, ...]]
    """Field ids of the key columns of each slot, ascending."""
    deletes: Sequence[JoinDelete] = field(repr=False)
    files: Sequence[JoinFile] = field(repr=False)
    output: str
    """Path of new files up to what makes them unique."""
    delete_parts: Sequence[Sequence[int]] = field(default=(), repr=False)
    """Which deletes each task reads."""
    file_parts: Sequence[Sequence[int]] = field(default=(), repr=False)
    """Which data files each task reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unjoined:
    """Why the keys of a data file or delete file cannot be joined."""

    path: str
    reason: str
    for_good: bool
    """True if no other method could do better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinedKeys:
    """Where the rows of one data file are written down that equality deletes delete."""

    file: int
    """Number of the data file."""
    vector: WrittenDelete
