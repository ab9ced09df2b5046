"""NaN in a column, and nothing says between which bounds its values lie; where there is none, bounds are said."""

import math
import struct as packing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icepact.execute.assemble.messages import UnitReport
from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.thrift import Fields
from tests.support.kernel import COPY, Kernel, column, given, list_of, map_of, output, rows_of, stored, struct
from tests.support.parquet_bent import bent, meta_of
from tests.support.parquet_judges import statistics_hold

NAN = math.nan
SCHEMA = struct(
    column(1, "id", "long"),
    column(2, "x", "double"),
    column(3, "f", "float"),
    column(4, "s", struct(column(5, "y", "double"))),
    column(6, "l", list_of(7, "double")),
    column(8, "m", map_of(9, "string", 10, "float")),
)
ID, X, F = stored(1, "id", pa.int64()), stored(2, "x", pa.float64()), stored(3, "f", pa.float32())
S = stored(4, "s", pa.struct([stored(5, "y", pa.float64())]))
L = stored(6, "l", pa.list_(stored(7, "element", pa.float64())))
M = stored(8, "m", pa.map_(stored(9, "key", pa.string(), required=True), stored(10, "value", pa.float32())))
FRACTIONS = (2, 3, 5, 7, 10)
PAGES: Mapping[str, Any] = {"write_page_index": True, "compression": "zstd"}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "encode": {},
    "join": {"fewest_page_rows": 1},
    "copy": COPY,
}


def rows(first: int, values: Sequence[float | None]) -> pa.Table:
    """Rows with one value in every column with a fraction; nulls inside and around."""
    return rows_of(
        {
            ID: [first + n for n in range(len(values))],
            X: values,
            F: values,
            S: [{"y": value} if n % 2 == 0 or value is not None else None for n, value in enumerate(values)],
            L: [[value, None, 0.5] if n % 3 else [value] for n, value in enumerate(values)],
            M: [[("a", value)] if value is not None else None for value in values],
        }
    )


def no_nan(fields: Fields) -> None:
    """The writer counted NaN, and there is none."""
    for number in range(1, 7):
        meta_of(fields, 0, number).setdefault(12, {})[9] = 0


