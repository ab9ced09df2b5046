"""Chunks made of the pages of several chunks hold what those held, and say of it what holds for all of them."""

import io
import itertools
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.parquet.assembler import AssembledFile, Assembler, ByteSink, ChunkToWrite
from icepact.execute.parquet.footer import Chunk
from icepact.execute.parquet.input import FileInMemory, Input, MemorySource, Pick
from icepact.execute.parquet.joining import JoinedChunk, may_join
from icepact.execute.parquet.layout import (
    CODECS,
    COLUMN_INDEX,
    DATA_PAGE_V2,
    FILE_META,
    OFFSET_INDEX,
    PLAIN,
    RLE,
)
from icepact.execute.parquet.pages import check_pages
from icepact.execute.parquet.thrift import I64, Fields, read_struct
from tests.support.parquet_bent import Raw, bent, encode, footer_of, meta_of, walk, with_footer
from tests.support.parquet_files import FileSink, PartsSink, Settings, Stored, Written, plain, rows_of, schemas, write
from tests.support.parquet_files import settings as any_settings
from tests.support.parquet_judges import (
    CREATED_BY,
    Rows,
    beyond_duckdb,
    described_well,
    duckdb_sums,
    same_rows,
    statistics_hold,
)

ZSTD = CODECS["zstd"]
STRANGE = Raw(I64, b"\x0a")
JOINABLE = Settings(dictionary=False, index=True, store_schema=False)
PLACES: dict[str, Callable[[bytes], Any]] = {
    "stored": Stored,
    "held": lambda data: FileInMemory("somewhere", data),
    "made": MemorySource,
}
"""Where inputs lie: what is made in memory is appended, all else is copied."""

