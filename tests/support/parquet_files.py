"""Parquet files for tests of moving them: arbitrary tables, written with arbitrary settings."""

import io
import random
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from icepact.execute.parquet.input import ByteSource

# -- where bytes come from and go to --------------------------------------------------------------------


class Stored:
    """A file in a store: not `Memory`, and whoever reads outside of it is caught."""

    def __init__(self, data: bytes, path: str = "somewhere") -> None:
        self.data = data
        self.path = path
        self.fetched = 0

    @property
    def size(self) -> int:
        """Bytes in all."""
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        """Exactly these bytes."""
        assert 0 <= offset <= offset + length <= len(self.data), f"{length} bytes at {offset} of {len(self.data)}"
        self.fetched += length
        return self.data[offset : offset + length]

    def tail(self, length: int) -> bytes:
        """The last bytes."""
        return self.data[max(0, len(self.data) - length) :]


class FileSink:
    """A local file."""

    copies_server_side = False

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.position = 0

    def append(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self.position += self._file.write(data)

    def copy(self, source: ByteSource, offset: int, length: int) -> None:
        """Add a range of a source."""
        self.append(source.read(offset, length))

    def close(self) -> None:
        """Nothing follows."""
        self._file.close()


class Part(NamedTuple):
    """A piece of an upload, and how it came there."""

    data: bytes
    copied: bool


class PartsSink:
    """An upload in parts, of which the store copies some by itself."""

    copies_server_side = True

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.position = 0

    def append(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._add(Part(bytes(data), copied=False))

    def copy(self, source: ByteSource, offset: int, length: int) -> None:
        """Add a range of a source; a store refuses to copy nothing."""
        assert length > 0
        self._add(Part(bytes(source.read(offset, length)), copied=True))

    def _add(self, part: Part) -> None:
        self.parts.append(part)
        self.position += len(part.data)

    @property
    def data(self) -> bytes:
        """The whole file."""
        return b"".join(part.data for part in self.parts)


# -- arbitrary tables -------------------------------------------------------------------------------------

_NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
_FLOATS = [pa.float16(), pa.float32(), pa.float64()]
_TIMES = [pa.date32(), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
_STAMPS = [pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC")]
_PLAIN = [pa.bool_(), pa.string(), pa.binary(), *_NUMBERS, *_FLOATS, *_TIMES, *_STAMPS]
_MOST = {"ms": 9 * 10**14, "us": 9 * 10**17, "ns": 9 * 10**18}
_EDGES = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.25]
_NULLS = 0.2


@st.composite
def _decimals(draw: st.DrawFn) -> pa.DataType:
    precision = draw(st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def _field(name: str, kind: pa.DataType, nullable: bool) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    keys = st.sampled_from([pa.string(), pa.int32(), pa.int64(), pa.date32()])
    members = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda kind, nullable: pa.list_(_field("element", kind, nullable)), inner, st.booleans()),
        members.map(lambda kinds: pa.struct([_field(f"m{n}", *kind) for n, kind in enumerate(kinds)])),
        st.builds(
            lambda key, kind, nullable: pa.map_(key, _field("value", kind, nullable)), keys, inner, st.booleans()
        ),
    )


_primitives = st.one_of(st.sampled_from(_PLAIN), _decimals(), st.integers(1, 20).map(pa.binary))
_types = st.one_of(_primitives, _nested(_primitives), _nested(_nested(st.one_of(_primitives, _nested(_primitives)))))


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    """One to five columns of any type, nested up to three times, with field ids."""
    kinds = draw(st.lists(st.tuples(_types, st.booleans()), min_size=1, max_size=5))
    fields = [_field(f"c{n}", *kind) for n, kind in enumerate(kinds)]
    return pa.schema([f.with_metadata({"PARQUET:field_id": str(n + 1)}) for n, f in enumerate(fields)])


def rows_of(schema: pa.Schema, rows: int, seed: int) -> pa.Table:
    """Rows that are the same for the same seed, with repetitions and all edge cases."""
    rng = random.Random(seed)
    columns = [[_value(f.type, f.nullable, rng) for _ in range(rows)] for f in schema]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _value(kind: pa.DataType, nullable: bool, rng: random.Random) -> Any:
    if nullable and rng.random() < _NULLS:
        return None
    if pa.types.is_struct(kind):
        return {f.name: _value(f.type, f.nullable, rng) for f in kind}
    if pa.types.is_list(kind):
        return [_value(kind.value_type, kind.value_field.nullable, rng) for _ in range(rng.randrange(4))]
    if pa.types.is_map(kind):
        keys = {_value(kind.key_type, False, rng) for _ in range(rng.randrange(4))}
        return [(key, _value(kind.item_type, kind.item_field.nullable, rng)) for key in keys]
    return _scalar(kind, rng)


def _scalar(kind: pa.DataType, rng: random.Random) -> Any:
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.choice(_EDGES) if rng.random() < 0.5 else rng.randrange(-999, 999) / 4
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        digits = str(rng.choice([0, 1, most, rng.randint(0, most)]))
        return Decimal((rng.randrange(2), tuple(map(int, digits)), -kind.scale))
    if pa.types.is_string(kind):
        return rng.choice(["", "a", "ß", "😀", "z" * 30, f"text {rng.randrange(50)}"])
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width if pa.types.is_fixed_size_binary(kind) else rng.randrange(4))
    low, high = _lowest(kind), _highest(kind)
    return rng.choice([low, high, 0, rng.randint(low, high), rng.randint(0, 9)])


def _lowest(kind: pa.DataType) -> int:
    if pa.types.is_signed_integer(kind):
        bits: int = kind.bit_width
        return -(1 << bits - 1)
    if pa.types.is_timestamp(kind):
        return -_MOST[kind.unit]
    return -500_000 if pa.types.is_date(kind) else 0


def _highest(kind: pa.DataType) -> int:
    if pa.types.is_integer(kind):
        bits: int = kind.bit_width - pa.types.is_signed_integer(kind)
        return (1 << bits) - 1
    if pa.types.is_timestamp(kind):
        return _MOST[kind.unit]
    return {"ms": 86_399_999, "us": 86_399_999_999, "ns": 86_399_999_999_999}.get(getattr(kind, "unit", ""), 500_000)


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values that can be told apart by their text: times as numbers, since Python knows no nanoseconds."""
    found: list[Any] = column.cast(_untimed(column.type)).to_pylist()
    return found


def _untimed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _untimed(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(_untimed(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_untimed(kind.key_type), _untimed(kind.item_type))
    return kind


# -- arbitrary files ----------------------------------------------------------------------------------------

_DELTAS = {
    "INT32": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
    "INT64": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
    "FLOAT": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "DOUBLE": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "BYTE_ARRAY": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
    "FIXED_LEN_BYTE_ARRAY": ["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"],
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a file is written."""

    codec: str = "zstd"
    page_version: str = "1.0"
    dictionary: bool = True
    encodings: int = 0
    """Which of the fitting encodings columns get if they have no dictionary."""
    page_rows: int = 20_000
    page_bytes: int = 1 << 20
    group_rows: int = 1 << 20
    empty_group: bool = False
    """With a row group without rows behind the first."""
    index: bool = False
    bloom: bool = False
    """With bloom filters for all columns at the top that may have one."""
    checksums: bool = False
    statistics: bool = True
    store_schema: bool = True
    short_decimals: bool = False
    """Decimals of few digits as integers."""
    sorting: tuple[int, ...] = ()
    """Leaves by which the file claims to be sorted."""


def settings(*, short_decimals: bool) -> st.SearchStrategy[Settings]:
    """Any settings."""
    return st.builds(
        Settings,
        codec=st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
        page_version=st.sampled_from(["1.0", "2.0"]),
        dictionary=st.booleans(),
        encodings=st.integers(0, 2),
        page_rows=st.sampled_from([1, 7, 20_000]),
        page_bytes=st.sampled_from([300, 1 << 20]),
        group_rows=st.sampled_from([9, 25, 1 << 20]),
        empty_group=st.booleans(),
        index=st.booleans(),
        bloom=st.booleans(),
        checksums=st.booleans(),
        statistics=st.sampled_from([True, True, True, False]),
        store_schema=st.booleans(),
        short_decimals=st.just(short_decimals),
        sorting=st.sampled_from([(), (0,)]),
    )


@dataclass(frozen=True, kw_only=True)
class Written:
    """A file and what is in it."""

    data: bytes
    table: pa.Table
    groups: tuple[int, ...] = field(default=())
    """Rows of each row group."""

    def rows(self, group: int) -> pa.Table:
        """The rows of a row group."""
        return self.table.slice(sum(self.groups[:group]), self.groups[group])


def write(table: pa.Table, how: Settings | None = None) -> Written:
    """A file, written by pyarrow."""
    how = how or Settings()
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, **_options(table.schema, how)) as writer:
        for start in range(0, table.num_rows, how.group_rows):
            writer.write_table(table.slice(start, how.group_rows))
            if start == 0 and how.empty_group:
                writer.write_table(table.slice(0, 0))
    metadata = pq.read_metadata(io.BytesIO(out.getvalue()))
    groups = tuple(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))
    return Written(data=out.getvalue(), table=table, groups=groups)


