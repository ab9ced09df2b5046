"""Readers that skip row groups by what footers say find all rows of what was assembled: DuckDB and pyarrow."""

import itertools
import operator
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from tests.support.kernel import COPY, Kernel, column, given, output, rows_of, stored, struct
from tests.support.parquet_bent import bent, meta_path, updating
from tests.support.parquet_judges import statistics_hold
from tests.support.predicates import KINDS

STORED = {"key": pa.binary(16), "code": pa.binary(4)}
NAMES = list(KINDS)
FIELDS = [stored(1, "id", pa.int64())]
FIELDS += [stored(n, name, STORED.get(name, KINDS[name].arrow)) for n, name in enumerate(NAMES, 2)]
SCHEMA = struct(column(1, "id", "long"), *(column(n, name, KINDS[name].iceberg) for n, name in enumerate(NAMES, 2)))
VALUES = {name: kind.values for name, kind in KINDS.items()} | {
    "key": [uuid.UUID(key).bytes for key in KINDS["key"].values]
}
WAYS = {"encode": {}, "copy": COPY, "join": {"fewest_page_rows": 1}}
WINDOWS, FILES, ROWS = 5, 3, 4
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SAMPLE = 2
"""Values of each column that are asked for."""


def table(window: int, file: int) -> pa.Table:
    """A few values of each type, which ones depends on the window; one column is null in each."""
    places = [file * ROWS + row for row in range(ROWS)]
    columns: dict[pa.Field, list[Any]] = {FIELDS[0]: [window * 100 + place for place in places]}
    for number, described in enumerate(FIELDS[1:]):
        values = VALUES[described.name]
        few = max(1, len(values) // (WINDOWS - 1))
        shown = [values[(window * few + place % (few + 1)) % len(values)] for place in places]
        nulls = window == 0 or (number + window) % len(NAMES) == 0
        columns[described] = [None] * ROWS if nulls else shown
    return rows_of(columns)


def written(kernel: Kernel, window: int, file: int) -> Path:
    """A file; in every other window its writer counted NaN."""
    rows = table(window, file)
    options = {"use_dictionary": False, "write_page_index": True, "compression": "zstd"}
    path = kernel.file(f"w{window}-{file}", rows, store_decimal_as_integer=True, **options)
    if window % 2:
        for number, described in enumerate(FIELDS):
            if pa.types.is_floating(described.type):
                nans = pc.sum(pc.is_nan(rows[number])).as_py() or 0
                data = bent(path.read_bytes(), updating((*meta_path(0, number), 12), {9: nans}))
                path.write_bytes(data)
    return path


def assembled(kernel: Kernel) -> tuple[list[str], pa.Table]:
    """A file of each window, and the rows that should be in them; a row of the second input is deleted."""
    outputs, rows = [], []
    for window in range(WINDOWS):
        paths = [written(kernel, window, file) for file in range(FILES)]
        second = given(paths[1], deletes=[kernel.position_delete(f"d{window}", paths[1], [1])])
        report = kernel.run(paths[0], second, paths[2])
        assert (report.refused, report.failed) == (None, None)
        statistics_hold(output(report).read_bytes())
        outputs.append(str(output(report)))
        rows += [table(window, 0), *(table(window, 1).slice(n, 1) for n in (0, 2, 3)), table(window, 2)]
    return outputs, pa.concat_tables(rows)


def asked() -> Iterator[tuple[str, str, Any]]:
    """Columns, operators, and values to compare with; uuids are read as types of their own."""
    rng = random.Random(7)
    for name in NAMES:
        if name != "key":
            values = list(VALUES[name])
            some = values if len(values) <= SAMPLE else rng.sample(values, SAMPLE)
            yield from itertools.product([name], OPERATORS, some)


@pytest.mark.parametrize("way", WAYS)
def test_readers_find_all_rows(tmp_path: Path, way: str) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=WAYS[way])
    outputs, rows = assembled(kernel)
    dataset = ds.dataset(outputs)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        for name, sign, value in asked():
            condition = f"FROM {{}} WHERE {name} {sign} ? ORDER BY id"
            found, expected = (
                connection.execute(f"SELECT id {condition.format(source)}", [value]).fetchall()
                for source in (f"read_parquet({outputs})", "rows")
            )
            assert found == expected, (name, sign, value)
            compared = OPERATORS[sign](pc.field(name), pa.scalar(value, rows.schema.field(name).type))
            seen, right = dataset.to_table(columns=["id"], filter=compared), rows.filter(compared)
            assert sorted(seen["id"].to_pylist()) == sorted(right["id"].to_pylist()), (name, sign, value)
