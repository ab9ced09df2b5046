"""Several lanes of one task: the same bytes, whoever encoded them, and no more memory than a task may have."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.assemble.encode import Encoder
from icepact.execute.assemble.lanes import Encoding, Lanes
from icepact.execute.assemble.messages import InputFile
from icepact.execute.parquet.assembler import ChunkToWrite
from icepact.execute.rewriters.assemble import lanes_of
from tests.support.kernel import Kernel, column, given, list_of, output, rows_of, stored, struct

ROWS = 60_000
SCHEMA = struct(
    column(1, "id", "long"),
    column(2, "word", "string"),
    column(3, "text", "string"),
    column(4, "price", "double"),
    column(5, "tags", list_of(6, "int")),
    column(7, "wide", "long"),
    column(8, "added", "string"),
)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "encode": {"row_group_bytes": 400_000},
    "little memory": {"task_memory": 8 * 1024**2, "copy_floor": 1},
    "copy and encode": {"copy_floor": 1},
    "join": {"fewest_page_rows": 1, "blooms": {1: (0.01, None)}},
}


def files(kernel: Kernel) -> list[InputFile]:
    """Two files: dictionaries, texts, lists, a column that was widened since, and deletes in every other row group."""
    found: list[InputFile] = []
    for n in range(2):
        numbers = np.random.default_rng(n)
        tags = stored(5, "tags", pa.list_(stored(6, "element", pa.int32())))
        rows = rows_of(
            {
                stored(1, "id", pa.int64()): range(n * ROWS, (n + 1) * ROWS),
                stored(2, "word", pa.string()): [f"word {i}" for i in numbers.integers(0, 50, ROWS)],
                stored(3, "text", pa.string()): [f"{i:x}" for i in numbers.integers(0, 2**60, ROWS)],
                stored(4, "price", pa.float64()): [None if i % 11 == 0 else float(i) for i in range(ROWS)],
                tags: [[i, None][: i % 3] for i in range(ROWS)],
                stored(7, "wide", pa.int32()): numbers.integers(0, 100, ROWS),
            }
        )
        options: dict[str, Any] = {"row_group_size": ROWS // 4, "use_dictionary": ["word"], "compression": "zstd"}
        path = kernel.file(f"f{n}", rows, **options, write_page_index=True)
        delete = kernel.position_delete(f"d{n}", path, [1, 2, ROWS // 2, ROWS // 2 + 7])
        found.append(given(path, deletes=[delete], first_row_id=n * ROWS, sequence_number=n + 1))
    return found


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_same_bytes(tmp_path: Path, way: Mapping[str, Any]) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lineage=True, writing=way)
    inputs = files(kernel)
    before = pa.cpu_count()
    reports = [replace(kernel, lanes=lanes).run(*inputs) for lanes in (1, 2, 4)]
    assert [(report.refused, report.failed) for report in reports] == [(None, None)] * 3
    one, *others = (output(report).read_bytes() for report in reports)
    assert [other == one for other in others] == [True, True]
    assert {(report.effort.copied_bytes, report.effort.encoded_bytes) for report in reports} == {
        (reports[0].effort.copied_bytes, reports[0].effort.encoded_bytes)
    }
    assert pq.read_table(pa.BufferReader(one)).num_rows == 2 * (ROWS - 4)
    assert pa.cpu_count() == before


def test_columns_are_encoded_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shares wait for each other: that ends well only if both are under way."""
    meeting = threading.Barrier(2, timeout=30)
    encode = Encoder.encode
    sizes: list[int] = []

    def together(self: Encoder, table: pa.Table, *form: Any) -> dict[int, ChunkToWrite]:
        sizes.append(table.num_columns)
        if len(sizes) <= 2:
            meeting.wait()
        return encode(self, table, *form)

    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lanes=2, writing={"fewest_page_rows": ROWS})
    inputs = files(kernel)
    monkeypatch.setattr(Encoder, "encode", together)
    assert kernel.rewritten(*inputs).num_rows == 2 * (ROWS - 4)
    assert len(sizes) > 2
    assert sum(sizes) == len(SCHEMA["fields"])


def test_a_lane_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Encoder.encode
    begun: list[int] = []

    def failing(self: Encoder, table: pa.Table, *form: Any) -> dict[int, ChunkToWrite]:
        begun.append(table.num_columns)
        if len(begun) == 5:
            raise pa.ArrowInvalid("it does not want to")
        return encode(self, table, *form)

    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lanes=3, writing=WAYS["encode"])
    inputs = files(kernel)
    monkeypatch.setattr(Encoder, "encode", failing)
    report = kernel.run(*inputs)
    assert (report.refused, report.outputs) == ("it does not want to", ())
    assert list(tmp_path.glob("out-*")) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("icepact-encode")]


def test_decoded_rows_under_way_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that hardly move: rows are not decoded on and on meanwhile, and those that are encoded count no more."""
    held: list[int] = []
    wait = Lanes.wait

    def noted(encodings: Iterable[Encoding], most: int) -> None:
        some = list(encodings)
        wait(some, most)
        left = [share.memory for encoding in some for share in encoding.shares if not share.encoded.done()]
        held.append(sum(left))
        assert sum(left) <= most

    encode = Encoder.encode

    def slow(self: Encoder, table: pa.Table, *form: Any) -> dict[int, ChunkToWrite]:
        begun.wait(timeout=0.02)
        return encode(self, table, *form)

    begun = threading.Event()
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, lanes=2, writing=WAYS["little memory"])
    inputs = files(kernel)
    monkeypatch.setattr(Lanes, "wait", staticmethod(noted))
    monkeypatch.setattr(Encoder, "encode", slow)
    assert kernel.rewritten(*inputs).num_rows == 2 * (ROWS - 4)
    assert max(held) > 0


@pytest.mark.parametrize(
    ("cores", "of_executor", "at_once", "lanes"),
    [(2, 2, 1, 2), (2, 2, 2, 1), (8, 8, 3, 2), (8, 8, 1, 4), (8, 1, 1, 1), (32, 4, 2, 4), (4, 4, 9, 1), (4, 4, 0, 4)],
)
def test_lanes_are_idle_cores(cores: int, of_executor: int, at_once: int, lanes: int) -> None:
    assert lanes_of(cores, of_executor, at_once) == lanes
