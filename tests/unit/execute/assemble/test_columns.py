"""Columns in the kernel: what the inputs hold in different forms, or do not have at all."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.kernel import (
    COPY,
    LAST_UPDATED,
    ROW_ID,
    Kernel,
    column,
    given,
    list_of,
    output,
    rows_of,
    stored,
    struct,
)

ID, S = stored(1, "id", pa.int64()), stored(2, "s", pa.string())
SCHEMA = struct(column(1, "id", "long"), column(2, "s", "string"))
ways = pytest.mark.parametrize("way", [{}, COPY], ids=["encode", "copy"])

# -- forms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain_first", [False, True])
def test_dictionary_here_and_plain_there(tmp_path: Path, plain_first: bool) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    few, many = [f"word {n % 3}" for n in range(90)], [f"word {n}" for n in range(100)]
    files = [
        kernel.file("few", rows_of({ID: range(90), S: few})),
        kernel.file("many", rows_of({ID: range(100), S: many}), use_dictionary=False),
    ]
    found = kernel.rewritten(*(reversed(files) if plain_first else files))
    assert found["s"].to_pylist() == (many + few if plain_first else few + many)


@pytest.mark.parametrize(("recode", "codecs"), [(True, {"ZSTD"}), (False, {"ZSTD", "SNAPPY"})])
def test_recoding_means_row_lineage_too(tmp_path: Path, recode: bool, codecs: set[str]) -> None:
    """Chunks of another codec are not copied where that was asked for, whatever they hold."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lineage=True, writing={**COPY, "recode": recode})
    row_id, updated = stored(ROW_ID, "_row_id", pa.int64()), stored(LAST_UPDATED, "_updated", pa.int64())
    rows = rows_of({ID: range(1000), S: ["x"] * 1000, row_id: range(7000, 8000), updated: [3] * 1000})
    path = kernel.file("f", rows, compression={"id": "zstd", "s": "zstd", "_row_id": "snappy", "_updated": "snappy"})
    report = kernel.run(given(path, first_row_id=0, sequence_number=9))
    assert (report.refused, report.failed) == (None, None)
    described = pq.read_metadata(output(report)).row_group(0)
    assert {described.column(n).compression for n in range(4)} == codecs
    found = pq.read_table(output(report))
    assert found["_row_id"].to_pylist() == list(range(7000, 8000))
    assert found["_last_updated_sequence_number"].to_pylist() == [3] * 1000


# -- never null -------------------------------------------------------------------------------------


def nullable(path: Path) -> dict[str, bool]:
    return {field.name: field.nullable for field in pq.read_schema(path)}


def test_columns_that_are_never_null_stay_so(tmp_path: Path) -> None:
    """Only so can their chunks be copied."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY)
    strict = stored(1, "id", pa.int64(), required=True)
    files = [kernel.file(f"f{n}", rows_of({strict: [n], S: [None]})) for n in range(2)]
    report = kernel.run(*files)
    assert nullable(output(report)) == {"id": False, "s": True}
    assert report.effort.encoded_bytes == 0
    assert pq.read_table(output(report)).to_pylist() == [{"id": 0, "s": None}, {"id": 1, "s": None}]
    longer = kernel.file("g", rows_of({strict: [5, 6], S: ["a", None]}))
    delete = kernel.position_delete("d", longer, [1])
    report = kernel.run(files[0], given(longer, deletes=[delete]))  # one is copied, one encoded
    assert (report.effort.copied_bytes > 0, report.effort.encoded_bytes > 0) == (True, True)
    assert nullable(output(report)) == {"id": False, "s": True}
    assert pq.read_table(output(report)).to_pylist() == [{"id": 0, "s": None}, {"id": 5, "s": "a"}]


@pytest.mark.parametrize("other", [{ID: [None], S: ["b"]}, {S: ["b"]}], ids=["optional", "absent"])
def test_columns_that_may_be_null_somewhere_become_optional(
    tmp_path: Path, other: Mapping[pa.Field, list[Any]]
) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY)
    strict = stored(1, "id", pa.int64(), required=True)
    report = kernel.run(kernel.file("f", rows_of({strict: [1], S: ["a"]})), kernel.file("g", rows_of(other)))
    assert (report.refused, report.failed) == (None, None)
    assert nullable(output(report)) == {"id": True, "s": True}
    assert pq.read_table(output(report)).to_pylist() == [{"id": 1, "s": "a"}, {"id": None, "s": "b"}]


# -- absent columns ---------------------------------------------------------------------------------


@ways
def test_constants_for_absent_columns(tmp_path: Path, way: Mapping[str, Any]) -> None:
    """Null, initial default, or the partition's value, which goes before a default."""
    schema = struct(
        column(1, "id", "long"),
        column(3, "nothing", "string"),
        column(4, "price", "decimal(9, 2)", default="1.50"),
        column(5, "p", "string", default="no"),
        column(6, "q", "string", default="no"),
        column(7, "tags", list_of(8, "int")),
    )
    kernel = Kernel(folder=tmp_path, schema=schema, identity=(5, None, 6), writing=way)
    files = [given(kernel.file(f"f{n}", rows_of({ID: [n, None]})), partition=("x", 7, None)) for n in range(2)]
    found = kernel.rewritten(*files)
    expected = {"nothing": None, "price": "1.50", "p": "x", "q": None, "tags": None}
    shown = [{**row, "price": str(row["price"])} for row in found.to_pylist()]
    assert shown == [{"id": i, **expected} for i in (0, None, 1, None)]


