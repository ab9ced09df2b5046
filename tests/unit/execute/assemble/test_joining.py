"""Small row groups become a large one: pages are joined where they can be, and the rest is encoded anew."""

import itertools
import struct as packing
import weakref
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st

from icepact.execute.assemble import input_view as view_module
from icepact.execute.assemble import task
from icepact.execute.assemble.messages import InputFile, Output, UnitReport
from icepact.execute.assemble.metrics import cut_upper
from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.input import FileInMemory, Input, MemorySource
from icepact.execute.parquet.layout import CODECS, DICTIONARIES
from icepact.execute.parquet.pages import check_pages
from icepact.execute.parquet.thrift import Fields
from icepact.execute.storage.base import checked_range
from icepact.execute.storage.local import LocalSink, LocalSource, LocalStorage
from tests.support.kernel import (
    LAST_UPDATED,
    ROW_ID,
    Kernel,
    column,
    given,
    list_of,
    map_of,
    output,
    rows_of,
    stored,
    struct,
)
from tests.support.parquet_bent import bent, walk
from tests.support.parquet_judges import opened, statistics_hold

JOIN: Mapping[str, Any] = {"fewest_page_rows": 1}
PLAIN: Mapping[str, Any] = {"use_dictionary": False, "write_page_index": True, "compression": "zstd"}
DICTIONARY: Mapping[str, Any] = {**PLAIN, "use_dictionary": True}
ID, S = stored(1, "id", pa.int64()), stored(2, "s", pa.string())
SCHEMA = struct(column(1, "id", "long"), column(2, "s", "string"))
Row = Mapping[str, Any]

# -- judges -----------------------------------------------------------------------------------------


def done(kernel: Kernel, inputs: Sequence[InputFile | Path], expected: Sequence[Row]) -> UnitReport:
    """Rewrite files as one unit, and judge what came out: just these rows in this order, and all that is said."""
    report = kernel.run(*inputs)
    assert (report.refused, report.failed) == (None, None)
    found = [row for written in report.outputs for row in read(written)]
    assert repr(found) == repr([dict(row) for row in expected])
    assert report.rows_read - report.rows_deleted == len(found)
    chunks = [chunk for written in report.outputs for group in chunks_of(Path(written.path)) for chunk in group]
    assert report.effort.copied_bytes + report.effort.encoded_bytes == sum(chunk.size for chunk in chunks)
    for written in report.outputs:
        data = Path(written.path).read_bytes()
        statistics_hold(data)
        judge_pages(data)
        judge_metrics(kernel, written)
    return report


def read(written: Output) -> list[dict[str, Any]]:
    """The rows of an output."""
    table = opened(Path(written.path).read_bytes()).read()
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def judge_pages(data: bytes) -> None:
    """Pages add up, and page locations are those of the pages and say which row is their first."""
    file = Input(MemorySource(data))
    for number, group in enumerate(file.footer.row_groups):
        for place, (leaf, chunk) in enumerate(zip(file.footer.leaves, group.chunks, strict=True)):
            check_pages(file.source.read, chunk)
            locations = file.pages(number, place)
            assert (locations is None) == (chunk.offset_index is None)
            if locations is None:
                continue
            pages = [page for page in walk(data, chunk) if page[2][1] != 2]
            assert [(one[1], one[2]) for one in locations[1]] == [(at, size) for at, size, _ in pages]
            if not leaf.repeated:
                counts = [header[5][1] if 5 in header else header[8][1] for _, _, header in pages]
                assert [one[3] for one in locations[1]] == [0, *itertools.accumulate(counts)][:-1]


def judge_metrics(kernel: Kernel, written: Output) -> None:
    """What a manifest is told of columns at the top is what can be computed from their values."""
    table = pq.read_table(written.path)
    footer = Input(MemorySource(Path(written.path).read_bytes())).footer
    told = {name: dict(zip(one["keys"], one["values"], strict=True)) for name, one in _by_id(written.metrics)}
    for field in (field for field in kernel.schema["fields"] if str(field["type"]) in FORMS):
        place = next(n for n, leaf in enumerate(footer.leaves) if leaf.field_id == field["id"])
        values = table[field["name"]].drop_null().to_pylist()
        assert told["value-counts"][field["id"]] == len(table)
        assert told["null-value-counts"][field["id"]] == len(table) - len(values)
        sizes = sum(group.chunks[place].size for group in footer.row_groups)
        assert told["column-sizes"][field["id"]] == sizes
        low, high = bounds(field["type"], values) if values else (None, None)
        assert told["lower-bounds"].get(field["id"]) == low
        assert told["upper-bounds"].get(field["id"]) == high


def _by_id(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, one) for name, one in metrics.items() if name != "split-offsets")


FORMS = {"int": "<i", "long": "<q", "string": ""}


def bounds(kind: str, values: Sequence[Any]) -> tuple[str, str]:
    """Of a column's values, as Iceberg writes them."""
    if kind == "string":
        raw = sorted(value.encode() for value in values)
        upper = cut_upper("string", raw[-1], 16)
        assert upper is not None
        return raw[0].decode()[:16].encode().hex().upper(), upper.hex().upper()
    low, high = (packing.pack(FORMS[kind], value).hex().upper() for value in (min(values), max(values)))
    return low, high


def chunks_of(path: Path) -> list[tuple[Chunk, ...]]:
    """All chunks of a file, by row group."""
    return [group.chunks for group in Input(MemorySource(path.read_bytes())).footer.row_groups]


def raw(path: Path, place: int, group: int = 0) -> bytes:
    """The bytes of a chunk."""
    chunk = chunks_of(path)[group][place]
    return path.read_bytes()[chunk.start : chunk.end]


def raws(paths: Sequence[Path], place: int) -> list[bytes]:
    """The bytes of all chunks of a column."""
    return [raw(path, place, group) for path in paths for group in range(len(chunks_of(path)))]


