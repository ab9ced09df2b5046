"""Where the time goes when rows must be encoded anew: what each part of the work costs on one core."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import code
from bench.result import Result
from bench.rewrite.rows import lineitem, lineitem_columns
from icepact.execute.parquet.input import Pieces

RESULTS = Path(__file__).parent / "encoding.json"
ROWS = 1_000_000
_REPEATED = ("orderkey", "linenumber", "quantity", "discount", "tax", "returnflag", "linestatus")
_DICTIONARIES = [
    *(f"l_{name}" for name in (*_REPEATED, "shipdate", "commitdate", "receiptdate", "shipinstruct", "shipmode"))
]
"""What Iceberg's writer keeps in dictionaries: values that repeat."""
_TEXTS = ["l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode"]
_OPTIONS: Mapping[str, Any] = {
    "compression": "zstd",
    "compression_level": {"l_comment": 3, **dict.fromkeys(_TEXTS, 3)},
    "use_dictionary": _DICTIONARIES,
    "write_page_index": True,
    "store_schema": False,
    "max_rows_per_page": 20_000,
    "write_batch_size": 2048,
}


class Share(NamedTuple):
    """One part of the work."""

    part: str
    share: float
    """Of the CPU time of decoding and encoding together."""


class Profile(NamedTuple):
    """What decoding and encoding cost, and what of."""

    megabytes_per_second: float
    """Compressed bytes in and out on one core."""
    shares: tuple[Share, ...]


def encoding(rounds: int) -> list[Result]:
    """The profile as a benchmark: it has no bar."""
    found = profile(rounds)
    kept = {"commit": code.code(), "speed": found.megabytes_per_second, "shares": found.shares}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    listed = ", ".join(f"{share.part} {share.share:.0%}" for share in found.shares)
    return [Result("decoding and encoding on one core", found.megabytes_per_second, "MB/s", None, listed)]


def profile(rounds: int) -> Profile:
    """Time each part by leaving it out; the least of several rounds, in turn."""
    table = _table()
    required = pa.Table.from_arrays(table.columns, schema=pa.schema([f.with_nullable(False) for f in table.schema]))
    whole = _encoded(table)
    ways: dict[str, Callable[[], object]] = {
        "decode": lambda: _decoded(whole),
        "encode": lambda: _encoded(table),
        "uncompressed": lambda: _encoded(table, compression="none", compression_level=None),
        "no statistics": lambda: _encoded(table, write_statistics=False, write_page_index=False),
        "no nulls": lambda: _encoded(required),
    }
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            started = time.process_time()
            way()
            least[name] = min(least[name], time.process_time() - started)
    total = least["decode"] + least["encode"]
    saved = {name: max(0.0, least["encode"] - least[name]) for name in ways}
    rest = max(0.0, least["encode"] - saved["uncompressed"] - saved["no statistics"] - saved["no nulls"])
    parts = {
        "decoding": least["decode"],
        "compression": saved["uncompressed"],
        "statistics": saved["no statistics"],
        "marks for nulls, where there are none": saved["no nulls"],
        "dictionaries, pages and the rest of encoding": rest,
    }
    size = whole.size / 1e6
    return Profile(round(size / total, 1), tuple(Share(part, round(cost / total, 3)) for part, cost in parts.items()))


def as_markdown(path: Path = RESULTS) -> str:
    """The profile that is kept, as a table."""
    if not path.is_file():
        return "Nothing has been measured yet."
    found = json.loads(path.read_text())
    lines = [f"| {part} | {share:.0%} |" for part, share in found["shares"]]
    told = f"{found['speed']:g} MB/s of compressed bytes on one core, at commit {code.as_markdown(found['commit'])}."
    return "\n".join([told, "", "| | share |", "|---|---|", *lines])


def _table() -> pa.Table:
    """Rows as a task holds them: short decimals as whole numbers, texts of few values as dictionaries."""
    rows = lineitem(0, ROWS)
    assert rows.column_names == [column.strip().split()[0] for column in lineitem_columns().split(", ")]
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_decimal(column.type):
            column = pc.round(pc.multiply(column.cast(pa.float64()), 100)).cast(pa.int64())
        columns.append(column.dictionary_encode() if name in _TEXTS else column)
    return pa.table(columns, names=rows.column_names)


def _encoded(table: pa.Table, **options: Any) -> Pieces:
    sink = Pieces()
    with pq.ParquetWriter(sink, table.schema, **{**_OPTIONS, **options}) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
    return sink


def _decoded(file: Pieces) -> pa.Table:
    data = pa.BufferReader(file.read(0, file.size))
    return pq.ParquetFile(data, read_dictionary=_TEXTS, pre_buffer=False).read_row_group(0, use_threads=False)
