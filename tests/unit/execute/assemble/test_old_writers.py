"""Bugs that readers know of by the name of the writer: no copy loses the name, and no count is believed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.layout import PAGE_HEADER
from icepact.execute.parquet.thrift import Fields
from tests.support.kernel import COPY, Kernel, column, given, output, rows_of, stored, struct
from tests.support.parquet_bent import bent, encode, meta_of, walk

KEY = stored(1, "k", pa.int64(), required=True)
OLD, OLD_ARROW = b"parquet-cpp version 1.5.1-SNAPSHOT", b"parquet-cpp-arrow version 5.0.0"


def signed(path: Path, writer: bytes, change: Callable[[Fields], object] = lambda _: None) -> None:
    """Somebody else wrote the file."""
    path.write_bytes(bent(path.read_bytes(), lambda fields: (change(fields), fields.update({6: writer}))))


def denies_compression(path: Path) -> None:
    """Pages of the only chunk, of version 2, are said not to be compressed."""
    data = path.read_bytes()
    chunk = Input(MemorySource(data)).footer.row_groups[0].chunks[0]
    written, starts = data[: chunk.start], []
    for at, size, header in walk(data, chunk):
        if 8 in header:
            starts.append(len(written))
            header[8][7] = False
        written += encode(dict(sorted(header.items())), PAGE_HEADER) + data[at + size - header[3] : at + size]
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") :]
    moved = {7: len(written) - chunk.start, 9: starts[0]}
    path.write_bytes(bent(written + footer, lambda fields: meta_of(fields).update(moved)))


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("gone", [[], [3]], ids=["copied", "encoded"])
def test_compressed_pages_that_deny_it(tmp_path: Path, gone: Sequence[int], dictionary: bool) -> None:
    """Under another name nobody could read them."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "long", required=True)), writing=COPY)
    numbers = [number % 50 for number in range(6000)]
    options: dict[str, Any] = {"compression": "snappy", "data_page_version": "2.0", "use_dictionary": dictionary}
    path = kernel.file("f", rows_of({KEY: numbers}), **options)
    denies_compression(path)
    with pytest.raises(OSError, match=r"bit_width|end of stream"):
        pq.read_table(path)
    signed(path, OLD)
    assert pq.read_table(path)["k"].to_pylist() == numbers
    deletes = [kernel.position_delete("d", path, gone)] if gone else []
    report = kernel.run(given(path, deletes=deletes))
    assert (report.refused, report.failed) == (None, None)
    assert pq.read_table(output(report))["k"].to_pylist() == [n for row, n in enumerate(numbers) if row not in gone]


@pytest.mark.parametrize("writer", [OLD, OLD_ARROW])
def test_nulls_that_nobody_counted(tmp_path: Path, writer: bytes) -> None:
    """Where values came in a dictionary, there were said to be none."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "string")), writing=COPY)
    key = stored(1, "k", pa.string())
    path = kernel.file("f", rows_of({key: ["a", None, "b"]}))
    signed(path, writer, lambda fields: meta_of(fields)[12].update({3: 0}))
    delete = kernel.equality_delete("d", rows_of({key: [None]}))
    assert kernel.rewritten(given(path, deletes=[delete]))["k"].to_pylist() == ["a", "b"]
