"""Parquet files bent by hand: footers encoded apart from what is tested, and able to hold nonsense."""

import copy
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from icepact.execute.parquet import thrift
from icepact.execute.parquet.footer import MAGIC, Chunk
from icepact.execute.parquet.layout import FILE_META, PAGE_HEADER
from icepact.execute.parquet.thrift import Fields, Kind, Table, read_struct


class Raw(NamedTuple):
    """The bytes of a field that no table lists."""

    wire: int
    payload: bytes = b""


def varint(value: int) -> bytes:
    """A number as Thrift's compact protocol writes it."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def encode(fields: Mapping[int, Any], table: Table) -> bytes:
    """A struct in the order of its dictionary; written apart from what is tested, and able to write nonsense."""
    out, last = b"", 0
    for number, value in fields.items():
        raw = value if isinstance(value, Raw) else _raw(value, table[number])
        short = 0 < number - last <= 15
        out += bytes([(number - last) << 4 | raw.wire]) if short else bytes([raw.wire]) + varint(_zigzag(number))
        out, last = out + raw.payload, number
    return out + b"\x00"


def _raw(value: Any, kind: Kind) -> Raw:
    wire, inside = kind
    if wire == thrift.BOOL:
        return Raw(thrift.TRUE if value else thrift.FALSE)
    if wire == thrift.STRUCT:
        return Raw(wire, encode(value, inside))
    if wire == thrift.LIST:
        size = (
            bytes([len(value) << 4 | inside[0]]) if len(value) < 15 else bytes([0xF0 | inside[0]]) + varint(len(value))
        )
        return Raw(wire, size + b"".join(_element(inner, inside) for inner in value))
    if wire == thrift.BINARY:
        return Raw(wire, varint(len(value)) + value)
    if wire == thrift.DOUBLE:
        return Raw(wire, struct.pack("<d", value))
    return Raw(wire, struct.pack("<b", value) if wire == thrift.I8 else varint(_zigzag(value)))


def _element(value: Any, kind: Kind) -> bytes:
    return (b"\x01" if value else b"\x02") if kind[0] == thrift.BOOL else _raw(value, kind).payload


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def footer_of(data: bytes) -> Fields:
    """The fields of a file's footer."""
    length = int.from_bytes(data[-8:-4], "little")
    return read_struct(data[-8 - length : -8], FILE_META)[0]


def with_footer(data: bytes, footer: bytes) -> bytes:
    """A file with another footer."""
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + MAGIC


def bent(data: bytes, change: Callable[[Fields], object]) -> bytes:
    """A file whose footer was changed by hand; `Raw` values are fields that nobody knows."""
    fields = copy.deepcopy(footer_of(data))
    change(fields)
    return with_footer(data, encode(fields, FILE_META))


def meta_of(fields: Fields, group: int = 0, column: int = 0) -> Fields:
    """A column's metadata inside a footer."""
    found: Fields = fields[4][group][1][column][3]
    return found


def meta_path(group: int = 0, column: int = 0) -> tuple[int, ...]:
    """Where a column's metadata is inside a footer."""
    return 4, group, 1, column, 3


def updating(path: Sequence[int], values: Fields) -> Callable[[Fields], object]:
    """A change of the fields that a path through the footer leads to."""

    def change(fields: Fields) -> None:
        found: Any = fields
        for step in path:
            found = found[step]
        found.update(values)

    return change


def walk(data: bytes, chunk: Chunk) -> Iterator[tuple[int, int, Fields]]:
    """Offset, length with header, and header of each page of a chunk."""
    at = chunk.start
    while at < chunk.end:
        header, behind = read_struct(data[at : chunk.end], PAGE_HEADER)
        yield at, behind + header[3], header
        at += behind + header[3]