def has_dictionary(path: Path, place: int, group: int = 0) -> bool:
    """Whether a chunk has one, or says so."""
    chunk = chunks_of(path)[group][place]
    return chunk.dictionary_offset is not None or not DICTIONARIES.isdisjoint(chunk.encodings)


def in_order(whole: bytes, parts: Sequence[bytes]) -> bool:
    """Whether all parts are there, one behind the other."""
    at = 0
    for part in parts:
        at = whole.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def unpacked(path: Path) -> bytes:
    """Everything in a file as it is without compression."""
    data = path.read_bytes()
    names = {number: name for name, number in CODECS.items()}
    found = [data]
    for chunk in (chunk for group in chunks_of(path) for chunk in group):
        for at, size, header in walk(data, chunk):
            assert 8 not in header
            body = data[at + size - header[3] : at + size]
            name = names[chunk.codec]
            packed = name != "uncompressed"
            found.append(bytes(pa.decompress(body, header[2], name, asbytes=True)) if packed else body)
    return b"".join(found)


# -- files ------------------------------------------------------------------------------------------


def numbered(first: int, count: int = 100) -> list[Row]:
    """Rows that differ from all others."""
    return [{"id": n, "s": None if n % 10 == 9 else f"word {n:06}"} for n in range(first, first + count)]


def table(rows: Sequence[Row], *fields: pa.Field) -> pa.Table:
    """Rows as a file holds them; the columns are those of the rows by their names."""
    return rows_of({field: [row[field.name] for row in rows] for field in fields or (ID, S)})


def small_files(kernel: Kernel, count: int, **options: Any) -> tuple[list[Path], list[Row]]:
    """Files of a hundred rows, and all their rows."""
    parts = [numbered(1000 * n) for n in range(count)]
    files = [kernel.file(f"small-{n}", table(rows), **{**PLAIN, **options}) for n, rows in enumerate(parts)]
    return files, [row for rows in parts for row in rows]


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """A table of two columns, whose pages are joined whenever that is possible."""
    return Kernel(folder=tmp_path, schema=SCHEMA, writing=JOIN)


# -- which pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_small_files_become_one_row_group(kernel: Kernel, version: str) -> None:
    files, rows = small_files(kernel, 5, data_page_version=version, max_rows_per_page=30, write_batch_size=10)
    report = done(kernel, files, rows)
    assert len(chunks_of(output(report))) == 1
    assert report.effort.encoded_bytes == 0
    assert [raw(output(report), place) for place in (0, 1)] == [b"".join(raws(files, place)) for place in (0, 1)]


def test_small_row_groups_of_a_file_become_one(kernel: Kernel) -> None:
    files, rows = small_files(kernel, 3, row_group_size=30)
    assert [len(chunks_of(path)) for path in files] == [4, 4, 4]
    report = done(kernel, files, rows)
    assert (len(chunks_of(output(report))), report.effort.encoded_bytes) == (1, 0)
    assert [raw(output(report), place) for place in (0, 1)] == [b"".join(raws(files, place)) for place in (0, 1)]


def test_small_row_groups_of_a_single_file_become_one(kernel: Kernel) -> None:
    files, rows = small_files(kernel, 1, row_group_size=30)
    report = done(kernel, files, rows)
    assert (len(chunks_of(output(report))), report.effort.encoded_bytes) == (1, 0)


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_pages_of_several_encodings_in_a_chunk(kernel: Kernel, encoding: str) -> None:
    parts = [numbered(1000 * n) for n in range(3)]
    ways: list[Mapping[str, Any]] = [{}, {"column_encoding": {"id": encoding, "s": "DELTA_BYTE_ARRAY"}}, {}]
    files = [
        kernel.file(f"f{n}", table(rows), **{**PLAIN, **way})
        for n, (rows, way) in enumerate(zip(parts, ways, strict=True))
    ]
    report = done(kernel, files, [row for rows in parts for row in rows])
    assert report.effort.encoded_bytes == 0


def test_columns_with_dictionaries_are_encoded_beside_joined_ones(kernel: Kernel) -> None:
    files, rows = small_files(kernel, 5, use_dictionary=["s"])
    report = done(kernel, files, rows)
    [[number, text]] = chunks_of(output(report))
    assert raw(output(report), 0) == b"".join(raws(files, 0))
    assert (report.effort.copied_bytes, report.effort.encoded_bytes) == (number.size, text.size)


@pytest.mark.parametrize(("plain", "joined"), [(3, True), (2, False), (1, False)])
def test_a_column_is_joined_if_most_of_its_rows_can_be(kernel: Kernel, plain: int, joined: bool) -> None:
    """The others are encoded plainly then, and the whole column has no dictionary."""
    parts = [numbered(1000 * n) for n in range(4)]
    ways = [PLAIN if n < plain else DICTIONARY for n in range(4)]
    files = [kernel.file(f"f{n}", table(rows), **ways[n]) for n, rows in enumerate(parts)]
    report = done(kernel, files, [row for rows in parts for row in rows])
    for place in (0, 1):
        own = raws(files[:plain], place)
        assert in_order(raw(output(report), place), own) is joined
        assert not (joined and has_dictionary(output(report), place))
    own_bytes = sum(len(one) for place in (0, 1) for one in raws(files[:plain], place))
    assert report.effort.copied_bytes == (own_bytes if joined else 0)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_file_with_dictionaries_among_others(kernel: Kernel, at: int) -> None:
    parts = [numbered(1000 * n) for n in range(3)]
    ways = [DICTIONARY if n == at else PLAIN for n in range(3)]
    files = [kernel.file(f"f{n}", table(rows), **ways[n]) for n, rows in enumerate(parts)]
    report = done(kernel, files, [row for rows in parts for row in rows])
    others = [path for n, path in enumerate(files) if n != at]
    for place in (0, 1):
        assert in_order(raw(output(report), place), raws(others, place))
        assert not has_dictionary(output(report), place)
    assert (report.effort.copied_bytes > 0, report.effort.encoded_bytes > 0) == (True, True)


