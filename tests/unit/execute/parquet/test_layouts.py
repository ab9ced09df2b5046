"""Where the assembler puts things, and files at the edges of what there is."""

import io
import itertools
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.assembler import AssembledFile, Assembler, ByteSink
from icepact.execute.parquet.footer import MAGIC
from icepact.execute.parquet.input import Input, MemorySource, Pick
from icepact.execute.parquet.schema import same_values
from icepact.execute.parquet.thrift import Fields
from tests.support.parquet_bent import bent, meta_of
from tests.support.parquet_files import FileSink, PartsSink, Settings, Stored, write
from tests.support.parquet_judges import CREATED_BY, described_well, duckdb_rows, same_rows, statistics_hold

ROWS = 400
TABLE = pa.table({"n": list(range(ROWS)), "s": [f"text {n}" for n in range(ROWS)]})
IDS = pa.table({"id": pa.array(range(1000, 1000 + ROWS), pa.int64())})
HOW = Settings(codec="none", dictionary=False, store_schema=False, group_rows=100)


def starting(sink: ByteSink, *inputs: Input, **more: Any) -> Assembler:
    """An assembler whose columns are those of all inputs."""
    tops = [element for file in inputs for element in file.footer.fields[2][1:]]
    root: Fields = {4: b"table", 5: sum(len(file.footer.schema.children) for file in inputs)}
    return Assembler(sink, [root, *tops], created_by=CREATED_BY, key_values={"who": "a test"}, **more)


def of(file: Input, group: int) -> list[Pick]:
    """All chunks of a row group."""
    return [Pick(file, group, column) for column in range(len(file.footer.leaves))]


def side_by_side(sink: ByteSink, *inputs: Input, **more: Any) -> AssembledFile:
    """All row groups, each with the columns of all inputs."""
    assembler = starting(sink, *inputs, **more)
    for number, group in enumerate(inputs[0].footer.row_groups):
        assembler.add(group.rows, [pick for file in inputs for pick in of(file, number)])
    return assembler.finish()


# -- which bytes the store copies by itself ------------------------------------------------------------------------


def test_row_groups_that_lie_together_are_one_copy() -> None:
    data = write(TABLE, HOW).data
    sink = PartsSink()
    side_by_side(sink, Input(Stored(data)))
    assert [part.copied for part in sink.parts] == [True, False]
    end = Input(Stored(data)).footer.row_groups[-1].chunks[-1].end
    assert sink.parts[0].data == data[:end]
    same_rows(sink.data, TABLE)


def test_small_chunks_in_memory_wait_behind_all_copies() -> None:
    stored, memory = Input(Stored(write(TABLE, HOW).data)), Input(MemorySource(write(IDS, HOW).data))
    sink = PartsSink()
    assembled = side_by_side(sink, stored, memory)
    assert [part.copied for part in sink.parts] == [True, False, False, False, False, False]
    described_well(sink.data, assembled, [100] * 4)
    same_rows(sink.data, pa.table({**dict(zip(TABLE.column_names, TABLE.columns, strict=True)), "id": IDS["id"]}))
    starts = [group.chunks[2].start for group in assembled.footer.row_groups]
    assert starts == sorted(starts)
    assert starts[0] == assembled.footer.row_groups[-1].chunks[1].end
    assert assembled.appended_bytes == sum(group.size for group in memory.footer.row_groups)
    assert assembled.copied_bytes == sum(group.size for group in stored.footer.row_groups)


def test_no_more_waits_than_there_is_room_for() -> None:
    stored, memory = Input(Stored(write(TABLE, HOW).data)), Input(MemorySource(write(IDS, HOW).data))
    room = sum(group.size for group in memory.footer.row_groups[:2])
    sink = PartsSink()
    assembled = side_by_side(sink, stored, memory, most_waiting=room)
    assert [part.copied for part in sink.parts] == [True, False, True, False, False, False, False]
    described_well(sink.data, assembled, [100] * 4)
    same_rows(sink.data, pa.table({**dict(zip(TABLE.column_names, TABLE.columns, strict=True)), "id": IDS["id"]}))