def bounded(report: UnitReport) -> tuple[set[int], set[int], set[int]]:
    """Columns with bounds: in the manifest, in the footer, and by page."""
    [written] = report.outputs
    told = written.metrics
    assert told["lower-bounds"]["keys"] == told["upper-bounds"]["keys"]
    assert "nan-value-counts" not in told
    data = output(report).read_bytes()
    statistics_hold(data)
    footer = Input(MemorySource(data)).footer
    ids = [leaf.field_id or 0 for leaf in footer.leaves]
    chunks = [list(zip(ids, group.chunks, strict=True)) for group in footer.row_groups]
    found = [{i for i, chunk in group if {5, 6} <= chunk.statistics.keys()} for group in chunks]
    pages = [{i for i, chunk in group if chunk.column_index is not None} for group in chunks]
    return set(told["lower-bounds"]["keys"]), set.intersection(*found), set.intersection(*pages)


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[..., Kernel]:
    """A kernel that rewrites in one of the ways."""
    return lambda way, schema=SCHEMA: Kernel(folder=tmp_path, schema=schema, writing=WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("values", [[1.0, NAN, 2.0, None], [NAN, NAN], [0.5, -math.inf, NAN, math.inf, -0.0]])
def test_nan_leaves_no_bounds(
    kernel: Callable[..., Kernel], way: str, dictionary: bool, values: list[float | None]
) -> None:
    """Not of the file, nor of a row group, nor of a page; in one input of three."""
    work = kernel(way)
    options = {**PAGES, "use_dictionary": dictionary}
    columns: list[list[float | None]] = [[1.0], values, [3.0]]
    inputs = [work.file(f"f{n}", rows(10 * n, given), **options) for n, given in enumerate(columns)]
    file, groups, _ = bounded(work.run(*inputs))
    assert file.isdisjoint(FRACTIONS)
    assert 1 in file & groups


@pytest.mark.parametrize("way", WAYS)
def test_without_nan_there_are_bounds(kernel: Callable[..., Kernel], way: str) -> None:
    """Of what was encoded, and of what was copied if its writer said so."""
    work = kernel(way)
    options = {**PAGES, "use_dictionary": False}
    inputs = [work.file(f"f{n}", rows(10 * n, [1.5, None, -0.0, n]), **options) for n in range(3)]
    for path in inputs:
        path.write_bytes(bent(path.read_bytes(), no_nan))
    report = work.run(*inputs)
    assert bounded(report) == ({1, 2, 3, 5}, {1, *FRACTIONS, 9}, {1, *FRACTIONS, 9})
    [written] = report.outputs
    [upper] = [v for k, v in zip(*written.metrics["upper-bounds"].values(), strict=True) if k == 2]
    assert upper == packing.pack("<d", 2.0).hex().upper()


def test_what_was_assembled_is_believed_when_it_is_assembled_again(kernel: Callable[..., Kernel]) -> None:
    """The second time as a copy; whoever wrote the first input."""
    encoded = kernel("encode").run(
        *(kernel("encode").file(f"f{n}", rows(10 * n, [n + 0.5, None]), **PAGES) for n in range(2))
    )
    again = kernel("copy").run(output(encoded))
    assert again.effort.copied_bytes > 0 == again.effort.encoded_bytes
    assert bounded(again) == bounded(encoded) == ({1, 2, 3, 5}, {1, *FRACTIONS, 9}, {1, *FRACTIONS, 9})


@pytest.mark.parametrize("way", ["copy", "join"])
def test_a_writer_that_hides_nan_is_not_believed(kernel: Callable[..., Kernel], way: str) -> None:
    """pyarrow says the same of these values with a NaN among them and without."""
    work = kernel(way)
    inputs = [work.file(f"f{n}", rows(10 * n, [1.0, 2.0]), **PAGES, use_dictionary=False) for n in range(2)]
    file, groups, pages = bounded(work.run(*inputs))
    assert (file, groups, pages) == ({1}, {1, 9}, {1, 9})


@pytest.mark.parametrize("nan", [False, True])
def test_a_deleted_nan_is_none(kernel: Callable[..., Kernel], nan: bool) -> None:
    work = kernel("copy")
    path = work.file("f", rows(0, [1.0, NAN, 2.0, NAN if nan else 3.0]), **PAGES)
    deleted = given(path, deletes=[work.position_delete("d", path, [1])])
    assert (2 in bounded(work.run(deleted))[0]) is not nan


@pytest.mark.parametrize("nan", [False, True])
def test_floats_that_became_doubles(kernel: Callable[..., Kernel], nan: bool) -> None:
    work = kernel("copy", struct(column(1, "id", "long"), column(3, "f", "double")))
    path = work.file("f", rows_of({ID: [1, 2], F: [1.5, NAN if nan else 2.5]}), **PAGES)
    assert bounded(work.run(path)) == (({1}, {1}, {1}) if nan else ({1, 3}, {1, 3}, {1, 3}))


@pytest.mark.parametrize("default", ["NaN", 1.5])
def test_a_column_that_is_made_up(kernel: Callable[..., Kernel], default: float | str) -> None:
    """With its initial default."""
    work = kernel("copy", struct(column(1, "id", "long"), column(2, "x", "double", default=default)))
    path = work.file("f", rows_of({ID: [1, 2]}), **PAGES)
    report = work.run(path)
    assert report.effort.copied_bytes > 0
    assert bounded(report)[0] == ({1} if default == "NaN" else {1, 2})


# -- uuids ------------------------------------------------------------------------------------------

LOW, HIGH = 2**127 - 1, 2**127
"""The first bit is set in one of them only."""


def keyed(work: Kernel, name: str, *keys: int) -> Path:
    """A file of uuids."""
    schema = pa.schema([ID, stored(2, "key", pa.uuid())])
    values = pa.array([key.to_bytes(16, "big") for key in keys], pa.uuid())
    rows = pa.Table.from_arrays([pa.array(range(len(keys)), pa.int64()), values], schema=schema)
    return work.file(name, rows, **PAGES, use_dictionary=False)


KEYED = struct(column(1, "id", "long"), column(2, "key", "uuid"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((1, LOW), True),
        ((HIGH, 2**128 - 1), True),
        ((LOW, HIGH), False),
        ((2**63, 2**63 - 1), False),  # the second half has a sign of its own
        ((2**64, 2**63), True),
    ],
)
def test_uuids_have_bounds_if_all_readers_find_something_between_them(
    kernel: Callable[..., Kernel], way: str, keys: tuple[int, int], expected: bool
) -> None:
    work = kernel(way, KEYED)
    file, groups, pages = bounded(work.run(*(keyed(work, f"f{n}", *keys) for n in range(2))))
    assert (2 in file, 2 in groups, 2 in pages) == (expected, expected, True)


def test_uuids_of_two_row_groups(kernel: Callable[..., Kernel]) -> None:
    """Each has bounds, and the file has none."""
    work = kernel("copy", KEYED)
    file, groups, _ = bounded(work.run(keyed(work, "low", LOW), keyed(work, "high", HIGH)))
    assert (file, groups) == ({1}, {1, 2})
