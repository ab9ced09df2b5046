"""Pages that cannot have a deleted key are not read, and every row that has one is found."""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from icepact.execute.assemble import deleted, key_pages
from icepact.execute.assemble.messages import ConvertContext, ConvertReport, ConvertWork, InputFile
from icepact.execute.assemble.ranges import PageRanges
from icepact.execute.assemble.task import convert_deletes
from icepact.execute.deletes.bitmaps import decode_positions
from icepact.execute.deletes.kinds import comparable
from icepact.execute.deletes.ranges import ColumnRange
from icepact.execute.parquet.input import TAIL
from icepact.execute.parquet.layout import COLUMN_INDEX, FILE_META, OFFSET_INDEX
from icepact.execute.parquet.thrift import Fields, Table, read_struct
from icepact.execute.storage.local import LocalSource
from tests.support.kernel import COPY, Kernel, column, given, rows_of, stored, struct
from tests.support.parquet_bent import bent, encode, footer_of, with_footer
from tests.unit.execute.deletes.test_oracle import CASES, Bits, Case, arrow_array, deleted_rows, pool

Change = Callable[[Fields], object]
LOCATIONS, STATISTICS = 4, 6
"""Where a chunk says where its offset index and its column index are."""
_TABLES: dict[int, Table] = {LOCATIONS: OFFSET_INDEX, STATISTICS: COLUMN_INDEX}


TYPES = [case for case in CASES if case.kind not in ("unknown", "time")]


class Found(NamedTuple):
    """What equality deletes delete, and what it took to find that out."""

    positions: list[int]
    read: int


def found(kernel: Kernel, file: InputFile) -> Found:
    """Look for deleted rows as a task does that converts."""
    context = kernel.context
    whole = ConvertContext(task=context, bounds={}, vectors=True, output=str(kernel.folder / context.run_id))
    [report] = convert_deletes([ConvertWork(file=file, only_found=True)], whole, "0", last=True)
    assert isinstance(report, ConvertReport)
    assert (report.refused, report.failed) == (None, None)
    return Found(decode_positions(report.by_key or b"").tolist(), report.effort.transferred_bytes)


def reindexed(path: Path, number: int, change: Change, *, leaf: int = 0) -> None:
    """Change the offset index or the column index of a chunk by hand: the new one lies behind all others."""
    data = path.read_bytes()
    fields = footer_of(data)
    chunk = fields[4][0][1][leaf]
    at, length = chunk[number], chunk[number + 1]
    index = read_struct(data[at : at + length], _TABLES[number])[0]
    change(index)
    blob = encode(index, _TABLES[number])
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    chunk |= {number: start, number + 1: len(blob)}
    changed = with_footer(data, encode(fields, FILE_META))
    path.write_bytes(changed[:start] + blob + changed[start:])


# -- any table ------------------------------------------------------------------------------------------


class Example(NamedTuple):
    """Rows, keys, and how the rows are written."""

    cases: Sequence[Case]
    rows: Sequence[tuple[Any, ...]]
    keys: Sequence[tuple[Any, ...]]
    options: dict[str, Any]
    cut: int | None
    """Bytes after which bounds of texts are cut; `None` if they are not."""


def order(case: Case, value: Any) -> Any:
    """Values in the order in which keys are compared, null first."""
    plain = comparable(case.kind, value.value if isinstance(value, Bits) else value)
    return (plain is not None, plain)


@st.composite
def tables(draw: st.DrawFn) -> Example:
    """Columns of which some are clustered, with few values, and keys that may be there."""
    cases = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    count = draw(st.integers(1, 60))
    columns, pools = [], []
    for case in cases:
        values = draw(pool(case.values) | st.lists(case.values, min_size=3, max_size=8))
        indexes = draw(st.lists(st.integers(0, len(values) - 1), min_size=count, max_size=count))
        taken = [values[n] for n in indexes]
        columns.append(sorted(taken, key=lambda value: order(case, value)) if draw(st.booleans()) else taken)
        pools.append(st.sampled_from(values))
    options = {
        "row_group_size": draw(st.sampled_from([7, 30, 100])),
        "max_rows_per_page": draw(st.integers(1, 6) | st.just(100)),
        "data_page_size": draw(st.sampled_from([8, 64, 1024])),
        "use_dictionary": draw(st.booleans()),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "compression": draw(st.sampled_from(["none", "zstd"])),
        "store_decimal_as_integer": draw(st.booleans()),
    }
    keys = draw(st.lists(st.tuples(*pools), min_size=1, max_size=3))
    return Example(cases, list(zip(*columns, strict=True)), keys, options, draw(st.none() | st.integers(1, 4)))


