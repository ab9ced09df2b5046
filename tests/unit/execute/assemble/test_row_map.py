"""The row map of a unit: applied to the inputs, it gives the outputs."""

import json
import pickle
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event
from hypothesis import given as supposing
from hypothesis import strategies as st

from icepact.execute.assemble.messages import UnitReport
from icepact.execute.assemble.row_map import RowMapRecorder, SourceRows, locate
from icepact.execute.deletes.bitmaps import decode_positions
from icepact.model.files import DeleteFile
from icepact.model.row_map import RowMap, RowRange
from tests.support.kernel import COPY, Kernel, column, given, rows_of, stored, struct

ID, KEY, WORD = stored(1, "id", pa.int64()), stored(2, "key", pa.int64()), stored(3, "word", pa.string())
SCHEMA = struct(column(1, "id", "long"), column(2, "key", "long"), column(3, "word", "string"))
NONE = bytes(8)
"""A bitmap of no positions."""
WIDE = {ID: stored(1, "id", pa.int32())}
"""A column that has been widened since: it is encoded beside copied ones."""


def map_of(report: UnitReport) -> RowMap:
    """The map of a unit that was done, after its way to the driver and into a checkpoint."""
    assert (report.refused, report.failed) == (None, None)
    assert report.row_map is not None
    sent: RowMap = pickle.loads(pickle.dumps(report.row_map))
    assert RowMap.from_bytes(sent.to_bytes()) == sent == report.row_map
    return sent


def ids(path: str | Path) -> np.ndarray:
    """The ids in a file, row by row."""
    found: np.ndarray = pq.read_table(path, columns=["id"])["id"].to_numpy()
    return found


def judge(report: UnitReport, inputs: Sequence[Path]) -> RowMap:
    """Every row of every input is found in the output and at the position that the map names, or it was dropped."""
    row_map = map_of(report)
    before = [ids(path) for path in inputs]
    after = [ids(written.path) for written in report.outputs]
    assert row_map.inputs == tuple(map(len, before))
    assert row_map.outputs == tuple(map(len, after))
    rebuilt = [np.full(len(rows), -1) for rows in after]
    for each in row_map.ranges:
        dropped = decode_positions(row_map.dropped.get(each.input, NONE))
        survivors = np.delete(before[each.input], dropped)
        rebuilt[each.output][each.at : each.at + each.rows] = survivors[each.first : each.first + each.rows]
    assert [rows.tolist() for rows in rebuilt] == [rows.tolist() for rows in after]
    kept = set(np.concatenate([np.empty(0, dtype=np.int64), *after]).tolist())
    for number, rows in enumerate(before):
        located = locate(row_map, number, np.arange(len(rows)))
        found = [i for output, positions in located.moved.items() for i in after[output][positions].tolist()]
        assert sorted(found) == [i for i in rows.tolist() if i in kept]
        assert rows[located.dropped].tolist() == [i for i in rows.tolist() if i not in kept]
    return row_map


# -- random units -----------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """One input."""

    rows: int
    row_group: int
    dictionary: bool
    narrow: bool
    positions: frozenset[int]
    vector: bool
    keys: frozenset[int]


@st.composite
def drawn(draw: Callable[..., Any]) -> Drawn:
    rows = draw(st.integers(0, 300))
    few = st.frozensets(st.integers(0, max(0, rows - 1)), max_size=8)
    stretch = st.integers(0, rows).flatmap(lambda a: st.integers(a, rows).map(lambda b: frozenset(range(a, b))))
    positions = draw(st.one_of(st.just(frozenset()), few, stretch)) if rows else frozenset()
    return Drawn(
        rows=rows,
        row_group=draw(st.sampled_from([7, 40, 100, 1000])),
        dictionary=draw(st.booleans()),
        narrow=draw(st.integers(0, 3)) == 0,
        positions=positions,
        vector=draw(st.booleans()),
        keys=draw(st.frozensets(st.integers(0, 15), max_size=2)),
    )


