"""What a manifest says of a finished file: sizes, counts and bounds of its columns, from its footer alone.

The answer is that of Iceberg's own `ParquetUtil.fileMetrics`, so that our files are pruned like any other.
Where that answer may cut off rows, less is said than Iceberg says:
- A row group has values but no bounds (too long to be written down; a NaN among them): Iceberg takes the bounds
  of the other row groups for the whole file. Here the column has no bounds.
- Nobody counted the nulls: Iceberg then takes bounds to be those of every row when it deletes whole files, and a
  `DELETE` by a range would take rows with nulls along. Here the column has no bounds.
- Bounds of a text were cut inside a character: Iceberg puts another, larger character there. Here the column
  has no bounds. So it is with numbers whose annotation is not that of the column's type: other units of time,
  another scale, no sign.
- Bounds of uuids differ in a sign that only Iceberg sees: see `trust`.
- Bounds stand in the deprecated fields only, or the file does not say how they are ordered: see `trust`.
NaN counts are not in a footer and are left out. So is all about variants, whose parts have no ids.
"""

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icepact.execute.assemble.target import LINEAGE, decimal_of
from icepact.execute.parquet.footer import Chunk, Footer
from icepact.execute.parquet.layout import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    INT96,
)
from icepact.execute.parquet.schema import Leaf
from icepact.execute.parquet.thrift import Fields
from icepact.execute.parquet.trust import PACKED, bound_value, bounds_a_range, trusted_statistics
from icepact.model.schema import every_field

Value = int | float | bytes
"""A bound in a form that is ordered as Iceberg orders values of its type."""

_UNCUT = 2**31 - 1
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_KIND = re.compile(r"[a-z_]+")
_INT32, _INT64 = frozenset({INT32}), frozenset({INT64})
_PHYSICAL_TYPES: Mapping[str, frozenset[int]] = {
    "boolean": frozenset({BOOLEAN}),
    "int": _INT32,
    "long": _INT32 | _INT64,
    "float": frozenset({FLOAT}),
    "double": frozenset({FLOAT, DOUBLE}),
    "decimal": _INT32 | _INT64 | {FIXED, BYTE_ARRAY},
    "date": _INT32,
    **dict.fromkeys(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _INT64),
    "string": frozenset({BYTE_ARRAY}),
    "binary": frozenset({BYTE_ARRAY}),
    "fixed": frozenset({FIXED}),
    "uuid": frozenset({FIXED}),
}
"""Physical types by the types that have bounds; a file may be older than the promotion of its column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsMode:
    """How much the metrics of a file say of a column: `write.metadata.metrics.*`."""

    counted: bool
    """False if nothing is said at all."""
    bound_length: int
    """Most characters of a text's bound, or bytes of a binary's; 0 if the column, of whatever type, has no bounds."""

    @classmethod
    def of(cls, text: str) -> "MetricsMode":
        """From Iceberg's own words: `none`, `counts`, `truncate(16)`, `full`."""
        word = text.lower()
        if word in ("none", "counts"):
            return cls(counted=word == "counts", bound_length=0)
        if word == "full":
            return cls(counted=True, bound_length=_UNCUT)
        match = _TRUNCATE.fullmatch(word)
        if match is None or int(match[1]) == 0:
            raise ValueError(f"no metrics mode: {text}")
        return cls(counted=True, bound_length=int(match[1]))


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsColumn:
    """Type and metrics mode of a column."""

    type: str
    """Iceberg's name of its type: `long`, `decimal(12, 2)`, `fixed[16]`."""
    mode: MetricsMode


@dataclass(frozen=True, kw_only=True, slots=True)
class FileMetrics:
    """Metrics of a file's columns, by field id."""

    column_sizes: Mapping[int, int]
    """Bytes in the file, compressed."""
    value_counts: Mapping[int, int]
    """Values, nulls included."""
    null_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, str]
    """Iceberg's single-value serialization in hex, capital letters."""
    upper_bounds: Mapping[int, str]
    split_offsets: Sequence[int]
    """Where a reader of a part of the file may begin, ascending: starts of row groups."""

    def to_json(self) -> dict[str, dict[str, list[int | str]] | list[int]]:
        """As Iceberg's ContentFileParser writes it: part of the JSON of a data file."""
        document: dict[str, dict[str, list[int | str]] | list[int]] = {
            "column-sizes": _listed(self.column_sizes),
            "value-counts": _listed(self.value_counts),
            "null-value-counts": _listed(self.null_value_counts),
            "lower-bounds": _listed(self.lower_bounds),
            "upper-bounds": _listed(self.upper_bounds),
        }
        if self.split_offsets:
            document["split-offsets"] = list(self.split_offsets)
        return document


def _listed(by_id: Mapping[int, int | str]) -> dict[str, list[int | str]]:
    return {"keys": list(by_id), "values": list(by_id.values())}


# -- which columns ----------------------------------------------------------------------------------


def metrics_columns(schema_json: Mapping[str, Any], mode_of: Callable[[str], MetricsMode]) -> dict[int, MetricsColumn]:
    """Every column with values of Iceberg's JSON schema, by field id.

    `mode_of` is asked by full names: `address.city`, `tags.element`, `prices.value`. It is asked for the names of
    the two columns of row lineage as well: Iceberg treats them like any column that nobody mentioned.
    """
    fields = every_field(schema_json) | every_field({"type": "struct", "fields": LINEAGE})
    return {
        field_id: MetricsColumn(type=field.kind, mode=mode_of(field.name))
        for field_id, field in fields.items()
        if isinstance(field.kind, str)
    }


# -- what is said of them ---------------------------------------------------------------------------


