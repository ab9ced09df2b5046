"""The parts of nested types: as Iceberg describes them, and as a file's schema holds them."""

from collections.abc import Mapping
from typing import Any

from icepact.execute.parquet.schema import Node


def parts_of(kind: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields inside a nested type."""
    if kind["type"] == "struct":
        return list(kind["fields"])
    if kind["type"] == "list":
        element = {"id": kind["element-id"], "name": "element", "required": kind["element-required"]}
        return [{**element, "type": kind["element"]}]
    key = {"id": kind["key-id"], "name": "key", "required": True, "type": kind["key"]}
    value = {"id": kind["value-id"], "name": "value", "required": kind["value-required"], "type": kind["value"]}
    return [key, value]


def inside(node: Node) -> list[Node]:
    """Element, or key and value: below the repeated group, or the repeated field itself in old two-level lists."""
    if len(node.children) == 1 and node.children[0].children and node.children[0].field_id is None:
        return node.children[0].children
    return node.children
