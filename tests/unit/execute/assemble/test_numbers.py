"""Whole numbers, dates, times and short decimals: in dictionaries or plain, they are the same to every reader."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.layout import CODECS, COLUMN_INDEX, INT32, PAGE_HEADER
from icepact.execute.parquet.thrift import I64, Fields, read_struct
from tests.support.kernel import Kernel, column, given, output, rows_of, stored, struct
from tests.support.parquet_bent import Raw, bent, encode, meta_of
from tests.support.parquet_judges import duckdb_rows, statistics_hold

ROWS = 6000
GONE = [0, 3, *range(100, 900), ROWS - 2]
KEPT = [row for row in range(ROWS) if row not in set(GONE)]
WRITING: Mapping[str, Any] = {"page_rows": 500, "row_group_bytes": 2**24}
DAY, NOON = date(2020, 1, 1), datetime(2020, 1, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

KINDS: Mapping[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), lambda n: n - 20),
    "long": (pa.int64(), lambda n: (n - 20) * 2**40),
    "date": (pa.date32(), lambda n: DAY - timedelta(days=n)),
    "timestamp": (pa.timestamp("us"), lambda n: (NOON + timedelta(hours=n - 10)).replace(tzinfo=None)),
    "timestamptz": (pa.timestamp("us", tz="UTC"), lambda n: NOON + timedelta(seconds=n)),
    "decimal(9, 2)": (pa.decimal128(9, 2), lambda n: Decimal(n - 30) / 100),
    "decimal(18, 4)": (pa.decimal128(18, 4), lambda n: Decimal((n - 30) * 10**13) / 10_000),
}
"""By Iceberg's type: Arrow's, and the value of a number between 0 and 59."""
COLUMNS = [
    (2 * n + plain, f"{'plain' if plain else 'few'}_{n}", kind) for n, kind in enumerate(KINDS, 1) for plain in (0, 1)
]
SCHEMA = struct(*(column(i, name, kind) for i, name, kind in COLUMNS))


def rows(seed: int) -> pa.Table:
    """Rows in which each kind is there with few values and with many; the greatest value is in one row, which goes."""
    chance = random.Random(seed)
    columns: dict[pa.Field, Sequence[Any]] = {}
    for field_id, name, kind in COLUMNS:
        arrow, value = KINDS[kind]
        numbers = [chance.randrange(50) for _ in range(ROWS)]
        numbers[3], numbers[17] = 59, 0
        columns[stored(field_id, name, arrow)] = [value(n) for n in numbers]
    return rows_of(columns)


def written(kernel: Kernel, name: str, table: pa.Table, codec: str = "zstd") -> Path:
    options: dict[str, Any] = {"use_dictionary": _few(table), "row_group_size": 2000, "store_decimal_as_integer": True}
    return kernel.file(
        name, table, compression="none" if codec == "uncompressed" else codec.removesuffix("_raw"), **options
    )


@pytest.mark.parametrize("codec", CODECS)
def test_rows_and_bounds(tmp_path: Path, codec: str) -> None:
    """By three readers, and by every bound of every page."""
    level = {"zstd": 3, "gzip": 6, "brotli": 1}.get(codec)
    kernel = Kernel(
        folder=tmp_path, schema=SCHEMA, writing={**WRITING, "codec": codec, "level": level, "level_of_numbers": None}
    )
    tables = [rows(seed) for seed in range(3)]
    paths = [written(kernel, f"f{n}", table, codec) for n, table in enumerate(tables)]
    report = kernel.run(*(given(p, deletes=[kernel.vector(f"d{p.stem}", p, GONE)]) for p in paths))
    assert (report.refused, report.failed) == (None, None)
    path = output(report)
    expected = pa.concat_tables([table.take(KEPT) for table in tables])
    found = pq.read_table(path)
    assert [c.to_pylist() for c in found.columns] == [c.to_pylist() for c in expected.columns]
    assert [c.to_list() for c in pl.read_parquet(path)] == [c.to_pylist() for c in expected.columns]
    assert duckdb_rows(f"SELECT count(*), sum(few_1), max(plain_2) FROM '{path}'") == [
        (len(expected), sum(expected["few_1"].to_pylist()), max(expected["plain_2"].to_pylist()))
    ]
    held = Input(MemorySource(path.read_bytes()))
    [group] = held.footer.row_groups
    assert [chunk.dictionary_offset is not None for chunk in group.chunks] == [not i % 2 for i, _, _ in COLUMNS]
    assert all(
        chunk.data_encodings == {0 if i % 2 else 8} for chunk, (i, _, _) in zip(group.chunks, COLUMNS, strict=True)
    )
    assert statistics_hold(path.read_bytes()) >= 2 * len(COLUMNS)
    for number, (_, name, kind) in enumerate(COLUMNS):
        pages_hold(held, number, [as_stored(value, kind) for value in expected[name].to_pylist()])


@pytest.mark.parametrize(("memory", "in_order"), [(2**30, True), (2**20, False)], ids=["in steps", "too large"])
def test_a_row_group_that_is_not_decoded_at_once(tmp_path: Path, memory: int, in_order: bool) -> None:
    """Its indices are read all the same, if they may be in memory: then the new dictionaries are in order."""
    writing = {**WRITING, "codec": "uncompressed", "level": None, "level_of_numbers": None}
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**writing, "batch_rows": 700, "task_memory": memory})
    table = rows(4)
    path = kernel.file("f", table, compression="none", store_decimal_as_integer=True, use_dictionary=_few(table))
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, GONE)]))
    assert (report.refused, report.failed) == (None, None)
    found = pq.read_table(output(report))
    assert [c.to_pylist() for c in found.columns] == [c.to_pylist() for c in table.take(KEPT).columns]
    data = output(report).read_bytes()
    for group in Input(MemorySource(data)).footer.row_groups:
        for number, chunk in enumerate(group.chunks):
            if chunk.dictionary_offset is not None and in_order:
                assert number % 2 == 0
                header, length = read_struct(memoryview(data)[chunk.dictionary_offset :], PAGE_HEADER)
                body = data[chunk.dictionary_offset + length :][: header[3]]
                numbers = np.frombuffer(body, "<i4" if chunk.physical == INT32 else "<i8")
                assert len(numbers) == header[7][1]
                assert (numbers[1:] > numbers[:-1]).all()
    assert statistics_hold(data) > 0


def _few(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name.startswith("few")]


def as_stored(value: Any, kind: str) -> int:
    """The number that a value is written as."""
    if kind == "date":
        return int((value - EPOCH.date()).days)
    if kind.startswith("timestamp"):
        return int((value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1))
    return int(value * 10 ** int(kind[-2])) if kind.startswith("decimal") else int(value)


def pages_hold(held: Input, number: int, values: Sequence[int]) -> None:
    """The bounds of each page are those of its rows, none of which is null."""
    index, pages = held.column_index(0, number), held.pages(0, number)
    assert index is not None
    assert pages is not None
    assert [location[3] for location in pages[1]] == list(range(0, len(values), 500))
    described, _ = read_struct(index, COLUMN_INDEX)
    parts = [values[first : first + 500] for first in range(0, len(values), 500)]
    for field, bound in ((2, min), (3, max)):
        assert [int.from_bytes(data, "little", signed=True) for data in described[field]] == list(map(bound, parts))
    assert (described[1], described[5]) == ([False] * len(parts), [0] * len(parts))
    assert held.footer.row_groups[0].chunks[number].statistics[3] == 0


def test_a_deleted_number_is_nowhere(tmp_path: Path) -> None:
    """Neither in a dictionary, nor in a bound, though nothing but its rows went."""
    secret = 0x5EC2E7_5EC2E7
    kernel = Kernel(
        folder=tmp_path, schema=struct(column(1, "n", "long")), writing={"codec": "uncompressed", "level": None}
    )
    numbers = [n % 50 for n in range(ROWS)]
    numbers[17] = numbers[-1] = secret
    path = kernel.file("f", rows_of({stored(1, "n", pa.int64()): numbers}), compression="none")
    assert secret.to_bytes(8, "little") in path.read_bytes()
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, [17, ROWS - 1])]))
    data = output(report).read_bytes()
    assert secret.to_bytes(8, "little") not in data
    assert pq.read_table(output(report))["n"].to_pylist() == [n for n in numbers if n != secret]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("required", [False, True])
def test_nulls_and_columns_without(tmp_path: Path, kind: str, required: bool) -> None:
    """A column with a null is written by pyarrow; one that could not have any has no marks for them."""
    arrow, value = KINDS[kind]
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "n", kind, required=required)))
    values = [value(n % 50) for n in range(ROWS)]
    if not required:
        values[5] = None
    table = rows_of({stored(1, "n", arrow, required=required): values})
    path = kernel.file("f", table, store_decimal_as_integer=True)
    found = kernel.rewritten(given(path, deletes=[kernel.vector("d", path, [3])]))
    assert found["n"].to_pylist() == [*values[:3], *values[4:]]


def test_dictionaries_and_plain_numbers_meet(tmp_path: Path) -> None:
    """One file has a dictionary, another has none, and in a third all is deleted but a few rows."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "n", "decimal(9, 2)")))
    field = stored(1, "n", pa.decimal128(9, 2))
    values = [Decimal(n % 50) / 4 for n in range(ROWS)]
    inputs, expected = [], []
    for name, dictionary, gone in (("a", True, [1]), ("b", False, [2]), ("c", True, range(5, ROWS))):
        path = kernel.file(name, rows_of({field: values}), use_dictionary=dictionary, store_decimal_as_integer=True)
        inputs.append(given(path, deletes=[kernel.vector(f"d{name}", path, list(gone))]))
        expected += [v for n, v in enumerate(values) if n not in set(gone)]
    assert kernel.rewritten(*inputs)["n"].to_pylist() == expected