def test_the_size_of_the_file_is_foreseen() -> None:
    """What waits, page indexes and the footer included."""
    stored, memory = Input(Stored(write(TABLE, HOW).data)), Input(MemorySource(write(IDS, HOW).data))
    sink = PartsSink()
    assembler = starting(sink, stored, memory)
    sizes = [sum(file.footer.row_groups[number].size for file in (stored, memory)) for number in range(4)]
    for number in range(3):
        assembler.add(100, [*of(stored, number), *of(memory, number)])
    assert (assembler.copied_bytes + assembler.appended_bytes, assembler.rows) == (sum(sizes[:3]), 300)
    foreseen = assembler.size_with(sizes[3])
    assembler.add(100, [*of(stored, 3), *of(memory, 3)])
    assembler.finish()
    assert 0.8 * sink.position < foreseen < 1.2 * sink.position


@pytest.mark.parametrize("front", [True, False])
def test_a_first_or_a_large_chunk_in_memory_does_not_wait(front: bool) -> None:
    """Readers look for the middle of a row group behind its first chunk."""
    small, large = Input(Stored(write(IDS, HOW).data)), Input(MemorySource(write(TABLE, HOW).data))
    tiny = Input(MemorySource(write(IDS, HOW).data))
    inputs = (tiny, Input(Stored(write(TABLE, HOW).data))) if front else (small, large)
    sink = PartsSink()
    assembled = side_by_side(sink, *inputs)
    described_well(sink.data, assembled, [100] * 4)
    flags = [part.copied for part in sink.parts]
    assert flags == ([False, False, True, *[False, True] * 3, False] if front else [True, False, False] * 4 + [False])


def test_the_first_copy_brings_the_magic_only_from_the_front_of_its_file() -> None:
    data = write(TABLE, HOW).data
    for groups, magic in (([0, 1], True), ([1, 0], False), ([3], False)):
        sink = PartsSink()
        file = Input(Stored(data))
        assembler = starting(sink, file)
        for group in groups:
            assembler.add(100, of(file, group))
        assembled = assembler.finish()
        described_well(sink.data, assembled, [100] * len(groups))
        assert sink.parts[0].copied == magic
        assert sink.data[:4] == MAGIC
        same_rows(sink.data, pa.concat_tables([TABLE.slice(100 * group, 100) for group in groups]))


@pytest.mark.parametrize("copies_server_side", [True, False])
def test_chunks_of_two_files_that_would_fit_together(tmp_path: Path, copies_server_side: bool) -> None:
    """Where one file's chunk ends, the other's next one starts: still they are two pieces."""
    tables = [
        pa.table({"a": [first + n for n in range(ROWS)], "b": [-first - n for n in range(ROWS)]}) for first in (0, 1000)
    ]
    files = [Input(Stored(write(table, HOW).data)) for table in tables]
    sink = PartsSink() if copies_server_side else FileSink(tmp_path / "local")
    assembler = starting(sink, files[0])
    one, other = files
    assert of(one, 0)[0].chunk.end == of(other, 0)[1].chunk.start
    assembler.add(100, [of(one, 0)[0], of(other, 0)[1]])
    assembler.add(100, of(one, 1))
    assembler.finish()
    if isinstance(sink, FileSink):
        sink.close()
    data = sink.data if isinstance(sink, PartsSink) else (tmp_path / "local").read_bytes()
    mixed = pa.table({"a": tables[0]["a"].slice(0, 100), "b": tables[1]["b"].slice(0, 100)})
    same_rows(data, pa.concat_tables([mixed, tables[0].slice(100, 100)]))


def test_a_local_file_has_its_filters_behind_each_row_group(tmp_path: Path) -> None:
    file = Input(Stored(write(TABLE, Settings(group_rows=100, bloom=True, index=True)).data))
    for sink in (FileSink(tmp_path / "local"), PartsSink()):
        groups = side_by_side(sink, file).footer.row_groups
        for group, following in itertools.pairwise(groups):
            assert group.chunks[0].bloom_offset is not None
            assert (group.chunks[0].bloom_offset < following.chunks[0].start) is not sink.copies_server_side
        if isinstance(sink, FileSink):
            sink.close()


# -- edges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies_server_side", [True, False])
def test_no_row_groups(tmp_path: Path, copies_server_side: bool) -> None:
    file = Input(Stored(write(TABLE, HOW).data))
    sink = PartsSink() if copies_server_side else FileSink(tmp_path / "local")
    assembled = starting(sink, file).finish()
    if isinstance(sink, FileSink):
        sink.close()
    data = sink.data if isinstance(sink, PartsSink) else (tmp_path / "local").read_bytes()
    described_well(data, assembled, [])
    same_rows(data, TABLE.slice(0, 0))