# -- any chunks of any files ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files, and which of their row groups are joined."""

    files: list[Written]
    places: list[str]
    """Where each file lies."""
    groups: list[list[tuple[int, int]]]
    """For each row group of the output, file and row group of its parts."""
    encoded: frozenset[int]
    """Columns that are encoded anew, and stand next to the joined ones."""
    short_decimals: bool

    def parts(self, number: int) -> list[pa.Table]:
        """The rows of each part of a row group."""
        return [self.files[file].rows(group) for file, group in self.groups[number]]

    def rows(self, number: int) -> pa.Table:
        """The rows of a row group."""
        return pa.concat_tables(self.parts(number))

    @property
    def expected(self) -> pa.Table:
        """All rows of the output."""
        return pa.concat_tables([self.rows(number) for number in range(len(self.groups))])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to four files of one schema and codec, each written in its own way, but never with dictionaries."""
    schema = draw(schemas())
    short = draw(st.booleans())
    codec = draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4"]))
    how = any_settings(short_decimals=short)
    files = [
        write(
            rows_of(schema, draw(st.sampled_from([1, 30, 60])), draw(st.integers(0, 99))),
            replace(draw(how), dictionary=False, index=True, codec=codec),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    every = [(number, group) for number, file in enumerate(files) for group, rows in enumerate(file.groups) if rows]
    parts = st.lists(st.sampled_from(every), min_size=1, max_size=5)
    return Case(
        files=files,
        places=[draw(st.sampled_from(sorted(PLACES))) for _ in files],
        groups=draw(st.one_of(st.just([every]), st.lists(parts, min_size=1, max_size=3))),
        encoded=draw(st.frozensets(st.integers(0, len(schema) - 1), max_size=2)),
        short_decimals=short,
    )


class Making:
    """One way of joining a case."""

    def __init__(self, case: Case, *, stored: bool = False) -> None:
        self.case = case
        places = ["stored" if stored else place for place in case.places]
        self.inputs = [Input(PLACES[place](file.data)) for file, place in zip(case.files, places, strict=True)]
        self.tops = _top_of_leaves(self.inputs[0])
        self.parts: list[list[ChunkToWrite]] = []

    def into(self, sink: ByteSink) -> AssembledFile:
        """Assemble."""
        schema = self.inputs[0].footer.fields[2]
        assembler = Assembler(sink, schema, created_by=CREATED_BY, key_values={"who": "a test"})
        for number, group in enumerate(self.case.groups):
            fresh = _encoded(self.case, number)
            parts: list[ChunkToWrite] = []
            for leaf, top in enumerate(self.tops):
                picks = [Pick(self.inputs[file], g, leaf) for file, g in group]
                parts.append(Pick(fresh, 0, leaf) if top in self.case.encoded else JoinedChunk(picks))
            rows = sum(self.case.files[file].groups[g] for file, g in group)
            assembler.add(rows, parts)
            self.parts.append(parts)
        return assembler.finish()

    def picks(self, number: int, leaf: int) -> list[Pick]:
        """What a joined chunk was made of."""
        return [Pick(self.inputs[file], group, leaf) for file, group in self.case.groups[number]]


def _top_of_leaves(file: Input) -> list[int]:
    names = [child.name for child in file.footer.schema.children]
    return [names.index(leaf.path[0]) for leaf in file.footer.leaves]


def _encoded(case: Case, number: int) -> Input:
    """The rows of a row group as one chunk per column, as pyarrow makes it."""
    how = Settings(codec="none", short_decimals=case.short_decimals)
    return Input(MemorySource(write(case.rows(number).combine_chunks(), how).data))


def judge(data: bytes, making: Making, assembled: AssembledFile) -> None:
    """What must hold wherever the bytes lie."""
    case = making.case
    same_rows(data, case.expected)
    described_well(data, assembled, [case.rows(number).num_rows for number in range(len(case.groups))])
    output = Input(Stored(data))
    for number, group in enumerate(output.footer.row_groups):
        whole = _whole(case, number)
        for leaf, (chunk, top) in enumerate(zip(group.chunks, making.tops, strict=True)):
            assert output.why_not_copied(number, leaf, walk=True) is None
            if top not in case.encoded:
                picks = making.picks(number, leaf)
                judge_chunk(data, chunk, picks)
                judge_statistics(chunk, picks, whole.footer.row_groups[0].chunks[leaf])
                if len(output.footer.leaves[leaf].path) == 1:
                    judge_pages(data, chunk, case.rows(number).column(top))
    statistics_hold(data)
    judge_bytes(making, assembled)


def _whole(case: Case, number: int) -> Input:
    """All parts of a row group, written as one by pyarrow: it says what holds for all of them together."""
    table = case.rows(number).combine_chunks()
    return Input(MemorySource(write(table, replace(JOINABLE, short_decimals=case.short_decimals)).data))


def judge_bytes(making: Making, assembled: AssembledFile) -> None:
    """Bytes are counted as appended if they were made in memory, and as copied otherwise."""
    appended = 0
    for part in (part for parts in making.parts for part in parts):
        made = [found.size for found in part.ranges if type(found.source) is MemorySource]
        appended += sum(made)
    assert assembled.appended_bytes == appended


def judge_chunk(data: bytes, chunk: Chunk, picks: Sequence[Pick]) -> None:
    """A joined chunk has the bytes of its parts one behind the other, their figures added up, and their indexes."""
    parts = [pick.chunk for pick in picks]
    assert data[chunk.start : chunk.end] == b"".join(_bytes(pick) for pick in picks)
    check_pages(MemorySource(data).read, chunk)
    assert chunk.fields.keys() <= {2, 3, 4, 5, 6, 7}
    assert chunk.meta.keys() <= {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
    assert (chunk.physical, chunk.codec) == (parts[0].physical, parts[0].codec)
    assert sorted(chunk.encodings) == sorted({encoding for part in parts for encoding in part.encodings})
    for number in (5, 6, 7):
        assert chunk.meta[number] == sum(part.meta[number] for part in parts)
    counted: Counter[tuple[int, int]] = Counter()
    for entry in (entry for part in parts for entry in part.meta[13]):
        counted[entry[1], entry[2]] += entry[3]
    assert {(entry[1], entry[2]): entry[3] for entry in chunk.meta[13]} == counted
    judge_locations(data, chunk, picks)
    judge_index(data, chunk, picks)


def _bytes(pick: Pick) -> bytes:
    return bytes(pick.input.source.read(pick.chunk.start, pick.chunk.size))


def judge_locations(data: bytes, chunk: Chunk, picks: Sequence[Pick]) -> None:
    """Every location is that of a page, and says which row is its first; one part without leaves none."""
    for pick in picks:
        codec = pick.chunk.codec
        assert may_join(pick.input, pick.group, pick.column, codec=codec, fewest_rows=1) == (pick.pages is not None)
    if any(pick.pages is None for pick in picks):  # a page without rows, as pyarrow writes some in lists
        assert (chunk.offset_index, chunk.column_index) == (None, None)
        return
    assert chunk.offset_index is not None
    told = read_struct(_at(data, chunk.offset_index), OFFSET_INDEX)[0]
    pages = list(walk(data, chunk))
    assert [(location[1], location[2]) for location in told[1]] == [(at, size) for at, size, _ in pages]
    before = itertools.accumulate((pick.rows for pick in picks), initial=0)
    rows = [row + one[3] for row, pick in zip(before, picks, strict=False) for one in _pages(pick)[1]]
    assert [location[3] for location in told[1]] == rows
    ends = [*rows[1:], sum(pick.rows for pick in picks)]
    for (_, _, header), first, end in zip(pages, rows, ends, strict=True):
        if header[1] == DATA_PAGE_V2:
            assert header[8][3] == end - first
        elif not picks[0].input.footer.leaves[picks[0].column].repeated:
            assert header[5][1] == end - first
    sizes = [_pages(pick).get(2) for pick in picks]
    whole = None if any(size is None for size in sizes) else [n for size in sizes for n in size or ()]
    assert told.get(2) == whole


def _pages(pick: Pick) -> Fields:
    assert pick.pages is not None
    return pick.pages


def judge_index(data: bytes, chunk: Chunk, picks: Sequence[Pick]) -> None:
    """Statistics per page are those of the parts, in no order."""
    found = [pick.page_statistics for pick in picks]
    whole = [one for one in found if one is not None]
    assert (chunk.column_index is not None) == (len(whole) == len(picks))
    if chunk.column_index is None:
        return
    told = read_struct(_at(data, chunk.column_index), COLUMN_INDEX)[0]
    parts = [read_struct(one, COLUMN_INDEX)[0] for one in whole]
    assert told.keys() == {1, 2, 3, 4, 5}
    assert told[4] == 0
    for number in (1, 2, 3, 5):
        assert told[number] == [value for part in parts for value in part[number]]
        assert len(told[number]) == len(list(walk(data, chunk)))


def judge_pages(data: bytes, chunk: Chunk, values: pa.ChunkedArray) -> None:
    """The statistics of each page are right for the values of its rows."""
    if chunk.offset_index is None or chunk.column_index is None:
        return
    locations = read_struct(_at(data, chunk.offset_index), OFFSET_INDEX)[0][1]
    told = read_struct(_at(data, chunk.column_index), COLUMN_INDEX)[0]
    firsts = [location[3] for location in locations]
    for page, (first, end) in enumerate(itertools.pairwise([*firsts, len(values)])):
        inside = values.slice(first, end - first)
        assert told[5][page] == inside.null_count
        assert told[1][page] == (inside.null_count == len(inside))
        texts = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
        if texts and not told[1][page]:
            raw = [value.encode() if isinstance(value, str) else value for value in inside.drop_null().to_pylist()]
            assert (told[2][page], told[3][page]) == (min(raw), max(raw))
        elif pa.types.is_signed_integer(values.type) and not told[1][page]:
            bounds = [int.from_bytes(told[number][page], "little", signed=True) for number in (2, 3)]
            assert bounds == [min(plain(inside.drop_null())), max(plain(inside.drop_null()))]


def judge_statistics(chunk: Chunk, picks: Sequence[Pick], whole: Chunk) -> None:
    """What a joined chunk says is what pyarrow says of all its values, as long as every part said something."""
    told = [pick.statistics for pick in picks]
    assert chunk.statistics.get(3) == (sum(one[3] for one in told) if all(3 in one for one in told) else None)
    filled = [one for one, pick in zip(told, picks, strict=True) if one.get(3) != pick.chunk.values]
    half = picks[0].input.footer.leaves[picks[0].column].logical == ("float16",)
    for bound in (5, 6):
        expected = all(bound in one for one in filled) and not half
        assert chunk.statistics.get(bound) == (whole.statistics.get(bound) if expected else None)


def _at(data: bytes, where: tuple[int, int]) -> bytes:
    return data[where[0] : where[0] + where[1]]


def judge_with_duckdb(case: Case, folder: Path) -> None:
    """DuckDB finds in the output what it finds in the inputs."""
    beyond = {name for file in case.files for name in beyond_duckdb(file.data)}
    columns = [name for name in case.expected.column_names if name not in beyond]
    paths = [folder / f"input-{number}.parquet" for number in range(len(case.files))]
    for path, file in zip(paths, case.files, strict=True):
        path.write_bytes(file.data)
    parts = [part for group in case.groups for part in group]
    rows = [Rows(paths[f], sum(case.files[f].groups[:g]), case.files[f].groups[g]) for f, g in parts]
    output = [Rows(folder / "local.parquet", 0, case.expected.num_rows)]
    assert duckdb_sums(output, columns) == duckdb_sums(rows, columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files lie for those who want a path."""
    return tmp_path_factory.mktemp("joining")