@ways
def test_an_absent_required_column_is_refused(tmp_path: Path, way: Mapping[str, Any]) -> None:
    schema = struct(column(1, "id", "long"), column(2, "s", "string", required=True))
    kernel = Kernel(folder=tmp_path, schema=schema, writing=way)
    files = [kernel.file(f"f{n}", rows_of({ID: [n]})) for n in range(2)]
    report = kernel.run(*files)
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused in {f"the required column s is missing in {path}" for path in files}


@ways
def test_children_of_a_struct_go_by_their_ids(tmp_path: Path, way: Mapping[str, Any]) -> None:
    """Dropped, added with and without default, and dropped and added again by the same name."""
    inner = struct(column(13, "again", "int"), column(14, "new", "string", default="d"), column(11, "kept", "long"))
    schema = struct(column(1, "id", "long"), column(10, "t", inner))
    kernel = Kernel(folder=tmp_path, schema=schema, writing=way)
    old = pa.struct([stored(11, "kept", pa.int64()), stored(12, "again", pa.int32()), stored(15, "gone", pa.string())])
    now = pa.struct([stored(13, "again", pa.int32()), stored(14, "new", pa.string()), stored(11, "kept", pa.int64())])
    before = [{"kept": 1, "again": 99, "gone": "x"}, None, {"kept": None, "again": 98, "gone": None}]
    after = [{"again": 5, "new": None, "kept": 6}, None]
    found = kernel.rewritten(
        kernel.file("old", rows_of({ID: [1, 2, 3], stored(10, "t", old): before})),
        kernel.file("now", rows_of({ID: [4, 5], stored(10, "t", now): after})),
    )
    assert found["t"].to_pylist() == [
        {"again": None, "new": "d", "kept": 1},
        None,
        {"again": None, "new": "d", "kept": None},
        *after,
    ]


def test_a_struct_of_which_no_child_is_left(tmp_path: Path) -> None:
    """All its children are new: what is null stays null, and what is not holds nulls."""
    schema = struct(column(10, "t", struct(column(13, "x", "int"))))
    kernel = Kernel(folder=tmp_path, schema=schema)
    old = pa.struct([stored(12, "x", pa.int32())])
    files = [kernel.file(f"f{n}", rows_of({stored(10, "t", old): [{"x": 1}, None]})) for n in range(2)]
    assert kernel.rewritten(*files)["t"].to_pylist() == [{"x": None}, None] * 2


@pytest.mark.parametrize("name", ["z", "other"], ids=["as it was", "sibling renamed"])
def test_a_required_child_of_a_struct_that_may_be_null(tmp_path: Path, name: str) -> None:
    inner = struct(column(2, "x", "int", required=True), column(4, name, "int"))
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "t", inner)))
    held = pa.struct([stored(2, "x", pa.int32(), required=True), stored(4, "z", pa.int32())])
    files = [kernel.file(f"f{n}", rows_of({stored(1, "t", held): [{"x": n, "z": 1}, None]})) for n in range(2)]
    found = kernel.rewritten(*files)
    assert found["t"].to_pylist() == [{"x": 0, name: 1}, None, {"x": 1, name: 1}, None]


# -- decimals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(40, 2), pa.decimal128(18, 2)], ids=str)
@pytest.mark.parametrize("wanted", ["decimal(18, 2)", "decimal(9, 2)"])
@pytest.mark.parametrize("way", [{}, COPY], ids=["encode", "copy"])
def test_decimals_of_a_wider_column(tmp_path: Path, kind: pa.DataType, wanted: str, way: dict[str, Any]) -> None:
    """Values that fit are kept; one that does not is not made another number."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "d", wanted)), writing=way)
    field = stored(1, "d", kind)
    fits, too_large = [Decimal("-12345.67"), None, Decimal("0.01")], Decimal("1234567890123456.78")
    good = [kernel.file(f"f{n}", rows_of({field: fits})) for n in range(2)]
    assert kernel.rewritten(*good)["d"].to_pylist() == fits * 2
    bad = kernel.file("bad", rows_of({field: [*fits, too_large]}))
    if wanted == "decimal(18, 2)":
        assert kernel.rewritten(good[0], bad)["d"].to_pylist() == [*fits, *fits, too_large]
    else:
        assert kernel.run(good[0], bad).refused is not None
    if kind.precision > 18:
        huge = kernel.file("huge", rows_of({field: [*fits, Decimal("123456789012345678901.23")]}))
        assert kernel.run(good[0], huge).refused is not None


def test_a_default_with_more_digits_than_its_type(tmp_path: Path) -> None:
    kernel = Kernel(
        folder=tmp_path, schema=struct(column(1, "id", "long"), column(2, "d", "decimal(9, 2)", default="1.239"))
    )
    files = [kernel.file(f"f{n}", rows_of({stored(1, "id", pa.int64()): [n]})) for n in range(2)]
    assert kernel.run(*files).refused is not None