def by_old_writer(path: Path) -> None:
    """A footer by a writer whose bytes nobody trusts."""

    def change(fields: Fields) -> None:
        fields[6] = b"parquet-mr version 1.8.0"

    path.write_bytes(bent(path.read_bytes(), change))


@pytest.mark.parametrize(
    "options",
    [{"compression": "snappy"}, {"write_page_index": False}, {"max_rows_per_page": 5, "write_batch_size": 5}],
    ids=["codec", "no index", "short pages"],
)
def test_a_file_whose_pages_cannot_be_joined(kernel: Kernel, options: Mapping[str, Any]) -> None:
    strict = Kernel(folder=kernel.folder, schema=SCHEMA, writing={"fewest_page_rows": 50})
    parts = [numbered(1000 * n) for n in range(3)]
    ways = [PLAIN, {**PLAIN, **options}, PLAIN]
    files = [strict.file(f"f{n}", table(rows), **ways[n]) for n, rows in enumerate(parts)]
    report = done(strict, files, [row for rows in parts for row in rows])
    own = [raw(path, place) for path in (files[0], files[2]) for place in (0, 1)]
    assert report.effort.copied_bytes == sum(map(len, own))
    assert raw(files[1], 0) not in output(report).read_bytes()


def test_pages_of_an_old_writer_are_not_joined(kernel: Kernel) -> None:
    files, rows = small_files(kernel, 3)
    by_old_writer(files[1])
    report = done(kernel, files, rows)
    assert report.effort.copied_bytes == sum(len(raw(path, place)) for path in (files[0], files[2]) for place in (0, 1))


def test_one_small_file_alone_is_copied(kernel: Kernel) -> None:
    for name, options in (("plain", PLAIN), ("dictionary", DICTIONARY)):
        path = kernel.file(name, table(numbered(0)), **options)
        report = done(kernel, [path], numbered(0))
        assert report.effort.encoded_bytes == 0
        assert [raw(output(report), place) for place in (0, 1)] == [raw(path, place) for place in (0, 1)]


def test_one_small_file_alone_with_deletes_is_encoded(kernel: Kernel) -> None:
    path = kernel.file("f", table(numbered(0)), **PLAIN)
    delete = kernel.position_delete("d", path, [3, 50])
    rows = [row for row in numbered(0) if row["id"] not in (3, 50)]
    report = done(kernel, [given(path, deletes=[delete])], rows)
    assert report.effort.copied_bytes == 0


def test_files_without_ids_are_joined_by_their_names(tmp_path: Path) -> None:
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["s"]}]
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, name_mapping=mapping, writing=JOIN)
    plain = pa.schema([("id", pa.int64()), ("s", pa.string())])
    files = [kernel.file(f"f{n}", table(numbered(1000 * n)).cast(plain), **PLAIN) for n in range(3)]
    report = done(kernel, files, [row for n in range(3) for row in numbered(1000 * n)])
    assert report.effort.encoded_bytes == 0


# -- deletes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [PLAIN, {**PLAIN, "use_dictionary": ["s"]}], ids=["plain", "mixed"])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_touched_file_among_others(kernel: Kernel, options: Mapping[str, Any], at: int) -> None:
    """What was deleted is nowhere; the pages of the others are joined nevertheless."""
    files, rows = small_files(kernel, 5, **options)
    gone = [1000 * at + position for position in (0, 42, 98)]
    delete = kernel.position_delete("d", files[at], [0, 42, 98])
    inputs = [given(path, deletes=[delete] if n == at else []) for n, path in enumerate(files)]
    report = done(kernel, inputs, [row for row in rows if row["id"] not in gone])
    assert in_order(raw(output(report), 0), [raw(path, 0) for n, path in enumerate(files) if n != at])
    assert raw(files[at], 0) not in output(report).read_bytes()
    found = unpacked(output(report))
    for number in gone:
        assert f"word {number:06}".encode() in unpacked(files[at])
        assert f"word {number:06}".encode() not in found
    assert f"word {1000 * at + 1:06}".encode() in found


def test_a_file_of_which_some_row_groups_are_touched(kernel: Kernel) -> None:
    """Of the same file, all columns are decoded here and only some there."""
    files, rows = small_files(kernel, 3, row_group_size=20, use_dictionary=["s"])
    delete = kernel.position_delete("d", files[1], [25, 39, 60])
    left = [row for row in rows if row["id"] not in (1025, 1039, 1060)]
    report = done(kernel, [files[0], given(files[1], deletes=[delete]), files[2]], left)
    own = [raw(path, 0, group) for path in files for group in range(5) if path != files[1] or group not in (1, 3)]
    assert in_order(raw(output(report), 0), own)
    assert b"word 001060" not in unpacked(output(report))


def test_files_of_which_nothing_is_left(kernel: Kernel) -> None:
    files, rows = small_files(kernel, 3)
    delete = kernel.position_delete("d", files[1], range(100))
    report = done(kernel, [files[0], given(files[1], deletes=[delete]), files[2]], rows[:100] + rows[200:])
    assert report.effort.encoded_bytes == 0


def test_a_unit_of_which_nothing_is_left(kernel: Kernel) -> None:
    files, _ = small_files(kernel, 2)
    deletes = [kernel.position_delete(f"d{n}", path, range(100)) for n, path in enumerate(files)]
    report = kernel.run(*(given(path, deletes=[delete]) for path, delete in zip(files, deletes, strict=True)))
    assert (report.outputs, report.refused, report.failed, report.rows_deleted) == ((), None, None, 200)


