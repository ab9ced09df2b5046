"""What may be copied as it is, and which statistics may be believed.

A copied chunk loses its file's `created_by`, and with it the hint by which readers work around the bugs
of old writers: chunks of such writers are decoded and encoded anew instead.

Bounds of numbers with a fraction are believed only where it is known that there is no NaN. Some writers leave it
out of bounds (Arrow, Rust, Go; older icepact), and readers that order it above everything then miss rows.
Others count it, or show it in a bound. Whoever is not known to show it is believed to hide it.
"""

import math
import re
import struct
from collections.abc import Mapping

from icepact.execute.parquet.footer import Chunk, Footer, RowGroup
from icepact.execute.parquet.layout import (
    BOOLEAN,
    CODECS,
    DOUBLE,
    ENCODINGS,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    INT96,
)
from icepact.execute.parquet.schema import Leaf
from icepact.execute.parquet.thrift import UNKNOWN, Fields, is_known

_WRITER = re.compile(r"\s*(?P<name>\S+)(?:\s+version\s+(?P<version>[0-9]{1,9}(?:\.[0-9]{1,9})*))?")
_OLDEST: Mapping[str, tuple[int, ...]] = {"parquet-mr": (1, 10), "parquet-cpp": (2,), "parquet-cpp-arrow": (6,)}
"""Writers below these versions have bugs that readers know of by their name.

parquet-cpp, which Arrow before 4.0 was called and which never came to 2.0, says of compressed data pages of version 2
that they are not. Arrow before 6.0 counts no nulls where the values came in a dictionary.
"""
_SHOW_NAN: Mapping[str, tuple[float, ...]] = {"parquet-mr": (math.inf,), "parquet-mr-trino": (480,)}
"""Writers below these versions that put NaN into a bound or else count it: bounds without it prove that there is none.

Trino does not count it, and may not show it either once it is built upon a parquet-mr that counts.
"""
_KNOWN_CODECS = frozenset(CODECS.values())
_UNORDERED = frozenset({"interval", "unknown", "null"})
_MOST_STATISTICS = 4096
_SIGN = b"\x80"
_REQUIRED = frozenset({1, 2, 3, 4, 5, 6, 7, 9})
"""Fields that every description of a column must have."""
_LENGTHS = {BOOLEAN: 1, INT32: 4, INT64: 8}
_FLOATS = {FLOAT: "<f", DOUBLE: "<d"}
PACKED = {**_FLOATS, INT32: "<i", INT64: "<q", BOOLEAN: "<?"}
"""How values of physical types with a width are written."""


def old_writer(footer: Footer) -> str | None:
    """Why the writer of a file is not trusted with its bytes; `None` if it is."""
    match = _WRITER.match(footer.created_by)
    if match is None:
        return "nobody knows who wrote it"
    name, version = match["name"], match["version"]
    oldest = _OLDEST.get(name)
    if oldest is None:
        return None
    if version is None:
        return f"written by {name} of no known version"
    return f"written by {name} {version}" if _numbers(version) < oldest else None


def _shows_nan(footer: Footer) -> bool:
    match = _WRITER.match(footer.created_by)
    if match is None or match["version"] is None:
        return False
    return _numbers(match["version"]) < _SHOW_NAN.get(match["name"], ())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def why_not_copied(footer: Footer, group: RowGroup, index: int) -> str | None:
    """Why a chunk must be decoded; `None` if its bytes may be copied."""
    chunk, leaf = group.chunks[index], footer.leaves[index]
    if not leaf.known or not is_known(chunk.fields) or UNKNOWN in group.fields:
        return "it has parts that icepact does not know"
    if 1 in chunk.fields:
        return "it lies in another file"
    if not chunk.meta.keys() >= _REQUIRED or chunk.uncompressed_size < 0:
        return "its description is not whole"
    if chunk.meta[3] != list(leaf.path):
        return "its description is that of another column"
    return _why_not_readable(chunk, leaf, group.rows)


def _why_not_readable(chunk: Chunk, leaf: Leaf, rows: int) -> str | None:
    reason: str | None = None
    if chunk.codec not in _KNOWN_CODECS:
        reason = f"its codec {chunk.codec} is not known"
    elif not ENCODINGS.issuperset(chunk.encodings):
        reason = "its encoding is not known"
    elif chunk.physical == INT96:
        reason = "it holds INT96"
    elif chunk.physical != leaf.physical:
        reason = "its type is not that of its schema"
    elif not leaf.repeated and chunk.values != rows:
        reason = "its values are not as many as the rows"
    return reason


