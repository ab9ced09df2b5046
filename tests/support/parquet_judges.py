"""Judges of Parquet files that were assembled: pyarrow, DuckDB, and what can be computed from the bytes."""

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.parquet.assembler import AssembledFile
from icepact.execute.parquet.footer import Chunk, Footer
from icepact.execute.parquet.input import Input, MemorySource, Pick
from icepact.execute.parquet.layout import (
    BLOOM_HEADER,
    BOOLEAN,
    BYTE_STREAM_SPLIT,
    DATA_PAGE,
    DATA_PAGE_V2,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    OFFSET_INDEX,
)
from icepact.execute.parquet.pages import check_pages
from icepact.execute.parquet.schema import Leaf
from icepact.execute.parquet.thrift import Fields, read_struct
from tests.support.parquet_bent import footer_of, walk
from tests.support.parquet_files import plain

CREATED_BY = "icepact version 0.1.0"


def opened(data: bytes) -> pq.ParquetFile:
    """The file as pyarrow sees it, checksums included."""
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


def same_rows(data: bytes, expected: pa.Table) -> None:
    """pyarrow reads exactly these rows, NaN and -0.0 included."""
    read = opened(data).read()
    assert read.column_names == expected.column_names
    for name in expected.column_names:
        assert repr(plain(read[name])) == repr(plain(expected[name])), name


# -- DuckDB -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A range of rows of a file."""

    path: Path
    first: int
    count: int


def duckdb_rows(query: str) -> list[tuple[Any, ...]]:
    """What DuckDB answers to a query."""
    found = duckdb.sql(query)
    assert found is not None
    return found.fetchall()


def duckdb_sums(rows: Sequence[Rows], columns: Sequence[str]) -> tuple[int, ...]:
    """Rows; and for each column its values, and the sum of their hashes."""
    names = ", ".join(["file_row_number", *(f'"{name}"' for name in columns)])
    parts = [
        f"select {names} from read_parquet('{part.path}', file_row_number=true) "
        f"where file_row_number >= {part.first} and file_row_number < {part.first + part.count}"
        for part in rows
    ]
    sums = ", ".join(["count(*)", *(f'count("{name}"), sum(hash("{name}")::hugeint)' for name in columns)])
    return duckdb_rows(f"select {sums} from ({' union all '.join(parts)})")[0]


def beyond_duckdb(data: bytes) -> Iterator[str]:
    """Columns of a file that DuckDB cannot read: it splits the bytes of numbers only."""
    footer = Input(MemorySource(data)).footer
    for group in footer.row_groups:
        for leaf, chunk in zip(footer.leaves, group.chunks, strict=True):
            if leaf.physical == FIXED and BYTE_STREAM_SPLIT in chunk.encodings:
                yield leaf.path[0].decode()


# -- the whole file -------------------------------------------------------------------------------------------


def regions(data: bytes, footer: Footer) -> Iterator[tuple[int, int]]:
    """Start and end of everything that a footer points at, itself included."""
    yield 0, 4
    yield footer.start, len(data)
    for chunk in (chunk for group in footer.row_groups for chunk in group.chunks):
        yield chunk.start, chunk.end
        for found in (chunk.offset_index, chunk.column_index):
            if found is not None:
                yield found[0], found[0] + found[1]
        if chunk.bloom_offset is not None:
            header, length = read_struct(data[chunk.bloom_offset :], BLOOM_HEADER)
            yield chunk.bloom_offset, chunk.bloom_offset + length + header[1]


def fills_the_file(data: bytes) -> None:
    """Magic, chunks, filters, indexes and footer follow each other without a gap or an overlap."""
    ordered = sorted(regions(data, Input(MemorySource(data)).footer))
    assert [start for start, _ in ordered] == [0, *(end for _, end in ordered[:-1])]
    assert ordered[-1][1] == len(data)


def splits_hold(footer: Footer) -> None:
    """Starts ascend, and the middle of each row group lies before the next start."""
    starts = [group.chunks[0].start for group in footer.row_groups]
    for number, group in enumerate(footer.row_groups):
        middle = starts[number] + group.fields[6] // 2
        following = starts[number + 1] if number + 1 < len(starts) else footer.start
        assert starts[number] <= middle < following


def described_well(data: bytes, assembled: AssembledFile, groups: Sequence[int]) -> None:
    """Totals, ordinals, offsets and what the footer says of the file as a whole."""
    fields = footer_of(data)
    footer = Input(MemorySource(data)).footer
    assert footer.created_by == CREATED_BY
    assert footer.key_values == {b"who": b"a test"}
    assert (fields[1], fields[7]) == (2, [{1: {}}] * len(footer.leaves))
    assert footer.rows == sum(groups)
    assert [group.rows for group in footer.row_groups] == list(groups)
    for number, group in enumerate(footer.row_groups):
        assert group.fields[7] == number
        assert group.fields[5] == group.chunks[0].start
        assert group.fields[6] == sum(chunk.meta[7] for chunk in group.chunks)
        assert group.fields[2] == sum(chunk.meta[6] for chunk in group.chunks)
        assert [chunk.meta[3] for chunk in group.chunks] == [list(leaf.path) for leaf in footer.leaves]
    assert assembled.footer.row_groups == footer.row_groups
    assert (assembled.footer.start, assembled.footer.file_size) == (footer.start, len(data))
    assert assembled.copied_bytes + assembled.appended_bytes == sum(group.size for group in footer.row_groups)
    fills_the_file(data)
    splits_hold(footer)