def test_equality_deletes_reach_joined_files(kernel: Kernel) -> None:
    files, rows = small_files(kernel, 4)
    delete = kernel.equality_delete("d", rows_of({ID: [1007, 1050]}))
    inputs = [given(path, deletes=[delete]) for path in files]
    report = done(kernel, inputs, [row for row in rows if row["id"] not in (1007, 1050)])
    assert in_order(raw(output(report), 1), [raw(path, 1) for path in (files[0], *files[2:])])
    assert b"word 001050" not in unpacked(output(report))


# -- evolution --------------------------------------------------------------------------------------

NEW = struct(column(2, "text", "string"), column(5, "n", "long", default=7), column(1, "id", "long"))


def test_columns_that_were_renamed_reordered_and_dropped_are_joined(tmp_path: Path) -> None:
    schema = struct(column(2, "text", "string"), column(1, "key", "long"))
    kernel = Kernel(folder=tmp_path, schema=schema, writing=JOIN)
    gone = stored(3, "gone", pa.int64())
    old = [rows_of({ID: [n, n + 1], gone: [77, 77], S: ["old", None]}) for n in (0, 10)]
    now = rows_of({stored(2, "text", pa.string()): ["now"], stored(1, "key", pa.int64()): [20]})
    files = [kernel.file(f"f{n}", rows, **PLAIN) for n, rows in enumerate([*old, now])]
    expected = [{"text": t, "key": n} for t, n in (("old", 0), (None, 1), ("old", 10), (None, 11), ("now", 20))]
    report = done(kernel, files, expected)
    assert report.effort.encoded_bytes == 0


def test_columns_that_were_added_stand_beside_joined_ones(tmp_path: Path) -> None:
    """Some files have the column, and others its default."""
    kernel = Kernel(folder=tmp_path, schema=NEW, writing=JOIN)
    number = stored(5, "n", pa.int64())
    tables = [
        rows_of({ID: [1, 2], S: ["a", "b"]}),
        rows_of({ID: [3], S: ["c"], number: [None]}),
        rows_of({ID: [4], S: [None]}),
    ]
    files = [kernel.file(f"f{n}", rows, **PLAIN) for n, rows in enumerate(tables)]
    told = [("a", 7, 1), ("b", 7, 2), ("c", None, 3), (None, 7, 4)]
    report = done(kernel, files, [{"text": t, "n": n, "id": i} for t, n, i in told])
    assert raw(output(report), 0) == b"".join(raws(files, 1))
    assert raw(output(report), 2) == b"".join(raws(files, 0))
    assert report.effort.encoded_bytes == len(raw(output(report), 1))


def test_an_added_column_that_most_rows_have_is_joined(tmp_path: Path) -> None:
    """Its default is encoded plainly for the others."""
    kernel = Kernel(folder=tmp_path, schema=NEW, writing=JOIN)
    number = stored(5, "n", pa.int64())
    tables = [rows_of({ID: [1], S: ["a"]}), rows_of({ID: [2, 3], S: ["b", "c"], number: [5, None]})]
    files = [kernel.file(f"f{n}", rows, **PLAIN) for n, rows in enumerate(tables)]
    told = [("a", 7, 1), ("b", 5, 2), ("c", None, 3)]
    report = done(kernel, files, [{"text": t, "n": n, "id": i} for t, n, i in told])
    assert raw(output(report), 1).endswith(raw(files[1], 2))
    assert len(raw(output(report), 1)) > len(raw(files[1], 2))


@pytest.mark.parametrize("old", [1, 2])
def test_a_promoted_column_is_joined_where_it_is_long(kernel: Kernel, old: int) -> None:
    short = stored(1, "id", pa.int32())
    parts = [numbered(1000 * n) for n in range(3)]
    tables = [table(rows, short if n < old else ID, S) for n, rows in enumerate(parts)]
    files = [kernel.file(f"f{n}", rows, **PLAIN) for n, rows in enumerate(tables)]
    report = done(kernel, files, [row for rows in parts for row in rows])
    assert in_order(raw(output(report), 0), raws(files[old:], 0)) is (old == 1)
    assert raw(output(report), 1) == b"".join(raws(files, 1))


def test_partition_values_stand_beside_joined_columns(tmp_path: Path) -> None:
    schema = struct(*SCHEMA["fields"], column(3, "p", "string"))
    kernel = Kernel(folder=tmp_path, schema=schema, identity=(3,), writing=JOIN)
    files, rows = small_files(kernel, 4)
    inputs = [given(path, partition=("here",)) for path in files]
    report = done(kernel, inputs, [{**row, "p": "here"} for row in rows])
    assert [raw(output(report), place) for place in (0, 1)] == [b"".join(raws(files, place)) for place in (0, 1)]
    assert report.effort.encoded_bytes == len(raw(output(report), 2))


PAIR = struct(column(4, "a", "int"), column(5, "b", "string"))
NESTED = struct(
    column(1, "id", "long"),
    column(3, "t", PAIR),
    column(6, "l", list_of(7, "int")),
    column(8, "m", map_of(9, "string", 10, "long")),
)
T = stored(3, "t", pa.struct([stored(4, "a", pa.int32()), stored(5, "b", pa.string())]))
L = stored(6, "l", pa.list_(stored(7, "element", pa.int32())))
M = stored(8, "m", pa.map_(stored(9, "key", pa.string(), required=True), stored(10, "value", pa.int64())))
NESTED_ROWS: list[Row] = [
    {"id": 1, "t": {"a": 1, "b": "x"}, "l": [1, None, 3], "m": [("k", 1), ("j", None)]},
    {"id": 2, "t": None, "l": [], "m": []},
    {"id": 3, "t": {"a": None, "b": None}, "l": None, "m": None},
    {"id": 4, "t": {"a": 4, "b": "y" * 40}, "l": [9], "m": [("l", 2**40)]},
]


