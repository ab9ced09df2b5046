"""Texts in dictionaries: they stay there, without those of deleted rows, and are described as they are."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.layout import CODECS, COLUMN_INDEX
from icepact.execute.parquet.thrift import read_struct
from tests.support.kernel import Kernel, column, given, output, rows_of, stored, struct
from tests.support.parquet_judges import duckdb_rows, statistics_hold

WORD, RAW, ID = stored(1, "word", pa.string()), stored(2, "raw", pa.binary()), stored(3, "id", pa.int64())
SCHEMA = struct(column(1, "word", "string"), column(2, "raw", "binary"), column(3, "id", "long"))
PAGES: Mapping[str, Any] = {"page_rows": 500, "row_group_bytes": 2**24}
ROWS = 6000

WORDS: Mapping[str, Sequence[str]] = {
    "one": ["only"],
    "two": ["yes", "no"],
    "with the empty one": ["", "a", "ä", "€", "𝄞", "z" * 300],
    "many": [f"word {n}" for n in range(700)],
    "long": ["x" * 5000, "y" * 5000, "z"],
}


def made(kernel: Kernel, name: str, words: Sequence[str], seed: int, *, runs: bool = False) -> tuple[Path, pa.Table]:
    """A file of words in dictionaries; each file has them in another order, and the last one in two rows alone."""
    chance = random.Random(seed)
    chosen = [chance.choice(words[:-1] or words) for _ in range(ROWS)]
    chosen[17] = chosen[-1] = words[-1]
    if runs:
        chosen.sort()
    rows = rows_of({WORD: chosen, RAW: [word.encode() for word in chosen], ID: range(seed * ROWS, (seed + 1) * ROWS)})
    path = kernel.file(name, rows, use_dictionary=["word", "raw"], row_group_size=2000, compression="zstd")
    return path, rows


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("case", WORDS)
def test_rows_and_bounds(tmp_path: Path, case: str, codec: str) -> None:
    """By three readers, and by every bound of every page."""
    words = WORDS[case]
    level = {"zstd": 3, "gzip": 6, "brotli": 1}.get(codec)
    writing = {**PAGES, "codec": codec, "level": level, "level_of_numbers": None}
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=writing)
    files = [made(kernel, f"f{n}", words, n, runs=n == 2) for n in range(3)]
    gone = [0, 3, *range(100, 900), ROWS - 2]
    kept = [row for row in range(ROWS) if row not in gone]
    report = kernel.run(*(given(p, deletes=[kernel.vector(f"d{p.stem}", p, gone)]) for p, _ in files))
    assert (report.refused, report.failed) == (None, None)
    path = output(report)
    expected = pa.concat_tables([rows.take(kept) for _, rows in files])
    assert pq.read_table(path).equals(expected.cast(pq.read_schema(path)))
    assert pl.read_parquet(path).to_dict(as_series=False) == expected.to_pydict()
    assert duckdb_rows(f"SELECT word, raw, id FROM '{path}'") == list(zip(*expected.to_pydict().values(), strict=True))
    held = Input(MemorySource(path.read_bytes()))
    [group] = held.footer.row_groups
    assert [chunk.dictionary_offset is not None for chunk in group.chunks] == [True, True, False]
    assert group.chunks[0].data_encodings == {8}
    assert statistics_hold(path.read_bytes()) >= (2 if case == "long" else 6)
    for number, name in enumerate(("word", "raw")):
        pages_hold(held, number, expected[name].cast(pa.binary()).to_pylist())


def pages_hold(held: Input, number: int, values: list[bytes]) -> None:
    """Every page's bounds and bytes are those of its rows, none of which is null."""
    [group] = held.footer.row_groups
    chunk: Chunk = group.chunks[number]
    pages, index = held.pages(0, number), held.column_index(0, number)
    assert pages is not None
    firsts = [location[3] for location in pages[1]]
    assert firsts == list(range(0, len(values), 500))
    parts = [values[first : first + 500] for first in firsts]
    assert pages[2] == [sum(map(len, part)) for part in parts]
    assert chunk.meta[16] == {1: sum(map(len, values)), 2: [], 3: [0, len(values)]}
    if max(map(len, values)) > 4096:
        assert index is None
        assert not {5, 6} & chunk.statistics.keys()
        return
    assert index is not None
    described, _ = read_struct(index, COLUMN_INDEX)
    lowest, highest = [min(part) for part in parts], [max(part) for part in parts]
    assert (described[2], described[3]) == (lowest, highest)
    assert (described[1], described[5]) == ([False] * len(parts), [0] * len(parts))
    ordered = lowest == sorted(lowest) and highest == sorted(highest)
    assert described[4] == (1 if ordered else 0)
    assert (chunk.statistics[6], chunk.statistics[5], chunk.statistics[3]) == (min(values), max(values), 0)