def in_pages(kernel: Kernel, name: str, table: pa.Table, **options: Any) -> Path:
    """A file of small pages, with page indexes."""
    told: dict[str, Any] = {"write_page_index": True, "write_batch_size": 1, "max_rows_per_page": 4, **options}
    return kernel.file(name, table, **told)


def counting_nans(path: Path, example: Example) -> None:
    """As a writer does that counts NaN, so that bounds of floats are believed."""

    def change(fields: Fields) -> None:
        first = 0
        for group in fields[4]:
            for number, case in enumerate(example.cases):
                if case.kind in ("float", "double"):
                    values = [row[number] for row in example.rows[first : first + group[3]]]
                    nans = sum(value is not None and math.isnan(value.value) for value in values)
                    group[1][number][3].setdefault(12, {})[9] = nans
            first += group[3]

    path.write_bytes(bent(path.read_bytes(), change))


def cut_bounds(length: int) -> Change:
    """Shorter bounds, as writers make them: the upper one is larger than what was cut."""

    def change(index: Fields) -> None:
        index[2] = [bound[:length] for bound in index[2]]
        index[3] = [bound if len(bound) <= length else bound[: length - 1] + b"\xff" * 9 for bound in index[3]]

    return change


def written(kernel: Kernel, example: Example) -> tuple[Path, pa.Table]:
    """The rows in a file, and the keys."""
    fields = [stored(n, f"c{n}", case.arrow) for n, case in enumerate(example.cases, start=1)]

    def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        arrays = [arrow_array(case.arrow, [row[n] for row in rows]) for n, case in enumerate(example.cases)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    path = in_pages(kernel, "f", table(example.rows), **example.options)
    counting_nans(path, example)
    for number, case in enumerate(example.cases):
        indexed = STATISTICS in footer_of(path.read_bytes())[4][0][1][number]
        if example.cut is not None and case.kind in ("string", "binary") and indexed:
            reindexed(path, STATISTICS, cut_bounds(example.cut), leaf=number)
    return path, table(example.keys)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are read by themselves however little that saves."""
    monkeypatch.setattr(key_pages, "_INDEX_SHARE", 0)
    monkeypatch.setattr(key_pages, "_PAGES_SHARE", 0)
    monkeypatch.setattr(key_pages, "_FEWEST_ROWS", 0)


@pytest.mark.usefixtures("always")
@settings(max_examples=150)
@examples(tables())
def test_every_deleted_row_is_found(tmp_path_factory: pytest.TempPathFactory, example: Example) -> None:
    types = [column(n, f"c{n}", case.kind) for n, case in enumerate(example.cases, start=1)]
    kernel = Kernel(folder=tmp_path_factory.mktemp("t"), schema=struct(*types))
    path, keys = written(kernel, example)
    file = given(path, deletes=[kernel.equality_delete("d", keys)])
    expected = deleted_rows(example.keys, example.rows)
    assert found(kernel, file).positions == np.flatnonzero(expected).tolist()


# -- what is read ---------------------------------------------------------------------------------------

ID, WORD, NUM = stored(1, "id", pa.int64()), stored(2, "word", pa.string()), stored(3, "num", pa.float64())
SCHEMA = struct(column(1, "id", "long"), column(2, "word", "string"), column(3, "num", "double"))
ROWS = 40_000
PAGED = {"max_rows_per_page": 500, "write_batch_size": 100, "use_dictionary": False, "compression": "none"}


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY)


def words(numbers: Sequence[int]) -> list[str]:
    """A text for each number, in the same order."""
    return [f"{number:07d}" + "x" * (number % 50) for number in numbers]


def large(kernel: Kernel, numbers: Sequence[int], **options: Any) -> Path:
    """A file with a row for each number."""
    columns: dict[pa.Field, list[Any]] = {ID: list(numbers), WORD: words(numbers), NUM: [n / 2 for n in numbers]}
    return in_pages(kernel, "f", rows_of(columns), **{**PAGED, **options})


def both_ways(kernel: Kernel, file: InputFile) -> tuple[Found, Found]:
    """What is found, and what is found when all pages are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deleted, "key_pages", lambda *_: None)
        whole = found(kernel, file)
    return found(kernel, file), whole


ASCENDING = range(0, ROWS * 2, 2)
SHUFFLED = [int(n) for n in np.random.default_rng(1).permutation(ASCENDING)]
SOME = [30_000, 30_300, 30_301, 30_700]


