"""Which leaves of a file must be decoded to make the target's columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.parquet.schema import Node
from icepact.model.schema import parts_of


def read_plan(schema: Node, fields: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[Node]]:
    """The leaves of a file that the target's columns need, and the top-level columns they make up, in order.

    A struct of which nothing is needed any more is still read by one leaf: it may be null, or not.
    """
    number_of = {id(leaf): n for n, leaf in enumerate(_leaf_nodes(schema))}
    wanted = {field["id"]: field["type"] for field in fields}
    needed: set[int] = set()
    for child in schema.children:
        if child.field_id in wanted:
            needed |= {number_of[id(leaf)] for leaf in _needed(child, wanted[child.field_id])}
    return sorted(needed), [n for child in schema.children if (n := _cut(child, needed, number_of))]


def _leaf_nodes(node: Node) -> Iterator[Node]:
    for child in node.children:
        if 1 in child.element:
            yield child
        else:
            yield from _leaf_nodes(child)


def _needed(node: Node, kind: Any) -> list[Node]:
    if 1 in node.element:
        return [node]
    if isinstance(kind, str):
        raise NotAssembled(f"{node.name.decode()} is stored in another form")
    parts = {part["id"]: part["type"] for part in parts_of(kind)}
    inner = node.children if kind["type"] == "struct" else inside(node)
    leaves = [leaf for child in inner if child.field_id in parts for leaf in _needed(child, parts[child.field_id])]
    if not leaves and kind["type"] != "struct":
        raise NotAssembled(f"what is inside {node.name.decode()} cannot be told by its ids")
    return leaves or list(_leaf_nodes(node))[:1]


def _cut(node: Node, needed: set[int], number_of: Mapping[int, int]) -> Node | None:
    """The node with only those leaves below it that are read; `None` if none is."""
    if 1 in node.element:
        return node if number_of[id(node)] in needed else None
    children = [n for child in node.children if (n := _cut(child, needed, number_of))]
    return Node(node.element, children) if children else None


def inside(node: Node) -> list[Node]:
    """Element, or key and value: below the repeated group, or the repeated field itself in old two-level lists."""
    if len(node.children) == 1 and node.children[0].children and node.children[0].field_id is None:
        return node.children[0].children
    return node.children
