"""What we read from a footer is what pyarrow reads from it, figure by figure."""

import io
import json
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.parquet.footer import Chunk, Footer
from icepact.execute.parquet.input import TAIL, Input, MemorySource
from icepact.execute.parquet.layout import CODECS, OPTIONAL, REPEATED
from icepact.execute.parquet.schema import Leaf, Logical
from tests.support.parquet_bent import footer_of
from tests.support.parquet_files import Settings, Stored, Written, rows_of, schemas, write
from tests.support.parquet_files import settings as any_settings

PHYSICAL = ["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"]
ENCODINGS = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}
CODEC_NAMES = {number: "LZ4" if name == "lz4_raw" else name.upper() for name, number in CODECS.items()}


@st.composite
def files(draw: st.DrawFn) -> Written:
    """Any file."""
    how = draw(any_settings(short_decimals=draw(st.booleans())))
    return write(rows_of(draw(schemas()), draw(st.sampled_from([0, 1, 40])), draw(st.integers(0, 99))), how)


def _logical(described: dict[str, Any], physical: str) -> Logical:
    """The words of pyarrow in ours."""
    kind = described["Type"]
    if kind == "None":
        return ()
    if kind == "Decimal":
        return ("decimal", described["precision"], described["scale"])
    if kind == "Int":
        plain = (described["bitWidth"], described["isSigned"]) in ((32, True), (64, True))
        return () if plain and physical in ("INT32", "INT64") else ("int", described["bitWidth"], described["isSigned"])
    if kind in ("Time", "Timestamp"):
        return (
            kind.lower(),
            described["isAdjustedToUTC"],
            described["timeUnit"].replace("seconds", "s").replace("micross", "micros"),
        )
    return (kind.lower(),)


def same_schema(footer: Footer, schema: pq.ParquetSchema) -> None:
    """Paths, types and levels of all leaves."""
    assert len(footer.leaves) == len(schema)
    for number, leaf in enumerate(footer.leaves):
        column = schema.column(number)
        assert ".".join(part.decode() for part in leaf.path) == column.path
        assert PHYSICAL[leaf.physical] == column.physical_type
        assert leaf.length == (column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0)
        assert leaf.logical == _logical(json.loads(column.logical_type.to_json()), column.physical_type)
        repetitions = [repetition for repetition, _ in leaf.levels]
        assert sum(r in (OPTIONAL, REPEATED) for r in repetitions) == column.max_definition_level
        assert repetitions.count(REPEATED) == column.max_repetition_level
        assert leaf.repeated == (column.max_repetition_level > 0)
        assert leaf.known


def same_column(chunk: Chunk, leaf: Leaf, column: pq.ColumnChunkMetaData) -> None:
    """Every figure of a chunk."""
    assert column.file_path == ""
    assert ".".join(part.decode() for part in chunk.meta[3]) == column.path_in_schema
    assert PHYSICAL[chunk.physical] == column.physical_type
    assert CODEC_NAMES[chunk.codec] == column.compression
    assert {ENCODINGS[encoding] for encoding in chunk.encodings} == set(column.encodings)
    assert (chunk.fields[2], chunk.values) == (column.file_offset, column.num_values)
    assert (chunk.size, chunk.uncompressed_size) == (column.total_compressed_size, column.total_uncompressed_size)
    assert (chunk.data_offset, chunk.meta.get(11)) == (column.data_page_offset, column.dictionary_page_offset)
    assert (chunk.bloom_offset, chunk.meta.get(15)) == (column.bloom_filter_offset, column.bloom_filter_length)
    assert (chunk.offset_index is not None, chunk.column_index is not None) == (
        column.has_offset_index,
        column.has_column_index,
    )
    same_statistics(chunk, leaf, column)


def same_statistics(chunk: Chunk, leaf: Leaf, column: pq.ColumnChunkMetaData) -> None:
    """Bounds as bytes, and counts."""
    told = column.statistics
    assert column.is_stats_set == (12 in chunk.meta)
    if told is None:
        return
    assert chunk.statistics.get(3) == (told.null_count if told.has_null_count else None)
    assert chunk.statistics.get(4) == (told.distinct_count if told.has_distinct_count else None)
    assert ({5, 6} <= chunk.statistics.keys()) == told.has_min_max
    if told.has_min_max:
        raw = chunk.statistics[6], chunk.statistics[5]
        assert tuple(_in_words(leaf, bound) for bound in raw) == (told.min_raw, told.max_raw)


def _in_words(leaf: Leaf, raw: bytes) -> Any:
    if leaf.physical in (1, 2):
        return int.from_bytes(raw, "little", signed=True)
    if leaf.physical in (4, 5):
        return memoryview(raw).cast("f" if leaf.physical == 4 else "d")[0]
    return raw != b"\x00" if leaf.physical == 0 else raw