@given(case=cases())
def test_any_chunks_without_dictionaries(case: Case, folder: Path) -> None:
    local = Making(case, stored=True)
    sink = FileSink(folder / "local.parquet")
    assembled = local.into(sink)
    sink.close()
    judge((folder / "local.parquet").read_bytes(), local, assembled)
    judge_with_duckdb(case, folder)

    mixed = Making(case)
    sink = FileSink(folder / "mixed.parquet")
    assembled = mixed.into(sink)
    sink.close()
    judge((folder / "mixed.parquet").read_bytes(), mixed, assembled)

    spliced, parts = Making(case), PartsSink()
    assembled = spliced.into(parts)
    judge(parts.data, spliced, assembled)


@pytest.mark.parametrize("columns", [[0], [0, 1]], ids=["one", "two"])
def test_parts_that_follow_each_other_in_a_file_are_copied_at_once(columns: list[int]) -> None:
    """A column's row groups follow each other only if it is the only one."""
    table = pa.table({f"c{n}": range(40) for n in columns})
    file = Input(Stored(write(table, replace(JOINABLE, group_rows=10)).data))
    sink = PartsSink()
    joined = [JoinedChunk([Pick(file, group, column) for group in range(4)]) for column in columns]
    _assembled(sink, file, [(40, joined)])
    copies = [part for part in sink.parts if part.copied]
    assert len(copies) == (1 if len(columns) == 1 else 8)
    same_rows(sink.data, table)


