"""Documents of the service in the record store."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredDocument:
    """A document as it was at one moment."""

    kind: str
    key: str
    """Unique among those of its kind."""
    body: Mapping[str, Any]
    """As JSON has it."""
    version: int
    """1 when it was made; grows with every change."""
    changed_at: datetime
