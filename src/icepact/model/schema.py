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


class Field(NamedTuple):
    """One field at any depth."""

    name: str
    """With the names of what is around it: `places.element.city`."""
    kind: Any
    """Iceberg's name of its type, or its document if it is nested."""
    default: Any
    """Initial default as JSON; null if there is none."""
    parents: tuple[int, ...]
    """Ids of the fields around it, outermost first."""


def every_field(schema: Mapping[str, Any]) -> dict[int, Field]:
    """All fields of a schema by id, those in structs, lists and maps included."""
    found: dict[int, Field] = {}
    _collect(schema, "", (), found)
    return found


def _collect(kind: Any, around: str, parents: tuple[int, ...], found: dict[int, Field]) -> None:
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        parts = [(f["id"], f["name"], f["type"], f.get("initial-default")) for f in kind["fields"]]
    elif kind["type"] == "list":
        parts = [(kind["element-id"], "element", kind["element"], None)]
    else:
        parts = [
            (kind["key-id"], "key", kind["key"], None),
            (kind["value-id"], "value", kind["value"], None),
        ]
    for number, name, inner, default in parts:
        found[number] = Field(around + name, inner, default, parents)
        _collect(inner, f"{around}{name}.", (*parents, number), found)