# -- statistics -------------------------------------------------------------------------------------

Change = Callable[[Fields], object]


def _assembled(sink: ByteSink, like: Input, groups: Sequence[tuple[int, Sequence[ChunkToWrite]]]) -> AssembledFile:
    assembler = Assembler(sink, like.footer.fields[2], created_by=CREATED_BY, key_values={"who": "a test"})
    for rows, parts in groups:
        assembler.add(rows, parts)
    return assembler.finish()


def joined_chunk(*parts: tuple[Sequence[Any], pa.DataType] | bytes) -> Chunk:
    """The only chunk of a file that was joined from others of one column; values, or files that were bent."""
    files = [part if isinstance(part, bytes) else written(*part) for part in parts]
    inputs = [Input(Stored(file)) for file in files]
    rows = sum(file.footer.rows for file in inputs)
    sink = PartsSink()
    _assembled(sink, inputs[0], [(rows, [JoinedChunk([Pick(file, 0, 0) for file in inputs])])])
    output = Input(Stored(sink.data))
    [chunk] = output.footer.row_groups[0].chunks
    check_pages(Stored(sink.data).read, chunk)
    statistics_hold(sink.data)
    expected = [repr(value) for file in files for value in pq.read_table(pa.BufferReader(file))["c"].to_pylist()]
    assert [repr(value) for value in pq.read_table(pa.BufferReader(sink.data))["c"].to_pylist()] == expected
    return chunk


def written(values: Sequence[Any], kind: pa.DataType, change: Change | None = None) -> bytes:
    """A file of one column; `change` is done to what it says of its values."""
    data = write(pa.table({"c": pa.array(values, kind)}), JOINABLE).data
    return data if change is None else bent(data, lambda fields: change(meta_of(fields)[12]))


def without(*numbers: int) -> Change:
    """Statistics that lack some fields."""

    def change(told: Fields) -> None:
        for number in numbers:
            del told[number]

    return change


def long(number: int) -> bytes:
    """A bound of a column of longs."""
    return struct.pack("<q", number)


INT = pa.int64()


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_part_of_nulls_does_not_count(empty: int) -> None:
    parts: list[tuple[Sequence[Any], pa.DataType]] = [([3, None], INT), ([7, 5], INT)]
    parts.insert(empty, ([None] * 4, INT))
    told = joined_chunk(*parts).statistics
    assert (told[3], told[6], told[5]) == (5, long(3), long(7))


def test_nothing_but_nulls_has_no_bounds() -> None:
    assert joined_chunk(([None], INT), ([None, None], INT)).statistics == {3: 3}


@pytest.mark.parametrize("bare_first", [False, True])
def test_a_part_without_bounds_leaves_none(bare_first: bool) -> None:
    parts = [written([100, None], INT, without(5, 6)), written([3, 4], INT)]
    told = joined_chunk(*(parts if bare_first else reversed(parts))).statistics
    assert told == {3: 1}


@pytest.mark.parametrize(("missing", "left", "bound"), [(5, 6, long(1)), (6, 5, long(4))])
def test_each_bound_goes_by_itself(missing: int, left: int, bound: bytes) -> None:
    told = joined_chunk(written([1, 2], INT, without(missing)), written([3, 4], INT)).statistics
    assert (missing in told, told[left]) == (False, bound)


def test_a_part_without_statistics_leaves_none() -> None:
    bare = write(pa.table({"c": [9]}), replace(JOINABLE, statistics=False)).data
    assert joined_chunk(bare, ([1], INT)).statistics == {}