@pytest.mark.parametrize("page_rows", [1, 3, 1000])
def test_nested_columns_are_joined(tmp_path: Path, page_rows: int) -> None:
    kernel = Kernel(folder=tmp_path, schema=NESTED, writing=JOIN)
    options = {**PLAIN, "max_rows_per_page": page_rows, "write_batch_size": page_rows}
    files = [kernel.file(f"f{n}", table(NESTED_ROWS * 5, ID, T, L, M), **options) for n in range(3)]
    report = done(kernel, files, NESTED_ROWS * 15)
    if page_rows == 1000:
        assert report.effort.encoded_bytes == 0
        assert [raw(output(report), n) for n in range(6)] == [b"".join(raws(files, n)) for n in range(6)]


@pytest.mark.parametrize(
    ("path", "tops"),
    [("t.b", {1, 2}), ("l.list.element", {3}), ("m.key_value.key", {4, 5}), ("m.key_value.value", {4, 5})],
)
def test_a_nested_column_is_joined_as_a_whole_or_not_at_all(tmp_path: Path, path: str, tops: set[int]) -> None:
    """One leaf with a dictionary: all of its column is decoded."""
    kernel = Kernel(folder=tmp_path, schema=NESTED, writing=JOIN)
    options = {**PLAIN, "use_dictionary": [path]}
    files = [kernel.file(f"f{n}", table(NESTED_ROWS * 5, ID, T, L, M), **options) for n in range(3)]
    report = done(kernel, files, NESTED_ROWS * 15)
    [chunks] = chunks_of(output(report))
    assert report.effort.encoded_bytes == sum(chunk.size for n, chunk in enumerate(chunks) if n in tops)
    for n in set(range(6)) - tops:
        assert raw(output(report), n) == b"".join(raws(files, n))


@pytest.mark.parametrize("how", ["dictionary", "deletes", "older"])
def test_nested_columns_are_joined_to_such_as_were_encoded(tmp_path: Path, how: str) -> None:
    """Nothing of the file in the middle can be joined."""
    kernel = Kernel(folder=tmp_path, schema=NESTED, writing={**JOIN, "page_rows": 3})
    whole = table(NESTED_ROWS * 5, ID, T, L, M)
    files = [kernel.file(f"f{n}", whole, **PLAIN) for n in range(3)]
    middle, expected = given(files[1]), NESTED_ROWS * 5
    if how == "dictionary":
        middle = given(kernel.file("f1", whole, **DICTIONARY))
    elif how == "deletes":
        middle = given(files[1], deletes=[kernel.position_delete("d", files[1], [0, 2])])
        expected = [row for n, row in enumerate(expected) if n not in (0, 2)]
    else:
        small = stored(3, "t", pa.struct([stored(4, "a", pa.int32())]))
        few: list[Row] = [{"id": 1, "t": {"a": 5}, "l": [4], "m": None}, {"id": 2, "t": None, "l": None, "m": []}]
        middle = given(kernel.file("f1", table(few, ID, small, L, M), **PLAIN))
        expected = [{**few[0], "t": {"a": 5, "b": None}}, few[1]]
    report = done(kernel, [files[0], middle, files[2]], [*NESTED_ROWS * 5, *expected, *NESTED_ROWS * 5])
    for n in range(6):
        assert in_order(raw(output(report), n), [raw(files[0], n), raw(files[2], n)])
        assert not has_dictionary(output(report), n)


TYPES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("boolean", pa.bool_(), [True, None, False]),
    ("int", pa.int32(), [-5, None, 7]),
    ("float", pa.float32(), [-0.5, None, 2.5]),
    ("double", pa.float64(), [0.0, None, -0.0]),
    ("date", pa.date32(), [1, None, -1]),
    ("timestamp", pa.timestamp("us"), [1, None, 2]),
    ("timestamptz", pa.timestamp("us", "UTC"), [1, None, 2]),
    ("binary", pa.binary(), [b"\xff", None, b""]),
    ("fixed[3]", pa.binary(3), [b"abc", None, b"\xff\xff\xff"]),
    ("decimal(9, 2)", pa.decimal128(9, 2), [Decimal("-1.50"), None, Decimal("2.25")]),
    ("decimal(18, 2)", pa.decimal128(18, 2), [Decimal("-1.50"), None, Decimal("2.25")]),
    ("decimal(30, 2)", pa.decimal128(30, 2), [Decimal("-1.50"), None, Decimal("2.25")]),
]


def test_columns_of_all_types_are_joined_to_such_as_were_encoded(tmp_path: Path) -> None:
    schema = struct(*(column(n, f"c{n}", kind) for n, (kind, _, _) in enumerate(TYPES, 1)))
    kernel = Kernel(folder=tmp_path, schema=schema, writing=JOIN)
    fields = {stored(n, f"c{n}", kind): values * 20 for n, (_, kind, values) in enumerate(TYPES, 1)}
    whole = rows_of(fields)
    ways = [PLAIN, DICTIONARY, PLAIN]
    files = [kernel.file(f"f{n}", whole, store_decimal_as_integer=True, **way) for n, way in enumerate(ways)]
    report = done(kernel, files, whole.to_pylist() * 3)
    for n in range(len(TYPES)):
        assert in_order(raw(output(report), n), [raw(files[0], n), raw(files[2], n)])
        assert not has_dictionary(output(report), n)


# -- never null -------------------------------------------------------------------------------------

STRICT = stored(1, "id", pa.int64(), required=True)


def test_columns_that_are_never_null_are_joined_as_such(kernel: Kernel) -> None:
    parts = [numbered(1000 * n) for n in range(3)]
    files = [kernel.file(f"f{n}", table(rows, STRICT, S), **PLAIN) for n, rows in enumerate(parts)]
    report = done(kernel, files, [row for rows in parts for row in rows])
    assert not pq.read_schema(output(report)).field("id").nullable
    assert report.effort.encoded_bytes == 0