def written(kernel: Kernel, number: int, one: Drawn) -> tuple[Path, list[DeleteFile]]:
    """An input, and the deletes that apply to it."""
    own = [number * 1000 + n for n in range(one.rows)]
    table = rows_of(
        {WIDE[ID] if one.narrow else ID: own, KEY: [n // 20 for n in range(one.rows)], WORD: [f"w{n % 5}" for n in own]}
    )
    path = kernel.file(
        f"f{number}",
        table,
        row_group_size=one.row_group,
        use_dictionary=one.dictionary,
        write_page_index=True,
        compression="zstd",
    )
    deletes = []
    if one.positions:
        delete = kernel.vector if one.vector else kernel.position_delete
        deletes.append(delete(f"p{number}", path, sorted(one.positions)))
    if one.keys:
        deletes.append(kernel.equality_delete(f"e{number}", rows_of({KEY: sorted(one.keys)})))
    return path, deletes


@supposing(
    some=st.lists(drawn(), min_size=1, max_size=4),
    copy_floor=st.sampled_from([1, 400, 1500, 2**20]),
    row_group_rows=st.sampled_from([50, 170, 10_000]),
    batch_rows=st.sampled_from([33, 10_000]),
    max_file_size=st.sampled_from([2500, 6000, 2**40]),
    lanes=st.sampled_from([1, 1, 2]),
)
def test_the_map_applied_to_the_inputs_is_the_output(
    some: Sequence[Drawn], copy_floor: int, row_group_rows: int, batch_rows: int, max_file_size: int, lanes: int
) -> None:
    writing = {
        **{"copy_floor": copy_floor, "row_group_rows": row_group_rows, "batch_rows": batch_rows},
        **{"fewest_page_rows": 1},
    }
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(folder=Path(folder), schema=SCHEMA, writing=writing, max_file_size=max_file_size, lanes=lanes)
        inputs = [written(kernel, number, one) for number, one in enumerate(some)]
        report = kernel.run(*(given(path, deletes=deletes) for path, deletes in inputs))
        judge(report, [path for path, _ in inputs])
        event(f"outputs: {min(2, len(report.outputs))}")
        event(f"copied: {report.effort.copied_bytes > 0}, encoded: {report.effort.encoded_bytes > 0}")


# -- one by one -------------------------------------------------------------------------------------


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY)


def table(first: int, rows: int) -> pa.Table:
    own = range(first, first + rows)
    return rows_of({ID: list(own), KEY: [n % 7 for n in own], WORD: [str(n) for n in own]})


def test_row_groups_that_follow_each_other_are_one_range(kernel: Kernel) -> None:
    path = kernel.file("f", table(0, 100), row_group_size=10)
    row_map = judge(kernel.run(path), [path])
    assert row_map.ranges == (RowRange(0, 0, 0, 0, 100),)
    assert row_map.dropped == {}


def test_dropped_rows_do_not_cut_a_range(kernel: Kernel) -> None:
    """Whole row groups that go, rows of encoded ones, and copied ones between them."""
    path = kernel.file("f", table(0, 100), row_group_size=10)
    gone = [*range(20, 40), 55, 71, 99]
    row_map = judge(kernel.run(given(path, deletes=[kernel.position_delete("d", path, gone)])), [path])
    assert row_map.ranges == (RowRange(0, 0, 0, 0, 77),)
    assert decode_positions(row_map.dropped[0]).tolist() == gone
    located = locate(row_map, 0, np.array([0, 19, 20, 55, 56, 98]))
    assert located.dropped.tolist() == [20, 55]
    assert {output: positions.tolist() for output, positions in located.moved.items()} == {0: [0, 19, 35, 76]}


def test_joined_row_groups(tmp_path: Path) -> None:
    """Pages of some files follow each other; a file with deleted rows is encoded among them."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing={"fewest_page_rows": 1})
    plain = {"use_dictionary": False, "write_page_index": True, "compression": "zstd"}
    paths = [kernel.file(f"f{n}", table(n * 1000, 500), **plain) for n in range(4)]
    inputs = [given(path) for path in paths]
    inputs[1] = given(paths[1], deletes=[kernel.vector("v", paths[1], range(100, 110))])
    report = kernel.run(*inputs)
    row_map = judge(report, paths)
    assert report.effort.copied_bytes > 0
    assert [(each.input, each.at, each.rows) for each in row_map.ranges] == [
        *((0, 0, 500), (1, 500, 490), (2, 990, 500), (3, 1490, 500))
    ]


def test_nothing_survives(kernel: Kernel) -> None:
    path = kernel.file("f", table(0, 10))
    report = kernel.run(given(path, deletes=[kernel.position_delete("d", path, list(range(10)))]))
    row_map = judge(report, [path])
    assert (row_map.outputs, row_map.ranges) == ((), ())


@pytest.mark.parametrize("positions", [[10], [-1, 3], [3, 2**40]])
def test_a_position_beyond_the_file_is_refused(kernel: Kernel, positions: list[int]) -> None:
    path = kernel.file("f", table(0, 10))
    with pytest.raises(ValueError, match="are not within 10 rows"):
        locate(map_of(kernel.run(path)), 0, np.array(positions))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 9"):
        RowMap.from_bytes(zlib.compress(json.dumps({"version": 9}).encode()))


# -- size -------------------------------------------------------------------------------------------


def recorded(files: int, groups: int, rows: Callable[[int], int], outputs: int) -> RowMap:
    """Files of so many row groups each, spread over outputs."""
    recorder = RowMapRecorder({f"s3://bucket/table/data/{n:05}.parquet": groups * rows(n) for n in range(files)})
    for n in range(files):
        for group in range(groups):
            source = SourceRows(f"s3://bucket/table/data/{n:05}.parquet", group * rows(n), rows(n))
            recorder.written(n * outputs // files, rows(n), [source])
    return recorder.row_map()


@pytest.mark.parametrize(
    ("files", "groups", "most"), [(1, 1000, 150), (10, 100, 300), (1000, 1, 4000)], ids=["one", "ten", "thousand"]
)
def test_a_thousand_row_groups_take_a_few_kilobytes(files: int, groups: int, most: int) -> None:
    row_map = recorded(files, groups, lambda n: 100_000 + n * 7919 % 50_000, outputs=min(files, 3))
    assert len(pickle.dumps(row_map)) < most
    assert pickle.loads(pickle.dumps(row_map)) == row_map


def test_the_size_does_not_grow_with_the_rows() -> None:
    small, large = recorded(10, 100, lambda _: 100, outputs=2), recorded(10, 100, lambda _: 10_000_000, outputs=2)
    assert len(large.to_bytes()) - len(small.to_bytes()) < 200


# -- what cannot be ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([("a", 0, 4)], "4 of 10 rows of input 0"),
        ([("a", 0, 4), ("a", 5, 5)], "missing or doubled at 5"),
        ([("a", 0, 6), ("a", 3, 4)], "missing or doubled at 3"),
    ],
    ids=["missing", "gap", "twice"],
)
def test_a_map_in_which_a_row_is_missing_or_doubled_is_refused(
    sources: Sequence[tuple[str, int, int]], message: str
) -> None:
    recorder = RowMapRecorder({"a": 10})
    recorder.written(0, sum(rows for _, _, rows in sources), [SourceRows(*source) for source in sources])
    with pytest.raises(AssertionError, match=message):
        recorder.row_map()


def test_sources_that_are_not_the_rows_of_a_row_group_are_refused() -> None:
    with pytest.raises(AssertionError, match="the sources of 3 rows make 2"):
        RowMapRecorder({"a": 10}).written(0, 3, [SourceRows("a", 0, 2)])
