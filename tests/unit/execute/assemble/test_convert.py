"""Deletes of a data file become one: compared with what Python says of every row by itself."""

import math
import struct as packing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from icepact.execute.assemble.messages import ConvertContext, ConvertReport, ConvertWork, InputFile
from icepact.execute.assemble.task import convert_deletes
from icepact.execute.deletes.bitmaps import PositionSet, decode_positions
from icepact.execute.deletes.positions import read_positions
from icepact.execute.deletes.vectors import decode_vector
from icepact.execute.deletes.writing import WrittenDelete
from icepact.model.files import DeleteFile, DeleteKind, ManifestBounds
from tests.support.kernel import Kernel, column, given, rows_of, stored, struct
from tests.support.spoilt import fewer_values, index_beyond_dictionary, page_unreadable
from tests.support.states import delete_file

ID, NUM, WORD = stored(1, "id", pa.int64()), stored(2, "num", pa.float64()), stored(3, "word", pa.string())
SCHEMA = struct(column(1, "id", "long"), column(2, "num", "double"), column(3, "word", "string"))
NUMBERS = st.sampled_from([None, 0.0, -0.0, math.nan, 1.5, -2.0, math.inf])
WORDS = st.sampled_from([None, "", "a", "b", "a rather long word that is cut in statistics", "a rather long word"])
ROWS = st.lists(st.tuples(st.integers(0, 9) | st.none(), NUMBERS, WORDS), min_size=1, max_size=40)
KEYS = st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])


def converted(
    kernel: Kernel,
    *works: ConvertWork | InputFile,
    vectors: bool = True,
    bounds: Mapping[str, ManifestBounds] | None = None,
) -> list[ConvertReport]:
    """Convert as a task does."""
    context = kernel.context
    output = str(kernel.folder / f"new-{context.run_id}")
    whole = ConvertContext(task=context, bounds=bounds or {}, vectors=vectors, output=output)
    some = [work if isinstance(work, ConvertWork) else ConvertWork(file=work) for work in works]
    return list(convert_deletes(some, whole, "0", last=True))


def positions(written: WrittenDelete | None) -> list[int]:
    """What a new delete file says, as its document describes it."""
    if written is None:
        return []
    document = written.to_json(0, ())
    facts = {
        "size": document.get("content-size-in-bytes", document["file-size-in-bytes"]),
        "file_size": document["file-size-in-bytes"],
        "records": document["record-count"],
        "offset": document.get("content-offset"),
        "referenced": document["referenced-data-file"],
        "format": document["file-format"],
    }
    vector = facts["offset"] is not None
    delete = delete_file(written.path, DeleteKind.DV if vector else DeleteKind.POSITION, **facts)
    data = Path(written.path).read_bytes()
    if vector:
        return list(map(int, decode_vector(data[delete.offset or 0 :][: delete.size], delete)))
    index = read_positions(delete, data)
    assert set(index.slices) == {written.referenced}
    return list(map(int, index.of(written.referenced)))


