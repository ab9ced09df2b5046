"""Columns of a schema, as far as statistics can speak of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Column(NamedTuple):
    """One primitive column."""

    name: str
    """With the names of the structs around it: `place.city`."""
    kind: str
    """Iceberg's name of its type: long, decimal(9, 2), ..."""

    @property
    def nested(self) -> bool:
        """True if it is inside a struct."""
        return "." in self.name


def flat_columns(schema: Mapping[str, Any], around: str = "") -> dict[int, Column]:
    """Primitive columns by field id; those inside lists and maps are left out: their counts follow other rules."""
    found: dict[int, Column] = {}
    for field in schema["fields"]:
        kind, name = field["type"], around + field["name"]
        if isinstance(kind, str):
            found[field["id"]] = Column(name, kind)
        elif kind.get("type") == "struct":
            found |= flat_columns(kind, f"{name}.")
    return found
