"""The schema in a footer as a tree: ids and types of its leaves, and what their levels mean."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.layout import FIXED, INT32, INT64, REPEATED, REQUIRED
from icepact.execute.parquet.thrift import UNKNOWN, Fields, is_known

Logical = tuple[str | int | bool, ...]
"""What a value means: `("decimal", 12, 2)`, `("string",)`; `()` if there is no annotation."""

_Levels = tuple[tuple[int, int | None], ...]
_DEEPEST = 100
_BY_NUMBER = {
    1: "string",
    2: "map",
    3: "list",
    4: "enum",
    6: "date",
    11: "null",
    12: "json",
    13: "bson",
    14: "uuid",
    15: "float16",
}
_CONVERTED: dict[int, Logical] = {
    0: ("string",),
    1: ("map",),
    2: ("map",),
    3: ("list",),
    4: ("enum",),
    6: ("date",),
    7: ("time", True, "millis"),
    8: ("time", True, "micros"),
    9: ("timestamp", True, "millis"),
    10: ("timestamp", True, "micros"),
    **{11 + n: ("int", 8 << n, False) for n in range(4)},
    **{15 + n: ("int", 8 << n, True) for n in range(4)},
    19: ("json",),
    20: ("bson",),
    21: ("interval",),
}
_UNITS = {1: "millis", 2: "micros", 3: "nanos"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """One column that holds values."""

    path: tuple[bytes, ...]
    field_id: int | None
    physical: int
    """Number of the physical type."""
    length: int
    """Bytes of a value; 0 unless the physical type is fixed."""
    logical: Logical
    levels: _Levels
    """Repetition and field id of every element from the top to the leaf: equal means that levels mean the same."""
    known: bool
    """False if the element, or one above it, has something that we do not know."""

    @property
    def repeated(self) -> bool:
        """True if a row may hold several values."""
        return any(repetition == REPEATED for repetition, _ in self.levels)

    @property
    def never_null(self) -> bool:
        """True if every row has a value."""
        return all(repetition == REQUIRED for repetition, _ in self.levels)


@dataclass(slots=True)
class Node:
    """One element of a schema with its children."""

    element: Fields
    children: list["Node"] = field(default_factory=list)

    @property
    def name(self) -> bytes:
        """As the file spells it."""
        value: bytes = self.element.get(4, b"")
        return value

    @property
    def field_id(self) -> int | None:
        """Iceberg's id of the field, if the writer knew it."""
        return self.element.get(9)


def tree(elements: Sequence[Fields]) -> Node:
    """The elements of a footer as a tree; each must be used exactly once."""
    if not elements:
        raise Damaged("the schema is empty")
    root = Node(elements[0])
    open_nodes = [(root, elements[0].get(5, 0))]
    for element in elements[1:]:
        while open_nodes and open_nodes[-1][1] == 0:
            open_nodes.pop()
        if not open_nodes or len(open_nodes) > _DEEPEST:
            raise Damaged("the schema does not add up")
        parent, missing = open_nodes[-1]
        open_nodes[-1] = (parent, missing - 1)
        node = Node(element)
        parent.children.append(node)
        children = element.get(5, 0)
        if children < 0 or (1 in element) == (5 in element and (children > 0 or 1 not in element)):
            raise Damaged("the schema does not add up")
        if 1 not in element:
            open_nodes.append((node, children))
    if any(missing for _, missing in open_nodes):
        raise Damaged("the schema does not add up")
    return root


def leaves(root: Node) -> list[Leaf]:
    """All columns with values, in the order of a row group's chunks."""
    return list(_leaves(root, (), (), is_known(root.element)))


def _leaves(node: Node, path: tuple[bytes, ...], levels: _Levels, known: bool) -> Iterator[Leaf]:
    for child in node.children:
        element = child.element
        here = (*path, child.name)
        kind = logical(element)
        understood = known and is_known(element) and "unknown" not in kind and element.get(3, REQUIRED) in range(3)
        down = (*levels, (element.get(3, REQUIRED), child.field_id))
        if 1 in element:
            physical = element[1]
            yield Leaf(
                path=here,
                field_id=child.field_id,
                physical=physical,
                length=element.get(2, 0) if physical == FIXED else 0,
                logical=kind,
                levels=down,
                known=understood and 0 <= physical <= FIXED,
            )
        else:
            yield from _leaves(child, here, down, understood)


def logical(element: Fields) -> Logical:
    """What an element's values mean, whichever way its writer wrote it down."""
    kind = _annotation(element)
    if kind == ("int", 32, True) and element.get(1) == INT32:
        return ()
    if kind == ("int", 64, True) and element.get(1) == INT64:
        return ()
    return kind


def _annotation(element: Fields) -> Logical:
    union: Fields = element.get(10, {})
    if 10 in element and (UNKNOWN in union or len(union) != 1):
        return ("unknown",)
    for number, inner in union.items():
        return _of_union(number, inner)
    converted = element.get(6)
    if converted == 5:
        return ("decimal", element.get(8, 0), element.get(7, 0))
    return () if converted is None else _CONVERTED.get(converted, ("unknown",))


def _of_union(number: int, inner: Fields) -> Logical:
    if number in _BY_NUMBER:
        return (_BY_NUMBER[number],)
    if number == 5:
        return ("decimal", inner.get(2, 0), inner.get(1, 0))
    if number == 10:
        return ("int", inner.get(1, 0), inner.get(2, False))
    unit = next(iter(inner.get(2, {})), 0)
    return ("time" if number == 7 else "timestamp", inner.get(1, False), _UNITS.get(unit, "unknown"))


def same_values(one: Leaf, other: Leaf) -> bool:
    """True if the bytes of one column's chunks mean the same as chunks of the other column."""
    return (
        one.known
        and other.known
        and one.physical == other.physical
        and one.length == other.length
        and one.logical == other.logical
        and same_levels(one, other)
    )


def same_levels(one: Leaf, other: Leaf) -> bool:
    """True if definition and repetition levels mean the same; a repeated group has no id of its own in Iceberg."""
    return len(one.levels) == len(other.levels) and all(
        a[0] == b[0] and (a[1] == b[1] or a[0] == REPEATED) for a, b in zip(one.levels, other.levels, strict=True)
    )


def group(name: str, children: int, *, repetition: int | None, field_id: int | None, kind: str = "") -> Fields:
    """An element for a struct, list, map, or the repeated group inside them."""
    element: Fields = {4: name.encode(), 5: children}
    if repetition is not None:
        element[3] = repetition
    if field_id is not None:
        element[9] = field_id
    if kind == "list":
        element |= {6: 3, 10: {3: {}}}
    elif kind == "map":
        element |= {6: 1, 10: {2: {}}}
    return element