# -- one chunk --------------------------------------------------------------------------------------------------


def same_chunk(data: bytes, chunk: Chunk, pick: Pick) -> None:
    """A chunk has the bytes, the figures, the page index and the bloom filter that it had in its input."""
    before = pick.chunk
    source = bytes(pick.input.source.read(0, pick.input.source.size))
    assert data[chunk.start : chunk.end] == source[before.start : before.end]
    check_pages(MemorySource(data).read, chunk)
    assert chunk.fields.keys() <= {2, 3, 4, 5, 6, 7}
    assert chunk.meta.keys() <= {1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13, 14, 15, 16}
    for number in (1, 2, 4, 5, 6, 7, 13, 16):
        assert chunk.meta.get(number) == before.meta.get(number)
    kept = _believed(before, pick.input.footer.leaves[pick.column])
    assert chunk.statistics == kept
    assert (chunk.dictionary_offset is None) == (before.dictionary_offset is None)
    assert (chunk.offset_index is not None) == _usable_index(source, before)
    assert (chunk.bloom_offset is None) == (before.bloom_offset is None)
    if chunk.offset_index is not None:
        index, _ = read_struct(data[chunk.offset_index[0] :][: chunk.offset_index[1]], OFFSET_INDEX)
        pages = [(at, size) for at, size, header in walk(data, chunk) if header[1] in (DATA_PAGE, DATA_PAGE_V2)]
        assert [(location[1], location[2]) for location in index[1]] == pages
    if before.column_index is not None and chunk.offset_index is not None and {5, 6} <= kept.keys():
        assert chunk.column_index is not None
        assert _at(data, chunk.column_index) == _at(source, before.column_index)
    if chunk.bloom_offset is not None and before.bloom_offset is not None:
        length = before.meta[15]
        assert chunk.meta[15] == length
        assert _at(data, (chunk.bloom_offset, length)) == _at(source, (before.bloom_offset, length))


def _believed(chunk: Chunk, leaf: Leaf) -> Fields:
    """What is kept of statistics that pyarrow or DuckDB wrote: bounds of floats only where NaN was counted."""
    told = {number: value for number, value in chunk.statistics.items() if number not in (1, 2, 4)}
    if leaf.physical not in (FLOAT, DOUBLE) and leaf.logical != ("float16",):
        return told
    if told.get(3) == chunk.values:
        return {**told, 9: 0}
    return told if told.get(9) == 0 else {number: told[number] for number in (3, 9) if number in told}


def _usable_index(data: bytes, chunk: Chunk) -> bool:
    """An index is left behind if a page has no rows, as pyarrow writes some in lists."""
    if chunk.offset_index is None:
        return False
    index, _ = read_struct(_at(data, chunk.offset_index), OFFSET_INDEX)
    rows = [location[3] for location in index[1]]
    return all(one < other for one, other in itertools.pairwise(rows))


def _at(data: bytes, where: tuple[int, int]) -> bytes:
    return data[where[0] : where[0] + where[1]]


# -- statistics, computed from the data ---------------------------------------------------------------------------


def statistics_hold(data: bytes) -> int:
    """Every bound holds for all values, and every count is right; returns how many bounds there are."""
    file, footer, bounds = opened(data), Input(MemorySource(data)).footer, 0
    for number, group in enumerate(footer.row_groups):
        table = file.read_row_group(number)
        columns = [leaf for column in table.columns for leaf in _leaf_arrays(column.combine_chunks())]
        for leaf, chunk, column in zip(footer.leaves, group.chunks, columns, strict=True):
            values = [_physical(value) for value in plain(pa.chunked_array([column])) if value is not None]
            told = chunk.statistics
            assert told.get(3, chunk.values - len(values)) == chunk.values - len(values)
            nans = sum(value != value for value in values)
            assert told.get(9, nans) == nans
            assert nans == 0 or {5, 6}.isdisjoint(told), "NaN is outside of all bounds"
            if 6 in told:
                assert _bound(leaf, told[6]) <= min(values)
            if 5 in told:
                assert max(values) <= _bound(leaf, told[5])
            bounds += (5 in told) + (6 in told)
    return bounds


def _leaf_arrays(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        for member in array.flatten():
            yield from _leaf_arrays(member)
    elif pa.types.is_map(array.type):
        yield from _leaf_arrays(array.keys)
        yield from _leaf_arrays(array.items)
    elif pa.types.is_list(array.type):
        yield from _leaf_arrays(array.flatten())
    else:
        yield array


def _physical(value: Any) -> Any:
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        return int("".join(map(str, digits))) * (-1 if sign else 1)
    if isinstance(value, UUID):
        return value.bytes
    return value.encode() if isinstance(value, str) else value


def _bound(leaf: Leaf, raw: bytes) -> Any:
    if leaf.physical == BOOLEAN:
        return raw == b"\x01"
    if leaf.physical in (INT32, INT64):
        return int.from_bytes(raw, "little", signed=leaf.logical[:1] != ("int",) or bool(leaf.logical[2]))
    if leaf.physical in (FLOAT, DOUBLE) or leaf.logical == ("float16",):
        return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(raw)], raw)[0]
    return int.from_bytes(raw, "big", signed=True) if leaf.logical[:1] == ("decimal",) else raw