def same(one: Any, other: Any) -> bool:
    """As Iceberg compares keys."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return packing.pack("<d", one) == packing.pack("<d", other)
    return bool(one == other)


@examples(
    files=st.lists(ROWS, min_size=1, max_size=3),
    deletes=st.lists(st.tuples(KEYS, ROWS), max_size=3),
    by_position=st.lists(st.integers(0, 39), max_size=5),
    vectors=st.booleans(),
    rows_in_group=st.integers(1, 15),
)
def test_every_row_that_a_delete_means(
    tmp_path_factory: pytest.TempPathFactory,
    files: Sequence[Sequence[tuple[Any, ...]]],
    deletes: Sequence[tuple[tuple[int, ...], Sequence[tuple[Any, ...]]]],
    by_position: Sequence[int],
    vectors: bool,
    rows_in_group: int,
) -> None:
    kernel = Kernel(folder=tmp_path_factory.mktemp("t"), schema=SCHEMA)
    fields = (ID, NUM, WORD)
    by_key = [
        kernel.equality_delete(f"d{n}", rows_of({fields[i]: [row[i] for row in rows] for i in ids}))
        for n, (ids, rows) in enumerate(deletes)
    ]
    inputs, expected = [], []
    for number, rows in enumerate(files):
        table = rows_of({field: [row[i] for row in rows] for i, field in enumerate(fields)})
        path = kernel.file(f"f{number}", table, row_group_size=rows_in_group)
        there = sorted({n for n in by_position if n < len(rows)})
        attached = [*by_key, *([kernel.vector(f"v{number}", path, there)] if there else [])]
        inputs.append(given(path, deletes=attached))
        hit = {
            n
            for n, row in enumerate(rows)
            for ids, keys in deletes
            if any(all(same(row[i], key[i]) for i in ids) for key in keys)
        }
        expected.append((hit, hit | set(there)))
    reports = {report.path: report for report in converted(kernel, *inputs, vectors=vectors)}
    for file, (hit, every) in zip(inputs, expected, strict=True):
        report = reports[file.path]
        assert (report.refused, report.failed) == (None, None)
        assert positions(report.written) == sorted(every)
        found = [] if report.by_key is None else decode_positions(report.by_key).tolist()
        assert found == sorted(hit)
        assert report.by_key_rows == len(hit)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(folder=tmp_path, schema=SCHEMA)


def data(kernel: Kernel, rows: int = 10) -> Path:
    values: dict[pa.Field, list[Any]] = {
        ID: list(range(rows)),
        NUM: [float(n) for n in range(rows)],
        WORD: [f"w{n}" for n in range(rows)],
    }
    return kernel.file("f", rows_of(values))


def test_what_is_known_is_not_read_again(kernel: Kernel) -> None:
    """Neither the data file nor its equality deletes, which may be gone by then."""
    path = data(kernel)
    vector = kernel.vector("v", path, [2])
    gone = kernel.equality_delete("d", rows_of({ID: [1]}))
    work = ConvertWork(
        file=replace(given(path, deletes=[gone, vector]), path=str(path)),
        by_key=PositionSet(np.array([5, 7], dtype=np.int64)).encode(),
    )
    Path(gone.path).unlink()
    path.unlink()
    [report] = converted(kernel, work)
    assert positions(report.written) == [2, 5, 7]


@pytest.mark.parametrize(("keys", "stays"), [([100], True), ([3], True), ([4], False)])
def test_a_vector_that_says_all_stays(kernel: Kernel, keys: list[int], stays: bool) -> None:
    path = data(kernel)
    deletes = [kernel.vector("v", path, [3]), kernel.equality_delete("d", rows_of({ID: keys}))]
    [report] = converted(kernel, ConvertWork(file=given(path, deletes=deletes), may_stay=True))
    assert (report.stays, report.written is None) == (stays, stays)


def test_vectors_share_a_file(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there are many positions."""
    from icepact.execute.assemble import convert

    monkeypatch.setattr(convert, "MOST_WAITING", 5)
    delete = kernel.equality_delete("d", rows_of({ID: [1, 2, 3]}))
    columns: dict[pa.Field, list[Any]] = {ID: list(range(10)), NUM: [0.0] * 10, WORD: ["a"] * 10}
    rows = rows_of(columns)
    inputs = [given(kernel.file(f"f{n}", rows), deletes=[delete]) for n in range(3)]
    reports = converted(kernel, *inputs)
    assert [positions(report.written) for report in reports] == [[1, 2, 3]] * 3
    assert len({report.written.path for report in reports if report.written}) == 2


# -- what cannot be true ----------------------------------------------------------------------------


def bounds_of(lower: Mapping[int, bytes], upper: Mapping[int, bytes], nulls: Mapping[int, int]) -> ManifestBounds:
    return ManifestBounds(lower=lower, upper=upper, nulls=nulls, values=dict.fromkeys(nulls, 3))


LONG = packing.Struct("<q").pack
HONEST = bounds_of({1: LONG(1)}, {1: LONG(3)}, {1: 0})
LIES = {
    "low": bounds_of({1: LONG(2)}, {1: LONG(3)}, {1: 0}),
    "high": bounds_of({1: LONG(1)}, {1: LONG(2)}, {1: 0}),
    "all null": bounds_of({}, {}, {1: 3}),
}


@pytest.mark.parametrize("name", ["honest", *LIES])
@pytest.mark.parametrize("checked", [False, True])
def test_keys_beyond_their_bounds(kernel: Kernel, name: str, checked: bool) -> None:
    """Of a delete that applies to a data file, and of one that is only checked."""
    delete = kernel.equality_delete("d", rows_of({ID: [1, 2, 3]}))
    path = data(kernel)
    file = given(Path(delete.path) if checked else path, deletes=[delete])
    bounds = {delete.path: LIES.get(name, HONEST)}
    [report] = converted(kernel, ConvertWork(file=file, only_checked=checked), bounds=bounds)
    if name == "honest":
        assert (report.failed, positions(report.written)) == (None, [] if checked else [1, 2, 3])
    else:
        assert report.failed is not None
        assert delete.path in report.failed