@pytest.mark.parametrize("strict", [{0}, {1}, {0, 2}])
def test_a_column_that_may_be_null_in_some_files(kernel: Kernel, strict: set[int]) -> None:
    """Pages of columns that are never null have no levels: they are encoded anew."""
    parts = [numbered(1000 * n) for n in range(3)]
    files = [
        kernel.file(f"f{n}", table(rows, STRICT if n in strict else ID, S), **PLAIN) for n, rows in enumerate(parts)
    ]
    report = done(kernel, files, [row for rows in parts for row in rows])
    assert pq.read_schema(output(report)).field("id").nullable
    optional = [raw(path, 0) for n, path in enumerate(files) if n not in strict]
    assert in_order(raw(output(report), 0), optional) is (len(strict) == 1)
    assert raw(output(report), 1) == b"".join(raws(files, 1))


# -- row lineage ------------------------------------------------------------------------------------

OWN_ID, UPDATED = stored(ROW_ID, "_row_id", pa.int64()), stored(LAST_UPDATED, "_updated", pa.int64())


def with_lineage(row: Row, row_id: int | None, updated: int | None) -> Row:
    """A row of a table of the third format version."""
    return {**row, "_row_id": row_id, "_last_updated_sequence_number": updated}


def test_row_ids_of_joined_rows(tmp_path: Path) -> None:
    """Inherited, standing in the file, or missing there for some rows; the middle file has a deleted row."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lineage=True, writing=JOIN)
    parts = [numbered(1000 * n) for n in range(4)]
    files = [
        kernel.file("f0", table(parts[0]), **PLAIN, row_group_size=30),
        kernel.file("f1", table(parts[1]), **PLAIN),
    ]
    own = [5000 + n if n % 3 else None for n in range(100)]
    held = rows_of({**columns_of(parts[2]), OWN_ID: own, UPDATED: [4 if n else None for n in own]})
    files.append(kernel.file("f2", held, **PLAIN))
    files.append(kernel.file("f3", table(parts[3]), **PLAIN))
    delete = kernel.position_delete("d", files[1], [10])
    inputs = [
        given(files[0], first_row_id=100, sequence_number=7),
        given(files[1], first_row_id=900, sequence_number=8, deletes=[delete]),
        given(files[2], first_row_id=2000, sequence_number=9),
        given(files[3]),
    ]
    expected = [with_lineage(row, 100 + n, 7) for n, row in enumerate(parts[0])]
    expected += [with_lineage(row, 900 + n, 8) for n, row in enumerate(parts[1]) if n != 10]
    expected += [with_lineage(row, own[n] or 2000 + n, 4 if own[n] else 9) for n, row in enumerate(parts[2])]
    expected += [with_lineage(row, None, None) for row in parts[3]]
    report = done(kernel, inputs, expected)
    for place in (0, 1):
        assert in_order(raw(output(report), place), raws([files[0], *files[2:]], place))


def test_row_ids_that_are_missing_in_every_file(tmp_path: Path) -> None:
    """A null in a file means something else in another one: such columns are never joined."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lineage=True, writing=JOIN)
    parts = [numbered(1000 * n) for n in range(3)]
    own: list[int | None] = [None, 7, *[None] * 98]
    tables = [rows_of({**columns_of(rows), OWN_ID: own, UPDATED: own}) for rows in parts]
    files = [kernel.file(f"f{n}", rows, **PLAIN) for n, rows in enumerate(tables)]
    inputs = [given(path, first_row_id=500 * n, sequence_number=n) for n, path in enumerate(files, 1)]
    expected = [
        with_lineage(row, own[n] or 500 * number + n, own[n] or number)
        for number, rows in enumerate(parts, 1)
        for n, row in enumerate(rows)
    ]
    report = done(kernel, inputs, expected)
    [chunks] = chunks_of(output(report))
    assert report.effort.encoded_bytes == sum(chunk.size for chunk in chunks[2:])


def columns_of(rows: Sequence[Row]) -> dict[pa.Field, list[Any]]:
    """Rows by their columns."""
    return {field: [row[field.name] for row in rows] for field in (ID, S)}


# -- limits -----------------------------------------------------------------------------------------


def test_a_column_with_a_bloom_filter_is_not_joined(tmp_path: Path) -> None:
    """The filter of the whole is made of the values."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "blooms": {1: (0.01, None)}})
    files, rows = small_files(kernel, 4)
    report = done(kernel, files, rows)
    [[number, text]] = chunks_of(output(report))
    assert (number.bloom_offset is None, text.bloom_offset is None) == (False, True)
    assert raw(output(report), 1) == b"".join(raws(files, 1))
    assert report.effort.encoded_bytes == number.size


def test_row_groups_do_not_outgrow_their_size(tmp_path: Path) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=JOIN)
    files, rows = small_files(kernel, 8)
    size = sum(chunk.size for chunk in chunks_of(files[0])[0])
    tight = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "row_group_bytes": 3 * size + size // 2})
    report = done(tight, files, rows)
    groups = chunks_of(output(report))
    assert [chunk[0].values for chunk in groups] == [300, 300, 200]
    assert report.effort.encoded_bytes == 0
    tight = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "row_group_bytes": 10})
    assert len(chunks_of(output(done(tight, files, rows)))) == 8


@pytest.mark.parametrize("memory", [1, 10_000, 50_000, 200_000, 1_000_000])
@pytest.mark.parametrize("options", [PLAIN, {**PLAIN, "use_dictionary": ["s"]}], ids=["plain", "mixed"])
def test_little_memory(tmp_path: Path, memory: int, options: Mapping[str, Any]) -> None:
    """Row groups become smaller, and what is too large to be decoded at once is not joined."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "task_memory": memory})
    files, rows = small_files(kernel, 6, **options)
    delete = kernel.position_delete("d", files[2], [5])
    inputs = [given(path, deletes=[delete] if n == 2 else []) for n, path in enumerate(files)]
    report = done(kernel, inputs, [row for row in rows if row["id"] != 2005])
    assert report.effort.copied_bytes > 0 or memory < 200_000


