"""Costs as CSV, for spreadsheets."""

import csv
import io
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from icepact.model.costs import Amounts, Costs

_AMOUNTS = tuple(field.name for field in fields(Amounts))
_COLUMNS = (
    *("tenant", "table", "method", "runs", "input_bytes"),
    *(f"predicted_{name}" for name in _AMOUNTS),
    *(f"actual_{name}" for name in _AMOUNTS),
    *("money_per_tb", "currency"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which spreadsheets begin one."""


def costs_csv(found: Iterable[tuple[str, Costs]]) -> str:
    """Costs, each with the tenant that they are of, with a line of titles."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for tenant, entry in found:
        amounts = [getattr(one, name) for one in (entry.predicted, entry.actual) for name in _AMOUNTS]
        money = "" if entry.money_per_tb is None else entry.money_per_tb
        cells = [tenant, entry.table, entry.method, entry.runs, entry.input_bytes, *amounts, money, entry.currency]
        writer.writerow([_harmless(cell) for cell in cells])
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """What a spreadsheet would take for a formula is text there, too."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