@pytest.mark.parametrize("kind", ["int", "long"])
def test_a_dictionary_that_repeats_itself(tmp_path: Path, kind: str) -> None:
    """Nothing forbids it, and each index still has its own number: the fourth of five is what the second is."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "n", kind)))
    arrow, _ = KINDS[kind]
    path = kernel.file("f", rows_of({stored(1, "n", arrow): [n % 5 for n in range(ROWS)]}), compression="none")
    data, width = bytearray(path.read_bytes()), arrow.bit_width // 8
    end = Input(MemorySource(bytes(data))).footer.row_groups[0].chunks[0].data_offset
    data[end - 2 * width : end - width] = data[end - 4 * width : end - 3 * width]
    path.write_bytes(data)
    expected = [1 if n % 5 == 3 else n % 5 for n in range(ROWS)]
    assert pq.read_table(path)["n"].to_pylist() == expected
    assert kernel.rewritten(given(path, deletes=[kernel.vector("d", path, [0])]))["n"].to_pylist() == expected[1:]


def change_dictionary(path: Path, change: Callable[[Fields, bytes], bytes]) -> None:
    """Put another page, of a header and a body, in place of the dictionary of the only chunk."""
    data = path.read_bytes()
    chunk = Input(MemorySource(data)).footer.row_groups[0].chunks[0]
    header, length = read_struct(data[chunk.start :], PAGE_HEADER)
    page = change(header, data[chunk.start + length : chunk.data_offset])
    more = len(page) - (chunk.data_offset - chunk.start)

    def move(fields: Fields) -> None:
        meta = meta_of(fields)
        meta.update({7: meta[7] + more, 9: meta[9] + more})

    path.write_bytes(bent(data[: chunk.start] + page + data[chunk.data_offset :], move))


def test_a_dictionary_with_an_unknown_part(tmp_path: Path) -> None:
    """Readers pass over what they do not know."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "n", "long")))
    numbers = [n % 50 for n in range(ROWS)]
    path = kernel.file("f", rows_of({stored(1, "n", pa.int64()): numbers}))
    unknown = Raw(I64, b"\x0a")
    change_dictionary(path, lambda header, body: encode({**header, 7: {**header[7], 99: unknown}}, PAGE_HEADER) + body)
    assert kernel.rewritten(given(path, deletes=[kernel.vector("d", path, [0])]))["n"].to_pylist() == numbers[1:]


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "brotli"])
@pytest.mark.parametrize("batch_rows", [2**20, 999])
def test_a_dictionary_that_ends_too_early(tmp_path: Path, codec: str, batch_rows: int) -> None:
    """Behind its end is whatever memory held, which are no numbers of the table."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "n", "long")), writing={"batch_rows": batch_rows})
    path = kernel.file("f", rows_of({stored(1, "n", pa.int64()): [n % 50 for n in range(ROWS)]}), compression=codec)
    half = pa.Codec("lz4_raw" if codec == "lz4" else codec).compress(np.arange(25, dtype="<i8").tobytes(), asbytes=True)
    change_dictionary(path, lambda header, _: encode({**header, 3: len(half)}, PAGE_HEADER) + half)
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, [0])]))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert report.refused.startswith(f"{path}: ")


@pytest.mark.parametrize("pages", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "values", [[None] * ROWS, [*[None] * 3000, *(n % 7 for n in range(3000))]], ids=["all", "half"]
)
def test_row_groups_without_a_value(tmp_path: Path, values: list[int | None], pages: str) -> None:
    """They have a dictionary with nothing in it, or none."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "n", "long")))
    options: dict[str, Any] = {"row_group_size": 1500, "data_page_version": pages}
    path = kernel.file("f", rows_of({stored(1, "n", pa.int64()): values}), **options)
    found = kernel.rewritten(given(path, deletes=[kernel.vector("d", path, [3, 5000])]))
    assert found["n"].to_pylist() == [*values[:3], *values[4:5000], *values[5001:]]