def test_what_is_decoded_beside_joined_pages_fits_into_memory(tmp_path: Path) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "task_memory": 200_000})
    files, rows = small_files(kernel, 30, use_dictionary=["s"])
    report = done(kernel, files, rows)
    groups = chunks_of(output(report))
    assert 1 < len(groups) < 10
    assert b"".join(raw(output(report), 0, number) for number in range(len(groups))) == b"".join(raws(files, 0))


@pytest.mark.parametrize("most", [100, 130, 250])
def test_joined_row_groups_have_no_more_rows_than_wished(tmp_path: Path, most: int) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "row_group_rows": most})
    files, rows = small_files(kernel, 5, use_dictionary=["s"])
    report = done(kernel, files, rows)
    assert max(group[0].values for group in chunks_of(output(report))) <= most


@pytest.mark.parametrize("touched", [False, True], ids=["copied", "encoded"])
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_large_row_group_between_small_ones(tmp_path: Path, touched: bool, before: int, after: int) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "copy_floor": 4000})
    files, rows = small_files(kernel, 6)
    large = kernel.file("large", table(numbered(50_000, 4000)), **PLAIN)
    assert sum(chunk.size for chunk in chunks_of(large)[0]) > 4000
    delete = kernel.position_delete("d", large, [7])
    inputs: list[InputFile | Path] = [
        *files[:before],
        given(large, deletes=[delete] if touched else []),
        *files[3 : 3 + after],
    ]
    middle = [row for row in numbered(50_000, 4000) if row["id"] != 50_007 or not touched]
    report = done(kernel, inputs, [*rows[: 100 * before], *middle, *rows[300 : 300 + 100 * after]])
    if not touched:
        assert report.effort.encoded_bytes == 0


def test_large_and_small_row_groups_in_one_file(tmp_path: Path) -> None:
    """Read from one place while it is copied from another."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "copy_floor": 4000})
    sizes = [100, 4000, 100, 100, 4000, 4000, 100]
    starts = [0, *itertools.accumulate(sizes)]
    for name, options in (("plain", PLAIN), ("mixed", {**PLAIN, "use_dictionary": ["s"]})):
        path = tmp_path / f"{name}.parquet"
        with pq.ParquetWriter(path, pa.schema([ID, S]), store_schema=False, **options) as writer:
            for start, size in zip(starts, sizes, strict=False):
                writer.write_table(table(numbered(start, size)))
        files, rows = small_files(kernel, 2)
        whole = numbered(0, starts[-1])
        done(kernel, [files[0], path, files[1]], [*rows[:100], *whole, *rows[100:]])
        delete = kernel.position_delete(f"d-{name}", path, [50, 200, starts[-2] - 1])
        kept = [row for row in whole if row["id"] not in (50, 200, starts[-2] - 1)]
        done(kernel, [files[0], given(path, deletes=[delete]), files[1]], [*rows[:100], *kept, *rows[100:]])


# -- where files lie --------------------------------------------------------------------------------


class Lasting(LocalSource):
    """A file that may be read on after it was closed, as one on S3; how often that happens is counted."""

    def __init__(self, path: str, size: int, storage: "Splicing") -> None:
        super().__init__(path, size, storage.meter)
        self._all = memoryview(Path(path).read_bytes())
        self._storage = storage

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes."""
        checked_range(self, offset, length)
        self._storage.late_reads += self.handle < 0
        return self._all[offset : offset + length]


class SplicingSink(LocalSink):
    """A file of which the store copies parts by itself, or so it says."""

    copies_server_side = True


class Splicing(LocalStorage):
    """Local files as if they were on S3."""

    def __init__(self) -> None:
        super().__init__(ways=())
        self.meter = self._meter
        self.late_reads = 0

    def open(self, path: str, size: int) -> Lasting:
        """A file to read."""
        return Lasting(path, size, self)

    def create(self, path: str) -> SplicingSink:
        """A new file."""
        return SplicingSink(path, self._meter, ())


@pytest.fixture(
    params=[(copies_server_side, held) for copies_server_side in (False, True) for held in (True, False)], ids=str
)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, bool]:
    """Whether the store copies by itself, and whether small files are held in memory."""
    copies_server_side, held = request.param
    if copies_server_side:
        monkeypatch.setattr(task, "storage_for", lambda *_: Splicing())
    if not held:
        monkeypatch.setattr(view_module, "_SMALL", 1)
    return copies_server_side, held


def test_wherever_files_lie(tmp_path: Path, way: tuple[bool, bool]) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "copy_floor": 4000})
    for number, options in enumerate((PLAIN, {**PLAIN, "use_dictionary": ["s"]}, {**PLAIN, "row_group_size": 30})):
        files, rows = small_files(kernel, 4, **options)
        large = kernel.file(f"large-{number}", table(numbered(50_000, 4000)), **PLAIN)
        delete = kernel.position_delete(f"d-{number}", files[1], [3])
        inputs: list[InputFile | Path] = [files[0], given(files[1], deletes=[delete]), large, *files[2:]]
        left = [row for row in rows[:200] if row["id"] != 1003]
        report = done(kernel, inputs, [*left, *numbered(50_000, 4000), *rows[200:]])
        joined = report.effort.copied_bytes - sum(chunk.size for chunk in chunks_of(large)[0])
        assert joined == 0 if way == (True, False) else joined > 0  # a store would be asked for each chunk