def test_a_deleted_text_is_nowhere(tmp_path: Path) -> None:
    """Neither in a dictionary, nor in a bound, though nothing but its rows went."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={**PAGES, "codec": "uncompressed", "level": None})
    path, rows = made(kernel, "f", [*(f"word {n}" for n in range(50)), "zz secret"], 1)
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, [17, ROWS - 1])]))
    data = output(report).read_bytes()
    assert b"word 49" in data
    assert b"secret" not in data
    assert pq.read_table(output(report))["id"].to_pylist() == [
        n for row, n in enumerate(rows["id"].to_pylist()) if row not in (17, ROWS - 1)
    ]


@pytest.mark.parametrize("required", [False, True])
def test_nulls_and_columns_without(tmp_path: Path, required: bool) -> None:
    """A column with a null is written by pyarrow; one that could not have any has no marks for them."""
    kernel = Kernel(
        folder=tmp_path, schema=struct(column(1, "word", "string", required=required), column(3, "id", "long"))
    )
    field = stored(1, "word", pa.string(), required=required)
    values: list[str | None] = [f"w{n % 9}" for n in range(ROWS)]
    if not required:
        values[5] = None
    path = kernel.file("f", rows_of({field: values, ID: range(ROWS)}), use_dictionary=["word"])
    found = kernel.rewritten(given(path, deletes=[kernel.vector("d", path, [3])]))
    assert found["word"].to_pylist() == [*values[:3], *values[4:]]


def test_a_dictionary_that_saves_nothing_is_given_up(tmp_path: Path) -> None:
    """Nearly every row that is left has a text of its own."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    words = [f"word {n}" for n in range(300)]
    texts = [*words, *words * 19]
    rows = rows_of({WORD: texts, RAW: [b""] * ROWS, ID: range(ROWS)})
    path = kernel.file("f", rows, use_dictionary=["word", "raw"])
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, range(300, ROWS))]))
    [group] = Input(MemorySource(output(report).read_bytes())).footer.row_groups
    assert [chunk.dictionary_offset is not None for chunk in group.chunks] == [False, True, False]
    assert pq.read_table(output(report))["word"].to_pylist() == words


# -- numbers that ascend ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "in_dictionary"),
    [
        ([n // 4 for n in range(ROWS)], False),
        ([n // 100 for n in range(ROWS)], True),
        ([n // 4 if n else 9 for n in range(ROWS)], True),
        ([*(n // 4 for n in range(ROWS - 1)), 0], True),
        ([None, *(n // 4 for n in range(ROWS - 1))], True),
    ],
    ids=["keys", "long runs", "a step back at first", "a step back at last", "a null"],
)
def test_keys_that_ascend_leave_their_dictionary(
    tmp_path: Path, numbers: list[int | None], in_dictionary: bool
) -> None:
    kernel = Kernel(folder=tmp_path, schema=struct(column(3, "id", "long")))
    path = kernel.file("f", rows_of({ID: numbers}), use_dictionary=["id"])
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, [7])]))
    data = output(report).read_bytes()
    [group] = Input(MemorySource(data)).footer.row_groups
    assert (group.chunks[0].dictionary_offset is not None) is in_dictionary
    assert pq.read_table(output(report))["id"].to_pylist() == [*numbers[:7], *numbers[8:]]
    assert statistics_hold(data) == 2


@pytest.mark.parametrize(("each", "in_dictionary"), [(20_000, False), (100, True)], ids=["long", "short"])
def test_keys_may_begin_anew_with_each_file(tmp_path: Path, each: int, in_dictionary: bool) -> None:
    """Files need not follow each other as their keys do; if they are short, neighbours are not alike often enough."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(3, "id", "long")))
    numbers = [[start + n // 4 for n in range(each)] for start in (90_000, 0, 50_000)]
    paths = [kernel.file(f"f{n}", rows_of({ID: some}), use_dictionary=["id"]) for n, some in enumerate(numbers)]
    report = kernel.run(*(given(path, deletes=[kernel.vector(f"d{path.stem}", path, [7])]) for path in paths))
    data = output(report).read_bytes()
    [group] = Input(MemorySource(data)).footer.row_groups
    assert (group.chunks[0].dictionary_offset is not None) is in_dictionary
    found = pq.read_table(output(report))["id"].to_pylist()
    assert found == [one for some in numbers for one in (*some[:7], *some[8:])]


def test_a_dictionary_that_repeats_itself_is_left_to_others(tmp_path: Path) -> None:
    """Nothing forbids it, but pyarrow puts alike texts together, and indices would mean others."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "word", "string")))
    path = kernel.file("f", rows_of({WORD: ["abcde"[n % 5] for n in range(ROWS)]}), compression="none")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\x01\0\0\0d", b"\x01\0\0\0b", 1))
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, [0])]))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused == f"{path}: an index is beyond its dictionary"
