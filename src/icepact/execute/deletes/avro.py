"""Avro delete files, for polars: field ids from the header, and the few things polars does not read.

Polars decodes Avro fast but drops the `field-id` attributes, refuses types that are referred to by name
(Iceberg writes the second of two equal fixed types so) and knows no zstandard. So the header is read here,
and the file is handed on with its schema spelled out.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAGIC = b"Obj\x01"
_ZSTANDARD = b"zstandard"


@dataclass(frozen=True, kw_only=True, slots=True)
class AvroFile:
    """One container file, taken apart as far as needed."""

    meta: Mapping[str, bytes]
    schema: Mapping[str, Any]
    """The record type, names resolved."""
    sync: bytes
    body: memoryview
    """The blocks behind the header."""

    @property
    def rows(self) -> int:
        """Records of all blocks."""
        return sum(count for count, _ in self._blocks())

    def read(self, columns: list[str]) -> pa.Table:
        """These top-level columns."""
        import polars as pl  # it takes longer to import than all the rest: only where it is used

        try:
            frame = pl.read_avro(io.BytesIO(self._readable()), columns=columns)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            # the latter is not even an Exception: it would end the worker
            raise ValueError(f"polars gave up: {error}") from None
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest())

    def _readable(self) -> bytes:
        """The same file as polars understands it."""
        meta = dict(self.meta) | {"avro.schema": json.dumps(self.schema).encode()}
        out = io.BytesIO()
        unpacked = meta.get("avro.codec") == _ZSTANDARD
        if unpacked:
            meta["avro.codec"] = b"null"
        out.write(MAGIC + _long(len(meta)))
        for key, value in meta.items():
            out.write(_long(len(key.encode())) + key.encode() + _long(len(value)) + value)
        out.write(_long(0) + self.sync)
        if not unpacked:
            out.write(self.body)
            return out.getvalue()
        for count, packed in self._blocks():
            block = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read()
            out.write(_long(count) + _long(len(block)) + block + self.sync)
        return out.getvalue()

    def _blocks(self) -> Iterator[tuple[int, memoryview]]:
        source = _AvroReader(self.body)
        while source.at < len(self.body):
            count, block = source.long(), source.bytes()
            if bytes(source.take(16)) != self.sync:
                raise ValueError("a block does not end with the sync marker")
            yield count, block


def open_avro(data: memoryview) -> AvroFile:
    """Read the header; raises ValueError if this is not Avro."""
    source = _AvroReader(data)
    if bytes(source.take(4)) != MAGIC:
        raise ValueError("this is not an Avro file")
    meta: dict[str, bytes] = {}
    while count := source.long():
        if count < 0:  # a negative count is followed by the size of the map's block
            count, _ = -count, source.long()
        for _ in range(count):
            key = bytes(source.bytes()).decode()
            meta[key] = bytes(source.bytes())
    sync = bytes(source.take(16))
    schema = _resolved(json.loads(meta["avro.schema"]), {})
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its rows are no records")
    return AvroFile(meta=meta, schema=schema, sync=sync, body=data[source.at :])


def field_paths(record: Mapping[str, Any], above: tuple[int, ...] = ()) -> dict[int, tuple[int, ...] | None]:
    """Where each field id is, as indexes through records; `None` if it is inside a list or map."""
    paths: dict[int, tuple[int, ...] | None] = {}
    for index, field in enumerate(record["fields"]):
        path = (*above, index)
        if "field-id" in field:
            paths[field["field-id"]] = path
        kind = _without_null(field["type"])
        if isinstance(kind, dict) and kind["type"] == "record":
            paths |= field_paths(kind, path)
        else:
            paths |= dict.fromkeys(_ids_inside(kind))
    return paths


def _ids_inside(kind: Any) -> Iterator[int]:
    """Ids of elements, keys and values, and of all below them."""
    match kind:
        case list():
            for member in kind:
                yield from _ids_inside(member)
        case dict():
            yield from (v for k, v in kind.items() if k in ("field-id", "element-id", "key-id", "value-id"))
            for below in ("type", "items", "values"):
                yield from _ids_inside(kind.get(below))
            for field in kind.get("fields", ()):
                yield from _ids_inside(field)


def _without_null(kind: Any) -> Any:
    members = [member for member in kind if member != "null"] if isinstance(kind, list) else [kind]
    return members[0] if len(members) == 1 else kind


def _resolved(kind: Any, named: dict[str, Any]) -> Any:
    """The same type with every reference to a named type replaced by that type."""
    match kind:
        case str():
            return named.get(kind, kind)
        case list():
            return [_resolved(member, named) for member in kind]
        case {"type": "record", "name": name, "fields": fields}:
            whole = kind | {"fields": [f | {"type": _resolved(f["type"], named)} for f in fields]}
            named[name] = whole
            return whole
        case {"type": "fixed" | "enum", "name": name}:
            named[name] = kind
            return kind
        case {"type": "array" | "map" as outer}:
            below = "items" if outer == "array" else "values"
            return kind | {below: _resolved(kind[below], named)}
    return kind


class _AvroReader:
    """Avro's variable-length numbers and byte strings."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def take(self, size: int) -> memoryview:
        if size < 0 or self.at + size > len(self._data):
            raise ValueError("it is cut short")
        self.at += size
        return self._data[self.at - size : self.at]

    def long(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        value |= byte << shift
        return value >> 1 ^ -(value & 1)

    def bytes(self) -> memoryview:
        return self.take(self.long())


def _long(value: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
