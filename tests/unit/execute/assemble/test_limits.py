"""The kernel within limits: open files, memory, and rows of a row group."""

import multiprocessing
import resource
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.assemble import synthetic_chunks as extras
from tests.support.kernel import COPY, Kernel, column, output, rows_of, stored, struct

MIB = 1024**2
WORD = stored(1, "s", pa.string())


def alone(function: Callable[[Path], int], folder: Path) -> int:
    """What a function answers in a process of its own, whose limits and peaks are nobody else's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, folder).result()


# -- open files -------------------------------------------------------------------------------------


def one_large_of_many(folder: Path) -> int:
    """Rows of a unit with more inputs than a process may open, one of them worth copying."""
    kernel = Kernel(folder=folder, schema=struct(column(1, "s", "string")), writing={"copy_floor": 50_000})
    small = kernel.file("small", rows_of({WORD: ["x", "y"] * 50}))
    words = [np.random.default_rng(n).bytes(32).hex() for n in range(3000)]
    large = kernel.file("large", rows_of({WORD: words}), use_dictionary=False)
    files = [Path(shutil.copy(small, folder / f"small-{n}.parquet")) for n in range(150)]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
    found: int = kernel.rewritten(*files[:75], large, *files[75:]).num_rows
    return found


def test_few_files_are_open_at_once(tmp_path: Path) -> None:
    assert alone(one_large_of_many, tmp_path) == 150 * 100 + 3000


# -- memory -----------------------------------------------------------------------------------------

LONG_ROWS, COLUMNS = 1_000_000, 20


def peak_of_constants(folder: Path, *, lanes: int) -> int:
    """The most that Arrow held while a file of a few kilobytes was encoded anew, 160 MB once it is decoded."""
    schema = struct(*(column(n, f"c{n}", "long") for n in range(1, COLUMNS + 1)))
    kernel = Kernel(folder=folder, schema=schema, writing={"task_memory": 64 * MIB}, lanes=lanes)
    report = kernel.run(folder / "long.parquet", folder / "short.parquet")
    assert (report.refused, report.failed, report.effort.copied_bytes) == (None, None, 0)
    assert pq.read_metadata(output(report)).num_rows == LONG_ROWS + 10
    output(report).unlink()
    peak: int = pa.default_memory_pool().max_memory()
    return peak


def constants(folder: Path) -> None:
    """A file of one long row group, and a short one."""
    fields = [stored(n, f"c{n}", pa.int64()) for n in range(1, COLUMNS + 1)]
    for name, count in (("long", LONG_ROWS), ("short", 10)):
        table = pa.Table.from_arrays([pa.repeat(pa.scalar(7), count)] * COLUMNS, schema=pa.schema(fields))
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=LONG_ROWS)


def test_constants_are_decoded_in_slices(tmp_path: Path) -> None:
    """Columns of one value take nothing in a file, and all the room of their type once they are decoded."""
    constants(tmp_path)
    assert (tmp_path / "long.parquet").stat().st_size < MIB
    for lanes in (1, 4):
        assert alone(partial(peak_of_constants, lanes=lanes), tmp_path) < 64 * MIB


def peak_of_batches(folder: Path, *, batch_rows: int) -> int:
    """The most that Arrow held while one long row group became many short ones."""
    schema = struct(*(column(n, f"c{n}", "long") for n in range(1, COLUMNS + 1)))
    writing = {"batch_rows": batch_rows, "row_group_rows": 10_000}
    kernel = Kernel(folder=folder, schema=schema, writing=writing)
    report = kernel.run(folder / "long.parquet", folder / "short.parquet")
    peak: int = pa.default_memory_pool().max_memory()
    assert (report.refused, report.failed, report.effort.copied_bytes) == (None, None, 0)
    assert pq.read_metadata(output(report)).num_rows == LONG_ROWS + 10
    return peak


def test_no_more_rows_are_decoded_at_once_than_wished(tmp_path: Path) -> None:
    peaks = []
    for rows in (10_000, LONG_ROWS):
        folder = tmp_path / str(rows)
        folder.mkdir()
        constants(folder)
        peaks.append(alone(partial(peak_of_batches, batch_rows=rows), folder))
    assert peaks[0] < 16 * MIB < 64 * MIB < peaks[1]


# -- rows -------------------------------------------------------------------------------------------


def test_no_row_group_has_more_rows_than_wished(tmp_path: Path) -> None:
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "s", "string")), writing={"row_group_rows": 100})
    words = [f"w{n}" for n in range(430)]
    files = [
        kernel.file("f", rows_of({WORD: words[:250]}), row_group_size=70),
        kernel.file("g", rows_of({WORD: words[250:]})),
    ]
    report = kernel.run(*files)
    assert (report.refused, report.failed) == (None, None)
    described = pq.read_metadata(output(report))
    assert [described.row_group(n).num_rows for n in range(described.num_row_groups)] == [100, 100, 100, 100, 30]
    assert pq.read_table(output(report))["s"].to_pylist() == words


def test_row_groups_that_are_not_compressed_any_more(tmp_path: Path) -> None:
    """What little the inputs take says nothing of how large they become."""
    wanted = 200_000
    writing = {"codec": "uncompressed", "level": None, "recode": True, "row_group_bytes": wanted}
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "s", "string")), writing=writing)
    words = [f"{n}{'x' * 1000}" for n in range(1000)]
    files = [
        kernel.file(f"f{n}", rows_of({WORD: words}), compression="zstd", use_dictionary=False, row_group_size=300)
        for n in range(2)
    ]
    assert sum(file.stat().st_size for file in files) < wanted / 2
    report = kernel.run(*files)
    described = pq.read_metadata(output(report))
    sizes = [described.row_group(n).total_byte_size for n in range(described.num_row_groups)]
    assert len(sizes) in (10, 11)
    assert max(sizes) <= 1.1 * wanted


def test_no_chunk_is_made_up_that_the_writer_would_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group that is copied, and lacks a column: another method must do it."""
    monkeypatch.setattr(extras, "_MOST_ROWS", 100)
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "s", "string"), column(2, "new", "long")), writing=COPY)
    report = kernel.run(kernel.file("f", rows_of({WORD: ["x"] * 101})))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused == "a row group of 101 rows lacks a column, and no chunk is made that long"
    assert kernel.rewritten(kernel.file("g", rows_of({WORD: ["x"] * 100})))["new"].null_count == 100
