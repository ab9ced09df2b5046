"""Row groups that are encoded anew: decoded rows in, one Parquet row group in memory out.

Dictionaries that a file had are kept, pruned to the values that are still used: a deleted value must not
survive in a dictionary page.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.assemble.ascending import ascends
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import WriteSettings
from icepact.execute.assemble.nans import count_nans
from icepact.execute.assemble.numbers import number_chunk
from icepact.execute.assemble.target import Target
from icepact.execute.assemble.texts import in_use, text_chunk, worth_a_dictionary
from icepact.execute.parquet.assembler import ChunkToWrite
from icepact.execute.parquet.input import Input, Pick, Pieces
from icepact.execute.parquet.layout import BYTE_ARRAY, FIXED, INT32, INT64
from icepact.execute.parquet.new_chunk import NewChunk, PageForm
from icepact.execute.parquet.schema import Logical, same_levels

_BATCH = 4096
"""Values the writer takes at once, if pages are of the usual size."""
_BYTES_OF_VALUE = 512
"""A page is ended between batches only: small pages need small batches, in case values are large."""
_UNANNOTATED: frozenset[Logical] = frozenset({("uuid",), ("decimal",)})
"""Types written without an annotation: the physical type says enough, and the footer is written by us."""


def is_text(kind: pa.DataType) -> bool:
    """True for strings and binaries of any length."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def column_name(field_id: int) -> str:
    """Names in memory: unique and without dots, whatever the table's columns are called."""
    return f"c{field_id}"


def _paths(path: str, kind: pa.DataType) -> list[str]:
    if pa.types.is_struct(kind):
        return [deeper for child in kind for deeper in _paths(f"{path}.{child.name}", child.type)]
    if pa.types.is_list(kind):
        return _paths(f"{path}.list.element", kind.value_type)
    if pa.types.is_map(kind):
        return [*_paths(f"{path}.key_value.key", kind.key_type), *_paths(f"{path}.key_value.value", kind.item_type)]
    return [path]


