"""Deletes that are carried: of the outputs with their new deletes, readers see what they saw of the inputs."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import event
from hypothesis import given as supposing
from hypothesis import strategies as st

from icepact.execute.assemble import new_deletes
from icepact.execute.assemble.carried import rows_in_outputs, rows_of_input
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.messages import UnitReport
from icepact.execute.assemble.row_map import ranges_by_input
from icepact.execute.deletes import writing
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.writing import WrittenDelete
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.row_map import RowMap, RowRange
from tests.support.kernel import COPY, ROW_ID, Kernel, given, rows_of
from tests.support.states import delete_file
from tests.unit.execute.assemble.test_row_map import ID, KEY, SCHEMA, WIDE, WORD, Drawn, drawn, table, written


def described(delete: WrittenDelete) -> DeleteFile:
    """A new delete as a table would tell of it."""
    vector = delete.offset is not None
    return delete_file(
        delete.path,
        DeleteKind.DV if vector else DeleteKind.POSITION,
        offset=delete.offset,
        size=delete.size if vector else delete.file_size,
        file_size=delete.file_size,
        records=delete.positions,
        referenced=delete.referenced,
        format="puffin" if vector else "parquet",
    )


def fetched(delete: DeleteFile) -> bytes:
    start = delete.offset or 0
    return Path(delete.path).read_bytes()[start : start + delete.size]


def seen(report: UnitReport) -> list[int]:
    """Ids that readers see of the outputs; each output has one delete at most."""
    assert (report.refused, report.failed) == (None, None)
    assert all(count == 1 for count in Counter(delete.referenced for delete in report.deletes).values())
    kept: list[int] = []
    for output in report.outputs:
        mine = [described(delete) for delete in report.deletes if delete.referenced == output.path]
        gone = DeleteCache(fetched).positions(mine, output.path)
        rows = pq.read_table(output.path, columns=["id"])["id"].to_numpy()
        assert output.rows == len(rows)
        assert not len(gone) or gone[-1] < len(rows)
        kept += np.delete(rows, gone).tolist()
    return sorted(kept)


def left(number: int, one: Drawn) -> list[int]:
    """Ids of an input that readers see."""
    return [number * 1000 + n for n in range(one.rows) if n not in one.positions and n // 20 not in one.keys]


@supposing(
    some=st.lists(drawn(), min_size=1, max_size=4),
    lineage=st.booleans(),
    copy_floor=st.sampled_from([1, 400, 1500, 2**20]),
    row_group_rows=st.sampled_from([50, 170, 10_000]),
    max_file_size=st.sampled_from([2500, 6000, 2**40]),
    lanes=st.sampled_from([1, 1, 2]),
)
def test_readers_see_what_they_saw(
    some: Sequence[Drawn], lineage: bool, copy_floor: int, row_group_rows: int, max_file_size: int, lanes: int
) -> None:
    writing = {"copy_floor": copy_floor, "row_group_rows": row_group_rows, "fewest_page_rows": 1}
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(
            folder=Path(folder),
            schema=SCHEMA,
            writing=writing,
            max_file_size=max_file_size,
            lanes=lanes,
            lineage=lineage,
            carries=True,
        )
        inputs = [written(kernel, number, one) for number, one in enumerate(some)]
        report = kernel.run(*(given(path, deletes=deletes, first_row_id=5) for path, deletes in inputs))
        assert seen(report) == sorted(i for number, one in enumerate(some) for i in left(number, one))
        assert report.rows_deleted == 0
        assert sum(output.rows for output in report.outputs) == report.rows_read == sum(one.rows for one in some)
        assert report.row_map is not None
        assert report.row_map.dropped == {}
        assert sum(d.positions for d in report.deletes) == report.rows_read - len(seen(report))
        assert len({delete.path for delete in report.deletes}) == (
            min(1, len(report.deletes)) if lineage else len(report.deletes)
        )
        event(f"deletes: {min(2, len(report.deletes))}, outputs: {min(2, len(report.outputs))}")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY, carries=True)


def test_nothing_is_decoded_because_of_deletes(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups with deleted rows are the same bytes; of keys, only their column is read."""
    read: list[Sequence[int]] = []
    columns = InputView.read_columns

    def noted(self: InputView, file: Any, group: int, indexes: Sequence[int]) -> Any:
        read.append(list(indexes))
        return columns(self, file, group, indexes)

    monkeypatch.setattr(InputView, "read_columns", noted)
    path = kernel.file("f", table(0, 100), row_group_size=10)
    positions = kernel.position_delete("d", path, [3, 55, 99])
    report = kernel.run(given(path, deletes=[positions]))
    assert (report.effort.encoded_bytes, read) == (0, [])
    assert seen(report) == [i for i in range(100) if i not in (3, 55, 99)]
    keys = kernel.equality_delete("e", rows_of({KEY: [2]}))
    report = kernel.run(given(path, deletes=[positions, keys]))
    assert report.effort.encoded_bytes == 0
    assert {tuple(indexes) for indexes in read} == {(1,)}
    assert seen(report) == [i for i in range(100) if i not in (3, 55, 99) and i % 7 != 2]


