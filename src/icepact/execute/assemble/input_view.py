"""One input as the output's columns see it: which of its columns is which, and what it lacks."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import InputFile, TaskContext
from icepact.execute.assemble.target import LINEAGE_IDS, Target
from icepact.execute.assemble.values import scalar_of
from icepact.execute.parquet.input import FileInMemory, Input
from icepact.execute.parquet.joining import may_join
from icepact.execute.parquet.layout import CODECS, REQUIRED
from icepact.execute.parquet.schema import Node, leaves, logical, same_values, tree
from icepact.execute.parquet.trust import trusted_statistics
from icepact.execute.storage.base import Source

_SMALL = 8 * 1024**2
"""Files below this size are fetched with one request."""


class InputView:
    """An input file, its columns matched with those of the target by field id."""

    def __init__(self, file: InputFile, source: Source, target: Target, context: TaskContext) -> None:
        self.file = file
        self.source: Source | FileInMemory = source
        self.target = target
        self.context = context
        self.input = Input(source)
        self._joinable: dict[int, frozenset[int]] = {}
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

    @property
    def in_memory(self) -> bool:
        """True if all of the file is in memory."""
        return isinstance(self.source, FileInMemory)

    def load(self) -> None:
        """Read all of a small file into memory, and close its source."""
        if self.source.size < _SMALL and not self.in_memory:
            source = self.source
            self.reopen(FileInMemory(source.path, source.read(0, source.size)))
            source.close()

    def reopen(self, source: Source | FileInMemory) -> None:
        """Go on with the file after it was closed; its footer is still known."""
        self.source = self.input.source = source

    @cached_property
    def constants(self) -> dict[int, Any]:
        """Identity partition values by field id, as JSON."""
        ids = self.context.identity[self.file.spec_id]
        return {i: value for i, value in zip(ids, self.file.partition, strict=True) if i is not None}

    @cached_property
    def top_level(self) -> dict[int, int]:
        """Indexes of the file's top-level columns by field id."""
        return {child.field_id: n for n, child in enumerate(self.schema.children) if child.field_id is not None}

    @cached_property
    def never_null(self) -> frozenset[int]:
        """Field ids of top-level columns that the file cannot hold a null in."""
        ids = (leaf.field_id for leaf in self.leaves if len(leaf.levels) == 1 and leaf.levels[0][0] == REQUIRED)
        return frozenset(i for i in ids if i is not None and i not in LINEAGE_IDS)

    def lacks(self, field_id: int) -> bool:
        """True if nothing of a field is in the file, not even a struct that holds it now."""
        chain = self.context.parents.get(field_id, ())
        return field_id not in self.top_level and not any(parent in self.top_level for parent in chain)

    @cached_property
    def leaf_index(self) -> dict[int, int]:
        """Indexes of the file's leaves by field id."""
        return {leaf.field_id: n for n, leaf in enumerate(self.leaves) if leaf.field_id is not None}

    @cached_property
    def leaf_of(self) -> list[int | None]:
        """For each leaf of the target, the index of the file's leaf of the same id."""
        return [None if leaf.field_id is None else self.leaf_index.get(leaf.field_id) for leaf in self.target.leaves]

    @cached_property
    def absent(self) -> frozenset[int]:
        """Numbers of the target's top-level columns that the file lacks, row lineage aside."""
        ids = enumerate(field["id"] for field in self.target.fields)
        return frozenset(n for n, i in ids if i not in self.top_level and i not in LINEAGE_IDS)

    @cached_property
    def present(self) -> frozenset[int]:
        """Numbers of the target's top-level columns that the file has, row lineage aside."""
        ids = enumerate(field["id"] for field in self.target.fields)
        return frozenset(n for n, i in ids if i in self.top_level and i not in LINEAGE_IDS)

    @cached_property
    def in_form(self) -> frozenset[int]:
        """Numbers of present columns that are stored as the target wants them: their bytes mean the same there."""
        columns = set(self.present)
        for wanted, index, top in zip(self.target.leaves, self.leaf_of, self.target.top_of_leaf, strict=True):
            if index is None or not same_values(self.leaves[index], wanted):
                columns.discard(top)
        return frozenset(columns)

    def copyable(self, group: int, *, walk: bool) -> frozenset[int]:
        """Numbers of the target's top-level columns whose chunks may be copied, row lineage aside."""
        return self._kept(self.in_form, lambda index: self.why_chunk_not_copied(group, index, walk=walk) is None)

    def _kept(self, columns: frozenset[int], may: Callable[[int], bool]) -> frozenset[int]:
        """Those of the columns of which every leaf may be kept as it is; none, if nothing of the file may."""
        if self.input.why_nothing_copied is not None:
            return frozenset()
        kept = set(columns)
        for index, top in zip(self.leaf_of, self.target.top_of_leaf, strict=True):
            if top in kept and (index is None or not may(index)):
                kept.discard(top)
        return frozenset(kept)

    def constant(self, field: Mapping[str, Any]) -> pa.Scalar:
        """The value of a column of the target that the file lacks."""
        value = self.lacking(field["id"], field["type"])
        if not value.is_valid and field["required"]:
            raise NotAssembled(f"the required column {field['name']} is missing in {self.file.path}")
        return value

    def lacking(self, field_id: int, kind: Any) -> pa.Scalar:
        """The value of a column that the file lacks: partition value, else initial default, else null."""
        return scalar_of(self.constants.get(field_id, self.context.defaults.get(field_id)), kind)

    def why_chunk_not_copied(self, group: int, index: int, *, walk: bool) -> str | None:
        """Why a chunk of a column in the right form must be decoded nevertheless; `None` if its bytes may be copied."""
        writing = self.context.writing
        if writing.recode and self.input.footer.row_groups[group].chunks[index].codec != CODECS[writing.codec]:
            return "it has another codec"
        return self.input.why_not_copied(group, index, walk=walk)

    def joinable(self, group: int) -> frozenset[int]:
        """Numbers of the target's top-level columns whose pages may become part of a longer chunk."""
        if group not in self._joinable:
            writing = self.context.writing
            codec, fewest = CODECS[writing.codec], writing.fewest_page_rows
            self._joinable[group] = self._kept(
                self.in_form - self._in_bloom_filters,
                lambda index: may_join(self.input, group, index, codec=codec, fewest_rows=fewest),
            )
        return self._joinable[group]

    @cached_property
    def _in_bloom_filters(self) -> set[int]:
        """Numbers of columns that get a bloom filter, which is made of decoded values."""
        return {n for n, field in enumerate(self.target.fields) if field["id"] in self.context.writing.blooms}

    def lineage_column(self, field_id: int, group: int) -> int | None:
        """The file's own column of row ids or update numbers, if it can stand as it is: no nulls to resolve."""
        index = self.leaf_index.get(field_id)
        if index is None or self.file.first_row_id is None:
            return None
        wanted = next(leaf for leaf in self.target.leaves if leaf.field_id == field_id)
        chunk = self.input.footer.row_groups[group].chunks[index]
        whole = trusted_statistics(self.input.footer, index, chunk).get(3) == 0
        if not whole or not same_values(self.leaves[index], wanted):
            return None
        return index if self.why_chunk_not_copied(group, index, walk=False) is None else None

    def opened(self, *, as_dictionaries: Sequence[str] = (), metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
        """The file as pyarrow reads it; a small one is fetched and kept in memory as a whole.

        `metadata` stands in for the file's own footer.
        """
        source = self.source
        return pq.ParquetFile(
            pa.BufferReader(source.read(0, source.size)) if source.size < _SMALL else source.arrow(),
            metadata=metadata,
            read_dictionary=list(as_dictionaries) or None,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        )

    def read_columns(self, file: pq.ParquetFile, group: int, indexes: Sequence[int]) -> pa.Table:
        """Leaves of a row group, decoded; their chunks are fetched in few requests."""
        self.preload(group, indexes)
        return file.reader.read_row_groups([group], indexes, use_threads=pa.cpu_count() > 1)

    def preload(self, group: int, indexes: Sequence[int]) -> None:
        """Fetch chunks that will be decoded in few requests."""
        chunks = self.input.footer.row_groups[group].chunks
        self.source.preload([(chunks[n].start, chunks[n].size) for n in indexes])


def _mapped(elements: Sequence[dict[int, Any]], name_mapping: str) -> Node:
    """The schema of a file without field ids, with those of the table's name mapping."""
    schema = tree([dict(element) for element in elements])
    _assign(schema, json.loads(name_mapping))
    return schema


def _assign(parent: Node, mapping: Sequence[Mapping[str, Any]]) -> None:
    """Assign ids to the fields of a struct, by name."""
    by_name = {name: entry for entry in mapping for name in entry.get("names", ())}
    for child in parent.children:
        entry = by_name.get(child.name.decode("utf-8", "replace"))
        if entry is not None:
            _apply(child, entry)


def _apply(node: Node, entry: Mapping[str, Any]) -> None:
    """Assign ids to a field and all inside it: elements, keys and values by position, whatever writers call them."""
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