class Encoder:
    """Writes tables of the target's columns as single row groups."""

    def __init__(self, target: Target, writing: WriteSettings) -> None:
        self.target = target
        self._writing = writing
        fields = zip(target.arrow, target.fields, strict=True)
        self.schema = pa.schema([arrow.with_name(column_name(field["id"])) for arrow, field in fields])
        self.paths = [path for field in self.schema for path in _paths(field.name, field.type)]
        """Paths of the target's leaves, as the writer names them."""
        self._known_good: set[int] = set()
        self._levels: int | dict[str, int] | None = writing.level
        if writing.level is not None and writing.level_of_numbers is not None:
            kinds = zip(self.paths, target.leaves, strict=True)
            self._levels = {
                path: writing.level if leaf.physical in (BYTE_ARRAY, FIXED) else writing.level_of_numbers
                for path, leaf in kinds
            }
        self._forms = dict(self._page_forms())

    def _page_forms(self) -> Iterator[tuple[str, tuple[int, PageForm]]]:
        """Columns whose pages are made here, by name: leaf, and how. They are texts or whole numbers, not nested, and
        get no bloom filter."""
        writing = self._writing
        for number, (path, leaf) in enumerate(zip(self.paths, self.target.leaves, strict=True)):
            made_here = len(leaf.levels) == 1 and leaf.physical in (BYTE_ARRAY, INT32, INT64)
            if made_here and leaf.field_id not in writing.blooms:
                form = PageForm(
                    physical=leaf.physical,
                    optional=not leaf.never_null,
                    codec=writing.codec,
                    level=self._levels[path] if isinstance(self._levels, dict) else self._levels,
                    most_rows=writing.page_rows,
                    most_bytes=writing.page_bytes,
                )
                yield path, (number, form)

    def encode(
        self, table: pa.Table, leaves: Sequence[int], dictionaries: frozenset[str], encodings: Mapping[str, str]
    ) -> dict[int, ChunkToWrite]:
        """Chunks of columns by leaf of the target; they make up these leaves.

        `dictionaries` and `encodings` say how the sources encoded their columns, by path.
        """
        chunks: dict[int, ChunkToWrite] = {}
        rest: list[str] = []
        for name, column in zip(table.column_names, table.columns, strict=True):
            leaf, form = self._forms.get(name, (0, None))
            made = None
            if form is not None:
                made = self._made_here(column, form, in_dictionary=name in dictionaries, special=name in encodings)
            if made is None:
                rest.append(name)
            else:
                chunks[leaf] = made
        if rest:
            encoded = self._by_arrow(table.select(rest), dictionaries, encodings)
            others = [leaf for leaf in leaves if leaf not in chunks]
            self.check(encoded, others, table.num_rows)
            chunks |= {leaf: Pick(encoded, 0, n) for n, leaf in enumerate(others)}
        return chunks

    def _made_here(
        self, column: pa.ChunkedArray, form: PageForm, *, in_dictionary: bool, special: bool
    ) -> NewChunk | None:
        most = self._writing.dictionary_bytes
        if form.physical == BYTE_ARRAY:
            return text_chunk(column, form, most)
        return number_chunk(column, form, most, in_dictionary=in_dictionary, special=special)

    def _by_arrow(self, table: pa.Table, dictionaries: frozenset[str], encodings: Mapping[str, str]) -> Input:
        """Columns as pyarrow writes them."""
        columns, fields, in_dictionary = [], [], set(dictionaries)
        for name, column in zip(table.column_names, _pruned(table).columns, strict=True):
            field = self.schema.field(name)
            if not pa.types.is_dictionary(column.type):
                columns.append(column)
                fields.append(field)
                if name in in_dictionary and self._writing.codec != "uncompressed" and ascends(column):
                    in_dictionary.discard(name)
            elif self._keeps_dictionary(column):
                in_dictionary.add(name)
                # texts stay indices; of numbers the writer wants the numbers
                column = column if is_text(column.type.value_type) else column.cast(column.type.value_type)
                columns.append(column)
                fields.append(field.with_type(column.type))
            else:
                in_dictionary.discard(name)
                columns.append(column.cast(column.type.value_type))
                fields.append(field)
        table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
        return self.write(table, frozenset(in_dictionary), encodings)

    def plain(self, table: pa.Table) -> Input:
        """One row group of some of the target's columns, without dictionaries: its pages can be joined to others."""
        columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
        schema = pa.schema([self.schema.field(name) for name in table.column_names])
        return self.write(pa.Table.from_arrays(columns, schema=schema), frozenset(), {})

    def _keeps_dictionary(self, column: pa.ChunkedArray) -> bool:
        dictionary = column.chunk(0).dictionary if column.num_chunks else None
        return dictionary is not None and worth_a_dictionary(dictionary, len(column), self._writing.dictionary_bytes)

    def write(self, table: pa.Table, dictionaries: frozenset[str], encodings: Mapping[str, str]) -> Input:
        """One row group of columns that are a part of the target, or all of it."""
        sink = Pieces()
        options = self._options(table.schema, dictionaries, encodings, rows=table.num_rows)
        with pq.ParquetWriter(sink, table.schema, **options) as writer:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        encoded = Input(sink)
        count_nans(encoded, table)
        return encoded

    def _options(
        self, schema: pa.Schema, dictionaries: frozenset[str], encodings: Mapping[str, str], *, rows: int
    ) -> dict[str, Any]:
        writing = self._writing
        blooms = {
            column_name(field_id): {
                "fpp": chance,
                "ndv": _distinct(chance, expected or rows, rows, writing.bloom_bytes),
            }
            for field_id, (chance, expected) in writing.blooms.items()
            if column_name(field_id) in schema.names
        }
        plain = {path: encoding for path, encoding in encodings.items() if path not in dictionaries}
        return {
            "version": "2.6",
            "compression": "none" if writing.codec == "uncompressed" else writing.codec.removesuffix("_raw"),
            "compression_level": self._levels,
            "use_dictionary": sorted(dictionaries),
            "column_encoding": plain or None,
            "store_schema": False,
            "write_page_index": True,
            "data_page_size": writing.page_bytes,
            "max_rows_per_page": writing.page_rows,
            "write_batch_size": max(1, min(writing.page_rows, _BATCH, writing.page_bytes // _BYTES_OF_VALUE)),
            "dictionary_pagesize_limit": writing.dictionary_bytes,
            "bloom_filter_options": blooms or None,
        }

    def check(self, encoded: Input, leaves: Sequence[int], rows: int) -> None:
        """Raise NotAssembled unless a row group has all rows, and the types that the target says for these leaves."""
        if (encoded.footer.rows, len(encoded.footer.row_groups)) != (rows, 1):
            raise NotAssembled("rows could not be encoded as one row group")
        if not self._known_good.issuperset(leaves):
            self._check_meaning(encoded, leaves)
            self._known_good.update(leaves)

    def _check_meaning(self, encoded: Input, leaves: Sequence[int]) -> None:
        for mine, number in zip(encoded.footer.leaves, leaves, strict=True):
            wanted = self.target.leaves[number]
            alike = mine.physical == wanted.physical and mine.length == wanted.length and same_levels(mine, wanted)
            silent = mine.logical == () and wanted.logical[:1] in _UNANNOTATED
            if not alike or (mine.logical != wanted.logical and not silent):
                raise NotAssembled(f"{b'.'.join(wanted.path).decode()} cannot be encoded as Iceberg wants it")


def _distinct(chance: float, expected: int, rows: int, most_bytes: int) -> int:
    """Distinct values for which a bloom filter is made: not more than rows, nor than fit into its largest size."""
    bits_per_value = -8 / math.log(1 - chance ** (1 / 8))
    return max(1, min(expected, rows, int(8 * most_bytes / bits_per_value)))


def _pruned(table: pa.Table) -> pa.Table:
    """Dictionaries with only the values in use, one for all chunks of a column."""
    columns = [_pruned_column(c) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names).unify_dictionaries()


def _pruned_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [_pruned_chunk(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=pa.dictionary(pa.int32(), column.type.value_type))


def _pruned_chunk(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = chunk.indices
    valid = indices.drop_null().to_numpy() if indices.null_count else indices.to_numpy()
    used = in_use(valid, len(chunk.dictionary))
    if used.all():
        return chunk
    new_indices = np.cumsum(used, dtype=np.int32) - 1
    mask = indices.is_null().to_numpy(zero_copy_only=False) if indices.null_count else None
    filled = indices.fill_null(0).to_numpy() if indices.null_count else valid
    moved = new_indices[filled] if len(new_indices) else np.zeros(len(filled), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(moved, mask=mask), chunk.dictionary.filter(pa.array(used)))