def test_a_missing_count_of_nulls_leaves_none() -> None:
    told = joined_chunk(written([1, None], INT, without(3)), ([None, 5], INT)).statistics
    assert (3 in told, told[6], told[5]) == (False, long(1), long(5))


def test_nulls_that_nobody_counted_might_be_values() -> None:
    """The part has no bounds either: nobody knows that it holds nulls only."""
    told = joined_chunk(written([None, None], INT, without(3)), ([1, 5], INT)).statistics
    assert told == {}


def double(number: float) -> bytes:
    """A bound of a column of doubles."""
    return struct.pack("<d", number)


def bounded(value: float) -> Change:
    """Statistics that say the same of the least and the largest value, and that there is no NaN."""
    return lambda told: told.update({5: double(value), 6: double(value), 9: 0})


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_zeros_go_by_their_sign(zeros: tuple[float, float]) -> None:
    """Writers should say -0.0 for the least zero and 0.0 for the largest; not all do."""
    told = joined_chunk(*(written([zero], pa.float64(), bounded(zero)) for zero in zeros)).statistics
    assert (told[6], told[5]) == (double(-0.0), double(0.0))


def no_nan(told: Fields) -> None:
    """Statistics that say that there is no NaN."""
    told[9] = 0


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_fractions_have_bounds_where_every_part_says_that_there_is_no_nan(kind: pa.DataType) -> None:
    form = "<f" if kind == pa.float32() else "<d"
    parts = [written([7.0, 2.0], kind, no_nan), written([-1.5, 3.0, None], kind, no_nan)]
    nulls = ([None, None], kind)
    told = joined_chunk(*parts, nulls).statistics
    assert told.items() >= {3: 3, 6: struct.pack(form, -1.5), 5: struct.pack(form, 7.0), 9: 0}.items()
    assert joined_chunk(*parts, ([4.0], kind)).statistics == {3: 1}


@pytest.mark.parametrize("nan_first", [False, True])
@pytest.mark.parametrize("values", [[float("nan")], [float("nan"), 1.5]])
def test_a_part_with_nan_leaves_no_bounds(values: list[float], nan_first: bool) -> None:
    """Whether its writer counted it or not."""
    other = written([1.0, 2.0], pa.float64(), no_nan)
    hidden = written(values, pa.float64())
    counted = written(values, pa.float64(), lambda told: told.update({9: 1}))
    for part, expected in ((hidden, {3: 0}), (counted, {3: 0, 9: 1})):
        assert joined_chunk(*((part, other) if nan_first else (other, part))).statistics == expected


@pytest.mark.parametrize("nan_first", [False, True])
def test_a_bound_of_nan_leaves_none(nan_first: bool) -> None:
    """No number is above NaN, and none below: it must not win, nor hide the others."""
    parts = [written([1.0], pa.float64(), bounded(float("nan"))), written([2.0], pa.float64(), no_nan)]
    assert joined_chunk(*(parts if nan_first else reversed(parts))).statistics == {3: 0}


def test_counts_of_nan_are_added_up() -> None:
    """Where every part has one."""
    nan, kind = float("nan"), pa.float64()
    counted = [written([nan, 1.0], kind, lambda told: told.update({9: 1})) for _ in range(2)]
    assert joined_chunk(*counted).statistics[9] == 2
    assert 9 not in joined_chunk(*counted, ([nan, 1.0], kind)).statistics


