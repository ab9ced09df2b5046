"""What tasks are told: how outputs are written, by the table's own `write.parquet.*` and the policy over it, and what
inputs mean."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import MOST_ROWS, Compared, InputFile, TaskContext, WriteSettings
from icepact.execute.assemble.metrics import MetricsMode, metrics_columns
from icepact.execute.assemble.target import LINEAGE
from icepact.execute.assemble.task import fetch
from icepact.execute.storage.open import storage_for
from icepact.iceberg.table.table import IcebergTable
from icepact.iceberg.table.write_context import WriteContext, write_context
from icepact.model.errors import BadInput, IcepactError
from icepact.model.files import DataFile, DeleteFile
from icepact.model.policy import Policy, Proofs
from icepact.model.schema import every_field

INLINE_DELETES = 10 * 1024**2
"""Bytes of delete data that the driver reads once and sends along; more is read by the tasks."""
_LINEAGE_VERSION = 3
_COMPARED: Mapping[Proofs, Compared] = {
    Proofs.OFF: Compared.NOTHING,
    Proofs.FOOTERS: Compared.SAMPLE,
    Proofs.FULL: Compared.ALL,
}

_PREFIX = "write.parquet."
_CODECS = {"lz4": "lz4_raw", "none": "uncompressed"}
LEVELS = {
    "zstd": range(1, 23),
    "gzip": range(1, 10),
    "lz4_raw": range(1, 13),
    "snappy": range(0),
    "uncompressed": range(0),
}
"""Codecs that Spark can read, and their levels; a level for a codec that has none means nothing."""
_DEFAULT_LEVELS = {"zstd": 3}
"""What Iceberg's own writer takes."""
_DEFAULT_LEVELS_OF_NUMBERS = {"zstd": 1}
"""Numbers take as much space at level 1 as at level 3, give or take some percent, and a fifth less time."""
_BLOOM_ENABLED = f"{_PREFIX}bloom-filter-enabled.column."
_BLOOM_CHANCE = f"{_PREFIX}bloom-filter-fpp.column."
_BLOOM_DISTINCT = f"{_PREFIX}bloom-filter-ndv.column."


def writing_of(properties: Mapping[str, str], policy: Policy, ids: Mapping[str, int]) -> WriteSettings:
    """Settings for new row groups; `ids` are the field ids of the table's columns by name."""
    name = str(policy.codec.value if policy.codec else properties.get(f"{_PREFIX}compression-codec", "zstd")).lower()
    codec = _CODECS.get(name, name)
    if codec not in LEVELS:
        raise NotAssembled(f"it cannot write the codec {name}")
    level = policy.compression_level
    if level is None and policy.codec is None:
        level = _number(properties, "compression-level", None)
    if level is not None and level not in LEVELS[codec]:
        if LEVELS[codec]:
            raise BadInput(f"compression level {level}: {name} has {LEVELS[codec].start} to {LEVELS[codec].stop - 1}")
        level = None
    return WriteSettings(
        codec=codec,
        level=_DEFAULT_LEVELS.get(codec) if level is None else level,
        level_of_numbers=_DEFAULT_LEVELS_OF_NUMBERS.get(codec) if level is None else level,
        recode=policy.recode,
        row_group_bytes=policy.row_group_size or _number(properties, "row-group-size-bytes", 128 * 1024**2) or 1,
        row_group_rows=policy.row_group_rows or MOST_ROWS,
        page_bytes=_number(properties, "page-size-bytes", 1024**2) or 1,
        page_rows=_number(properties, "page-row-limit", 20_000) or 1,
        dictionary_bytes=_number(properties, "dict-size-bytes", 2 * 1024**2) or 1,
        blooms=_blooms(properties, ids),
        bloom_bytes=_number(properties, "bloom-filter-max-bytes", 1024**2) or 32,
        copy_floor=policy.min_row_group_size,
        fewest_page_rows=policy.min_page_rows,
        batch_rows=policy.batch_rows or MOST_ROWS,
        task_memory=policy.task_memory,
    )


def _number(properties: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = properties.get(_PREFIX + name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise BadInput(f"the table property {_PREFIX}{name} is not a whole number") from None


def _blooms(properties: Mapping[str, str], ids: Mapping[str, int]) -> dict[int, tuple[float, int | None]]:
    blooms: dict[int, tuple[float, int | None]] = {}
    for key, value in properties.items():
        name = key.removeprefix(_BLOOM_ENABLED)
        if key.startswith(_BLOOM_ENABLED) and value.lower() == "true" and name in ids:
            expected = properties.get(_BLOOM_DISTINCT + name)
            chance = float(properties.get(_BLOOM_CHANCE + name, "0.01"))
            blooms[ids[name]] = chance, None if expected is None else int(expected)
    return blooms


def facts_for_tasks(table: IcebergTable) -> WriteContext:
    """What is to be known of a table for `task_context`."""
    names = [field.name for field in every_field(json.loads(table.schema)).values()]
    return write_context(table, [*names, *(str(field["name"]) for field in LINEAGE)])


def task_context(
    facts: WriteContext,
    policy: Policy,
    run_id: str,
    inline: Mapping[tuple[str, int | None], bytes],
    *,
    format_version: int,
) -> TaskContext:
    """What all tasks of a run have in common; `inline` are deletes that are sent along."""
    fields = {i: f for schema in facts.schemas for i, f in every_field(schema).items()}
    current = every_field(json.loads(facts.schema))
    fields |= current
    modes = {name: MetricsMode.of(mode) for name, mode in facts.metrics_modes.items()}
    return TaskContext(
        run_id=run_id,
        schema=facts.schema,
        types={i: f.kind for i, f in fields.items()},
        parents={i: f.parents for i, f in fields.items()},
        defaults={i: f.default for i, f in fields.items() if f.default is not None},
        identity=facts.identity,
        name_mapping=facts.name_mapping,
        lineage=format_version >= _LINEAGE_VERSION,
        metrics=metrics_columns(json.loads(facts.schema), modes.__getitem__),
        writing=writing_of(facts.properties, policy, {f.name: i for i, f in current.items()}),
        created_by=f"icepact version {version('icepact')}",
        properties=dict(facts.io),
        credentials=list(facts.credentials),
        inline_deletes=inline,
        compared=_COMPARED[policy.verify],
    )


def input_file(file: DataFile, deletes: Sequence[DeleteFile]) -> InputFile:
    """A data file with the deletes that apply to it, as tasks are told of it."""
    return InputFile(
        path=file.path,
        size=file.size,
        rows=file.rows,
        spec_id=file.spec_id,
        partition=file.partition,
        sequence_number=file.sequence_number,
        first_row_id=file.first_row_id,
        deletes=tuple(deletes[i] for i in file.deletes),
    )


def small_deletes(facts: WriteContext, deletes: Sequence[DeleteFile]) -> dict[tuple[str, int | None], bytes]:
    """The data of some deletes, if it is little: read once, to be sent along."""
    if not deletes or sum(delete.size for delete in deletes) > INLINE_DELETES:
        return {}
    storage = storage_for(facts.io, facts.credentials)
    try:
        return {delete.key: bytes(fetch(storage, delete)) for delete in deletes}
    except (IcepactError, ValueError):
        return {}  # the tasks will say which one, and only its groups will fail
