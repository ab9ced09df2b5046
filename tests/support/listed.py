"""Embedded catalogs as files: tables that are listed, with metadata as Iceberg writes it."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from icepact.iceberg.catalogs import embedded
from icepact.policy.config import Catalog

_MAKE = """CREATE TABLE iceberg_tables (
catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT,
previous_metadata_location TEXT, iceberg_type TEXT, PRIMARY KEY (catalog_name, table_namespace, table_name))"""


def snapshot(number: int, **summary: str) -> dict[str, Any]:
    """A snapshot that an hour brought."""
    return {"snapshot-id": number, "timestamp-ms": number * 3_600_000, "summary": {"operation": "append", **summary}}


def listed(folder: Path, rows: list[tuple[str, str, str, str | None]]) -> Catalog:
    """An embedded catalog with these tables: namespace, name, metadata file, type."""
    with sqlite3.connect(folder / "catalog.db") as connection:
        connection.execute(_MAKE)
        connection.executemany(
            "INSERT INTO iceberg_tables VALUES ('local', ?, ?, ?, NULL, ?)", [(s, n, m, t) for s, n, m, t in rows]
        )
    connection.close()
    return embedded(str(folder))


def write_metadata(folder: Path, table: str, number: int, snapshots: list[dict[str, Any]], **properties: str) -> None:
    """Commit metadata of a table of namespace `db`."""
    file = folder / f"{table}-{number}.json"
    file.write_text(json.dumps({"properties": properties, "snapshots": snapshots}))
    with sqlite3.connect(folder / "catalog.db") as connection:
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (f"file:{file}", table)
        )
    connection.close()