def why_file_not_copied(footer: Footer) -> str | None:
    """Why nothing of a file may be copied; `None` if chunks may."""
    if not footer.known:
        return "its footer has parts that icepact does not know"
    return old_writer(footer)


def trusted_statistics(footer: Footer, index: int, chunk: Chunk) -> Fields:
    """What of a chunk's statistics holds for any reader: deprecated, unordered and undefined ones are left out."""
    statistics = chunk.statistics
    leaf = footer.leaves[index]
    if not is_known(statistics):
        return {}
    trusted: Fields = {}
    by_old_writer = old_writer(footer) is not None
    nulls = statistics.get(3, -1)
    if not by_old_writer and (0 <= nulls < chunk.values or _all_null(chunk)):
        trusted[3] = nulls
    nans = _nans(footer, leaf, chunk)
    if _float_form(leaf) is not None and nans is not None:
        trusted[9] = nans
    if footer.ordered(index) and sortable(leaf) and not by_old_writer and nans == 0:
        if usable_bound(leaf, statistics.get(5)):
            trusted |= {number: statistics[number] for number in (5, 7) if number in statistics}
        if usable_bound(leaf, statistics.get(6)):
            trusted |= {number: statistics[number] for number in (6, 8) if number in statistics}
    return trusted


def _nans(footer: Footer, leaf: Leaf, chunk: Chunk) -> int | None:
    """Number of NaN in a chunk, as far as it is known without decoding; `None` if it is not."""
    statistics = chunk.statistics
    form = _float_form(leaf)
    if form is None:
        return 0
    shown = any(_is_nan(form, statistics[number]) for number in (5, 6) if number in statistics)
    counted = statistics.get(9)
    if counted is not None:
        return counted if (1 if shown else 0) <= counted <= chunk.values else None
    if _all_null(chunk):
        return 0
    return (
        0
        if _shows_nan(footer) and usable_bound(leaf, statistics.get(5)) and usable_bound(leaf, statistics.get(6))
        else None
    )


def _all_null(chunk: Chunk) -> bool:
    """True if a chunk has nothing but nulls. Polars counted them once for each page: where there is a bound, there is a
    value."""
    return chunk.statistics.get(3) == chunk.values and {1, 2, 5, 6}.isdisjoint(chunk.statistics)


def _is_nan(form: str, bound: bytes) -> bool:
    return len(bound) == struct.calcsize(form) and math.isnan(struct.unpack(form, bound)[0])


def sortable(leaf: Leaf) -> bool:
    """True if values of the column have an order that all readers agree on."""
    return leaf.physical != INT96 and not _UNORDERED.intersection(map(str, leaf.logical))


def without_disputed(leaf: Leaf, statistics: Fields) -> Fields:
    """Statistics of a column without bounds that readers do not agree on."""
    if leaf.logical != ("uuid",) or not {5, 6} <= statistics.keys() or bounds_a_range(statistics[6], statistics[5]):
        return statistics
    return {number: value for number, value in statistics.items() if number not in (5, 6, 7, 8)}


def bounds_a_range(lower: bytes, upper: bytes) -> bool:
    """True if there is something between two uuids for all readers.

    Iceberg compares their halves as numbers with a sign, as Java does, unlike everybody who writes bounds. Between
    a lower bound without the first bit and an upper one with it, it expects nothing: `key = ...` finds no row.
    """
    half = 8 if lower[:8] == upper[:8] else 0
    return (lower[half:] < _SIGN) == (upper[half:] < _SIGN)


def _float_form(leaf: Leaf) -> str | None:
    return "<e" if leaf.logical == ("float16",) else _FLOATS.get(leaf.physical)


def bound_value(leaf: Leaf, bound: bytes) -> int | float | bytes:
    """A bound in a form that is ordered as values of the column are."""
    if leaf.physical in PACKED:
        number: int | float = struct.unpack(PACKED[leaf.physical], bound)[0]
        unsigned = leaf.logical[:1] == ("int",) and leaf.logical[2] is False
        return int(number) % (1 << 8 * len(bound)) if unsigned else number
    return int.from_bytes(bound, "big", signed=True) if leaf.logical[:1] == ("decimal",) else bytes(bound)


def usable_bound(leaf: Leaf, bound: bytes | None) -> bool:
    """True if a bound says something: present, not NaN, of the right length."""
    if bound is None or len(bound) > _MOST_STATISTICS:
        return False
    form = _float_form(leaf)
    if form is not None:
        return len(bound) == struct.calcsize(form) and not _is_nan(form, bound)
    length = leaf.length if leaf.physical == FIXED else _LENGTHS.get(leaf.physical)
    return length is None or len(bound) == length