def test_small_row_groups_are_joined_with_their_deleted_rows(tmp_path: Path) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={"fewest_page_rows": 1}, carries=True)
    plain = {"use_dictionary": False, "write_page_index": True, "compression": "zstd"}
    paths = [kernel.file(f"f{n}", table(n * 1000, 500), **plain) for n in range(3)]
    report = kernel.run(*(given(p, deletes=[kernel.vector(f"v{n}", p, [n, 499])]) for n, p in enumerate(paths)))
    assert report.effort.encoded_bytes == 0
    gone = {n * 1000 + i for n in range(3) for i in (n, 499)}
    assert seen(report) == [n * 1000 + i for n in range(3) for i in range(500) if n * 1000 + i not in gone]


def test_ids_of_rows_stay(tmp_path: Path) -> None:
    """Those of deleted rows, too: nobody else has them."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY, carries=True, lineage=True)
    paths = [kernel.file(f"f{n}", table(n * 10, 10)) for n in range(2)]
    report = kernel.run(
        *(given(p, first_row_id=100 + n * 10, deletes=[kernel.vector(f"v{n}", p, [4])]) for n, p in enumerate(paths))
    )
    [output] = report.outputs
    found = pq.read_table(output.path)
    ids = next(f.name for f in found.schema if f.metadata[b"PARQUET:field_id"] == str(ROW_ID).encode())
    assert found[ids].to_pylist() == list(range(100, 120))
    [delete] = report.deletes
    assert (delete.referenced, delete.positions, delete.first, delete.last) == (output.path, 2, 4, 14)


def test_evolved_columns_are_encoded_and_the_rows_still_carried(kernel: Kernel) -> None:
    narrow = rows_of({WIDE[ID]: list(range(20)), KEY: [0] * 20, WORD: ["w"] * 20})
    path = kernel.file("f", narrow)
    report = kernel.run(given(path, deletes=[kernel.position_delete("d", path, [0, 19])]))
    assert seen(report) == list(range(1, 19))


def test_a_key_column_that_was_dropped(tmp_path: Path) -> None:
    """The outputs do not hold it: what it deleted is known by position."""
    schema = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "key"]}
    kernel = Kernel(folder=tmp_path, schema=schema, older=[SCHEMA], writing=COPY, carries=True)
    path = kernel.file("f", table(0, 21))
    report = kernel.run(given(path, deletes=[kernel.equality_delete("e", rows_of({KEY: [3]}))]))
    assert seen(report) == [i for i in range(21) if i % 7 != 3]
    assert "key" not in pq.read_schema(report.outputs[0].path).names


def test_all_rows_are_deleted(kernel: Kernel) -> None:
    path = kernel.file("f", table(0, 10))
    assert seen(kernel.run(given(path, deletes=[kernel.position_delete("d", path, list(range(10)))]))) == []


def test_deletes_that_hit_nothing_leave_none(kernel: Kernel) -> None:
    path, other = kernel.file("f", table(0, 10)), kernel.file("g", table(10, 10))
    deletes = [kernel.position_delete("d", other, [3]), kernel.equality_delete("e", rows_of({KEY: [77]}))]
    report = kernel.run(given(path, deletes=deletes))
    assert report.deletes == ()


# -- hostile ----------------------------------------------------------------------------------------


def spoilt(vector: DeleteFile) -> DeleteFile:
    """Its checksum does not fit."""
    data = bytearray(Path(vector.path).read_bytes())
    data[-1] ^= 1
    Path(vector.path).write_bytes(data)
    return vector


def test_what_contradicts_itself_is_refused_by_name(kernel: Kernel) -> None:
    path = kernel.file("f", table(0, 10))
    other = kernel.file("g", table(0, 10))
    cases = {
        "position 10, and it has 10 rows": [kernel.position_delete("d", path, [3, 10])],
        "position 12, and it has 10 rows": [kernel.vector("v1", path, [12])],
        "2 deletion vectors": [kernel.vector("v2", path, [1]), kernel.vector("v3", path, [2])],
        "its checksum does not fit": [spoilt(kernel.vector("v4", path, [1]))],
        "it holds 1 positions, its manifest says 2": [kernel.vector("v5", path, [1])._replace(records=2)],
        "belongs to": [kernel.vector("v6", other, [1])],
    }
    before = set(kernel.folder.iterdir())
    for message, deletes in cases.items():
        report = kernel.run(given(path, deletes=deletes))
        assert report.failed is not None, message
        assert message in report.failed
        assert report.outputs == report.deletes == ()
    assert set(kernel.folder.iterdir()) == before  # and nothing of it is left


@pytest.mark.parametrize("lineage", [False, True])
def test_nothing_is_left_where_a_delete_cannot_be_written(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, lineage: bool
) -> None:
    kernel = replace(kernel, lineage=lineage, max_file_size=600)
    paths = [kernel.file(f"f{n}", table(n * 100, 100)) for n in range(3)]
    inputs = [given(p, first_row_id=0, deletes=[kernel.vector(f"v{n}", p, [n])]) for n, p in enumerate(paths)]
    before = set(kernel.folder.iterdir())
    write: Any = writing.write_vectors if lineage else writing.write_positions
    written: list[Any] = []

    def fails_once_written(*args: Any, **kwargs: Any) -> Any:
        written.append(write(*args, **kwargs))
        if len(written) > (0 if lineage else 1):
            raise OSError("no more")
        return written[-1]

    monkeypatch.setattr(new_deletes, write.__name__, fails_once_written)
    report = kernel.run(*inputs)
    assert report.refused is not None
    assert "no more" in report.refused
    assert set(kernel.folder.iterdir()) == before


class _Counted(tuple[RowRange, ...]):
    """Ranges that count how often all of them are looked at."""

    times = 0

    def __iter__(self) -> Iterator[RowRange]:
        type(self).times += 1
        return super().__iter__()


def test_the_row_map_of_many_inputs_is_gone_through_once() -> None:
    """And not once for each of them."""
    inputs = range(50)
    ranges = _Counted(RowRange(n, 0, 0, 10 * n, 10) for n in inputs)
    row_map = RowMap(inputs=(10,) * 50, outputs=(500,), ranges=ranges, dropped={})
    found = rows_in_outputs(row_map, {n: np.array([3, 5]) for n in inputs}, ["out"])
    assert found["out"].tolist() == [10 * n + at for n in inputs for at in (3, 5)]
    assert _Counted.times == 1
    mine = ranges_by_input(row_map)
    assert [rows_of_input(row_map, n, mine[n], {0: found["out"]}).tolist() for n in inputs] == [[3, 5]] * 50