def test_empty_row_groups_are_left_out() -> None:
    file = Input(Stored(write(TABLE, Settings(group_rows=200, empty_group=True)).data))
    assert [group.rows for group in file.footer.row_groups] == [200, 0, 200]
    sink = PartsSink()
    assembled = side_by_side(sink, file)
    described_well(sink.data, assembled, [200, 200])
    same_rows(sink.data, TABLE)


def test_three_thousand_columns() -> None:
    names = [f"column {n}" for n in range(3000)]
    table = pa.table({name: pa.array([n, None, n + 1], pa.int32()) for n, name in enumerate(names)})
    inputs = [Input(Stored(write(table, Settings(index=index)).data)) for index in (True, False)]
    sink = PartsSink()
    assembler = starting(sink, inputs[0])
    for file in inputs:
        assembler.add(3, of(file, 0))
    assembled = assembler.finish()
    described_well(sink.data, assembled, [3, 3])
    read = pq.read_table(io.BytesIO(sink.data))
    assert read.equals(pa.concat_tables([table, table]))
    metadata = pq.read_metadata(io.BytesIO(sink.data))
    told = [metadata.row_group(g).column(c).statistics for g in (0, 1) for c in range(3000)]
    assert [(s.min, s.max, s.null_count) for s in told] == [(n, n + 1, 1) for _ in (0, 1) for n in range(3000)]
    assert metadata.row_group(0).column(2999).has_offset_index
    assert not metadata.row_group(1).column(2999).has_offset_index