def file_metrics(footer: Footer, columns: Mapping[int, MetricsColumn], *, split_bytes: int = 0) -> FileMetrics:
    """What the footer of a finished file says of these columns; others are passed over.

    Splits of fewer than `split_bytes` are not offered.
    """
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, str] = {}
    upper: dict[int, str] = {}
    for index, leaf in enumerate(footer.leaves):
        column = None if leaf.field_id is None else columns.get(leaf.field_id)
        if leaf.field_id is None or column is None or not column.mode.counted:
            continue
        chunks = [group.chunks[index] for group in footer.row_groups]
        if chunks:
            sizes[leaf.field_id] = sum(chunk.size for chunk in chunks)
        statistics = [trusted_statistics(footer, index, chunk) for chunk in chunks]
        if leaf.repeated or leaf.physical == INT96 or not all(3 in one or _bounded(one) for one in statistics):
            continue
        values[leaf.field_id] = sum(chunk.values for chunk in chunks)
        nulls_known = all(3 in one for one in statistics)
        if nulls_known:
            nulls[leaf.field_id] = sum(one[3] for one in statistics)
        lowest, highest = _bounds(column, leaf, chunks, statistics) if nulls_known or leaf.never_null else (None, None)
        if lowest is not None:
            lower[leaf.field_id] = lowest.hex().upper()
        if highest is not None:
            upper[leaf.field_id] = highest.hex().upper()
    return FileMetrics(
        column_sizes=sizes,
        value_counts=values,
        null_value_counts=nulls,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=_split_offsets(footer, split_bytes),
    )


def _split_offsets(footer: Footer, least: int) -> tuple[int, ...]:
    """Starts of row groups that are `least` bytes apart, and as far from the end.

    Engines make a task of each split if they believe to have the cores. A task has a fixed cost and reads the
    whole footer, so that one for each small row group makes scans slower than large row groups would.
    """
    starts = sorted(group.chunks[0].start for group in footer.row_groups)
    offered = starts[:1]
    for start in starts[1:]:
        if start - offered[-1] >= least and footer.file_size - start >= least:
            offered.append(start)
    return tuple(offered)


def _bounded(statistics: Fields) -> bool:
    return 5 in statistics and 6 in statistics


def _bounds(
    column: MetricsColumn, leaf: Leaf, chunks: Sequence[Chunk], statistics: Sequence[Fields]
) -> tuple[bytes | None, bytes | None]:
    """The serialized bounds of a column over all row groups, cut to the length that is wanted."""
    if not column.mode.bound_length or not _means_its_type(column.type, leaf):
        return None, None
    full = [(one, chunk) for one, chunk in zip(statistics, chunks, strict=True) if one.get(3) != chunk.values]
    if not full or not all(_bounded(one) for one, _ in full):
        return None, None
    lowest = min(bound_value(leaf, one[6]) for one, _ in full)
    highest = max(bound_value(leaf, one[5]) for one, _ in full)
    match lowest, highest:
        case bytes(low), bytes(high) if column.type == "uuid" and not bounds_a_range(low, high):
            return None, None
    try:
        return (
            cut_lower(column.type, serialized(column.type, leaf.physical, lowest, zero=-0.0), column.mode.bound_length),
            cut_upper(column.type, serialized(column.type, leaf.physical, highest, zero=0.0), column.mode.bound_length),
        )
    except UnicodeDecodeError:
        return None, None


def _means_its_type(kind: str, leaf: Leaf) -> bool:
    """True if the file's numbers and bytes mean what the column's type says."""
    name = _name(kind)
    if leaf.physical not in _PHYSICAL_TYPES.get(name, ()):
        return False
    match leaf.logical:
        case ("decimal", _, scale):
            wanted = decimal_of(kind)
            return wanted is not None and wanted[1] == scale
        case ("time" | "timestamp", _, unit):
            return unit == ("nanos" if name.endswith("_ns") else "micros")
        case ("int", _, signed):
            return signed is True
        case ("float16",):
            return False
    return name != "decimal"


def _name(kind: str) -> str:
    """The type without what is in brackets."""
    match = _KIND.match(kind)
    return match[0] if match else kind


def serialized(kind: str, physical: int, value: Value, *, zero: float) -> bytes:
    """Iceberg's single-value serialization; `zero` is written for a zero with a fraction, whatever its sign.

    Numbers keep the width they have in the file: a reader widens them to the type its column has by now.
    """
    if isinstance(value, bytes):
        return value
    if _name(kind) == "decimal":
        number = int(value)
        bits = (number if number >= 0 else ~number).bit_length()
        return number.to_bytes(bits // 8 + 1, "big", signed=True)
    if isinstance(value, float) and value == 0:
        value = zero
    return struct.pack(PACKED[physical], value)


# -- cutting ----------------------------------------------------------------------------------------


def cut_lower(kind: str, bound: bytes, length: int) -> bytes:
    """A bound that is not above the given one and not longer than wanted; only texts and binaries are cut."""
    if kind == "string":
        return bound.decode()[:length].encode()
    return bound[:length] if kind == "binary" else bound


def cut_upper(kind: str, bound: bytes, length: int) -> bytes | None:
    """A bound that is not below the given one and not longer than wanted; `None` if there is none."""
    if kind == "string":
        text = bound.decode()
        return bound if len(text) <= length else _next_text(text[:length])
    if kind == "binary" and len(bound) > length:
        return _next_binary(bound[:length])
    return bound


def _next_text(text: str) -> bytes | None:
    """The least text above all that start with this one: the last character that can grow grows."""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return None
    after = ord(kept[-1]) + 1
    if after == 0xD800:  # surrogates are no characters
        after = 0xE000
    return (kept[:-1] + chr(after)).encode()


def _next_binary(start: bytes) -> bytes | None:
    """The least bytes above all that start with these."""
    kept = start.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