def test_half_floats_have_no_bounds() -> None:
    told = joined_chunk(([1.5], pa.float16()), ([-2.5], pa.float16())).statistics
    assert told == {3: 0}


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_unsigned_numbers_have_no_sign(kind: pa.DataType) -> None:
    most = 2**kind.bit_width - 1
    told = joined_chunk(([most], kind), ([1, 7], kind), ([most // 2 + 1], kind)).statistics
    assert int.from_bytes(told[6], "little") == 1
    assert int.from_bytes(told[5], "little") == most


@pytest.mark.parametrize(
    ("kind", "parts", "least", "most"),
    [
        (pa.int8(), [[5], [-7, 3]], b"\xf9\xff\xff\xff", b"\x05\0\0\0"),
        (pa.int32(), [[256], [-1], [255]], b"\xff\xff\xff\xff", b"\0\x01\0\0"),
        (pa.bool_(), [[True], [False]], b"\0", b"\x01"),
        (pa.date32(), [[1], [-400]], struct.pack("<i", -400), struct.pack("<i", 1)),
        (pa.timestamp("us", "UTC"), [[256], [-1]], long(-1), long(256)),
        (pa.string(), [["z", "ß"], ["😀"], ["", "ab"]], b"", "😀".encode()),
        (pa.string(), [["ab"], ["a"], ["aa", "abc"]], b"a", b"abc"),
        (pa.binary(), [[b"\x7f"], [b"\x80", b"\xff"], [b"\x7e\xff"]], b"\x7e\xff", b"\xff"),
        (pa.binary(2), [[b"\x7f\0"], [b"\x80\0"]], b"\x7f\0", b"\x80\0"),
    ],
    ids=["int8", "int32", "bool", "date", "timestamp", "text", "short text", "binary", "fixed"],
)
def test_bounds_go_by_the_order_of_their_type(
    kind: pa.DataType, parts: list[list[Any]], least: bytes, most: bytes
) -> None:
    for order in itertools.permutations(parts):
        told = joined_chunk(*((part, kind) for part in order)).statistics
        assert (told[6], told[5]) == (least, most)


@pytest.mark.parametrize("precision", [9, 18, 30, 38])
@pytest.mark.parametrize("short", [False, True], ids=["fixed", "numbers"])
def test_decimals_have_a_sign(precision: int, short: bool) -> None:
    """The bytes of -5.00 are larger than those of 3.00."""
    kind = pa.decimal128(precision, 2)
    values = [["-5.00"], ["3.00", "-2.56"], ["2.55"]]
    files = [
        write(pa.table({"c": pa.array(map(Decimal, part), kind)}), replace(JOINABLE, short_decimals=short)).data
        for part in values
    ]
    order: Literal["little", "big"] = "little" if short and precision <= 18 else "big"
    for some in itertools.permutations(files):
        told = joined_chunk(*some).statistics
        bounds = [int.from_bytes(told[number], order, signed=True) for number in (6, 5)]
        assert bounds == [-500, 300]


def test_whether_a_bound_is_exact_goes_with_the_bound() -> None:
    """Cut bounds may be further than any value."""
    cut = {5: b"b", 6: b"a", 7: False, 8: False}
    low = written(["aa", "ab"], pa.string(), lambda told: told.update(cut))
    told = joined_chunk(low, (["zz"], pa.string())).statistics
    assert (told[6], told[8], told[5], told[7]) == (b"a", False, b"zz", True)
    silent = written(["zz"], pa.string(), without(7, 8))
    told = joined_chunk(low, silent).statistics
    assert (told[6], told[8], told[5], 7 in told) == (b"a", False, b"zz", False)


def test_deprecated_bounds_are_left_behind() -> None:
    old = written([1], INT, lambda told: told.update({1: long(0), 2: long(0), 4: 1}))
    assert joined_chunk(old, ([5], INT)).statistics.keys() == {3, 5, 6, 7, 8}


def test_bounds_too_long_to_be_written_down() -> None:
    """The text is among the values, so that no shorter bound holds."""
    told = joined_chunk((["m"], pa.string()), (["z" * 5000], pa.string())).statistics
    assert told == {3: 0}


# -- other figures ----------------------------------------------------------------------------------


def bytes_of(data: bytes) -> bytes:
    """The first chunk of a file."""
    chunk = Input(Stored(data)).footer.row_groups[0].chunks[0]
    return data[chunk.start : chunk.end]


def test_sizes_and_pages_are_added_up() -> None:
    table = pa.table({"c": range(40)})
    ways = [
        replace(JOINABLE, page_rows=10),
        replace(JOINABLE, encodings=1),
        replace(JOINABLE, page_version="2.0", page_rows=20),
    ]
    files = [write(table, how).data for how in ways]
    metas = [meta_of(footer_of(file)) for file in files]
    found = joined_chunk(*files).meta
    assert [found[number] for number in (5, 6, 7)] == [sum(meta[number] for meta in metas) for number in (5, 6, 7)]
    assert found[2] == [PLAIN, RLE, 5]
    assert {(entry[1], entry[2]): entry[3] for entry in found[13]} == {
        (0, 0): 6,
        (0, 5): 1,
    }  # pyarrow does not tell versions apart
    assert 16 not in found


@pytest.mark.parametrize("change", [without(13), lambda meta: meta.update({13: [{1: 0, 2: 0}]})], ids=["no", "half"])
def test_pages_that_one_part_did_not_count(change: Change) -> None:
    silent = Input(Stored(bent(written([1], INT), lambda fields: change(meta_of(fields)))))
    assert 13 not in JoinedChunk([Pick(Input(Stored(written([2], INT))), 0, 0), Pick(silent, 0, 0)]).chunk.meta


def test_a_filter_is_left_behind() -> None:
    """It would deny the values of the other parts."""
    files = [write(pa.table({"c": [n]}), replace(JOINABLE, bloom=True)).data for n in range(2)]
    assert all(14 in meta_of(footer_of(file)) for file in files)
    assert joined_chunk(*files).meta.keys().isdisjoint({14, 15})


@pytest.mark.parametrize("number", [4, 6], ids=["locations", "statistics"])
def test_a_part_without_an_index_leaves_none(number: int) -> None:
    def change(fields: Fields) -> None:
        del fields[4][0][1][0][number], fields[4][0][1][0][number + 1]

    chunk = joined_chunk(bent(written([1], INT), change), ([2], INT))
    assert (chunk.offset_index is None) == (number == 4)
    assert chunk.column_index is None


def test_counts_that_one_index_lacks() -> None:
    """Counts of nulls per page are kept where every part has them."""
    table = pa.table({"c": [1, None, 3]})
    silent = with_index(write(table, JOINABLE).data, 6, COLUMN_INDEX, without(5))
    files = [Input(Stored(silent)), Input(Stored(written([5], INT)))]
    for order in itertools.permutations(files):
        found = JoinedChunk([Pick(file, 0, 0) for file in order]).page_statistics
        assert found is not None
        assert read_struct(found, COLUMN_INDEX)[0].keys() == {1, 2, 3, 4}


def test_sizes_that_one_index_lacks() -> None:
    silent = with_index(written(["a"], pa.string()), 4, OFFSET_INDEX, without(2))
    files = [Input(Stored(silent)), Input(Stored(written(["bc"], pa.string())))]
    told = JoinedChunk([Pick(files[1], 0, 0)] * 2).pages
    assert told is not None
    assert told[2] == [2, 2]
    for order in itertools.permutations(files):
        told = JoinedChunk([Pick(file, 0, 0) for file in order]).pages
        assert told is not None
        assert (len(told[1]), 2 in told) == (2, False)


# -- what may be joined -----------------------------------------------------------------------------


def with_index(data: bytes, number: int, table: Any, change: Change) -> bytes:
    """A file whose first chunk has another offset index (4) or column index (6)."""
    start = Input(Stored(data)).footer.start
    fields = footer_of(data)
    chunk = fields[4][0][1][0]
    told = read_struct(_at(data, (chunk[number], chunk[number + 1])), table)[0]
    change(told)
    blob = encode(told, table)
    chunk.update({number: start, number + 1: len(blob)})
    behind = with_footer(data, encode(fields, FILE_META))
    return behind[:start] + blob + behind[start:]


TABLE = pa.table({"c": range(100)})
GOOD = write(TABLE, replace(JOINABLE, page_rows=25)).data


def may(data: bytes, *, codec: int = ZSTD, fewest_rows: int = 1) -> bool:
    """Whether the first chunk of a file may be joined to others."""
    return may_join(Input(Stored(data)), 0, 0, codec=codec, fewest_rows=fewest_rows)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", [0, 1, 2])
def test_pages_that_stand_for_themselves_may_be_joined(version: str, encoding: int) -> None:
    assert may(GOOD)
    assert may(write(TABLE, replace(JOINABLE, page_version=version, encodings=encoding)).data)


def test_chunks_with_dictionaries_stay_alone() -> None:
    assert not may(write(TABLE, replace(JOINABLE, dictionary=True)).data)


def test_chunks_that_gave_up_their_dictionary_stay_alone() -> None:
    """Only some of their pages refer to it."""
    out = io.BytesIO()
    options = {"write_page_index": True, "compression": "zstd", "write_batch_size": 100, "data_page_size": 100}
    pq.write_table(pa.table({"c": range(1000)}), out, use_dictionary=True, dictionary_pagesize_limit=800, **options)
    data = out.getvalue()
    assert {PLAIN, 8} <= {entry[2] for entry in meta_of(footer_of(data))[13]}
    assert not may(data)
    assert not may(bent(data, lambda fields: meta_of(fields).update({2: [0, 3]})))  # its offset gives it away


@pytest.mark.parametrize("encoding", [2, 8])
def test_a_dictionary_that_only_the_encodings_tell_of(encoding: int) -> None:
    """Some writers do not say where it is."""
    assert not may(bent(GOOD, lambda fields: meta_of(fields)[2].append(encoding)))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4"])
def test_another_codec_stays_alone(codec: str) -> None:
    data = write(TABLE, replace(JOINABLE, codec=codec)).data
    own = {"none": "uncompressed", "lz4": "lz4_raw"}.get(codec, codec)
    assert not may(data)
    assert may(data, codec=CODECS[own])


def test_without_page_locations_nothing_is_joined() -> None:
    assert not may(write(TABLE, replace(JOINABLE, index=False)).data)


@pytest.mark.parametrize(("fewest", "worth"), [(1, True), (25, True), (26, False)])
def test_short_pages_are_not_worth_it(fewest: int, worth: bool) -> None:
    """Four pages have a hundred rows."""
    assert may(GOOD, fewest_rows=fewest) is worth


def test_what_is_worth_it_goes_by_the_row_group() -> None:
    """The rows of the others do not count."""
    file = Input(Stored(write(TABLE, replace(JOINABLE, group_rows=40, page_rows=25)).data))
    assert [may_join(file, group, 0, codec=ZSTD, fewest_rows=20) for group in range(3)] == [True, True, True]
    assert [may_join(file, group, 0, codec=ZSTD, fewest_rows=21) for group in range(3)] == [False, False, False]


@pytest.mark.parametrize("by", [-3, -1, 1, 2, 10])
def test_page_locations_that_lie(by: int) -> None:
    """They add up, but the second one is no page."""

    def change(told: Fields) -> None:
        one, other = told[1][:2]
        one[2] += by
        other[1] += by
        other[2] -= by

    data = with_index(GOOD, 4, OFFSET_INDEX, change)
    file = Input(MemorySource(data))  # elsewhere a look at every page would be a request for every page
    assert file.pages(0, 0) is not None
    assert not may_join(file, 0, 0, codec=ZSTD, fewest_rows=1)
    assert may(with_index(GOOD, 4, OFFSET_INDEX, lambda told: None))


STRANGE_CHUNKS: dict[str, Change] = {
    "unknown": lambda fields: fields[4][0][1][0].update({20: STRANGE}),
    "unknown inside": lambda fields: meta_of(fields).update({20: STRANGE}),
    "unknown statistics": lambda fields: meta_of(fields)[12].update({20: STRANGE}),
    "unknown column": lambda fields: fields[2][1].update({20: STRANGE}),
    "elsewhere": lambda fields: fields[4][0][1].__setitem__(0, {1: b"other", **fields[4][0][1][0]}),
    "not whole": lambda fields: meta_of(fields).pop(6),
    "another column": lambda fields: meta_of(fields).update({3: [b"d"]}),
    "too many values": lambda fields: meta_of(fields).update({5: 101}),
    "unknown encoding": lambda fields: meta_of(fields)[2].append(77),
    "dictionary": lambda fields: meta_of(fields).update({9: 20, 11: 4}),
}


@pytest.mark.parametrize("name", STRANGE_CHUNKS)
def test_strange_chunks_stay_alone(name: str) -> None:
    assert not may(bent(GOOD, STRANGE_CHUNKS[name]))


def test_a_dictionary_at_the_beginning_of_the_file_is_none() -> None:
    """Some writers say 0 where there is none."""
    data = bent(GOOD, lambda fields: meta_of(fields).update({11: 0}))
    assert may(data)
    assert 11 not in joined_chunk(data, GOOD).meta


# -- what the assembler refuses ---------------------------------------------------------------------


def test_parts_that_have_not_as_many_rows() -> None:
    files = [Input(Stored(written([1, 2], INT))), Input(Stored(written([3], INT)))]
    joined = JoinedChunk([Pick(file, 0, 0) for file in files])
    assert joined.rows == 3
    with pytest.raises(ValueError, match="does not fit 4 rows"):
        _assembled(PartsSink(), files[0], [(4, [joined])])


def test_joined_and_single_chunks_side_by_side(tmp_path: Path) -> None:
    """A large file with columns of both kinds, of which the joined ones lie in several places."""
    tables = [pa.table({"a": range(n, n + 500), "b": [f"text {i}" for i in range(500)]}) for n in (0, 500, 1000)]
    files = [
        Input(place(write(table, replace(JOINABLE, page_rows=100)).data))
        for place, table in zip(PLACES.values(), tables, strict=True)
    ]
    whole = pa.concat_tables(tables)
    fresh = Input(MemorySource(write(whole, Settings()).data))
    for sink in (PartsSink(), FileSink(tmp_path / "local.parquet")):
        joined = JoinedChunk([Pick(file, 0, 0) for file in files])
        single = [Pick(file, 0, n) for file in files[:1] for n in (0, 1)]
        assembled = _assembled(sink, files[0], [(1500, [joined, Pick(fresh, 0, 1)]), (500, single)])
        if isinstance(sink, FileSink):
            sink.close()
            data = (tmp_path / "local.parquet").read_bytes()
        else:
            data = sink.data
        same_rows(data, pa.concat_tables([whole, tables[0]]))
        described_well(data, assembled, [1500, 500])
        assert bytes_of(data) == b"".join(bytes_of(bytes(file.source.read(0, file.source.size))) for file in files)
