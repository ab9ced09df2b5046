"""The five scans that are timed after each rewrite; the last one also proves that the rows are the same."""

import time
from dataclasses import dataclass
from typing import Any

from bench.rewrite.rows import LINES_PER_ORDER, Kind, wide_sparse
from bench.rewrite.tables import Pile, Workshop

PASSES = 2
"""How often each query is run on each visit."""
NAMES = ("few rows by key", "two sums", "group by", "min and max of text", "hash of all columns")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scans:
    """What five queries took and saw."""

    seconds: tuple[tuple[float, ...], ...]
    seen: tuple[int, ...]
    """Rows and two sums of whole-row hashes; on format v3 also a sum of row lineage."""


def scan(workshop: Workshop, table: str, pile: Pile, *, passes: int = PASSES, lineage: bool = False) -> Scans:
    """Run the queries one after the other, several times."""
    workshop.spark.sql(f"REFRESH TABLE {table}")
    columns = workshop.spark.table(table).columns
    seconds: list[list[float]] = [[] for _ in NAMES]
    rows: list[Any] = []
    for _ in range(passes):
        for taken, text in zip(seconds, _texts(table, columns, pile), strict=True):
            started = time.monotonic()
            rows = workshop.spark.sql(text).collect()
            taken.append(round(time.monotonic() - started, 3))
    seen = tuple(map(int, rows[0]))
    if lineage:
        seen += (_lineage(workshop, table),)
    return Scans(seconds=tuple(map(tuple, seconds)), seen=seen)


def _texts(table: str, columns: list[str], pile: Pile) -> list[str]:
    orders = pile.files * pile.rows // (LINES_PER_ORDER if pile.kind is Kind.LINEITEM else 1)
    low, high = orders // 2, orders // 2 + orders // 100
    if pile.kind is Kind.LINEITEM:
        return [
            f"SELECT count(*), sum(l_quantity) FROM {table} WHERE l_orderkey BETWEEN {low} AND {high}",
            f"SELECT sum(l_extendedprice), sum(l_discount) FROM {table}",
            f"SELECT l_shipmode, count(*) FROM {table} GROUP BY l_shipmode",
            f"SELECT min(l_comment), max(l_comment) FROM {table}",
            _hashed(table, columns, []),
        ]
    return [
        f"SELECT count(*), sum(int_006) FROM {table} WHERE id BETWEEN {low} AND {high}",
        f"SELECT sum(double_001), sum(decimal_003) FROM {table}",
        f"SELECT string_002, count(*) FROM {table} GROUP BY string_002",
        f"SELECT min(note), max(note) FROM {table}",
        _hashed(table, columns, wide_sparse()),
    ]


def _hashed(table: str, columns: list[str], with_nulls: list[str]) -> str:
    """Count and sums of 64-bit row hashes, in two halves so that they cannot overflow; hashing skips nulls, so
    nulls are flagged. Equal for the same rows in any order, and only for the same number of each."""
    flags = [f"{name} IS NULL" for name in with_nulls]
    inner = f"SELECT xxhash64({', '.join(columns + flags)}) AS h FROM {table}"
    return f"SELECT count(*), sum(h & 4294967295), sum(shiftrightunsigned(h, 32)) FROM ({inner})"


def _lineage(workshop: Workshop, table: str) -> int:
    key = "l_orderkey, l_linenumber, _row_id, _last_updated_sequence_number"
    text = f"SELECT sum(xxhash64({key}) & 4294967295) FROM {table}"
    return int(workshop.spark.sql(text).collect()[0][0])
