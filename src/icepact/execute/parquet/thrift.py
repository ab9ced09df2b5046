"""Thrift's compact protocol, driven by tables of what is known.

The reader sees every field. One that the table does not list, or that has another type than listed, is
stepped over and leaves a mark in its struct, so that the caller can refuse to copy what it describes.
Input is not trusted: whatever the bytes say, reading ends, and with `Damaged` if they make no sense.
"""

import struct as _struct
from collections.abc import Mapping
from typing import Any

from icepact.execute.parquet.errors import Damaged

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
BOOL = TRUE

Kind = tuple[int, Any]
"""Wire type, and what is inside: the kind of a list's elements, or the table of a struct."""
Table = Mapping[int, Kind]
"""Known fields of a struct by their id."""
Fields = dict[int, Any]
"""A struct that was read: values by field id."""

UNKNOWN = -1
"""Key of the mark that a struct holds something that its table does not list."""
_DEEPEST = 64
_LIMITS = {I16: 1 << 15, I32: 1 << 31, I64: 1 << 63}


def scalar(wire: int) -> Kind:
    """A field without anything inside."""
    return wire, None


def list_of(kind: Kind) -> Kind:
    """A list of one kind."""
    return LIST, kind


def struct_of(table: Table) -> Kind:
    """A nested struct."""
    return STRUCT, table


def read_struct(data: bytes | memoryview, table: Table, at: int = 0) -> tuple[Fields, int]:
    """The struct that starts at a position, and the position behind it."""
    reader = _ThriftReader(data, at)
    try:
        fields = reader.struct(table)
    except IndexError:
        raise Damaged("a structure ends too early") from None
    return fields, reader.at


def is_known(value: Any) -> bool:
    """True if nothing in a value that was read is unknown to its table, at any depth."""
    if isinstance(value, dict):
        return UNKNOWN not in value and all(is_known(inner) for inner in value.values())
    if isinstance(value, list):
        return all(is_known(inner) for inner in value) if value and isinstance(value[0], (dict, list)) else True
    return True


