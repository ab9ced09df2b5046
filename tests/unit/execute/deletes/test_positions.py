"""Position deletes: rows by data file, whatever the format, order or dictionary."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.execute.deletes.positions import PositionIndex, coded_paths, deleted_positions, read_positions
from icepact.model.files import DeleteFile, DeleteKind
from tests.support.spoilt import index_beyond_dictionary
from tests.support.states import delete_file

Rows = list[tuple[str, int]]
PATHS = ["s3://b/a.parquet", "s3://b/A.parquet", "s3a://b/a.parquet", "s3://b/a.parquet ", "s3://b/ä.parquet"]


def table_of(
    rows: Sequence[tuple[str | None, int | None]], *, names: tuple[str, str] = ("file_path", "pos"), ids: bool = True
) -> pa.Table:
    marks = [{"PARQUET:field_id": n, "iceberg.id": n} if ids else None for n in ("2147483546", "2147483545")]
    fields = [
        pa.field("more", pa.int32()),
        pa.field(names[1], pa.int64(), metadata=marks[1]),
        pa.field(names[0], pa.string(), metadata=marks[0]),
    ]
    columns = [[0] * len(rows), [pos for _, pos in rows], [path for path, _ in rows]]
    return pa.table(columns, schema=pa.schema(fields))


def parquet(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def orc_bytes(table: pa.Table) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out)
    return out.getvalue()


def avro(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pl.DataFrame(table).write_avro(out, compression="deflate")
    return out.getvalue()


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {"parquet": parquet, "orc": orc_bytes, "avro": avro}


def ref(records: int, format: str = "parquet", **other: Any) -> DeleteFile:
    values: dict[str, Any] = {"path": "d", "kind": DeleteKind.POSITION, "size": 1} | other
    return delete_file(format=format, records=records, **values)


ROWS = st.lists(st.tuples(st.sampled_from(PATHS), st.integers(0, 9) | st.integers(0, 2**40)), max_size=40)


@given(ROWS, st.sampled_from(sorted(WRITERS)), st.booleans())
def test_each_data_file_gets_its_rows(rows: Rows, format: str, in_order: bool) -> None:
    rows = sorted(rows) if in_order else rows
    index = read_positions(ref(len(rows), format), WRITERS[format](table_of(rows)))
    for path in [*PATHS, "elsewhere"]:
        assert index.of(path).tolist() == sorted({pos for p, pos in rows if p == path})


@given(ROWS, st.integers(1, 5), st.booleans())
def test_row_groups_and_plain_pages_make_no_difference(rows: Rows, size: int, coded: bool) -> None:
    data = parquet(table_of(rows), row_group_size=size, use_dictionary=coded)
    index = read_positions(ref(len(rows)), data)
    for path in PATHS:
        assert index.of(path).tolist() == sorted({pos for p, pos in rows if p == path})


def test_a_dictionary_that_repeats_itself() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b", "a"]))
    names, codes = coded_paths(pa.chunked_array([coded]))  # no writer at hand makes such a file
    assert [names[code] for code in codes] == ["a", "b", "a"]
    assert len(names) == 2


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_ids_decide_and_names_help(format: str) -> None:
    renamed = WRITERS[format](table_of([("a", 5)], names=("f", "p")))
    assert read_positions(ref(1, format), renamed).of("a").tolist() == [5]
    bare = WRITERS[format](table_of([("a", 5)], ids=False))
    assert read_positions(ref(1, format), bare).of("a").tolist() == [5]
    neither = WRITERS[format](table_of([("a", 5)], names=("f", "p"), ids=False))
    with pytest.raises(UnsupportedDelete, match="no field ids"):
        read_positions(ref(1, format), neither)


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(BrokenDelete, match="has 1 rows, its manifest says 2"):
        read_positions(ref(2), parquet(table_of([("a", 5)])))
    with pytest.raises(BrokenDelete, match="negative positions"):
        read_positions(ref(1), parquet(table_of([("a", -1)])))
    with pytest.raises(BrokenDelete, match="without a path or position"):
        read_positions(ref(1), parquet(table_of([(None, 1)])))
    with pytest.raises(BrokenDelete, match="without a path or position"):
        read_positions(ref(1), parquet(table_of([("a", None)])))
    with pytest.raises(BrokenDelete, match="lacks file_path or pos"):
        read_positions(ref(1), parquet(table_of([("a", 1)]).select(["pos"])))


@pytest.mark.parametrize("format", sorted(WRITERS))
def test_a_damaged_file_gives_no_rows(format: str) -> None:
    data = WRITERS[format](table_of([("a", n) for n in range(100)]))
    for damaged in (b"", data[:7], data[: len(data) // 2], b"x" * 100):
        with pytest.raises((BrokenDelete, UnsupportedDelete)):
            read_positions(ref(100, format), damaged)


def test_rows_of_a_path_that_the_dictionary_lacks(tmp_path: Path) -> None:
    """They would be taken for rows of another file."""
    path = tmp_path / "d.parquet"
    table = table_of([(PATHS[n * 7919 % 5], n) for n in range(20_000)])
    path.write_bytes(parquet(table, compression="none"))
    assert len(read_positions(ref(20_000), path.read_bytes()).positions) == 20_000
    index_beyond_dictionary(path)
    with pytest.raises(UnsupportedDelete, match="cannot read d: Index not in dictionary bounds"):
        read_positions(ref(20_000), path.read_bytes())


def test_a_dictionary_page_that_repeats_itself() -> None:
    """Nothing forbids it: the fourth of five paths is the second once more."""
    data = bytearray(parquet(table_of([("abcde"[n % 5], n) for n in range(1000)]), compression="none"))
    at = data.index(b"\x01\0\0\0d")
    data[at : at + 5] = b"\x01\0\0\0b"
    index = read_positions(ref(1000), bytes(data))
    assert {path: len(index.of(path)) for path in "abcde"} == {"a": 200, "b": 400, "c": 200, "d": 0, "e": 200}
    assert set(index.of("b").tolist()) == {n for n in range(1000) if n % 5 in (1, 3)}


def test_an_unknown_format_is_left_to_others() -> None:
    with pytest.raises(UnsupportedDelete, match="lance"):
        read_positions(ref(1, "lance"), b"")


def index_of(rows: Rows) -> PositionIndex:
    return read_positions(ref(len(rows)), parquet(table_of(rows)))


FILES = {"one": [("a", 1), ("a", 9), ("b", 3)], "two": [("a", 9), ("a", 4)], "other": [("c", 1)]}


def positions(refs: list[DeleteFile], data_path: str = "a") -> list[int]:
    found: list[int] = deleted_positions(
        refs,
        data_path,
        vector=lambda r: np.array([r.records]),
        index=lambda r: index_of(FILES[r.path]),
    ).tolist()
    return found


def vector(path: str = "v", offset: int = 4, referenced: str | None = "a") -> DeleteFile:
    return ref(77, "puffin", path=path, kind=DeleteKind.DV, offset=offset, size=9, referenced=referenced)


def test_files_are_united() -> None:
    refs = [ref(3, path=name) for name in ("one", "two", "other", "one")]
    assert positions(refs) == [1, 4, 9]
    assert positions(refs[:1], "b") == [3]
    assert positions([]) == []
    assert positions([ref(1, path="x", kind=DeleteKind.EQUALITY, equality_ids=(1,))]) == []


def test_a_vector_stands_for_all() -> None:
    assert positions([ref(3, path="one"), vector(), ref(2, path="two")]) == [77]
    assert positions([vector(), vector(), vector(referenced=None)]) == [77]
    with pytest.raises(BrokenDelete, match="a has 2 deletion vectors: v at offset 4, v at offset 50"):
        positions([vector(), vector(offset=50)])
    with pytest.raises(BrokenDelete, match="v at offset 4 belongs to b, not to a"):
        positions([vector(referenced="b")])
