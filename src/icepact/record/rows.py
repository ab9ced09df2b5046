"""All that a store keeps, as rows of tables: the same from every kind of store, so that it can be copied."""

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
"""By column: texts, numbers, moments, and bytes."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "leases": ("key",),
    "runs": ("run_id",),
    "checkpoints": ("run_id", "unit_id"),
    "failures": ("uuid", "signature"),
    "lessons": ("catalog", "table_name"),
    "clocks": ("uuid", "branch", "place", "tier"),
    "jobs": ("job_id",),
    "turns": ("catalog", "tenant"),
    "documents": ("kind", "key"),
    "sheets": ("path",),
}
"""The columns that a row of each table is known by; the order in which they are copied."""
NAMES: Mapping[str, str] = {
    "leases": "leases",
    "runs": "runs",
    "checkpoints": "checkpoints",
    "failures": "failures",
    "lessons": "lessons forgotten",
    "clocks": "last compactions",
    "jobs": "jobs",
    "turns": "turns of tenants",
    "documents": "documents",
    "sheets": "manifest statistics",
}
"""What people call them."""


def key_of(table: str, row: Row) -> tuple[str, ...]:
    """What a row is known by."""
    return tuple(row[name] for name in KEYS[table])