def _options(schema: pa.Schema, how: Settings) -> dict[str, Any]:
    blooms = [f.name for f in schema if not pa.types.is_nested(f.type) and not pa.types.is_boolean(f.type)]
    return {
        "compression": how.codec,
        "data_page_version": how.page_version,
        "use_dictionary": how.dictionary,
        "column_encoding": None if how.dictionary else _encodings(schema, how),
        "max_rows_per_page": how.page_rows,
        "data_page_size": how.page_bytes,
        "write_batch_size": min(how.page_rows, 16 if how.page_bytes < 1000 else 1024),
        "write_page_index": how.index,
        "write_page_checksum": how.checksums,
        "write_statistics": how.statistics,
        "store_schema": how.store_schema,
        "store_decimal_as_integer": how.short_decimals,
        "sorting_columns": [pq.SortingColumn(n, descending=n % 2 == 1) for n in how.sorting] or None,
        "bloom_filter_options": {name: {"ndv": 50} for name in blooms} if how.bloom else None,
    }


def _encodings(schema: pa.Schema, how: Settings) -> dict[str, str]:
    out = io.BytesIO()
    pq.write_table(schema.empty_table(), out, store_decimal_as_integer=how.short_decimals)
    described = pq.ParquetFile(out).schema
    found = {}
    for column in map(described.column, range(len(described))):
        choices = _DELTAS.get(column.physical_type, ["PLAIN"])
        found[column.path] = choices[how.encodings % len(choices)]
    return found