class _ThriftReader:
    """Reads values of thrift's compact protocol from a position on."""

    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self.data = bytes(data) if isinstance(data, memoryview) else data
        self.at = at

    def varint(self) -> int:
        data, at = self.data, self.at
        byte = data[at]
        at += 1
        if byte < 0x80:
            self.at = at
            return byte
        value, shift = byte & 0x7F, 7
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return value
            shift += 7
            if shift > 63:
                raise Damaged("a number is too long")

    def number(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def sized(self, wire: int) -> int:
        value, limit = self.number(), _LIMITS[wire]
        if not -limit <= value < limit:
            raise Damaged("a number does not fit its type")
        return value

    def binary(self) -> bytes:
        length = self.varint()
        end = self.at + length
        if end > len(self.data):
            raise Damaged("a text is longer than the file")
        value = self.data[self.at : end]
        self.at = end
        return value

    def struct(self, table: Table) -> Fields:
        data = self.data
        fields: Fields = {}
        last = 0
        while True:
            head = data[self.at]
            self.at += 1
            if head == 0:
                return fields
            wire = head & 0x0F
            last = last + (head >> 4) if head >> 4 else self.number()
            kind = table.get(last)
            if kind is None or (wire != kind[0] and not (wire == FALSE and kind[0] == BOOL)):
                fields[UNKNOWN] = True
                self.skip(wire, 0)
                continue
            if last in fields:
                raise Damaged("a field occurs twice")
            fields[last] = (wire == TRUE) if kind[0] == BOOL else self.value(wire, kind[1], fields)

    def value(self, wire: int, inside: Any, owner: Fields) -> Any:
        if wire in _LIMITS:
            return self.sized(wire)
        if wire == BINARY:
            return self.binary()
        if wire == STRUCT:
            return self.struct(inside)
        if wire == LIST:
            return self.list(inside, owner)
        if wire == I8:
            return int.from_bytes([self.byte()], signed=True)
        if wire == DOUBLE:
            return self.double()
        raise Damaged(f"there is no type {wire}")

    def double(self) -> float:
        if self.at + 8 > len(self.data):
            raise IndexError
        value: float = _struct.unpack_from("<d", self.data, self.at)[0]
        self.at += 8
        return value

    def list_head(self) -> tuple[int, int]:
        head = self.byte()
        size = head >> 4
        if size == 15:
            size = self.varint()
        if size > len(self.data) - self.at:  # every element takes at least a byte
            raise Damaged("a list is longer than the file")
        return size, head & 0x0F

    def list(self, element: Kind, owner: Fields) -> list[Any]:
        size, wire = self.list_head()
        expected, inside = element
        if wire != expected and not (expected == BOOL and wire == FALSE):
            if size:
                owner[UNKNOWN] = True
            for _ in range(size):
                self.skip_element(wire, 1)
            return []
        if expected == STRUCT:
            return [self.struct(inside) for _ in range(size)]
        if expected in _LIMITS:
            return [self.sized(expected) for _ in range(size)]
        if expected == BOOL:
            return [self.byte() == TRUE for _ in range(size)]
        return [self.value(expected, inside, owner) for _ in range(size)]

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def skip(self, wire: int, depth: int) -> None:
        """Step over a field of any type; a boolean field has its value in its head."""
        if wire not in (TRUE, FALSE):
            self.skip_element(wire, depth)

    def skip_element(self, wire: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise Damaged("structures are nested too deeply")
        if wire in (TRUE, FALSE, I8):
            self.byte()
        elif wire in (I16, I32, I64):
            self.varint()
        elif wire == DOUBLE:
            self.double()
        elif wire == BINARY:
            self.binary()
        elif wire in (LIST, SET):
            size, inner = self.list_head()
            for _ in range(size):
                self.skip_element(inner, depth + 1)
        elif wire == MAP:
            self.skip_map(depth)
        elif wire == STRUCT:
            self.skip_struct(depth)
        elif wire == UUID:
            self.at += 16
        else:
            raise Damaged(f"there is no type {wire}")

    def skip_struct(self, depth: int) -> None:
        while head := self.byte():
            if not head >> 4:
                self.varint()
            self.skip(head & 0x0F, depth + 1)

    def skip_map(self, depth: int) -> None:
        size = self.varint()
        if not size:
            return
        if size > len(self.data) - self.at:
            raise Damaged("a map is longer than the file")
        kinds = self.byte()
        for _ in range(size):
            self.skip_element(kinds >> 4, depth + 1)
            self.skip_element(kinds & 0x0F, depth + 1)


def write_struct(fields: Fields, table: Table) -> bytes:
    """The bytes of a struct; all of it must be known."""
    out = bytearray()
    _write_struct(out, fields, table)
    return bytes(out)


def _write_struct(out: bytearray, fields: Fields, table: Table) -> None:
    last = 0
    for number in sorted(fields):
        wire, inside = table[number]
        value = fields[number]
        if wire == BOOL:
            wire = TRUE if value else FALSE
        if 0 < number - last < 16:
            out.append((number - last) << 4 | wire)
        else:
            out.append(wire)
            _write_varint(out, number << 1)
        last = number
        if wire not in (TRUE, FALSE):
            _write_value(out, value, wire, inside)
    out.append(0)


def _write_value(out: bytearray, value: Any, wire: int, inside: Any) -> None:
    if wire in (I16, I32, I64):
        _write_varint(out, (value << 1) if value >= 0 else ((-value << 1) - 1))
    elif wire == BINARY:
        _write_varint(out, len(value))
        out += value
    elif wire == STRUCT:
        _write_struct(out, value, inside)
    elif wire == LIST:
        _write_list(out, value, inside)
    elif wire == I8:
        out.append(value & 0xFF)
    elif wire == DOUBLE:
        out += _struct.pack("<d", value)
    else:
        raise ValueError(f"type {wire} is not written")


def _write_list(out: bytearray, values: list[Any], element: Kind) -> None:
    wire, inside = element
    if len(values) < 15:
        out.append(len(values) << 4 | wire)
    else:
        out.append(0xF0 | wire)
        _write_varint(out, len(values))
    for value in values:
        if wire == BOOL:
            out.append(TRUE if value else FALSE)
        else:
            _write_value(out, value, wire, inside)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint(value: int) -> bytes:
    """A number of as many bytes as it takes, low bits first."""
    out = bytearray()
    _write_varint(out, value)
    return bytes(out)
