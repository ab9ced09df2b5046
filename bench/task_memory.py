"""Peak memory of the process that rewrites one unit: it must not grow with the number of inputs."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.result import Result
from icepact.execute.assemble.kernel import assemble
from icepact.execute.assemble.messages import MOST_ROWS, InputFile, TaskContext, UnitWork, WriteSettings
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.parquet.input import Input
from icepact.execute.rewriters.job import ENVIRONMENT
from icepact.execute.storage.open import storage_for

MB = 10**6
FILE_SIZE = 256 * MB
INPUTS = (1, 4, 16)
_ROWS_AT_ONCE = 500_000
_ROW_GROUP = 2_500_000
"""Rows: about 64 MB, as Iceberg's writers leave them or smaller."""

_COLUMNS = (("id", "long"), ("price", "double"), ("kind", "string"), ("note", "string"))
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(_COLUMNS, start=1)
    ],
}
_ARROW = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}


def task_memory(rounds: int) -> list[Result]:
    """Every row is decoded and encoded anew, the expensive way; each number of inputs in a process of its own."""
    del rounds  # peaks do not vary
    peaks: list[dict[str, int]] = [measure(inputs, FILE_SIZE) for inputs in INPUTS]
    bar = 3 * peaks[0]["row_group"] / MB + 300
    found = ", ".join(f"{p['peak'] / MB:,.0f} MB" for p in peaks)
    worst = max(p["peak"] for p in peaks) / MB
    detail = f"{found} with {', '.join(map(str, INPUTS))} inputs of {FILE_SIZE // MB} MB"
    flat = worst / (peaks[0]["peak"] / MB)
    return [
        Result("peak memory of a task that encodes", worst, "MB", round(bar), detail),
        Result("peak with 16 inputs / peak with one", flat, "x", 1.2, detail),
    ]


def measure(inputs: int, size: int, *, memory: int = 1024**3) -> dict[str, int]:
    """Peak resident bytes of a process that rewrites so many files, and of their largest row group, decoded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.parquet"
        decoded = _make_file(path, size)
        command = [sys.executable, "-m", "bench.task_memory", folder, str(inputs), str(memory)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
    answer: dict[str, int] = json.loads(done.stdout)
    return {**answer, "row_group": decoded}


def _make_file(path: Path, size: int) -> int:
    """A file of at least this size; returns the bytes of its largest row group once decoded."""
    numbers = np.random.default_rng(5)
    fields = [
        pa.field(name, _ARROW[kind], metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(_COLUMNS, 1)
    ]
    kinds = pa.array([f"kind number {n}" for n in range(200)])
    largest = 0
    with pq.ParquetWriter(path, pa.schema(fields), compression="zstd", store_schema=False) as writer:
        while path.stat().st_size < size:
            counts = [min(_ROWS_AT_ONCE, _ROW_GROUP - at) for at in range(0, _ROW_GROUP, _ROWS_AT_ONCE)]
            table = pa.concat_tables([_rows(numbers, kinds, fields, count) for count in counts])
            largest = max(largest, table.nbytes)
            writer.write_table(table, row_group_size=_ROW_GROUP)
    return largest


def _rows(numbers: Any, kinds: pa.Array, fields: list[pa.Field], count: int) -> pa.Table:
    notes = numbers.integers(10**8, 10**9, count)
    columns = [
        pa.array(numbers.integers(0, 2**40, count)),
        pa.array(numbers.random(count)),
        kinds.take(pa.array(numbers.integers(0, len(kinds), count))),
        pa.array(notes).cast(pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _rewrite(folder: Path, inputs: int, memory: int) -> dict[str, int]:
    """The same file under many names is rewritten into another codec."""
    source = folder / "input.parquet"
    size = source.stat().st_size
    storage = storage_for({})
    rows = Input(storage.open(str(source), size)).footer.rows
    paths = [folder / f"input-{number}.parquet" for number in range(inputs)]
    for path in paths:
        os.link(source, path)
    files = [
        InputFile(
            path=str(path),
            size=size,
            rows=rows,
            spec_id=0,
            partition=(),
            sequence_number=1,
            first_row_id=None,
            deletes=(),
        )
        for path in paths
    ]
    work = UnitWork(unit_id="u", inputs=tuple(files), output=str(folder / "out"), max_file_size=2**40)
    report = assemble(work, _context_of(memory), storage, DeleteCache(lambda _: b""), "0")
    assert report.effort.encoded_bytes > 0
    assert sum(output.rows for output in report.outputs) == inputs * rows
    return {"peak": _peak()}


def _peak() -> int:
    """Peak resident bytes of this program; `getrusage` would count what its parent held when it was started."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _context_of(memory: int) -> TaskContext:
    """What a task is told of the table: zstd becomes snappy."""
    writing = WriteSettings(
        codec="snappy",
        level=None,
        level_of_numbers=None,
        recode=True,
        row_group_bytes=128 * 1024**2,
        row_group_rows=MOST_ROWS,
        page_bytes=1024**2,
        page_rows=20_000,
        dictionary_bytes=2 * 1024**2,
        blooms={},
        bloom_bytes=1024**2,
        copy_floor=8 * 1024**2,
        fewest_page_rows=2000,
        batch_rows=MOST_ROWS,
        task_memory=memory,
    )
    return TaskContext(
        run_id="bench",
        schema=json.dumps(_SCHEMA),
        types={number: kind for number, (_, kind) in enumerate(_COLUMNS, start=1)},
        parents={},
        defaults={},
        identity={0: ()},
        name_mapping=None,
        lineage=False,
        metrics={},
        writing=writing,
        created_by="icepact version 0",
        properties={},
        credentials=(),
        inline_deletes={},
    )


if __name__ == "__main__":
    print(json.dumps(_rewrite(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