def same_metadata(data: bytes) -> None:
    """Everything that pyarrow tells of a file."""
    footer = Input(Stored(data)).footer
    metadata = pq.read_metadata(io.BytesIO(data))
    assert (footer.rows, footer.created_by) == (metadata.num_rows, metadata.created_by)
    assert len(footer.fields[2]) == metadata.num_columns + _groups(footer) + 1
    assert footer.key_values == (metadata.metadata or {})
    assert len(data) - 8 - footer.start == metadata.serialized_size
    assert len(footer.row_groups) == metadata.num_row_groups
    same_schema(footer, metadata.schema)
    first = 0
    for number, group in enumerate(footer.row_groups):
        told = metadata.row_group(number)
        assert (group.rows, group.first_row) == (told.num_rows, first)
        assert group.uncompressed_size == told.total_byte_size
        assert group.size == sum(told.column(n).total_compressed_size for n in range(told.num_columns))
        sorting = [pq.SortingColumn(e[1], descending=e[2], nulls_first=e[3]) for e in group.fields.get(4, [])]
        assert sorting == list(told.sorting_columns)
        for n, (chunk, leaf) in enumerate(zip(group.chunks, footer.leaves, strict=True)):
            same_column(chunk, leaf, told.column(n))
        first += group.rows


def _groups(footer: Footer) -> int:
    """Elements of the schema that are neither the root nor a leaf."""
    inner = {leaf.path[:length] for leaf in footer.leaves for length in range(1, len(leaf.path))}
    return len(inner)


@given(files())
def test_footers_of_pyarrow(file: Written) -> None:
    same_metadata(file.data)
    everything = Input(Stored(file.data))
    assert everything.why_nothing_copied is None
    for number, group in enumerate(everything.footer.row_groups):
        for column in range(len(group.chunks)):
            assert everything.why_not_copied(number, column, walk=True) is None
            assert everything.why_not_copied(number, column, walk=False) is None


@pytest.mark.parametrize("blooms", ["true", "false"])
def test_footers_of_duckdb(tmp_path: Any, blooms: str) -> None:
    path = tmp_path / "file.parquet"
    query = "select (i % 7) n, i::varchar s, [i, null] l, {'a': i / 3} t, i::decimal(12, 2) d from range(5000) r(i)"
    duckdb.sql(f"copy ({query}) to '{path}' (format parquet, row_group_size 2048, write_bloom_filter {blooms})")
    data = path.read_bytes()
    same_metadata(data)
    source = Input(Stored(data))
    assert [group.rows for group in source.footer.row_groups] == [2048, 2048, 904]
    assert source.why_nothing_copied is None
    for number in range(3):
        assert [source.why_not_copied(number, column, walk=True) for column in range(5)] == [None] * 5


def test_field_ids_are_those_of_the_schema() -> None:
    ids = {b"PARQUET:field_id": b"7"}
    inner = pa.struct([pa.field("x", pa.int32(), metadata={b"PARQUET:field_id": b"9"}), pa.field("y", pa.int32())])
    schema = pa.schema([pa.field("a", inner, metadata=ids), pa.field("b", pa.list_(pa.int32()))])
    footer = Input(MemorySource(write(schema.empty_table()).data)).footer
    assert [leaf.field_id for leaf in footer.leaves] == [9, None, None]
    assert footer.leaves[0].levels == ((OPTIONAL, 7), (OPTIONAL, 9))
    assert footer.leaves[2].levels == ((OPTIONAL, None), (REPEATED, None), (OPTIONAL, None))


def test_a_footer_longer_than_the_first_read() -> None:
    table = pa.table({f"column {n}": [n] for n in range(900)})
    written = write(table, Settings(index=True))
    assert len(written.data) - Input(MemorySource(written.data)).footer.start > TAIL
    same_metadata(written.data)


def test_a_file_without_rows_or_row_groups() -> None:
    schema = pa.schema([pa.field("a", pa.int32())])
    out = io.BytesIO()
    pq.write_table(schema.empty_table(), out)
    none = write(schema.empty_table()).data
    for data, groups in ((out.getvalue(), 1), (none, 0)):
        footer = Input(Stored(data)).footer
        assert (footer.rows, len(footer.row_groups)) == (0, groups)
        same_metadata(data)


def test_only_what_is_asked_for_is_fetched() -> None:
    written = write(pa.table({"a": list(range(100_000))}), Settings(dictionary=False, group_rows=10_000, codec="none"))
    stored = Stored(written.data)
    source = Input(stored)
    assert [source.why_not_copied(group, 0, walk=False) for group in range(10)] == [None] * 10
    assert stored.fetched == 0
    assert footer_of(written.data) == source.footer.fields
