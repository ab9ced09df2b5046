"""One input as the output's columns see it: which of its columns is which, and what it lacks."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.reading import ReadPlan, read_plan
from icepact.execute.assemble.target import LAST_UPDATED, ROW_ID, Target
from icepact.execute.assemble.values import scalar_of
from icepact.execute.assemble.work import InputFile, TaskContext
from icepact.execute.parquet.input import Input
from icepact.execute.parquet.layout import CODECS, REQUIRED
from icepact.execute.parquet.schema import Node, leaves, logical, same_values, tree
from icepact.execute.parquet.trust import trusted_statistics
from icepact.execute.storage.base import Source


class View:
    """A file that is being rewritten."""

    def __init__(self, file: InputFile, source: Source, target: Target, context: TaskContext) -> None:
        self.file = file
        self.source = source
        self.target = target
        self.context = context
        self.input = Input(source)
        if self.input.footer.rows != file.rows:
            raise NotAssembled(f"{file.path} has {self.input.footer.rows} rows, and the table says {file.rows}")
        footer = self.input.footer
        self.has_ids = any(9 in element for element in footer.fields[2])
        if self.has_ids:
            self.schema, self.leaves = footer.schema, footer.leaves
        elif context.name_mapping is not None:
            self.schema = _mapped(footer.fields[2], context.name_mapping)
            self.leaves = leaves(self.schema)
        else:
            raise NotAssembled("a file has no field ids, and the table no name mapping")

    def reopen(self, source: Source) -> None:
        """Go on with the file after it was closed; its footer is still known."""
        self.source = self.input.source = source

    @cached_property
    def read_plan(self) -> ReadPlan:
        """What is decoded of the file."""
        return read_plan(self.schema, self.target.fields)

    @cached_property
    def constants(self) -> dict[int, Any]:
        """Identity partition values by field id, as JSON."""
        ids = self.context.identity[self.file.spec_id]
        return {i: value for i, value in zip(ids, self.file.partition, strict=True) if i is not None}

    @cached_property
    def top_level(self) -> dict[int, int]:
        """Where the file's top-level columns are, by field id."""
        return {child.field_id: n for n, child in enumerate(self.schema.children) if child.field_id is not None}

    @cached_property
    def never_null(self) -> frozenset[int]:
        """Field ids of top-level columns that the file cannot hold a null in."""
        ids = (leaf.field_id for leaf in self.leaves if len(leaf.levels) == 1 and leaf.levels[0][0] == REQUIRED)
        return frozenset(i for i in ids if i is not None and i not in (ROW_ID, LAST_UPDATED))

    def lacks(self, field_id: int) -> bool:
        """True if nothing of a field is in the file, not even a struct that holds it now."""
        chain = self.context.parents.get(field_id, ())
        return field_id not in self.top_level and not any(parent in self.top_level for parent in chain)

    @cached_property
    def leaf_of(self) -> list[int | None]:
        """For each leaf of the target, the file's leaf of the same id."""
        mine = {leaf.field_id: n for n, leaf in enumerate(self.leaves) if leaf.field_id is not None}
        return [None if leaf.field_id is None else mine.get(leaf.field_id) for leaf in self.target.leaves]

    @cached_property
    def absent(self) -> frozenset[int]:
        """Numbers of the target's top-level columns that the file lacks, row lineage aside."""
        fields = enumerate(self.target.fields)
        return frozenset(
            n for n, f in fields if f["id"] not in self.top_level and f["id"] not in (ROW_ID, LAST_UPDATED)
        )

    @cached_property
    def why_not_copied(self) -> str | None:
        """Why every row group of the file must be decoded; null if some may be copied."""
        if self.input.why_nothing_copied is not None:
            return self.input.why_nothing_copied
        for number, (wanted, place) in enumerate(zip(self.target.leaves, self.leaf_of, strict=True)):
            top = self.target.top_of_leaf[number]
            if wanted.field_id in (ROW_ID, LAST_UPDATED) or top in self.absent:
                continue
            name = b".".join(wanted.path).decode()
            if place is None:
                return f"{name} was added inside a column that the file has"
            if not same_values(self.leaves[place], wanted):
                return f"{name} is stored in another form"
        return None

    def constant(self, field: Mapping[str, Any]) -> pa.Scalar:
        """The value of a column that the file lacks: partition value, else initial default, else null."""
        value = self.constants.get(field["id"], self.context.defaults.get(field["id"]))
        if value is None and field["required"]:
            raise NotAssembled(f"the required column {field['name']} is missing in {self.file.path}")
        return scalar_of(value, field["type"])

    def lineage_column(self, field_id: int, group: int) -> int | None:
        """The file's own column of row ids or update numbers, if it can stand as it is: no nulls to resolve."""
        place = next((n for n, leaf in enumerate(self.leaves) if leaf.field_id == field_id), None)
        if place is None or self.file.first_row_id is None:
            return None
        wanted = next(leaf for leaf in self.target.leaves if leaf.field_id == field_id)
        chunk = self.input.footer.row_groups[group].chunks[place]
        whole = trusted_statistics(self.input.footer, place, chunk).get(3) == 0
        writing = self.context.writing
        recoded = writing.recode and chunk.codec != CODECS[writing.codec]
        if not whole or recoded or not same_values(self.leaves[place], wanted):
            return None
        return place if self.input.why_not_copied(group, place, walk=False) is None else None


def _mapped(elements: Sequence[dict[int, Any]], name_mapping: str) -> Node:
    """The schema of a file without field ids, with those of the table's name mapping."""
    schema = tree([dict(element) for element in elements])
    _assign(schema, json.loads(name_mapping))
    return schema


def _assign(parent: Node, mapping: Sequence[Mapping[str, Any]]) -> None:
    """Ids for the fields of a struct, by name."""
    by_name = {name: entry for entry in mapping for name in entry.get("names", ())}
    for child in parent.children:
        entry = by_name.get(child.name.decode("utf-8", "replace"))
        if entry is not None:
            _apply(child, entry)


def _apply(node: Node, entry: Mapping[str, Any]) -> None:
    """The id of one field, and of what is inside: elements, keys and values go by place, whatever writers call them."""
    if "field-id" in entry:
        node.element[9] = entry["field-id"]
    kind = logical(node.element)[:1]
    parts = {name: part for part in entry.get("fields", ()) for name in part.get("names", ())}
    if kind == ("list",) and "element" in parts and node.children:
        _apply(_element(node), parts["element"])
    elif kind == ("map",) and len(node.children) == 1 and len(node.children[0].children) == 2:
        for child, name in zip(node.children[0].children, ("key", "value"), strict=True):
            if name in parts:
                _apply(child, parts[name])
    elif entry.get("fields"):
        _assign(node, entry["fields"])


def _element(node: Node) -> Node:
    """The element of a list: inside the repeated group, or that group itself where old writers left a level out."""
    repeated = node.children[0]
    two_levels = len(repeated.children) != 1 or repeated.name == b"array" or repeated.name == node.name + b"_tuple"
    return repeated if two_levels else repeated.children[0]
