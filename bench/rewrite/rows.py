"""Rows for the benchmark's tables: plain Parquet files made by numpy and pyarrow, without Spark.

Every file is a function of its number alone, so that a table looks the same in every run. The work is done
in processes of its own: the memory of the process that is measured stays its own.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

LINES_PER_ORDER = 4
FIRST_DAY = (date(1992, 1, 1) - date(1970, 1, 1)).days
DAYS = 2406
WIDE_COLUMNS = 300
WIDE_KINDS = ("int", "double", "string", "decimal", "bigint", "date")
WIDE_SPARSE = 10
"""Of the wide table, every so manieth column is nearly always null."""

_PROSE_WORDS = (
    "the of quick slow final regular special express pending bold even ironic silent careful furious blithe daring "
    "ruthless accounts packages deposits requests instructions theodolites foxes pinto beans dependencies "
    "asymptotes ideas platelets sleep wake haggle nag cajole integrate detect boost engage affix among across above "
    "against along beneath after about according to between carefully quickly furiously slyly fluffily blithely "
    "never always sometimes"
)
_WORDS = tuple(_PROSE_WORDS.split())
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")


class Kind(StrEnum):
    """Which schema."""

    LINEITEM = "lineitem"
    WIDE = "wide"


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePlan:
    """One file to make."""

    kind: Kind
    path: str
    number: int
    """Position of the file in its table; keys go on from one file to the next."""
    rows: int
    ship_day: int | None = None
    """All rows ship on this day, counted from the first; null: any day."""


def make_files(plans: Sequence[FilePlan]) -> None:
    """Make them all, on all cores."""
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for _ in pool.map(make_file, plans, chunksize=max(1, len(plans) // 64)):
            pass


def make_file(plan: FilePlan) -> None:
    """Make one file."""
    table = lineitem(plan.number, plan.rows, plan.ship_day) if plan.kind is Kind.LINEITEM else wide(plan)
    Path(plan.path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, plan.path, compression="lz4", row_group_size=plan.rows, store_decimal_as_integer=True)


# -- lineitem -----------------------------------------------------------------------------------------


def lineitem_columns() -> str:
    """The columns in Spark's words."""
    numbers = "l_orderkey bigint, l_partkey bigint, l_suppkey int, l_linenumber int"
    money = ", ".join(f"l_{name} decimal(15,2)" for name in ("quantity", "extendedprice", "discount", "tax"))
    dates = "l_shipdate date, l_commitdate date, l_receiptdate date"
    texts = "l_shipinstruct string, l_shipmode string, l_comment string"
    return f"{numbers}, {money}, l_returnflag string, l_linestatus string, {dates}, {texts}"


def lineitem(number: int, rows: int, ship_day: int | None = None) -> pa.Table:
    """Lines of orders as TPC-H describes them; order keys ascend, four lines each."""
    random = np.random.default_rng(number)
    ids = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
    part = random.integers(1, 2_000_000, rows)
    quantity = random.integers(1, 51, rows)
    order_day = random.integers(0, DAYS - 151, rows)
    ship = order_day + random.integers(1, 122, rows) if ship_day is None else np.full(rows, ship_day)
    receipt = ship + random.integers(1, 31, rows)
    flag = np.where(receipt > 1263, 0, random.integers(1, 3, rows))
    columns = {
        "l_orderkey": pa.array(ids // LINES_PER_ORDER),
        "l_partkey": pa.array(part),
        "l_suppkey": pa.array(random.integers(1, 100_000, rows).astype(np.int32)),
        "l_linenumber": pa.array((ids % LINES_PER_ORDER + 1).astype(np.int32)),
        "l_quantity": _decimals(quantity * 100),
        "l_extendedprice": _decimals(quantity * (90_000 + part // 10 % 20_001 + part % 1000 * 100)),
        "l_discount": _decimals(random.integers(0, 11, rows)),
        "l_tax": _decimals(random.integers(0, 9, rows)),
        "l_returnflag": _chosen(flag, ("N", "R", "A")),
        "l_linestatus": _chosen((ship > 1263).astype(np.int64), ("F", "O")),
        "l_shipdate": _dates(ship),
        "l_commitdate": _dates(order_day + random.integers(30, 91, rows)),
        "l_receiptdate": _dates(receipt),
        "l_shipinstruct": _chosen(random.integers(0, 4, rows), _INSTRUCTIONS),
        "l_shipmode": _chosen(random.integers(0, 7, rows), _MODES),
        "l_comment": _texts(random, rows),
    }
    return pa.table(columns)


# -- wide ---------------------------------------------------------------------------------------------


def wide_columns() -> str:
    """The columns in Spark's words: a key, a text, and the kinds in turn."""
    types = {"decimal": "decimal(15,2)"}
    named = (f"{name} {types.get(kind, kind)}" for name, kind in _wide_fields())
    return ", ".join(["id bigint", "note string", *named])


def wide_sparse() -> list[str]:
    """Columns with nulls."""
    return [name for n, (name, _) in enumerate(_wide_fields()) if n % WIDE_SPARSE == 0]


def _wide_fields() -> list[tuple[str, str]]:
    kinds = (WIDE_KINDS[n % len(WIDE_KINDS)] for n in range(WIDE_COLUMNS - 2))
    return [(f"{kind}_{n:03d}", kind) for n, kind in enumerate(kinds)]


def wide(plan: FilePlan) -> pa.Table:
    """Columns of every kind; the range of values differs from column to column."""
    random = np.random.default_rng(plan.number)
    rows, sparse = plan.rows, set(wide_sparse())
    first = plan.number * rows
    columns = {"id": pa.array(np.arange(first, first + rows, dtype=np.int64)), "note": _texts(random, rows)}
    for n, (name, kind) in enumerate(_wide_fields()):
        values = random.integers(0, 10 ** (1 + n % 7), rows)
        column = _wide_column(kind, values)
        if name in sparse:
            column = pc.if_else(pa.array(random.random(rows) < 0.1), column, pa.scalar(None, column.type))
        columns[name] = column
    return pa.table(columns)


def _wide_column(kind: str, values: np.ndarray) -> pa.Array:
    match kind:
        case "int":
            return pa.array(values.astype(np.int32))
        case "bigint":
            return pa.array(values)
        case "double":
            return pa.array(values / 1000)
        case "decimal":
            return _decimals(values)
        case "date":
            return _dates(values % DAYS)
        case _:
            return _chosen(values % len(_WORDS), _WORDS)


# -- columns ------------------------------------------------------------------------------------------


def _decimals(hundredths: np.ndarray) -> pa.Array:
    """Not negative, so that the upper half of each 128-bit value is zero."""
    halves = np.zeros((len(hundredths), 2), dtype=np.int64)
    halves[:, 0] = hundredths
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(hundredths), [None, pa.py_buffer(halves)])


def _dates(days: np.ndarray) -> pa.Array:
    return pa.array((days + FIRST_DAY).astype(np.int32)).cast(pa.date32())


def _chosen(places: np.ndarray, words: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(words)).cast(pa.string())


@cache
def _prose() -> np.ndarray:
    """Much text, from which comments are cut, as TPC-H's own generator does it."""
    places = np.random.default_rng(0).integers(0, len(_WORDS), 400_000)
    return np.frombuffer(" ".join(_WORDS[n] for n in places).encode(), dtype=np.uint8)


def _texts(random: np.random.Generator, rows: int) -> pa.Array:
    prose = _prose()
    lengths = random.integers(10, 44, rows)
    starts = random.integers(0, len(prose) - 44, rows)
    ends = np.cumsum(lengths)
    letters = prose[np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
