"""How outputs are written: the table's own `write.parquet.*`, and the policy over it."""

from collections.abc import Mapping

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import MOST_ROWS, WriteSettings
from icepact.model.errors import BadInput
from icepact.model.policy import Policy

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
