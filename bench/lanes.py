"""One unit whose every row group has deleted rows: encoded by the lanes of a task, against one lane."""

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.result import Result
from bench.task_memory import MB, context_of, make_file, stored_field
from icepact.economics.speeds import MOST_LANES
from icepact.execute.assemble.kernel import assemble
from icepact.execute.assemble.messages import InputFile, UnitWork
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.storage.open import storage_for
from icepact.model.files import DeleteFile, DeleteKind

FILES = 24
ROWS = 420_000
"""Of a file: about 9 MB in one row group."""
_EVERY = 50
"""One row of so many is deleted."""
_BAR = 1 / 1.7
_MEMORY = 1024**3


def lanes(rounds: int) -> list[Result]:
    """The sides in turn, in one process; the outputs must be the same, byte by byte."""
    count = min(os.cpu_count() or 1, MOST_LANES)
    seconds: dict[int, list[float]] = {1: [], count: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = _unit(folder)
        for _ in range(rounds):
            written = {side: _encoded(replace(work, lanes=side), seconds[side]) for side in seconds}
            if len(set(written.values())) != 1:
                raise AssertionError("lanes changed the output")
    one, several = (statistics.median(found) for found in seconds.values())
    size = sum(file.size for file in work.inputs) / 10**6
    detail = f"{one:.2f} s and {several:.2f} s on {count} cores, {FILES} files of {size / FILES:.0f} MB become one"
    return [Result(f"one unit encoded by {count} lanes / by one", several / one, "x", _BAR, detail)]


def _unit(folder: Path) -> UnitWork:
    source = folder / "input.parquet"
    make_file(source, MB, rows=ROWS)
    paths = [folder / f"input-{number}.parquet" for number in range(FILES)]
    for path in paths:
        os.link(source, path)
    deleted = _deletes(folder / "deletes.parquet", paths)
    files = [
        InputFile(
            path=str(path),
            size=path.stat().st_size,
            rows=ROWS,
            spec_id=0,
            partition=(),
            sequence_number=1,
            first_row_id=None,
            deletes=(deleted,),
        )
        for path in paths
    ]
    return UnitWork(unit_id="u", inputs=tuple(files), output=str(folder / "out"), max_file_size=2**40)


def _deletes(path: Path, of: list[Path]) -> DeleteFile:
    """One file of position deletes for all inputs."""
    positions = list(range(0, ROWS, _EVERY))
    fields = [stored_field("file_path", pa.string(), 2147483546), stored_field("pos", pa.int64(), 2147483545)]
    columns = [[str(one) for one in of for _ in positions], positions * len(of)]
    table = pa.Table.from_arrays([pa.array(column) for column in columns], schema=pa.schema(fields))
    pq.write_table(table, path, store_schema=False)
    size = path.stat().st_size
    return DeleteFile(
        path=str(path),
        offset=None,
        kind=DeleteKind.POSITION,
        size=size,
        records=table.num_rows,
        spec_id=0,
        partition=(),
        sequence_number=1,
        referenced=None,
        file_size=size,
    )


def _encoded(work: UnitWork, seconds: list[float]) -> bytes:
    """The output of a unit, which is gone afterwards; how long it took is added to the others."""
    storage = storage_for({})

    def fetch(ref: DeleteFile) -> bytes:
        return Path(ref.path).read_bytes()

    started = time.monotonic()
    report = assemble(work, context_of(_MEMORY, recode=False), storage, DeleteCache(fetch), "0")
    seconds.append(time.monotonic() - started)
    [output] = report.outputs
    assert (report.effort.copied_bytes, output.rows) == (0, FILES * (ROWS - len(range(0, ROWS, _EVERY))))
    data = Path(output.path).read_bytes()
    storage.delete(output.path)
    return data
