"""What may be copied as it is, and which statistics may be believed.

A copied chunk loses its file's `created_by`, and with it the hint by which readers work around the bugs
of old writers: chunks of such writers are decoded and encoded anew instead.
"""

import math
import re
import struct
from collections.abc import Mapping

from icepact.execute.parquet.footer import Chunk, Footer, RowGroup
from icepact.execute.parquet.layout import (
    CODECS,
    DOUBLE,
    ENCODINGS,
    FLOAT,
    INT96,
)
from icepact.execute.parquet.schema import Leaf
from icepact.execute.parquet.thrift import Fields, is_known

_WRITER = re.compile(r"^(?P<name>.+?) version (?P<version>\d+(?:\.\d+)*)", re.DOTALL)
_OLDEST: Mapping[str, tuple[int, ...]] = {"parquet-mr": (1, 10), "parquet-cpp": (1, 5), "parquet-cpp-arrow": (1,)}
_KNOWN_CODECS = frozenset(CODECS.values())
_UNORDERED = frozenset({"interval", "unknown", "null"})
_MOST_STATISTICS = 4096


def old_writer(footer: Footer) -> str | None:
    """Why the writer of a file is not trusted with its bytes; null if it is."""
    if not footer.created_by:
        return "nobody knows who wrote it"
    match = _WRITER.match(footer.created_by)
    oldest = _OLDEST.get(match["name"].strip()) if match else None
    if match and oldest and tuple(int(part) for part in match["version"].split(".")) < oldest:
        return f"written by {match['name']} {match['version']}"
    return None


def why_not_copied(footer: Footer, group: RowGroup, index: int) -> str | None:
    """Why a chunk must be decoded; null if its bytes may be copied."""
    chunk, leaf = group.chunks[index], footer.leaves[index]
    reason: str | None = None
    if not leaf.known or not is_known(chunk.fields):
        reason = "it has parts that icepact does not know"
    elif 1 in chunk.fields:
        reason = "it lies in another file"
    elif chunk.codec not in _KNOWN_CODECS:
        reason = f"its codec {chunk.codec} is not known"
    elif not ENCODINGS.issuperset(chunk.encodings):
        reason = "its encoding is not known"
    elif chunk.physical == INT96:
        reason = "it holds INT96"
    elif chunk.physical != leaf.physical:
        reason = "its type is not that of its schema"
    elif not leaf.repeated and chunk.values != group.rows:
        reason = "its values are not as many as the rows"
    return reason


def why_file_not_copied(footer: Footer) -> str | None:
    """Why nothing of a file may be copied; null if chunks may."""
    if not footer.known:
        return "its footer has parts that icepact does not know"
    return old_writer(footer)


def trusted_statistics(footer: Footer, index: int, chunk: Chunk) -> Fields:
    """What of a chunk's statistics holds for any reader: deprecated, unordered and undefined ones are left out."""
    told = chunk.statistics
    leaf = footer.leaves[index]
    if not is_known(told):
        return {}
    kept: Fields = {}
    if 0 <= told.get(3, -1) <= chunk.values:
        kept[3] = told[3]
    if footer.ordered(index) and sortable(leaf) and old_writer(footer) is None:
        if usable_bound(leaf, told.get(5)):
            kept |= {number: told[number] for number in (5, 7) if number in told}
        if usable_bound(leaf, told.get(6)):
            kept |= {number: told[number] for number in (6, 8) if number in told}
    return kept


def sortable(leaf: Leaf) -> bool:
    """True if values of the column have an order that all readers agree on."""
    return leaf.physical != INT96 and not _UNORDERED.intersection(map(str, leaf.logical))


def usable_bound(leaf: Leaf, bound: bytes | None) -> bool:
    """True if a bound says something: present, not NaN, of the right length."""
    if bound is None or len(bound) > _MOST_STATISTICS:
        return False
    if leaf.physical == FLOAT:
        return len(bound) == 4 and not math.isnan(struct.unpack("<f", bound)[0])
    if leaf.physical == DOUBLE:
        return len(bound) == 8 and not math.isnan(struct.unpack("<d", bound)[0])
    lengths = {0: 1, 1: 4, 2: 8}
    return leaf.physical not in lengths or len(bound) == lengths[leaf.physical]
