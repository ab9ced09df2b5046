"""Costs as CSV, for spreadsheets."""

import csv
import io
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from icepact.model.costs import Amounts, Costs

_AMOUNTS = tuple(field.name for field in fields(Amounts))
_COLUMNS = (
    *("table", "method", "runs", "input_bytes"),
    *(f"predicted_{name}" for name in _AMOUNTS),
    *(f"actual_{name}" for name in _AMOUNTS),
    *("money_per_tb", "currency"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which spreadsheets begin one."""


def costs_csv(found: Iterable[Costs]) -> str:
    """Costs, below a line of titles."""
    return _csv(_COLUMNS, map(_cells, found))


def tenant_costs_csv(found: Iterable[tuple[str, Costs]]) -> str:
    """Costs, each with the tenant that they are of, below a line of titles."""
    return _csv(("tenant", *_COLUMNS), ([tenant, *_cells(entry)] for tenant, entry in found))


def _cells(entry: Costs) -> list[Any]:
    amounts = [getattr(one, name) for one in (entry.predicted, entry.actual) for name in _AMOUNTS]
    money = "" if entry.money_per_tb is None else entry.money_per_tb
    return [entry.table, entry.method, entry.runs, entry.input_bytes, *amounts, money, entry.currency]


def _csv(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(titles)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """What a spreadsheet would take for a formula is text there, too."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
