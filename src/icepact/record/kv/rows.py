"""Rows as values: JSON of their columns, with moments as text."""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any


def moment_text(moment: datetime) -> str:
    """A moment as rows have it."""
    return moment.astimezone(UTC).isoformat()


def row_bytes(row: Mapping[str, Any]) -> bytes:
    """A row as a value."""
    return json.dumps(row, default=moment_text, ensure_ascii=False, separators=(",", ":")).encode()


def row_of(value: bytes, moments: Collection[str]) -> dict[str, Any]:
    """A row from its value; `moments` are the columns that are some."""
    row: dict[str, Any] = json.loads(value)
    for name in moments:
        if row.get(name) is not None:
            row[name] = datetime.fromisoformat(row[name])
    return row


def index_change(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    """What is to be written and deleted, so that index keys are as they should be after a change."""
    puts = {name: value for name, value in after.items() if before.get(name) != value}
    return puts, [name for name in before if name not in after]
