"""Columns of a schema, as far as statistics can speak of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Column(NamedTuple):
    """One primitive column."""

    name: str
    """With the names of the structs around it: `address.city`."""
    kind: str
    """Iceberg's name of its type: long, decimal(9, 2), ..."""

    @property
    def nested(self) -> bool:
        """True if it is inside a struct."""
        return "." in self.name


def flat_columns(schema: Mapping[str, Any], around: str = "") -> dict[int, Column]:
    """Primitive columns by field id; those inside lists and maps are left out: their counts follow other rules."""
    columns: dict[int, Column] = {}
    for field in schema["fields"]:
        kind, name = field["type"], around + field["name"]
        if isinstance(kind, str):
            columns[field["id"]] = Column(name, kind)
        elif kind.get("type") == "struct":
            columns |= flat_columns(kind, f"{name}.")
    return columns


def parts_of(kind: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields right inside a nested type: of a struct, a list (`element`) or a map (`key`, `value`)."""
    if kind["type"] == "struct":
        return list(kind["fields"])
    if kind["type"] == "list":
        element = {"id": kind["element-id"], "name": "element", "required": kind["element-required"]}
        return [{**element, "type": kind["element"]}]
    key = {"id": kind["key-id"], "name": "key", "required": True, "type": kind["key"]}
    value = {"id": kind["value-id"], "name": "value", "required": kind["value-required"], "type": kind["value"]}
    return [key, value]


class Field(NamedTuple):
    """One field at any depth."""

    name: str
    """With the names of what is around it: `addresses.element.city`."""
    kind: Any
    """Iceberg's name of its type, or its document if it is nested."""
    default: Any
    """Initial default as JSON; `None` if there is none."""
    parents: tuple[int, ...]
    """Ids of the fields around it, outermost first."""


def every_field(schema: Mapping[str, Any]) -> dict[int, Field]:
    """All fields of a schema by id, those in structs, lists and maps included."""
    fields: dict[int, Field] = {}
    _collect(schema, "", (), fields)
    return fields


def _collect(kind: Any, around: str, parents: tuple[int, ...], fields: dict[int, Field]) -> None:
    if isinstance(kind, str):
        return
    for part in parts_of(kind):
        number, name = part["id"], around + part["name"]
        fields[number] = Field(name, part["type"], part.get("initial-default"), parents)
        _collect(part["type"], f"{name}.", (*parents, number), fields)


def primitive_types(schema: Mapping[str, Any]) -> set[str]:
    """Names of all primitive types in a schema, without what is in brackets behind them."""
    kinds = (field.kind for field in every_field(schema).values())
    return {kind.split("(")[0].split("[")[0] for kind in kinds if isinstance(kind, str)}