ALIKE = {"row_group_size": 15_000}
UNLIKE = {"max_rows_per_page": ROWS, "data_page_size": 10_000}


@pytest.mark.parametrize("pages", [ALIKE, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("name", ["id", "word", "both", "with a column that is in no order"])
def test_pages_that_cannot_have_a_key_are_not_read(kernel: Kernel, name: str, pages: dict[str, Any]) -> None:
    """Pages of all columns begin at the same rows, or each has as many rows as there is room for."""
    keys: dict[str, dict[pa.Field, list[Any]]] = {
        "id": {ID: SOME},
        "word": {WORD: words(SOME)},
        "both": {ID: SOME, WORD: words(SOME)},
        "with a column that is in no order": {ID: SOME, NUM: [number / 2 for number in SOME]},
    }
    path = large(kernel, ASCENDING, **pages)
    some, whole = both_ways(kernel, given(path, deletes=[kernel.equality_delete("d", rows_of(keys[name]))]))
    assert some.positions == whole.positions == [15_000, 15_150, 15_350]
    assert some.read * 3 < whole.read


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_pages_in_a_dictionary(kernel: Kernel, codec: str) -> None:
    within = np.random.default_rng(1).integers(0, 200, ROWS).tolist()
    numbers = [row // 8000 * 200 + number for row, number in enumerate(within)]
    options = {"use_dictionary": True, "compression": codec, "max_rows_per_page": 2000}
    path = large(kernel, numbers, **options)
    delete = kernel.equality_delete("d", rows_of({ID: [500], WORD: words([500])}))
    some, whole = both_ways(kernel, given(path, deletes=[delete]))
    assert some.positions == whole.positions == [row for row, number in enumerate(numbers) if number == 500]
    assert some.read < whole.read


@pytest.mark.parametrize("dictionary", [False, True])
def test_where_no_page_may_have_a_key_none_is_read(kernel: Kernel, dictionary: bool) -> None:
    """Keys between the bounds of two pages. Nor is a dictionary."""
    numbers = [number + number // 500 * 1000 for number in range(ROWS)]
    path = large(kernel, numbers, use_dictionary=dictionary, dictionary_pagesize_limit=2**24)
    delete = kernel.equality_delete("d", rows_of({ID: [700, 2_100], WORD: words([700, 2_100])}))
    some, whole = both_ways(kernel, given(path, deletes=[delete]))
    assert some.positions == whole.positions == []
    row_group = footer_of(path.read_bytes())[4][0][2]
    assert some.read < path.stat().st_size - row_group + TAIL
    assert whole.read > row_group // 2


def test_a_dictionary_that_is_larger_than_its_pages(kernel: Kernel) -> None:
    """It must be read anyhow."""
    numbers = [number // 4 for number in range(ROWS)]
    options = {"use_dictionary": True, "dictionary_pagesize_limit": 2**24, "max_rows_per_page": 2000}
    path = large(kernel, numbers, **options)
    some, whole = both_ways(kernel, given(path, deletes=[kernel.equality_delete("d", rows_of({WORD: words([500])}))]))
    assert some.positions == whole.positions == [2000, 2001, 2002, 2003]
    assert some.read >= whole.read


def test_keys_all_over_are_read_whole(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table that is in no order, and in one that is; of page indexes little is looked at."""
    looks: list[int] = []
    look = PageRanges.of

    def noted(self: PageRanges, page: int) -> ColumnRange:
        looks.append(page)
        return look(self, page)

    monkeypatch.setattr(PageRanges, "of", noted)
    for numbers, keys in ((SHUFFLED, SOME), (ASCENDING, range(0, ROWS * 2, 300))):
        path = large(kernel, numbers, row_group_size=ROWS)
        some, whole = both_ways(kernel, given(path, deletes=[kernel.equality_delete("d", rows_of({ID: keys}))]))
        assert some.positions == whole.positions
        assert whole.read <= some.read < whole.read * 1.05
    assert len(looks) <= 20


def test_requests_are_worth_their_bytes(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each read is a request, a small chunk is fetched whole."""
    path = large(kernel, ASCENDING)
    file = given(path, deletes=[kernel.equality_delete("d", rows_of({ID: SOME}))])
    near, whole = both_ways(kernel, file)
    monkeypatch.setattr(LocalSource, "far", True)
    assert near.read < found(kernel, file).read == whole.read


def test_large_page_indexes_are_not_read(kernel: Kernel) -> None:
    """Pages of few rows: reading their bounds would take as long as reading them."""
    path = large(kernel, ASCENDING, max_rows_per_page=10, write_batch_size=10)
    some, whole = both_ways(kernel, given(path, deletes=[kernel.equality_delete("d", rows_of({ID: SOME}))]))
    assert some == whole


@pytest.mark.parametrize("rows", [50, 200])
def test_pages_of_few_rows_are_not_looked_at(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """However small their indexes are beside them: each takes as long as it takes to decode a hundred rows."""
    monkeypatch.setattr(key_pages, "_INDEX_SHARE", 0)
    path = large(kernel, ASCENDING, max_rows_per_page=rows, write_batch_size=rows)
    some, whole = both_ways(kernel, given(path, deletes=[kernel.equality_delete("d", rows_of({ID: SOME}))]))
    assert some.positions == whole.positions
    assert (some.read < whole.read) == (rows == 200)


@pytest.mark.parametrize("carries", [False, True])
def test_rewriting(kernel: Kernel, carries: bool) -> None:
    """Rows that are left out, and rows that are hidden."""
    path = large(kernel, ASCENDING, row_group_size=15_000)
    delete = kernel.equality_delete("d", rows_of({ID: SOME}))
    report = replace(kernel, carries=carries).run(given(path, deletes=[delete]))
    assert (report.refused, report.failed) == (None, None)
    if carries:
        assert sum(each.positions for each in report.deletes) == 3
    else:
        [output] = report.outputs
        assert pq.read_table(output.path)["id"].to_pylist() == [n for n in ASCENDING if n not in SOME]


def test_the_partition_decides(kernel: Kernel) -> None:
    """Whatever the file holds in the column."""
    partitioned = replace(kernel, identity=(2,))
    path = large(partitioned, ASCENDING)
    delete = partitioned.equality_delete("d", rows_of({ID: SOME, WORD: ["p", "q", "p", "q"]}))
    some, whole = both_ways(partitioned, given(path, deletes=[delete], partition=("p",)))
    assert some.positions == whole.positions == [15_000]
    assert some.read * 3 < whole.read


def test_files_without_ids(kernel: Kernel) -> None:
    mapped = replace(kernel, name_mapping=[{"field-id": 1, "names": ["old"]}])
    path = in_pages(kernel, "f", pa.table({"old": ASCENDING}), **PAGED)
    some, whole = both_ways(mapped, given(path, deletes=[kernel.equality_delete("d", rows_of({ID: SOME}))]))
    assert some.positions == whole.positions == [15_000, 15_150, 15_350]
    assert some.read * 3 < whole.read


# -- what is not believed -------------------------------------------------------------------------------


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("kind", "stored_as", "wanted", "key"),
    [
        ("long", pa.int32(), pa.int64(), 7),
        ("double", pa.float32(), pa.float64(), 7.0),
        ("timestamp", pa.date32(), pa.timestamp("us"), dt.datetime(1970, 1, 8)),  # noqa: DTZ001
        ("decimal(12, 0)", pa.decimal128(5, 0), pa.decimal128(12, 0), 7),
        ("decimal(30, 0)", pa.decimal128(5, 0), pa.decimal128(30, 0), 7),
    ],
)
def test_promoted_columns(tmp_path: Path, kind: str, stored_as: pa.DataType, wanted: pa.DataType, key: Any) -> None:
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", kind)))
    plain = pa.array(range(20), pa.int32())
    numbers = plain.cast(pa.decimal128(10, 0)) if pa.types.is_decimal(stored_as) else plain
    path = in_pages(kernel, "f", pa.table([numbers.cast(stored_as)], schema=pa.schema([stored(1, "k", stored_as)])))
    delete = kernel.equality_delete("d", rows_of({stored(1, "k", wanted): [key]}))
    assert found(kernel, given(path, deletes=[delete])).positions == [7]


@pytest.mark.usefixtures("always")
def test_a_key_inside_a_struct(tmp_path: Path) -> None:
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "s", struct(column(2, "k", "long")))))
    inner = stored(2, "k", pa.int64())
    rows = rows_of({stored(1, "s", pa.struct([inner])): [None if n == 3 else {"k": n} for n in range(20)]})
    delete = kernel.equality_delete("d", rows_of({inner: [7, None]}))
    assert found(kernel, given(in_pages(kernel, "f", rows), deletes=[delete])).positions == [3, 7]


def shifted(index: Fields) -> None:
    """One page more has four rows, and the next one has fewer."""
    index[1][3][3] += 1


def swapped(index: Fields) -> None:
    """Lower bounds are upper ones."""
    index[2], index[3] = index[3], index[2]


def moved_on(index: Fields) -> None:
    """Bounds of each page are those of its neighbour."""
    index[2], index[3] = [*index[2][1:], index[2][-1]], [*index[3][1:], index[3][-1]]


def as_null(index: Fields) -> None:
    """A page is said to have nothing but nulls."""
    index[1][2] = True


def without_nulls(index: Fields) -> None:
    """Nulls are said to be nowhere."""
    index[5] = [0] * len(index[5])


def short(index: Fields) -> None:
    """Bounds that are none of the type."""
    index[2] = [bound[:4] for bound in index[2]]


LIES: dict[str, tuple[int, Change]] = {
    "rows of pages": (LOCATIONS, shifted),
    "the wrong way round": (STATISTICS, swapped),
    "bounds of others": (STATISTICS, moved_on),
    "a page of nulls": (STATISTICS, as_null),
    "no nulls": (STATISTICS, without_nulls),
    "bounds of another type": (STATISTICS, short),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("name", LIES)
def test_indexes_that_contradict_their_file(kernel: Kernel, name: str, version: str) -> None:
    """Rows with keys are found nevertheless."""
    numbers = [None if number == 30 else number for number in range(40)]
    path = in_pages(kernel, "f", rows_of({ID: numbers}), data_page_version=version)
    reindexed(path, *LIES[name])
    for keys in ([0], [9], [11], [12], [13], [39], [None]):
        file = given(path, deletes=[kernel.equality_delete("d", rows_of({ID: keys}))])
        assert found(kernel, file).positions == [numbers.index(keys[0])], keys


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("bounds", [(2,), (3,), (2, 3)], ids=["lower", "upper", "both"])
def test_bounds_that_were_too_long_are_empty(kernel: Kernel, bounds: Sequence[int]) -> None:
    """A page without a bound has an empty one, whatever it holds."""
    texts = ["", *(f"{number:03d}" for number in range(1, 40))]
    path = in_pages(kernel, "f", rows_of({WORD: texts}))
    reindexed(path, STATISTICS, lambda index: [index[n].__setitem__(page, b"") for n in bounds for page in (0, 2)])
    for position in (0, 1, 3, 8, 11):
        file = given(path, deletes=[kernel.equality_delete("d", rows_of({WORD: [texts[position]]}))])
        assert found(kernel, file).positions == [position]


@pytest.mark.usefixtures("always")
def test_decimals_with_bounds_that_are_cut(tmp_path: Path) -> None:
    """What is left of them are other numbers."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "decimal(38, 0)")))
    key = stored(1, "k", pa.decimal128(38, 0))
    numbers = [Decimal(n * 10**30) for n in range(-20, 20)]
    path = in_pages(kernel, "f", rows_of({key: numbers}))
    reindexed(path, STATISTICS, lambda index: index.update({n: [bound[:6] for bound in index[n]] for n in (2, 3)}))
    for position in (0, 39):
        file = given(path, deletes=[kernel.equality_delete("d", rows_of({key: [numbers[position]]}))])
        assert found(kernel, file).positions == [position]


@pytest.mark.usefixtures("always")
def test_nulls_that_the_chunk_does_not_count(kernel: Kernel) -> None:
    numbers = [None if number == 30 else number for number in range(40)]
    path = in_pages(kernel, "f", rows_of({ID: numbers}))
    path.write_bytes(bent(path.read_bytes(), lambda fields: fields[4][0][1][0][3][12].pop(3)))
    reindexed(path, STATISTICS, without_nulls)
    file = given(path, deletes=[kernel.equality_delete("d", rows_of({ID: [None]}))])
    assert found(kernel, file).positions == [30]


@pytest.mark.usefixtures("always")
def test_zeros_of_either_sign(kernel: Kernel) -> None:
    """Bounds may have lost the sign."""
    numbers = [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    path = in_pages(kernel, "f", rows_of({NUM: numbers}), max_rows_per_page=1)
    path.write_bytes(bent(path.read_bytes(), lambda fields: fields[4][0][1][0][3][12].update({9: 0})))

    def other_signs(index: Fields) -> None:
        positive, negative = bytes(8), bytes(7) + b"\x80"
        index[2][2] = index[3][2] = positive
        index[2][3] = index[3][3] = negative

    reindexed(path, STATISTICS, other_signs)
    for position in (2, 3):
        file = given(path, deletes=[kernel.equality_delete("d", rows_of({NUM: [numbers[position]]}))])
        assert found(kernel, file).positions == [position]