def test_nulls_that_nobody_told_of(kernel: Kernel) -> None:
    delete = kernel.equality_delete("d", rows_of({WORD: [None, "b"]}))
    bounds = {delete.path: bounds_of({3: b"b"}, {3: b"b"}, {3: 0})}
    [report] = converted(kernel, given(data(kernel), deletes=[delete]), bounds=bounds)
    assert report.failed is not None
    assert "null" in report.failed


@pytest.mark.parametrize(
    ("kind", "values", "lower", "upper"),
    [
        ("float", [-0.0, 0.0, math.nan], packing.pack("<d", 0.0), packing.pack("<d", 0.0)),
        ("text", ["a rather long word", "b"], b"a rather long wo", b"b"),
        ("promoted", [1, 3], packing.pack("<i", 1), packing.pack("<i", 3)),
        ("unknown form", [1, 3], b"odd", b"odd"),
    ],
)
def test_bounds_that_are_true(kernel: Kernel, kind: str, values: list[Any], lower: bytes, upper: bytes) -> None:
    field = {"float": NUM, "text": WORD}.get(kind, ID)
    number = int(field.metadata[b"PARQUET:field_id"])
    delete = kernel.equality_delete("d", rows_of({field: values}))
    bounds = {delete.path: bounds_of({number: lower}, {number: upper}, {})}
    [report] = converted(kernel, given(data(kernel), deletes=[delete]), bounds=bounds)
    assert report.failed is None


def damaged(delete: DeleteFile) -> DeleteFile:
    raw = bytearray(Path(delete.path).read_bytes())
    raw[-1] ^= 1
    Path(delete.path).write_bytes(raw)
    return delete


def test_positions_that_cannot_be(kernel: Kernel) -> None:
    """Beyond the end, two vectors, a damaged checksum, and rows of a file that the manifest rules out."""
    path, other = data(kernel), kernel.folder / "other.parquet"
    stray = kernel.position_delete("p", other, [1])
    name = str(path).encode()
    bounds = {stray.path: bounds_of({2147483546: name}, {2147483546: name}, {})}
    cases: list[list[DeleteFile]] = [
        [kernel.vector("v1", path, [3, 10])],
        [kernel.position_delete("p2", path, [10])],
        [kernel.vector("v3", path, [3]), kernel.vector("v4", path, [4])],
        [damaged(kernel.vector("v5", path, [3]))],
        [stray],
        [stray._replace(referenced=str(path), path=stray.path)],
    ]
    for deletes in cases:
        [report] = converted(kernel, given(path, deletes=deletes), bounds=bounds)
        assert report.failed is not None, deletes
        assert deletes[0].path in report.failed
        assert report.written is None


def test_a_key_that_its_dictionary_lacks_is_not_null(kernel: Kernel) -> None:
    """An index that is damaged, in a file whose texts pyarrow hands on in their dictionary."""
    field = stored(3, "word", pa.dictionary(pa.int32(), pa.string()))
    words = pa.array([str(n * 7919 % 5) for n in range(20_000)]).dictionary_encode()
    table = pa.Table.from_arrays([words], schema=pa.schema([field]))
    path = kernel.file("f", table, store_schema=True, compression="none")
    index_beyond_dictionary(path)
    delete = kernel.equality_delete("d", rows_of({WORD: [None, "3"]}))
    [report] = converted(kernel, given(path, deletes=[delete]))
    assert report.refused is not None
    assert "beyond its dictionary" in report.refused
    assert (report.failed, report.written) == (None, None)


@pytest.mark.parametrize("spoil", [page_unreadable, fewer_values])
def test_a_file_whose_keys_are_spoilt_is_refused(kernel: Kernel, spoil: Callable[[Path], None]) -> None:
    """It alone: the task goes on with the next."""
    bad, good = (
        kernel.file(name, rows_of({ID: [1, 2, 3]}), use_dictionary=False, compression="none")
        for name in ("bad", "good")
    )
    spoil(bad)
    delete = kernel.equality_delete("d", rows_of({ID: [2]}))
    reports = converted(kernel, *(given(path, deletes=[delete]) for path in (bad, good)))
    of = {report.path: report for report in reports}
    refused = of[str(bad)].refused
    assert refused is not None
    assert refused.startswith(f"{bad}: ")
    assert "\n" not in refused
    assert (of[str(bad)].written, of[str(bad)].failed) == (None, None)
    assert positions(of[str(good)].written) == [1]


def test_what_cannot_be_read_here_is_refused(kernel: Kernel) -> None:
    """A file without field ids, in a table without a name mapping."""
    path = kernel.file("f", pa.table({"id": [1, 2]}))
    delete = kernel.equality_delete("d", rows_of({ID: [1]}))
    [report] = converted(kernel, given(path, deletes=[delete]))
    assert report.refused is not None
    assert (report.failed, report.written) == (None, None)