def test_two_thousand_row_groups(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(4000)), "s": [str(n) for n in range(4000)]})
    data = write(table, Settings(group_rows=2, index=True, dictionary=False)).data
    for copies_server_side in (True, False):
        sink = PartsSink() if copies_server_side else FileSink(tmp_path / "local.parquet")
        assembled = side_by_side(sink, Input(Stored(data)))
        if isinstance(sink, FileSink):
            sink.close()
        output = sink.data if isinstance(sink, PartsSink) else (tmp_path / "local.parquet").read_bytes()
        described_well(output, assembled, [2] * 2000)
        same_rows(output, table)
    found = duckdb_rows(f"select count(*), sum(n), count(distinct s) from '{tmp_path}/local.parquet'")
    assert found == [(4000, 4000 * 3999 // 2, 4000)]


def test_more_row_groups_than_ordinals() -> None:
    """An ordinal has sixteen bits: row groups beyond have none."""
    file = Input(Stored(write(pa.table({"n": [1]}), Settings(dictionary=False, codec="none")).data))
    sink = PartsSink()
    assembler = starting(sink, file)
    for _ in range(32770):
        assembler.add(1, of(file, 0))
    groups = assembler.finish().footer.row_groups
    assert [group.fields.get(7) for group in groups[32766:]] == [32766, 32767, None, None]
    assert pq.read_metadata(io.BytesIO(sink.data)).num_row_groups == 32770


def test_what_writers_left_for_themselves_stays_behind() -> None:
    def leave(fields: Fields) -> None:
        fields[5] = [{1: b"pandas", 2: b"{}"}, {1: b"writer.model.name"}]
        meta_of(fields).update({8: [{1: b"k", 2: b"v"}], 10: 4})
        fields[4][0][1][0][2] = 4

    file = Input(Stored(bent(write(TABLE, HOW).data, leave)))
    assert [file.why_not_copied(0, column, walk=True) for column in (0, 1)] == [None, None]
    sink = PartsSink()
    assembled = side_by_side(sink, file)
    described_well(sink.data, assembled, [100] * 4)
    chunk = Input(Stored(sink.data)).footer.row_groups[0].chunks[0]
    assert {8, 10}.isdisjoint(chunk.meta)
    assert chunk.fields[2] == 0
    same_rows(sink.data, TABLE)


# -- readers ------------------------------------------------------------------------------------------------------


def duckdb_file(path: Path, first: int) -> Input:
    """Numbers and texts in two row groups with bloom filters, written by DuckDB."""
    query = f"select {first} + i // 32 n, 'text ' || ({first} + i // 32) s, i / 4 f from range(4096) r(i)"
    options = "format parquet, row_group_size 2048, write_bloom_filter true, codec 'zstd'"
    duckdb.sql(f"copy ({query}) to '{path}' ({options})")
    return Input(Stored(path.read_bytes()))


def probed(path: Path, column: str, value: str) -> list[bool]:
    """Which row groups cannot hold a value, as DuckDB reads their filters."""
    found = duckdb_rows(
        f"select row_group_id, bloom_filter_excludes from parquet_bloom_probe('{path}', '{column}', {value})"
    )
    return [excludes for _, excludes in sorted(found)]


@pytest.mark.parametrize("writer", ["duckdb", "pyarrow"])
def test_bloom_filters_are_found_by_readers(tmp_path: Path, writer: str) -> None:
    files = []
    for number, first in enumerate((0, 5000)):
        file = duckdb_file(tmp_path / f"{number}.parquet", first)
        if writer == "pyarrow":
            table = pq.read_table(tmp_path / f"{number}.parquet")
            file = Input(Stored(write(table, Settings(bloom=True, group_rows=2048)).data))
        files.append(file)
    for name, copies_server_side in (("spliced", True), ("local", False)):
        path = tmp_path / f"{name}.parquet"
        sink = PartsSink() if copies_server_side else FileSink(path)
        assembler = starting(sink, files[0])
        for file, group in ((files[1], 0), (files[0], 1), (files[0], 0)):
            assembler.add(2048, of(file, group))
        assembler.finish()
        if isinstance(sink, FileSink):
            sink.close()
        else:
            path.write_bytes(sink.data)
        _every_value_is_found(path)


def _every_value_is_found(path: Path) -> None:
    groups = {0: 5000, 1: 64, 2: 0}
    excluded = []
    for group, first in groups.items():
        for value in range(first, first + 64, 7):
            assert probed(path, "n", f"{value}::bigint")[group] is False
            assert probed(path, "s", f"'text {value}'")[group] is False
            excluded += [flag for n, flag in enumerate(probed(path, "s", f"'text {value}'")) if n != group]
    assert sum(excluded) > len(excluded) / 2  # a filter that excludes nothing would always be right


def test_files_of_two_writers_in_one(tmp_path: Path) -> None:
    theirs = duckdb_file(tmp_path / "theirs.parquet", 0)
    table = pq.read_table(tmp_path / "theirs.parquet")
    ours = Input(Stored(write(table, Settings(store_schema=False, page_version="2.0")).data))
    pairs = list(zip(ours.footer.leaves, theirs.footer.leaves, strict=True))
    assert all(same_values(one, other) for one, other in pairs)
    sink = PartsSink()
    assembler = starting(sink, ours)
    for file, group in ((ours, 0), (theirs, 1), (theirs, 0)):
        assembler.add(file.footer.row_groups[group].rows, of(file, group))
    assembled = assembler.finish()
    described_well(sink.data, assembled, [4096, 2048, 2048])
    same_rows(sink.data, pa.concat_tables([table, table.slice(2048), table.slice(0, 2048)]))
    assert statistics_hold(sink.data) == 2 * 3 * 3 - 2  # pyarrow does not say whether there is a NaN


def test_what_was_assembled_can_be_assembled_again() -> None:
    how = Settings(group_rows=100, bloom=True, index=True, sorting=(0,))
    data = write(TABLE, how).data
    sink = PartsSink()
    side_by_side(sink, Input(Stored(data)))
    again = PartsSink()
    file = Input(Stored(sink.data))
    assert file.why_nothing_copied is None
    assert [file.why_not_copied(g, c, walk=False) for g in range(4) for c in (0, 1)] == [None] * 8
    side_by_side(again, file)
    assert again.data == sink.data


# -- wrong use ------------------------------------------------------------------------------------------------------


def test_chunks_that_do_not_fit_are_refused() -> None:
    file = Input(Stored(write(TABLE, HOW).data))
    assembler = starting(PartsSink(), file)
    with pytest.raises(ValueError, match="1 chunks for 2 columns"):
        assembler.add(100, of(file, 0)[:1])
    with pytest.raises(ValueError, match="does not fit 99 rows"):
        assembler.add(99, of(file, 0))
    with pytest.raises(ValueError, match="does not fit 100 rows"):
        assembler.add(100, of(file, 0)[::-1])
    assert (assembler.rows, assembler.size_with(0)) == (0, 0)