@pytest.mark.parametrize("smallest", [1, 2**23], ids=["joined", "copied and held"])
def test_what_is_closed_is_read_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smallest: int) -> None:
    """A copy may still wait for its neighbour: `Sink.copy` wants its source open until the sink has gone on."""
    storage = Splicing()
    monkeypatch.setattr(task, "storage_for", lambda *_: storage)
    monkeypatch.setattr(view_module, "_SMALL", smallest)
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**JOIN, "copy_floor": 4000})
    files, rows = small_files(kernel, 3)
    both = kernel.file("both", table(numbered(50_000, 4100)), **PLAIN, row_group_size=4000)
    done(kernel, [*files[:2], both, files[2]], [*rows[:200], *numbered(50_000, 4100), *rows[200:]])
    assert storage.late_reads == 0


# -- any files --------------------------------------------------------------------------------------

PATHS = ["id", "s", "t.a", "t.b", "l.list.element", "m.key_value.key", "m.key_value.value"]
ANY = struct(column(1, "id", "long"), column(2, "s", "string"), *NESTED["fields"][1:])
FIELDS = (ID, S, T, L, M)


Described = tuple[int, dict[str, Any], set[int]]
"""Rows of a file, how it is written, and which of its rows are deleted."""


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """How a file is written."""
    page_rows = draw(st.sampled_from([1, 7, 1000, 1000]))
    return {
        "write_page_index": draw(st.sampled_from([True] * 5 + [False])),
        "compression": draw(st.sampled_from(["zstd"] * 5 + ["snappy"])),
        "use_dictionary": draw(st.lists(st.sampled_from(PATHS), max_size=2, unique=True)),
        "row_group_size": draw(st.sampled_from([5, 20, 1000])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "max_rows_per_page": page_rows,
        "write_batch_size": page_rows,
    }


@st.composite
def described(draw: st.DrawFn) -> list[Described]:
    """Files, most of which are written in the same way and have no deletes."""
    common = draw(options())
    ways = st.one_of(st.just(common), st.just(common), options())
    gone = st.one_of(st.just(set[int]()), st.just(set[int]()), st.sets(st.integers(0, 44), max_size=3))
    return draw(st.lists(st.tuples(st.sampled_from([1, 8, 45]), ways, gone), min_size=2, max_size=6))


writings = st.fixed_dictionaries(
    {
        "fewest_page_rows": st.sampled_from([1, 1, 6]),
        "row_group_bytes": st.sampled_from([500, 5000, 2**27, 2**27]),
        "copy_floor": st.sampled_from([600, 3000, 2**23, 2**23]),
        "task_memory": st.sampled_from([20_000, 800_000, 2**30, 2**30]),
        "page_rows": st.sampled_from([3, 20_000]),
        "blooms": st.sampled_from([{}, {}, {2: (0.01, None)}]),
    }
)


def any_rows(first: int, count: int) -> list[Row]:
    """Rows with everything in them, nulls included."""
    more = itertools.cycle(NESTED_ROWS)
    return [{**next(more), **row} for row in numbered(first, count)]


@supposing(
    files=described(), writing=writings, lineage=st.booleans(), copies_server_side=st.booleans(), held=st.booleans()
)
def test_any_files(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[Described],
    writing: dict[str, Any],
    lineage: bool,
    copies_server_side: bool,
    held: bool,
) -> None:
    kernel = Kernel(folder=tmp_path_factory.mktemp("any"), schema=ANY, lineage=lineage, writing=writing)
    inputs: list[InputFile | Path] = []
    expected: list[Row] = []
    for number, (count, how, gone) in enumerate(files):
        rows = any_rows(1000 * number, count)
        path = kernel.file(f"f{number}", table(rows, *FIELDS), **how)
        places = sorted(gone & set(range(count)))
        deletes = [kernel.position_delete(f"d{number}", path, places)] if places else []
        inputs.append(given(path, deletes=deletes, first_row_id=500 * number, sequence_number=number))
        left = [(n, {f.name: row[f.name] for f in FIELDS}) for n, row in enumerate(rows) if n not in gone]
        expected += [with_lineage(row, 500 * number + n, number) if lineage else row for n, row in left]
    with pytest.MonkeyPatch.context() as patch:
        if copies_server_side:
            patch.setattr(task, "storage_for", lambda *_: Splicing())
        if not held:
            patch.setattr(view_module, "_SMALL", 1)
        done(kernel, inputs, expected)


# -- memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("required", "limit", "at_most"),
    [(False, "row_group_bytes", 42), (False, "task_memory", 42), (True, "task_memory", 84)],
)
def test_what_is_joined_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool, limit: str, at_most: int
) -> None:
    """Files are held until their row group is written, not until the unit ends. Of 50 kB: what fits into two megabytes,
    and the next; as much again where all files are looked at first."""
    noise = stored(1, "noise", pa.binary(), required=required)
    writing = {**JOIN, "copy_floor": 2**23, limit: 2**21 if limit == "row_group_bytes" else 2**23}
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "noise", "binary")), writing=writing)
    random = np.random.default_rng(1)
    files = [
        kernel.file(f"f{n}", rows_of({noise: [random.bytes(1000) for _ in range(50)]}), **PLAIN) for n in range(200)
    ]
    buffers: list[weakref.ref[Any]] = []
    most = 0

    class Watched(FileInMemory):
        def __init__(self, path: str, data: Any) -> None:
            nonlocal most
            super().__init__(path, np.frombuffer(data, dtype=np.uint8).copy())
            buffers.append(weakref.ref(self._data.obj))
            most = max(most, sum(ref() is not None for ref in buffers))

    monkeypatch.setattr(view_module, "FileInMemory", Watched)
    report = kernel.run(*files)
    assert (report.refused, report.failed) == (None, None)
    assert report.effort.copied_bytes > 0
    assert len(buffers) == 200
    assert most <= at_most
